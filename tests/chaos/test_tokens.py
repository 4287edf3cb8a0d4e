"""Tokens end, are taken back or cannot be had, while informers run on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import watchcache
from tests.contract.api import Api, Endpoint, eventually, unique
from tests.e2e.acting import configmap, grant, next_events, until, wait_live, wait_state
from tests.e2e.hearing import Hearing, running_here
from tests.e2e.shift import Shift
from watchcache import SourceState
from watchcache_devcluster import DevCluster
from watchcache_devcluster.faults import Fault
from watchcache_server.kubernetes.requests import Request
from watchcache_server.kubernetes.response import Response
from watchcache_server.kubernetes.transport import Transport

_LIFETIME_SECONDS = 600


@pytest.fixture
def shift() -> Shift:
    """Give what moves the clocks."""
    return Shift()


@pytest.fixture
async def cluster(shift: Shift) -> AsyncIterator[DevCluster]:
    """Give a dev cluster whose clock can be moved."""
    async with DevCluster(clock=shift.wall) as cluster:
        yield cluster


@pytest.fixture
def devcluster_here(cluster: DevCluster, tmp_path: Path) -> Endpoint:
    """Give that cluster as a server under test."""
    return Endpoint.of(cluster, cluster.write_kubeconfig(tmp_path / "kubeconfig"), name="hub")


@pytest.fixture(
    params=[
        pytest.param("real_endpoint", id="real", marks=pytest.mark.controlplane),
        pytest.param("devcluster_here", id="devcluster"),
    ]
)
def hub(request: pytest.FixtureRequest) -> Endpoint:
    """Give each server in turn, by the name of the service's own cluster."""
    chosen: Endpoint = request.getfixturevalue(request.param)
    return replace(chosen, name="hub")


class Sent:
    """The requests to API servers, each with the token that it carried."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str | None]] = []

    def tokens(self, resource: str) -> list[str | None]:
        """Return the tokens of the requests for objects of a resource, in order."""
        return [token for path, token in self.requests if path.endswith(f"/{resource}")]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Note each request that the service in this process sends."""
    sent = Sent()
    send = Transport.open

    async def open_noted(self: Transport, request: Request, authorization: str | None) -> Response:
        sent.requests.append((request.path, authorization))
        return await send(self, request, authorization)

    monkeypatch.setattr(Transport, "open", open_noted)
    return sent


async def shop(api: Api) -> str:
    """Make a namespace with a ServiceAccount that may read; return its name."""
    namespace = unique("tokens")
    await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(path, {"metadata": {"name": "shop"}})
    await grant(api, namespace, "shop", "", "configmaps", "services")
    return namespace


async def register(wc: watchcache.Connection, namespace: str, *watch: str) -> watchcache.Extension:
    """Register an extension that watches these resources as that ServiceAccount."""
    return await wc.register(
        f"{namespace}/shop",
        service_account="shop",
        watch=list(watch),
        namespaces=[namespace],
        wait="10s",
    )


@pytest.mark.parametrize(
    "seconds", [pytest.param(500.0, id="renewal due"), pytest.param(700.0, id="token over")]
)
async def test_a_rotation_breaks_no_watch(
    hub: Endpoint, seconds: float, shift: Shift, sent: Sent
) -> None:
    """A token of the shortest life is replaced at the next request; the open watch goes on.

    The clock of the service is put forward, and that of the dev cluster with it: there, the first
    token really is over.
    """
    hearing = Hearing()
    async with (
        aiohttp.ClientSession() as session,
        running_here(
            hearing,
            hub,
            token_lifetime_seconds=_LIFETIME_SECONDS,
            watch_timeout_seconds=600,
        ) as app,
        watchcache.connect(app.addresses[0]) as wc,
    ):
        api = Api(hub, session)
        namespace = await shop(api)
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        shift.move_tokens(app)
        ext = await register(wc, namespace, "configmaps")
        stream = ext.watch()
        await until(stream, watchcache.Synced)
        (before,) = set(sent.tokens("configmaps"))
        opened = len(sent.tokens("configmaps"))
        hearing.heard.clear()

        shift.seconds = seconds
        await api.create(path, configmap("one"))
        (event,) = await next_events(stream, 1)
        assert event.key.name == "one"
        assert hearing.all("token_rotated") == []
        ext = await register(wc, namespace, "configmaps", "services")
        await wait_live(ext, "services")
        await api.create(path, configmap("two"))
        (event,) = await next_events(stream, 1)
        assert event.key.name == "two"

        assert hearing.all("token_rotated") == [("hub", namespace, "shop")]
        (after,) = set(sent.tokens("services"))
        assert after != before
        assert len(sent.tokens("configmaps")) == opened, "the watch was opened again"
        assert hearing.all("informer_counted") == []
        assert {spec.resource for _, spec, *_ in hearing.all("source_state_changed")} == {
            "services"
        }
        (credential,) = (await ext.refresh()).credentials
        assert credential.message == ""
        await stream.aclose()


@pytest.fixture
async def here(
    devcluster_here: Endpoint, shift: Shift
) -> AsyncIterator[tuple[Api, watchcache.Connection]]:
    """Give the administrator of a dev cluster, and a client of a service that reads from it."""
    async with (
        aiohttp.ClientSession() as session,
        running_here(Hearing(), devcluster_here, watch_timeout_seconds=5) as app,
        watchcache.connect(app.addresses[0]) as wc,
    ):
        shift.move_tokens(app)
        yield Api(devcluster_here, session), wc


@pytest.mark.timeout(120)
async def test_a_token_that_is_taken_back_is_replaced(
    here: tuple[Api, watchcache.Connection], cluster: DevCluster, shift: Shift, sent: Sent
) -> None:
    """An informer whose token is refused says UNAUTHENTICATED and why; a new one mends it.

    A young token is not given up at the first refusal, since the API server may only lag behind.
    """
    api, wc = here
    namespace = await shop(api)
    ext = await register(wc, namespace, "configmaps")
    mirror = ext.mirror(bookmark_interval="1s")
    async with mirror as objects:
        await objects.wait_synced("configmaps", timeout="20s")
        (before,) = set(sent.tokens("configmaps"))
        cluster.expire_tokens(namespace, "shop")
        refused = await wait_state(ext, SourceState.UNAUTHENTICATED)
        assert refused.reason == "TOKEN_REFUSED"
        assert f"{namespace}/shop" in refused.message
        assert "hub" in refused.message
        assert objects.list("configmaps") == []
        shift.seconds = 60.0
        await wait_live(ext, "configmaps")
        assert sent.tokens("configmaps")[-1] != before
        made = await api.create(f"/api/v1/namespaces/{namespace}/configmaps", configmap("after"))

        async def is_there() -> bool:
            found = objects.version("configmaps", f"{namespace}/after")
            return found is not None and found.uid == made["metadata"]["uid"]

        await eventually(is_there, "the mirror has what came later")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("fault", "reason", "said"),
    [
        pytest.param(
            {"code": 403}, "TOKEN_REQUEST_FORBIDDEN", "serviceaccounts/token", id="forbidden"
        ),
        pytest.param({"code": 500}, "TOKEN_REQUEST_FAILED", "500", id="failing"),
    ],
)
async def test_a_token_that_cannot_be_had_is_asked_for_again(
    here: tuple[Api, watchcache.Connection],
    cluster: DevCluster,
    fault: dict[str, Any],
    reason: str,
    said: str,
) -> None:
    """Without a token the informer says UNAUTHENTICATED and why, and asks again by itself."""
    api, wc = here
    namespace = await shop(api)
    number = cluster.faults.add(
        Fault("status", resource="serviceaccounts", verb="create", lasting=True, **fault)
    )
    ext = await register(wc, namespace, "configmaps")
    refused = await wait_state(ext, SourceState.UNAUTHENTICATED)
    assert refused.reason == reason
    assert said in refused.message
    (credential,) = ext.status.credentials
    assert credential.message
    assert cluster.faults.remove(number)
    await wait_live(ext, "configmaps")
    (credential,) = ext.status.credentials
    assert credential.message == ""
    async with asyncio.timeout(20):
        async for item in ext.list("configmaps"):
            raise AssertionError(f"nothing was created, but there is {item}")
