"""Several API servers behind one address, of which one lags behind: nothing goes back in time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

import watchcache
from tests.chaos.interruptions import holds
from tests.chaos.proxy import Balancer, Proxy, kubeconfig_through
from tests.chaos.receiver import held_by
from tests.chaos.storm.hasty_service import SERVICE_SETTINGS
from tests.chaos.storm.stage import HastyService
from tests.chaos.world import World
from tests.contract.api import Api, Endpoint, eventually, unique
from tests.contract.definitions import define, new_kind
from tests.controlplane.apiserver import FurtherServer
from tests.controlplane.server import ControlPlane
from tests.e2e.acting import configmap, grant
from tests.e2e.recording import Recorder
from tests.items import source_spec
from tests.reports.follower import following
from watchcache_server.clusters.cluster import Cluster
from watchcache_server.clusters.kubeconfig import read_context
from watchcache_server.clusters.loading import load_context
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.requests import Request
from watchcache_server.kubernetes.transport import Response
from watchcache_server.model.states import SourceState

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(150)]

_BACKOFF = watchcache.Backoff("0.05s", "0.5s")
_ROUNDS = 2


class Servers:
    """Two API servers on one etcd; the way of the second to it is `lag`. `api` is the first one."""

    def __init__(
        self, control_plane: ControlPlane, second: int, lag: Proxy, address: Balancer, api: Api
    ) -> None:
        self.control_plane = control_plane
        self.first = int(urlsplit(control_plane.url).port or 0)
        self.second = second
        self.lag = lag
        self.address = address
        self.api = api

    def kubeconfig(self, folder: Path) -> Path:
        """Write the kubeconfig that leads to both."""
        original = self.control_plane.kubeconfig()
        return kubeconfig_through(self.address, original, folder / "both")


@pytest.fixture
async def servers(own_control_plane: ControlPlane) -> AsyncIterator[Servers]:
    """Give two API servers."""
    etcd = int(urlsplit(own_control_plane.etcd_url).port or 0)
    first = int(urlsplit(own_control_plane.url).port or 0)
    async with Proxy("127.0.0.1", etcd) as lag, aiohttp.ClientSession() as session:
        second = FurtherServer(own_control_plane, etcd_url=f"http://{lag.address}")
        await asyncio.to_thread(second.start)
        try:
            async with Balancer(first, second.port) as address:
                kubeconfig = own_control_plane.kubeconfig()
                endpoint = Endpoint.of(own_control_plane, kubeconfig, name="both")
                api = Api(endpoint, session)
                yield Servers(own_control_plane, second.port, lag, address, api)
        finally:
            await asyncio.to_thread(second.kill)


async def lag_behind(servers: Servers, chance: random.Random) -> None:
    """Have the second server hear nothing of etcd for seconds, again and again."""
    try:
        while True:
            servers.lag.freeze(new_ones=True)
            await asyncio.sleep(chance.uniform(0.5, 4.0))
            servers.lag.thaw()
            await asyncio.sleep(chance.uniform(0.1, 1.0))
    finally:
        servers.lag.thaw()


async def change_servers(servers: Servers, chance: random.Random) -> None:
    """Have all connections made anew, so that they go to either server."""
    while True:
        await asyncio.sleep(chance.uniform(0.3, 2.0))
        servers.address.cut()


class Counting:
    """Counts up in one object, and reads it in between: no read is older than one before it."""

    def __init__(self, api: Api, path: str, name: str) -> None:
        self._api = api
        self._path = path
        self._name = name
        self._count = 0
        self._seen = 0
        self.proven = 0
        self.refused: set[str] = set()

    async def run(self, ext: watchcache.Extension) -> None:
        """Write and read until cancelled."""
        while True:
            self._count += 1
            data = {"data": {"count": str(self._count)}}
            written = await self._api.patch(f"{self._path}/counter", data)
            version = written["metadata"]["resourceVersion"]
            await self._read(ext, self._seen)
            await self._read(ext, self._count, min_resource_version=version)
            await self._read(ext, self._count, consistent=True)

    async def _read(self, ext: watchcache.Extension, least: int, **asked: object) -> None:
        try:
            item = await ext.get(
                "configmaps", self._name, **({"wait": "10s"} | asked if asked else {})
            )
        except watchcache.WatchCacheError as error:
            # The service may be away, or the first state not there yet.
            self.refused.add(error.reason)
            return
        assert item is not None
        count = int(item.object["data"]["count"])
        assert count >= max(least, self._seen)
        self._seen = count
        self.proven += bool(asked)


async def test_servers_that_lag_lose_double_and_take_back_nothing(
    servers: Servers, recorder: Recorder, chance: random.Random, tmp_path: Path
) -> None:
    """Relists, watches, reads and restarts go to either of them, and meet an older state.

    Subscribers are told each change once, in order; no read is older than one before it.
    """
    api, namespace = servers.api, unique("lag")
    await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(accounts, {"metadata": {"name": "shop"}})
    await grant(api, namespace, "shop", "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    world = World(api, namespace, chance.randrange(1 << 32))
    await api.create(path, configmap("counter", count="0"))
    await world.change(100)
    kubeconfig = servers.kubeconfig(tmp_path)
    service = HastyService([f"hub={kubeconfig}"], tmp_path / "service.log", **SERVICE_SETTINGS)
    counting = Counting(api, path, f"{namespace}/counter")
    await asyncio.to_thread(service.start)
    try:
        async with watchcache.connect(service.address, timeout="30s") as wc:
            ext = await wc.register(
                f"{namespace}/shop",
                service_account="shop",
                watch=["configmaps"],
                namespaces=[namespace],
                wait="20s",
            )
            async with (
                ext.mirror(bookmark_interval="1s", backoff=_BACKOFF) as whole,
                ext.mirror(
                    bookmark_interval="1s", backoff=_BACKOFF, label_selector="tier=gold"
                ) as gold,
            ):
                await whole.wait_synced("configmaps", timeout="20s")
                await gold.wait_synced("configmaps", timeout="20s")
                for number in range(_ROUNDS):
                    troubles = [
                        asyncio.create_task(lag_behind(servers, chance)),
                        asyncio.create_task(change_servers(servers, chance)),
                    ]
                    reading = asyncio.create_task(counting.run(ext))
                    changing = asyncio.create_task(world.change(150, seconds=2.0))
                    if number == 1:
                        await asyncio.sleep(chance.uniform(0.5, 1.5))
                        await asyncio.to_thread(service.kill)
                        await asyncio.to_thread(service.start)
                    await changing
                    for task in (reading, *troubles):
                        task.cancel()
                    ended = await asyncio.gather(reading, *troubles, return_exceptions=True)
                    assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
                    everything = await world.content()
                    golden = await world.content(tier="gold")
                    await eventually(holds(lambda: held_by(whole), everything), "it holds all")
                    await eventually(holds(lambda: held_by(gold), golden), "it holds its part")
    finally:
        await asyncio.to_thread(service.stop)
    assert counting.proven > 10
    for history in recorder.histories:
        expected = golden if history.label_selector else everything
        history.finish(expected, deleted_uids=world.deleted_uids)
        assert history.checker.reset_count == 0


class Directed:
    """A way to the servers on which each request goes to the one that is meant for it."""

    def __init__(self, access: ApiAccess, servers: Servers) -> None:
        self._access = access
        self._servers = servers
        self.credentials = access.credentials
        #: Whether a request goes to the second server.
        self.is_for_second = lambda request: False
        self._last = False

    async def open(self, request: Request) -> Response:
        """Send a request."""
        is_for_second = self.is_for_second(request)
        if is_for_second is not self._last:
            self._last = is_for_second
            servers = self._servers
            servers.address.choose(servers.second if is_for_second else servers.first)
        return await self._access.open(request)


@pytest.fixture
async def both(servers: Servers, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Give both servers as one cluster of ours."""
    servers.address.choose(servers.first)
    cluster = Cluster("hub", await load_context(read_context(servers.kubeconfig(tmp_path))))
    yield cluster
    await cluster.close()


async def test_what_a_server_does_not_know_yet_is_not_gone(servers: Servers, both: Cluster) -> None:
    """A version that it is behind, and a kind that it does not serve: neither drops an object.

    Asked for a state not older than a known one it says that this is too large, after a while; then
    the newest state is asked for, which every server gets from etcd.
    """
    kind, directed = new_kind(), Directed(both.own, servers)
    api, namespace = servers.api, "default"
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await api.create(path, configmap("a"))
    spec = source_spec("configmaps", cluster="hub", namespace=namespace)
    async with following(both, spec, access=directed) as follower:
        await follower.wait_for(lambda: "a" in follower.held)
        servers.lag.freeze(new_ones=True)
        made = await api.create(path, configmap("b"))
        await follower.wait_for(lambda: "b" in follower.held)
        # The kind of another informer, which the second server does not know.
        await define(api, kind)
        await api.create(kind.path(namespace), kind.object("w"))
        widgets = source_spec(kind.plural, cluster="hub", group=kind.group, namespace=namespace)
        async with following(both, widgets) as custom:
            await custom.wait_for(lambda: "w" in custom.held)
            await follower.bar()
            servers.address.choose(servers.second)
            await custom.wait_for(lambda: custom.state_now is SourceState.STALE)
            assert list(custom.held) == ["w"]
            servers.address.choose(servers.first)
            await custom.wait_for(lambda: custom.state_now is SourceState.LIVE)
            assert (list(custom.held), custom.purged, custom.told) == (["w"], [], [])

        # The first server has forgotten what the informer knows, the second has yet to hear of it.
        await api.create(path, configmap("c"))
        await asyncio.to_thread(servers.control_plane.compact)
        await asyncio.to_thread(servers.control_plane.restart)
        directed.is_for_second = lambda request: "NotOlderThan" in request.query
        follower.free()
        await follower.wait_for(lambda: ("relist", "SERVER_BEHIND") in follower.counted_events)
        assert sorted(follower.held) == ["a", "b"]
        assert follower.state_now is SourceState.STALE
        servers.lag.thaw()
        await follower.wait_for(lambda: "c" in follower.held)
        assert int(follower.position) > int(made["metadata"]["resourceVersion"])
        assert ("rewound", "newer_known") not in follower.counted_events
        await follower.wait_for(lambda: follower.state_now is SourceState.LIVE)
