"""Rules of one cluster: who sends what on which connections, and what is known of it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.controlplane.credentials import Credentials
from tests.unit.kubernetes.api_double import ApiDouble, serve
from tests.unit.kubernetes.clock import Clock, Recorder
from watchcache_server.clusters.cluster import Cluster, ClusterOptions
from watchcache_server.clusters.errors import ClusterConfigError
from watchcache_server.clusters.loading import ConnectionConfig
from watchcache_server.kubernetes.errors import TransportClosedError
from watchcache_server.kubernetes.exec_plugin import ExecPlugin
from watchcache_server.kubernetes.requests import get_request
from watchcache_server.kubernetes.tls import TlsMaterial

PING = get_request("/ping")
TOKEN_PATH = "/api/v1/namespaces/team-a/serviceaccounts/shop/token"


@pytest.fixture
async def api(pki: Credentials) -> AsyncIterator[ApiDouble]:
    """Give a server that asks for client certificates and says who came."""
    async with serve(pki, wants_certificate=True) as double:

        async def who(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            certificate = request.transport.get_extra_info("peercert")
            subject = dict(pair[0] for pair in certificate["subject"]) if certificate else {}
            return web.json_response(
                {
                    "certificate": subject.get("commonName"),
                    "authorization": request.headers.get("Authorization"),
                }
            )

        double.routes["/ping"] = who
        double.answer("/version", {"gitVersion": "v1.36.3"})
        double.answer(
            TOKEN_PATH, {"spec": {"expirationSeconds": 600}, "status": {"token": "sa"}}, status=201
        )
        yield double


def material(pki: Credentials, user: str | None = None) -> TlsMaterial:
    """Return material that trusts the server, with a client certificate for `user`."""
    if user is None:
        return TlsMaterial(ca_file=pki.ca_file)
    certificate, key = pki.client_certificate(user)
    return TlsMaterial(ca_file=pki.ca_file, certificate_file=certificate, key_file=key)


async def seen(cluster: Cluster, *, as_account: bool = False) -> dict[str, str | None]:
    """Return who the server sees."""
    access = cluster.as_service_account("team-a", "shop") if as_account else cluster.own
    answer = await access.call(PING)
    found: dict[str, str | None] = json.loads(answer.body)
    return found


async def test_a_service_account_never_travels_with_the_client_certificate(
    api: ApiDouble, pki: Credentials
) -> None:
    """An API server lets the certificate win over the token: that would be the service's rights."""
    config = ConnectionConfig(url=api.url, tls=material(pki, "admin"))
    cluster = Cluster("dev", config)
    assert await seen(cluster) == {"certificate": "admin", "authorization": None}
    assert await seen(cluster, as_account=True) == {
        "certificate": None,
        "authorization": "Bearer sa",
    }
    # Not even on a connection that is kept from before.
    assert (await seen(cluster))["certificate"] == "admin"
    assert (await seen(cluster, as_account=True))["certificate"] is None
    await cluster.close()


async def test_the_token_request_is_sent_as_the_service(api: ApiDouble, pki: Credentials) -> None:
    """The service asks for the token; the ServiceAccount cannot."""
    config = ConnectionConfig(url=api.url, tls=material(pki), token="own")
    cluster = Cluster("dev", config, options=ClusterOptions(token_lifetime_seconds=600))
    await seen(cluster, as_account=True)
    sent = {request.path: request.headers.get("Authorization") for request in api.requests}
    assert sent == {TOKEN_PATH: "Bearer own", "/ping": "Bearer sa"}
    await cluster.close()


async def test_each_kind_of_credentials_is_used(
    api: ApiDouble, pki: Credentials, tmp_path: Path
) -> None:
    """Token, token file, plugin, or none."""
    (tmp_path / "token").write_text("filed\n")
    program = tmp_path / "login"
    program.write_text(
        f"#!{sys.executable}\nprint('"
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"plugged"}}'
        "')\n"
    )
    program.chmod(0o755)
    tls = material(pki)
    configs = {
        "Bearer given": ConnectionConfig(url=api.url, tls=tls, token="given"),
        "Bearer filed": ConnectionConfig(
            url=api.url, tls=tls, token="given", token_file=tmp_path / "token"
        ),
        "Bearer plugged": ConnectionConfig(
            url=api.url, tls=tls, plugin=ExecPlugin(command=str(program))
        ),
        None: ConnectionConfig(url=api.url, tls=tls),
    }
    for header, config in configs.items():
        cluster = Cluster("dev", config)
        assert (await seen(cluster))["authorization"] == header
        await cluster.close()


async def test_a_certificate_of_a_plugin_is_shown(
    api: ApiDouble, pki: Credentials, tmp_path: Path
) -> None:
    """On the service's own connections, and only on those."""
    certificate, key = pki.client_certificate("plugged")
    status = {"clientCertificateData": certificate.read_text(), "clientKeyData": key.read_text()}
    body = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status,
    }
    program = tmp_path / "login"
    program.write_text(f"#!{sys.executable}\nimport json\nprint(json.dumps({body!r}))\n")
    program.chmod(0o755)
    config = ConnectionConfig(
        url=api.url, tls=material(pki), plugin=ExecPlugin(command=str(program))
    )
    cluster = Cluster("dev", config)
    assert await seen(cluster) == {"certificate": "plugged", "authorization": None}
    assert (await seen(cluster, as_account=True))["certificate"] is None
    await cluster.close()


async def test_the_status_says_what_is_known(api: ApiDouble, pki: Credentials) -> None:
    """Nothing before the first contact; then the version and the age of the last answer."""
    clock = Clock()
    config = ConnectionConfig(url=api.url, tls=material(pki), token="t", identity="the user")
    cluster = Cluster("dev", config, clock=clock)
    before = cluster.status()
    assert (before.is_reachable, before.version, before.contact_age_seconds) == (False, "", None)
    probed = await cluster.probe()
    assert (probed.is_reachable, probed.version, probed.problem) == (True, "v1.36.3", "")
    assert (probed.name, probed.server, probed.identity) == ("dev", api.url, "the user")
    clock.advance(7)
    assert cluster.status().contact_age_seconds == 7
    await cluster.close()


async def test_a_server_that_refuses_is_reachable_and_a_problem(
    api: ApiDouble, pki: Credentials
) -> None:
    """It answers, but not to us."""
    api.refuse("/version", 401, message="who are you")
    cluster = Cluster("dev", ConnectionConfig(url=api.url, tls=material(pki), token="t"))
    status = await cluster.probe()
    assert status.is_reachable
    assert "who are you" in status.problem
    for malformed in ("<html>", '{"gitVersion":"v1","x":' + "[" * 100_000):
        api.answer("/version", malformed)
        assert (await cluster.probe()).version == ""
    await cluster.close()


async def test_a_server_that_is_down_is_unreachable_until_it_answers_anybody(
    pki: Credentials,
) -> None:
    """What any informer hears of the server counts."""
    cluster = Cluster("dev", ConnectionConfig(url="https://127.0.0.1:1", tls=material(pki)))
    status = await cluster.probe()
    assert not status.is_reachable
    assert "connection refused" in status.problem
    await cluster.close()


async def test_an_answer_to_an_informer_is_contact(api: ApiDouble, pki: Credentials) -> None:
    """Without any probe."""
    cluster = Cluster("dev", ConnectionConfig(url=api.url, tls=material(pki), token="t"))
    await seen(cluster, as_account=True)
    assert cluster.status().is_reachable
    await cluster.close()


async def test_an_account_can_be_released_more_than_once(api: ApiDouble, pki: Credentials) -> None:
    """Only the first time counts, so that another extension keeps its token."""
    cluster = Cluster("dev", ConnectionConfig(url=api.url, tls=material(pki), token="t"))
    first = cluster.as_service_account("team-a", "shop")
    second = cluster.as_service_account("team-a", "shop")
    assert first.account is second.account
    first.release()
    first.release()
    assert len(cluster.tokens) == 1
    second.release()
    assert len(cluster.tokens) == 0
    await cluster.close()


async def test_a_closed_cluster_sends_nothing(api: ApiDouble, pki: Credentials) -> None:
    """Neither as itself nor as anybody else."""
    cluster = Cluster("dev", ConnectionConfig(url=api.url, tls=material(pki), token="t"))
    account = cluster.as_service_account("team-a", "shop")
    await account.call(PING)
    await cluster.close()
    for access in (cluster.own, account):
        with pytest.raises(TransportClosedError):
            await access.call(PING)
    assert "closed" in (await cluster.probe()).problem or "removed" in cluster.status().problem


async def test_unusable_material_names_the_cluster(pki: Credentials) -> None:
    """Which one of several cannot be had."""
    config = ConnectionConfig(url="https://x:1", tls=TlsMaterial(ca_data=b"nonsense"))
    with pytest.raises(ClusterConfigError, match="cluster dev: the CA in"):
        Cluster("dev", config)


async def test_a_rotated_ca_that_cannot_be_used_is_reported_once_and_shown(
    api: ApiDouble, pki: Credentials, tmp_path: Path
) -> None:
    """The CA before it goes on being trusted, so that nothing else would show the mistake."""
    clock, heard = Clock(), Recorder()
    ca = tmp_path / "ca.crt"
    shutil.copy(pki.ca_file, ca)
    config = ConnectionConfig(url=api.url, tls=TlsMaterial(ca_file=ca), token="t")
    cluster = Cluster("dev", config, clock=clock, reporter=heard)
    assert (await cluster.probe()).tls_problem == ""
    ca.write_text("half written")
    for _ in range(3):
        clock.advance(10)
        assert (await seen(cluster, as_account=True))["authorization"] == "Bearer sa"
        status = await cluster.probe()
        assert status.is_reachable
        assert str(ca) in status.tls_problem
    shutil.copy(pki.ca_file, ca)
    clock.advance(10)
    await seen(cluster, as_account=True)
    assert (await cluster.probe()).tls_problem == ""
    told = [event for event in heard.heard if event[0] == "tls"]
    assert [(name, bool(problem)) for _, name, problem in told] == [("dev", True), ("dev", False)]
    await cluster.close()


async def test_plain_http_works_for_a_local_proxy(pki: Credentials) -> None:
    """Without any TLS there is no certificate to keep apart."""
    async with serve(pki, is_plain=True) as api:
        api.answer("/version", {"gitVersion": "v1"})
        cluster = Cluster("dev", ConnectionConfig(url=api.url, tls=None))
        assert (await cluster.probe()).version == "v1"
        assert repr(cluster) == f"<Cluster dev at {api.url}>"
        await cluster.close()
