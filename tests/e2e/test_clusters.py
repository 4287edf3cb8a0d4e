"""One extension on two clusters: each event names its own, and neither depends on the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

import watchcache
from tests.chaos.proxy import Proxy, kubeconfig_through
from tests.contract.api import Api, Endpoint, eventually
from tests.e2e.acting import configmap, grant, next_events, until
from tests.e2e.hearing import Hearing, running_here
from watchcache import SourceState
from watchcache_devcluster import DevCluster

_NAMESPACE = "shop"
_PATH = f"/api/v1/namespaces/{_NAMESPACE}/configmaps"


@dataclass(frozen=True)
class Site:
    """A cluster, its administrator, and the network between the service and it."""

    api: Api
    network: Proxy
    endpoint: Endpoint


async def open_site(name: str, folder: Path, stack: AsyncExitStack) -> Site:
    """Start a dev cluster with a ServiceAccount that may read ConfigMaps."""
    cluster = await stack.enter_async_context(DevCluster(name=name))
    network = await stack.enter_async_context(Proxy(cluster.host, cluster.port))
    session = await stack.enter_async_context(aiohttp.ClientSession())
    direct = folder / f"{name}-direct"
    cluster.write_kubeconfig(direct)
    endpoint = Endpoint.of(cluster, kubeconfig_through(network, direct, folder / name), name=name)
    api = Api(endpoint, session)
    await api.create("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    accounts = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts"
    await api.create(accounts, {"metadata": {"name": "shop"}})
    await grant(api, _NAMESPACE, "shop", "", "configmaps")
    return Site(api, network, endpoint)


@pytest.fixture
async def sites(tmp_path: Path) -> AsyncIterator[tuple[Site, Site]]:
    """Give two clusters, named hub and edge."""
    async with AsyncExitStack() as stack:
        yield await open_site("hub", tmp_path, stack), await open_site("edge", tmp_path, stack)


@pytest.fixture
async def wc(sites: tuple[Site, Site]) -> AsyncIterator[watchcache.Connection]:
    """Give a client of a service on both clusters."""
    async with (
        running_here(
            Hearing(),
            *(site.endpoint for site in sites),
            watch_timeout_seconds=5,
        ) as app,
        watchcache.connect(app.addresses[0]) as wc,
    ):
        yield wc


async def register(wc: watchcache.Connection, wait: str | None = "10s") -> watchcache.Extension:
    """Register an extension of the ConfigMaps of both clusters."""
    return await wc.register(
        f"{_NAMESPACE}/shop",
        service_account="shop",
        clusters=["hub", "edge"],
        watch=["configmaps"],
        namespaces=[_NAMESPACE],
        wait=wait,
    )


def is_in_state(
    ext: watchcache.Extension, cluster: str, *states: SourceState
) -> Callable[[], Awaitable[bool]]:
    """Return a condition: that the informer on a cluster is in one of the states."""

    async def condition() -> bool:
        status = await ext.refresh()
        (source,) = (source for source in status.sources if source.cluster == cluster)
        return source.state in states

    return condition


async def test_each_event_names_its_cluster(
    sites: tuple[Site, Site], wc: watchcache.Connection
) -> None:
    """Two objects of one name on two clusters are two objects, in streams, mirrors and reads."""
    hub, edge = sites
    made = {
        "hub": await hub.api.create(_PATH, configmap("same", where="hub")),
        "edge": await edge.api.create(_PATH, configmap("same", where="edge")),
    }
    ext = await register(wc)
    assert {source.cluster: source.state for source in ext.sources} == {
        "hub": SourceState.LIVE,
        "edge": SourceState.LIVE,
    }
    stream = ext.watch()
    opening = await until(stream, watchcache.Synced)
    events = [e for m in opening if isinstance(m, watchcache.Batch) for e in m.events]
    assert {event.key.cluster: event.object["data"]["where"] for event in events} == {
        "hub": "hub",
        "edge": "edge",
    }
    assert {e.key.cluster: e.uid for e in events} == {
        cluster: each["metadata"]["uid"] for cluster, each in made.items()
    }
    await edge.api.patch(f"{_PATH}/same", {"data": {"n": "1"}})
    (changed,) = await next_events(stream, 1)
    assert (changed.type, changed.key.cluster) == (watchcache.EventType.MODIFIED, "edge")
    await hub.api.delete(f"{_PATH}/same")
    (deleted,) = await next_events(stream, 1)
    assert (deleted.type, deleted.key.cluster) == (watchcache.EventType.DELETED, "hub")
    await stream.aclose()

    only_edge = ext.watch(clusters=["edge"])
    opening = await until(only_edge, watchcache.Synced)
    events = [e for m in opening if isinstance(m, watchcache.Batch) for e in m.events]
    assert [event.key.cluster for event in events] == ["edge"]
    await only_edge.aclose()
    assert await ext.get("configmaps", f"{_NAMESPACE}/same") is None
    found = await ext.get("configmaps", f"edge/{_NAMESPACE}/same")
    assert found is not None
    assert found.object["data"] == {"where": "edge", "n": "1"}
    assert [item.key.cluster async for item in ext.list("configmaps")] == ["edge"]


@pytest.mark.timeout(120)
async def test_a_cluster_that_is_down_holds_up_no_other(
    sites: tuple[Site, Site], wc: watchcache.Connection
) -> None:
    """Its objects stay readable, STALE; the other's changes go on; it catches up by itself."""
    hub, edge = sites
    await edge.api.create(_PATH, configmap("far"))
    ext = await register(wc)
    async with ext.mirror(bookmark_interval="1s") as mirror:
        await mirror.wait_synced("configmaps", timeout="20s")
        edge.network.shut()
        await eventually(is_in_state(ext, "edge", SourceState.STALE), "edge is STALE")
        assert await is_in_state(ext, "hub", SourceState.LIVE)()
        await hub.api.create(_PATH, configmap("near"))
        await edge.api.delete(f"{_PATH}/far")
        await edge.api.create(_PATH, configmap("later"))

        def names(cluster: str) -> set[str]:
            return {key.name for key in mirror.keys("configmaps", cluster=cluster)}

        async def is_near_there() -> bool:
            return "near" in names("hub")

        await eventually(is_near_there, "the change on hub arrives")
        assert names("edge") == {"far"}
        (away,) = (source for source in mirror.sources if source.cluster == "edge")
        assert away.state is SourceState.STALE
        assert "edge" in away.message
        (status,) = (each for each in await wc.clusters() if each.name == "hub")
        assert status.is_reachable

        edge.network.open()

        async def has_caught_up() -> bool:
            return names("edge") == {"later"}

        await eventually(has_caught_up, "edge has caught up")
        await eventually(is_in_state(ext, "edge", SourceState.LIVE), "edge is LIVE again")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("trouble", ["shut", "frozen"])
async def test_registering_does_not_wait_for_a_cluster_that_is_down(
    sites: tuple[Site, Site], wc: watchcache.Connection, trouble: str
) -> None:
    """Register answers in a client's time, and the other cluster syncs; the lost one comes later.

    It says why it is not there, and is LIVE by itself when its cluster answers again.
    """
    hub, edge = sites
    await hub.api.create(_PATH, configmap("near"))
    await edge.api.create(_PATH, configmap("far"))
    if trouble == "shut":
        edge.network.shut()
    else:
        edge.network.freeze(new_ones=True)
    ext = await register(wc, wait=None)
    await eventually(is_in_state(ext, "hub", SourceState.LIVE), "hub is LIVE")
    await eventually(
        is_in_state(ext, "edge", SourceState.UNREACHABLE, SourceState.UNAUTHENTICATED),
        "edge says that it cannot be reached",
    )
    (lost,) = (source for source in ext.sources if source.cluster == "edge")
    assert "edge" in lost.message
    async with asyncio.timeout(20):
        assert [i.key.name async for i in ext.list("configmaps", clusters=["hub"])] == ["near"]
    edge.network.open()
    edge.network.thaw()
    await eventually(is_in_state(ext, "edge", SourceState.LIVE), "edge is LIVE by itself")
    assert [i.key.name async for i in ext.list("configmaps", clusters=["edge"])] == ["far"]
