"""Changes that are lost without a word on the watch, and checks that find them.

Against a real kube-apiserver and the dev cluster. What is lost is lost within the informer, or by
the dev cluster itself: nothing breaks off, and the stream goes on as if it had never been.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import watchcache
from tests.chaos.interruptions import holds
from tests.chaos.receiver import held_by
from tests.chaos.world import World
from tests.contract.api import Api, Endpoint, eventually
from tests.e2e.acting import configmap, grant, next_events, until
from tests.e2e.hearing import Hearing, running_here
from tests.e2e.recording import Recorder
from watchcache import ConsistencyOutcome, EventType
from watchcache_devcluster import DevCluster
from watchcache_devcluster.faults import Fault
from watchcache_server.informer.decoding import WatchEvent
from watchcache_server.informer.streams import EventStream
from watchcache_server.model.states import CheckOutcome

_RESOURCE = "configmaps"
# More than are listed at once instead of counted.
_MANY = 150


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Give the names of objects of which no event reaches the informers."""
    lost: set[str] = set()
    feed = EventStream.feed

    def lossy(self: EventStream, chunk: bytes) -> list[WatchEvent]:
        events = feed(self, chunk)
        return [each for each in events if name_of(each) not in lost]

    def name_of(event: Any) -> str | None:
        return event.item.name if hasattr(event, "item") else None

    monkeypatch.setattr(EventStream, "feed", lossy)
    return lost


@asynccontextmanager
async def registered(
    hearing: Hearing, api: Api, namespace: str, hub: Endpoint, *, check_seconds: float
) -> AsyncIterator[watchcache.Extension]:
    """Run a service that checks so often, and register the ConfigMaps of the namespace."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(path, {"metadata": {"name": "watched"}})
    await grant(api, namespace, "watched", "", _RESOURCE)
    async with (
        running_here(hearing, hub, consistency_check_seconds=check_seconds) as app,
        watchcache.connect(app.addresses[0]) as wc,
    ):
        yield await wc.register(
            f"{namespace}/shop",
            service_account="watched",
            watch=[_RESOURCE],
            namespaces=[namespace],
            wait="20s",
        )


def is_checked(hearing: Hearing, outcome: CheckOutcome) -> Callable[[], Awaitable[bool]]:
    """Return the condition that a check has come to this."""

    async def is_there() -> bool:
        return outcome in outcomes(hearing)

    return is_there


def relists(hearing: Hearing) -> list[str]:
    """Return why informers have listed anew."""
    return [reason for _, event, reason in hearing.all("informer_counted") if event == "relist"]


def outcomes(hearing: Hearing) -> list[CheckOutcome]:
    """Return what the checks have found."""
    return [outcome for _, _, outcome, *_ in hearing.all("consistency_checked")]


async def fill(api: Api, namespace: str, count: int) -> None:
    """Make so many ConfigMaps that nobody changes."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for number in range(count):
        await api.create(path, configmap(f"still-{number:03}"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("still", [1, _MANY], ids=["few", "many"])
async def test_what_was_lost_is_found_and_told(
    api: Api,
    endpoint: Endpoint,
    namespace: str,
    recorder: Recorder,
    lost: set[str],
    still: int,
) -> None:
    """Exactly that: a deletion whose last state is not known, a change, an addition.

    Of many objects only the number is asked for, so a change alone is not seen there; what makes
    the number differ brings it along.
    """
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await fill(api, namespace, still)
    for name in ("goes", "changes"):
        await api.create(path, configmap(name, n="1"))
    hearing = Hearing()
    async with (
        registered(hearing, api, namespace, endpoint, check_seconds=2.0) as ext,
        ext.mirror() as mirror,
        ext.watch() as watch,
    ):
        await mirror.wait_synced(_RESOURCE, timeout="20s")
        await until(watch, watchcache.Synced)
        await eventually(is_checked(hearing, CheckOutcome.CONSISTENT), "a check has agreed")
        lost.update(("goes", "changes", "comes", "comes-too"))
        await api.delete(f"{path}/goes")
        await api.patch(f"{path}/changes", {"data": {"n": "2"}})
        for name in ("comes", "comes-too", "heard"):
            await api.create(path, configmap(name))
        told = {
            (each.key.name, each.type, each.final_state_unknown): each
            for each in await next_events(watch, 5)
        }
        expected = await World(api, namespace, 0, cluster=endpoint.name).content()
        await eventually(holds(lambda: held_by(mirror), expected), "the mirror holds all again")
        lost.clear()
        assert relists(hearing) == ["INCONSISTENT"]
        hearing.heard.clear()
        await eventually(is_checked(hearing, CheckOutcome.CONSISTENT), "a check has agreed again")
        assert CheckOutcome.MISMATCH not in outcomes(hearing)
        (source,) = (await ext.refresh()).sources
        check = source.consistency_check
        assert check is not None
        assert (check.outcome, check.mismatch_count) == (ConsistencyOutcome.CONSISTENT, 1)
    assert set(told) == {
        ("heard", EventType.ADDED, False),
        ("goes", EventType.DELETED, True),
        ("comes", EventType.ADDED, False),
        ("comes-too", EventType.ADDED, False),
        ("changes", EventType.MODIFIED, False),
    }
    for history in recorder.histories:
        history.finish(expected)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("still", [0, _MANY], ids=["few", "many"])
async def test_whoever_is_right_is_not_disturbed(
    api: Api,
    endpoint: Endpoint,
    namespace: str,
    recorder: Recorder,
    chance: random.Random,
    still: int,
) -> None:
    """Checks all the time, while objects change all the time, find nothing and list nothing."""
    await fill(api, namespace, still)
    world = World(api, namespace, chance.randrange(1 << 32), cluster=endpoint.name)
    hearing = Hearing()
    async with (
        registered(hearing, api, namespace, endpoint, check_seconds=0.05) as ext,
        ext.mirror() as mirror,
    ):
        await mirror.wait_synced(_RESOURCE, timeout="20s")
        await world.change(1500, seconds=8.0)
        expected = await world.content()
        await eventually(holds(lambda: held_by(mirror), expected), "the mirror holds all")
    assert outcomes(hearing).count(CheckOutcome.CONSISTENT) > 50
    assert set(outcomes(hearing)) <= {CheckOutcome.CONSISTENT, CheckOutcome.UNCLEAR}
    assert relists(hearing) == []
    assert hearing.all("informer_failed") == []
    for history in recorder.histories:
        history.finish(expected, deleted_uids=world.deleted_uids)


@pytest.mark.timeout(120)
async def test_a_loss_among_many_changes_is_found(
    api: Api, endpoint: Endpoint, namespace: str, lost: set[str], chance: random.Random
) -> None:
    """The number is that of one version, whatever comes behind it."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await fill(api, namespace, _MANY)
    await api.create(path, configmap("goes"))
    world = World(api, namespace, chance.randrange(1 << 32))
    hearing = Hearing()
    async with registered(hearing, api, namespace, endpoint, check_seconds=1.0):
        lost.add("goes")
        await api.delete(f"{path}/goes")
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(world.change(6000, seconds=60.0))
            await eventually(is_checked(hearing, CheckOutcome.MISMATCH), "the loss was found")
            assert not writing.done()
            hearing.heard.clear()
            await eventually(is_checked(hearing, CheckOutcome.CONSISTENT), "it was mended")
            writing.cancel()
        assert CheckOutcome.MISMATCH not in outcomes(hearing)


@pytest.mark.timeout(60)
async def test_what_an_api_server_never_sent_is_found(
    devcluster: DevCluster, tmp_path: Path, recorder: Recorder
) -> None:
    """The watch goes on over the same connection; only a list shows that something is gone."""
    kubeconfig = devcluster.write_kubeconfig(tmp_path / "kubeconfig")
    hub = Endpoint.of(devcluster, kubeconfig, name="hub")
    hearing = Hearing()
    async with aiohttp.ClientSession() as session:
        api = Api(hub, session)
        path = "/api/v1/namespaces/shop/configmaps"
        await api.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        await fill(api, "shop", 2)
        await api.create(path, configmap("goes"))
        async with (
            registered(hearing, api, "shop", hub, check_seconds=1.0) as ext,
            ext.mirror() as mirror,
        ):
            await mirror.wait_synced(_RESOURCE, timeout="20s")
            devcluster.faults.add(Fault("lose", resource=_RESOURCE))
            await api.delete(f"{path}/goes")
            # Without it the next watch would begin before the loss, and bring it.
            await api.create(path, configmap("heard"))
            expected = await World(api, "shop", 0).content()
            await eventually(holds(lambda: held_by(mirror), expected), "the mirror holds all again")
    assert relists(hearing) == ["INCONSISTENT"]
    for history in recorder.histories:
        history.finish(expected)
