"""Reports of connections: dead ones, leaked ones, and whom they are trusted by.

Each test is named after its report, and says what must hold instead.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from tests.controlplane.credentials import Credentials
from tests.unit.kubernetes.api_double import ApiDouble, serve
from tests.unit.kubernetes.clock import Clock
from tests.unit.kubernetes.informer_double import event
from tests.unit.kubernetes.informer_world import World
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.credentials import TokenFile
from watchcache_server.kubernetes.errors import BodyIdleError, TlsFailedError
from watchcache_server.kubernetes.requests import list_request, resource_path, watch_request
from watchcache_server.kubernetes.tls import TlsMaterial, TlsSource
from watchcache_server.kubernetes.transport import Limits

PODS = resource_path("", "v1", "pods")


class Peer:
    """Answers lists whole, and keeps watches open; knows over which connections it was asked."""

    def __init__(self, api: ApiDouble) -> None:
        self.ports: list[int] = []
        self.tokens: list[str] = []
        self.is_silent = False
        api.routes[PODS] = self._answer

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self.ports.append(request.transport.get_extra_info("peername")[1])
        self.tokens.append(request.headers.get("Authorization", ""))
        if "watch" not in request.query:
            return web.json_response({"kind": "PodList", "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        while not self.is_silent:
            await response.write(b"{}\n")
            await asyncio.sleep(0.02)
        await asyncio.sleep(60.0)
        return response


async def test_client_go_374_a_dead_connection_is_nobody_elses(pki: Credentials) -> None:
    """kubernetes/client-go#374, kubernetes/kubernetes#65012, #41916: it is dropped alone.

    No connection carries two requests at once, so the death of one is silence for one; it ends by
    the limit of its reader, and what is asked next goes over another one.
    """
    async with serve(pki) as api:
        peer = Peer(api)
        transport = api.transport(limits=Limits(idle_seconds=0.3))
        watch = watch_request(PODS, resource_version="1", timeout_seconds=60)
        dying = await transport.open(watch, None)
        await dying.read_chunk()
        peer.is_silent = True
        with pytest.raises(BodyIdleError):
            async for _ in dying.chunks():
                pass
        dying.close()
        peer.is_silent = False
        async with await transport.open(watch, None) as alive:
            assert await alive.read_chunk()
        assert len(set(peer.ports)) == 2


async def test_kubernetes_109289_a_new_token_costs_no_connection(
    pki: Credentials, tmp_path: Path
) -> None:
    """kubernetes/kubernetes#109289, #125818: neither TLS contexts nor connections add up.

    Nor does anything live on with an old token (gravitational/teleport#51640): the next request has
    the new one.
    """
    async with serve(pki) as api:
        peer = Peer(api)
        source = TlsSource(api.material())
        context = source.context()
        clock = Clock()
        path = tmp_path / "token"
        path.write_text("t0")
        token = TokenFile(path, cluster="dev", clock=clock)
        access = ApiAccess(api.transport(), token, identity="the service")
        for number in range(50):
            path.write_text(f"t{number}\n")
            clock.advance(10.0)
            assert (await access.call(list_request(PODS))).is_success
        assert peer.tokens == [f"Bearer t{number}" for number in range(50)]
        assert len(set(peer.ports)) == 1
        assert source.context() is context


async def test_inspect_k8s_sandbox_179_a_token_file_is_read_again(tmp_path: Path) -> None:
    """UKGovernmentBEIS/inspect_k8s_sandbox#179: for years, and at once after a 401.

    Also kubernetes-client/python#1768, #1948: there is one copy, and all who ask get it.
    """
    clock = Clock()
    path = tmp_path / "token"
    path.write_text("t1")
    token = TokenFile(path, cluster="dev", clock=clock)
    users = [token.authorization for _ in range(3)]
    assert {await use() for use in users} == {"Bearer t1"}
    path.write_text("t2")
    await token.refresh("Bearer t1")
    assert {await use() for use in users} == {"Bearer t2"}
    for day in range(3, 400):
        path.write_text(f"t{day}")
        clock.advance(24 * 3600.0)
        assert {await use() for use in users} == {f"Bearer t{day}"}


@pytest.mark.looptime
async def test_javascript_494_an_expired_watch_is_closed_before_the_next_request(
    world: World,
) -> None:
    """kubernetes-client/javascript#494, fabric8io/kubernetes-client#1943: so none adds up."""
    watch = await world.live()
    closed = []
    for _ in range(10):
        watch.send(event("ERROR", {"kind": "Status", "code": 410}))
        exchange = await world.api.asked()
        closed.append(watch.is_closed)
        watch = exchange.accept()
    assert closed == [True] * 10


@pytest.mark.parametrize("is_trusted", [True, False], ids=["trusted", "of another authority"])
async def test_fabric8_7907_lists_and_watches_trust_the_same(
    pki: Credentials, tmp_path: Path, is_trusted: bool
) -> None:
    """fabric8io/kubernetes-client#7907: there is one way to the server, and one trust."""
    async with serve(pki) as api:
        Peer(api)
        other = Credentials(tmp_path / "other").ca_file
        material = api.material() if is_trusted else TlsMaterial(ca_file=other)
        assert material.build().verify_mode is ssl.CERT_REQUIRED
        transport = api.transport(material=material)
        requests = (
            list_request(PODS),
            watch_request(PODS, resource_version="1", timeout_seconds=60),
        )
        for request in requests:
            if is_trusted:
                async with await transport.open(request, None) as response:
                    assert response.status == 200
            else:
                with pytest.raises(TlsFailedError):
                    await transport.open(request, None)
