"""Who the API server takes us for: certificates, tokens, and their rotation."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.contract.api import Api, Endpoint, eventually
from tests.contract.rights import Robot, bind, rights_are_known, rule
from tests.controlplane.server import ControlPlane
from tests.unit.kubernetes.clock import Clock, Recorder
from watchcache_server.clusters.cluster import Cluster
from watchcache_server.clusters.loading import ConnectionConfig
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.credentials import StaticToken
from watchcache_server.kubernetes.errors import (
    ServiceAccountNotFoundError,
    TokenRequestForbiddenError,
)
from watchcache_server.kubernetes.requests import (
    Request,
    get_request,
    resource_path,
    watch_request,
)
from watchcache_server.kubernetes.tls import TlsMaterial
from watchcache_server.kubernetes.transport import Response

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def who(access: ApiAccess) -> dict[str, Any]:
    """Return whom the API server takes `access` for."""
    request = Request(
        path=REVIEWS,
        method="POST",
        body=b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}',
    )
    answer = await access.call(request)
    assert answer.is_success, answer.body
    user: dict[str, Any] = json.loads(answer.body)["status"]["userInfo"]
    return user


def configmaps(namespace: str) -> str:
    """Return the path of a namespace's ConfigMaps."""
    return resource_path("", "v1", "configmaps", namespace=namespace)


async def allow(api: Api, robot: Robot, verbs: str = "list watch") -> None:
    """Let the account read the ConfigMaps of its namespace, and wait until it may."""
    await bind(api, robot.namespace, [rule("configmaps", verbs)], robot.subject)
    await rights_are_known(api, robot.namespace)


async def status_of(access: ApiAccess, path: str) -> int:
    """Return the status of a GET."""
    return (await access.call(get_request(path))).code


@pytest.mark.controlplane
async def test_a_client_certificate_never_lends_its_rights_to_an_account(
    control_plane: ControlPlane,
) -> None:
    """On one connection the certificate would win; ours are apart, so the token decides."""
    certificate, key = control_plane.credentials.client_certificate("boss", ["system:masters"])
    config = ConnectionConfig(
        url=control_plane.url,
        tls=TlsMaterial(ca_file=control_plane.ca_file, certificate_file=certificate, key_file=key),
    )
    cluster = Cluster("dev", config)
    await asyncio.to_thread(
        control_plane.kubectl, "create", "serviceaccount", "lamb", "--namespace=default"
    )
    lamb = cluster.as_service_account("default", "lamb")
    assert (await who(cluster.own))["username"] == "boss"
    assert (await who(lamb))["username"] == "system:serviceaccount:default:lamb"
    secrets = resource_path("", "v1", "secrets")
    assert await status_of(cluster.own, secrets) == 200
    assert await status_of(lamb, secrets) == 403
    # What would happen on the connections that show the certificate: the token counts for nothing.
    header = await lamb.credentials.authorization()
    assert header is not None
    mixed = ApiAccess(
        cluster.own.transport, StaticToken(header.removeprefix("Bearer ")), identity="mixed up"
    )
    assert (await who(mixed))["username"] == "boss"
    await cluster.close()


async def test_a_token_stands_for_its_account(
    cluster: Cluster, api: Api, account: Robot, recorder: Recorder
) -> None:
    """Its name and its uid are those of the ServiceAccount, learned without reading it."""
    robot = cluster.as_service_account(account.namespace, "robot")
    user = await who(robot)
    assert user["username"] == account.user
    path = f"/api/v1/namespaces/{account.namespace}/serviceaccounts/robot"
    assert robot.account.uid == (await api.get(path))["metadata"]["uid"]
    assert robot.account.uid == user["uid"]
    assert ("issued", "robot", 3600.0) in recorder.heard
    assert [abs(what[1]) <= 1 for what in recorder.heard if what[0] == "skew"] == [True]
    robot.release()


async def test_a_missing_account_is_told_and_found_once_it_exists(
    cluster: Cluster, api: Api, namespace: str, clock: Clock
) -> None:
    """404 is typed; the next try that is due succeeds."""
    robot = cluster.as_service_account(namespace, "robot")
    with pytest.raises(ServiceAccountNotFoundError, match=f"{namespace}/robot does not exist"):
        await robot.call(get_request("/api"))
    await api.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "robot"}}
    )
    with pytest.raises(ServiceAccountNotFoundError):
        await robot.call(get_request("/api"))
    clock.advance(15)
    assert (await who(robot))["username"].endswith(":robot")


async def test_a_service_without_the_right_says_which_one(
    cluster: Cluster, api: Api, account: Robot, endpoint: Endpoint
) -> None:
    """The right to create serviceaccounts/token, by name; with just that it works."""
    robot = cluster.as_service_account(account.namespace, "robot")
    header = await robot.credentials.authorization()
    assert header is not None
    config = ConnectionConfig(
        url=endpoint.url,
        tls=TlsMaterial(ca_file=endpoint.ca_file),
        token=header.removeprefix("Bearer "),
    )
    clock = Clock()
    weak = Cluster("weak", config, clock=clock)
    mine = weak.as_service_account(account.namespace, "robot")
    with pytest.raises(
        TokenRequestForbiddenError, match="create on serviceaccounts/token named robot"
    ):
        await mine.call(get_request("/api"))
    rules = [rule("serviceaccounts/token", "create", names="robot")]
    await bind(api, account.namespace, rules, account.subject)
    await rights_are_known(api, account.namespace)
    clock.advance(15)
    assert (await who(mine))["username"] == account.user
    await weak.close()


async def next_event(response: Response) -> dict[str, Any]:
    """Return the next whole event of a watch that is not a bookmark."""
    buffer = b""
    while True:
        async with asyncio.timeout(20):
            buffer += await response.read_chunk()
        lines = buffer.split(b"\n")
        for line in lines[:-1]:
            event: dict[str, Any] = json.loads(line)
            if event["type"] != "BOOKMARK":
                return event
        buffer = lines[-1]


async def test_a_rotation_passes_a_running_watch_by(
    cluster: Cluster, api: Api, account: Robot, clock: Clock
) -> None:
    """The open watch goes on; the next request carries the new token, on the same connections."""
    await allow(api, account)
    robot = cluster.as_service_account(account.namespace, "robot")
    path = configmaps(account.namespace)
    listed = await api.get(f"/api/v1/namespaces/{account.namespace}/configmaps")
    version = listed["metadata"]["resourceVersion"]
    watch = watch_request(path, resource_version=version, timeout_seconds=60)
    async with await robot.open(watch) as stream:
        assert stream.status == 200
        before = await robot.credentials.authorization()
        clock.advance(0.8 * 3600)
        assert await status_of(robot, path) == 200
        after = await robot.credentials.authorization()
        assert after != before
        assert stream.authorization == before
        await api.create(
            f"/api/v1/namespaces/{account.namespace}/configmaps", {"metadata": {"name": "new"}}
        )
        event = await next_event(stream)
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "new")
    async with await robot.open(watch) as stream:
        assert stream.authorization == after
        assert stream.status == 200


async def test_a_recreated_account_is_another_one(
    cluster: Cluster, api: Api, account: Robot, clock: Clock, recorder: Recorder
) -> None:
    """Its old token ends in 401; the new one comes with another uid, which is told."""
    robot = cluster.as_service_account(account.namespace, "robot")
    path = f"/api/v1/namespaces/{account.namespace}/serviceaccounts"
    first = (await who(robot))["uid"]
    await api.delete(f"{path}/robot")
    await api.create(path, {"metadata": {"name": "robot"}})
    clock.advance(60)

    async def is_refused() -> bool:
        # A server remembers a good token for ten seconds.
        async with await robot.open(get_request("/api")) as response:
            return response.status == 401

    await eventually(is_refused, "the token of the deleted account is refused")
    user = await who(robot)
    assert user["username"] == account.user
    assert user["uid"] != first
    assert robot.account.uid == user["uid"]
    assert ("recreated", "robot") in recorder.heard


async def test_a_deleted_account_is_told_at_its_next_request(
    cluster: Cluster, api: Api, account: Robot, clock: Clock
) -> None:
    """Not as a 401 of unknown cause, but as what it is."""
    robot = cluster.as_service_account(account.namespace, "robot")
    await who(robot)
    await api.delete(f"/api/v1/namespaces/{account.namespace}/serviceaccounts/robot")
    clock.advance(60)

    async def is_gone() -> bool:
        try:
            return (await robot.call(get_request("/api"))).code == 0
        except ServiceAccountNotFoundError:
            return True

    await eventually(is_gone, "the deleted account is told")
