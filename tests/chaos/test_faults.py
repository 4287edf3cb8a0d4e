"""An API server that misbehaves in every way it knows, while objects change."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import watchcache
from tests.chaos.interruptions import holds
from tests.chaos.receiver import held_by
from tests.chaos.world import World
from tests.contract.api import Api, Endpoint, eventually
from tests.e2e.acting import grant
from tests.e2e.hearing import Hearing, running_here
from tests.e2e.recording import Recorder
from watchcache_devcluster import DevCluster
from watchcache_devcluster.faults import Fault
from watchcache_server.informer.backoff import BackoffSettings
from watchcache_server.informer.reflector_settings import ReflectorSettings

_CHANGES, _SECONDS = 3000, 15.0
_RESOURCE = "configmaps"
# Each strikes the running watch, or the next request, once or twice: those that informers make,
# not the writes of the test.
_watches = functools.partial(Fault, resource=_RESOURCE, verb="watch")
_lists = functools.partial(Fault, resource=_RESOURCE, verb="list")
_FAULTS = (
    _watches("reset"),
    _watches("cut"),
    _watches("cut", clean=True),
    _watches("cut", times=2, after_events=3),
    _watches("end"),
    _watches("error", code=500),
    _watches("gone"),
    _watches("gone", times=2),
    _watches("status", code=500, times=1),
    _watches("status", code=503, times=2),
    _watches("status", code=429, times=1),
    _watches("delay", seconds=0.3, times=1),
    _lists("status", code=500, times=1),
    _lists("status", code=429, times=1),
    _lists("gone", times=1),
    _lists("cut", times=1),
)


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have informers try again soon, so that many faults fit into a test."""

    def hasty(**settings: Any) -> ReflectorSettings:
        settings["backoff"] = BackoffSettings(first_seconds=0.02, longest_seconds=0.2)
        return ReflectorSettings(**settings, relist_spacing_seconds=0.1)

    monkeypatch.setattr("watchcache_server.extensions.host.ReflectorSettings", hasty)


@pytest.fixture
async def cluster() -> AsyncIterator[DevCluster]:
    """Give a dev cluster of the test's own."""
    async with DevCluster() as cluster:
        yield cluster


@pytest.fixture
def hub(cluster: DevCluster, tmp_path: Path) -> Endpoint:
    """Give that cluster as a server under test."""
    return Endpoint.of(cluster, cluster.write_kubeconfig(tmp_path / "kubeconfig"), name="hub")


async def misbehave(cluster: DevCluster, chance: random.Random) -> None:
    """Let one thing after the other go wrong, until cancelled."""
    while True:
        await asyncio.sleep(chance.uniform(0.02, 0.4))
        cluster.faults.add(chance.choice(_FAULTS))
        if chance.random() < 0.2:
            cluster.compact()


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("impatience")
async def test_random_faults_lose_double_and_disorder_nothing(
    cluster: DevCluster, hub: Endpoint, recorder: Recorder, chance: random.Random
) -> None:
    """Whatever the API server does, subscribers end up with what it holds, by clean histories.

    Watches break in the middle of events, lists fail, history is compacted, so that deletions are
    found by comparing lists; none of it makes an object come back or go for the wrong reason.
    """
    hearing = Hearing()
    async with (
        aiohttp.ClientSession() as session,
        running_here(hearing, hub) as app,
        watchcache.connect(app.addresses[0]) as wc,
    ):
        api = Api(hub, session)
        await api.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        await api.create("/api/v1/namespaces/shop/serviceaccounts", {"metadata": {"name": "shop"}})
        await grant(api, "shop", "shop", "", _RESOURCE)
        world = World(api, "shop", chance.randrange(1 << 32))
        ext = await wc.register(
            "shop/shop",
            service_account="shop",
            watch=[_RESOURCE],
            namespaces=["shop"],
            wait="20s",
        )
        async with (
            ext.mirror() as whole,
            ext.mirror(label_selector="tier=gold") as gold,
            asyncio.TaskGroup() as group,
        ):
            await whole.wait_synced(_RESOURCE, timeout="20s")
            trouble = group.create_task(misbehave(cluster, chance))
            await world.change(_CHANGES, seconds=_SECONDS)
            trouble.cancel()
            cluster.faults.clear()
            everything, golden = await world.content(), await world.content(tier="gold")
            await eventually(holds(lambda: held_by(whole), everything), "the mirror holds all")
            await eventually(holds(lambda: held_by(gold), golden), "the other holds its part")
    for history in recorder.histories:
        expected = golden if history.label_selector else everything
        history.finish(expected, deleted_uids=world.deleted_uids)
    counted = {event for _, event, _ in hearing.all("informer_counted")}
    assert {"relist", "request_failed"} <= counted
    assert hearing.all("informer_failed") == []
