"""Sets of namespaces that change all the time, while objects change and connections break."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

import watchcache
from tests.chaos.interruptions import cut_clients, holds
from tests.chaos.proxy import Proxy
from tests.chaos.receiver import held_by
from tests.chaos.world import World
from tests.contract.api import Api, eventually, unique
from tests.e2e.acting import configmap, grant_everywhere
from tests.e2e.recording import History, Recorder
from tests.e2e.service import ServiceProcess
from tests.history_records import Batch, Kind
from watchcache import Resource

_BACKOFF = watchcache.Backoff("0.05s", "0.5s")
_SPACES = "/api/v1/namespaces"
# The longest that a watch may be dead in silence: its life, and the margin for its end.
_DEAD_SECONDS = 75.0


class Spaces:
    """Namespaces of one label."""

    def __init__(self, api: Api, chance: random.Random) -> None:
        self._api = api
        self._chance = chance
        self._value = unique("tier")
        self.selector = f"tier={self._value}"
        #: uids of all that was in namespaces that were deleted while they matched.
        self.gone: set[str] = set()
        self.is_over = False

    async def create(self) -> str:
        """Make one that matches."""
        name = unique("set")
        labels = {"tier": self._value}
        await self._api.create(_SPACES, {"metadata": {"name": name, "labels": labels}})
        return name

    async def label(self, name: str, *, is_labelled: bool) -> None:
        """Have one match, or match no longer."""
        patch = {"metadata": {"labels": {"tier": self._value if is_labelled else None}}}
        await self._api.patch(f"{_SPACES}/{name}", patch)

    async def flap(self, names: list[str]) -> None:
        """Have them match and match no longer until it is over; at last they match."""
        while not self.is_over:
            name, is_labelled = self._chance.choice(names), self._chance.random() < 0.5
            await self.label(name, is_labelled=is_labelled)
            await asyncio.sleep(self._chance.uniform(0.0, 0.3))
        for name in names:
            await self.label(name, is_labelled=True)

    async def live_and_die(self) -> None:
        """Make one with objects in it after the other and delete it with them, until it is over."""
        self._api.endpoint.run_controllers()
        while not self.is_over:
            name = await self.create()
            for number in range(self._chance.randrange(12)):
                body = configmap(f"c{number:02}")
                made = await self._api.create(f"{_SPACES}/{name}/configmaps", body)
                self.gone.add(made["metadata"]["uid"])
            await asyncio.sleep(self._chance.uniform(0.0, 1.0))
            await self._api.delete(f"{_SPACES}/{name}")


async def cut_upstream(network: Proxy, chance: random.Random) -> None:
    """Reset the connections to the API server now and then, until cancelled."""
    while True:
        await asyncio.sleep(chance.uniform(0.5, 2.0))
        network.cut()


async def at_last(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds, also where a watch has to be found dead for that."""
    async with asyncio.timeout(_DEAD_SECONDS):
        while not await condition():  # noqa: ASYNC110 - the service under test sets no event
            await asyncio.sleep(0.1)


def ends_of(history: History, uids: set[str]) -> set[tuple[Kind, str]]:
    """Return how the objects ended, as it was told: the kind and the reason."""
    return {
        (change.kind, change.left_reason)
        for record in history.records
        if isinstance(record, Batch)
        for change in record.changes
        if change.uid in uids and change.kind in (Kind.DELETED, Kind.LEFT)
    }


@pytest.mark.timeout(240)
async def test_changing_sets_lose_double_and_disorder_nothing(
    api: Api,
    namespace: str,
    account: str,
    far_service: ServiceProcess,
    upstream: Proxy,
    downstream: Proxy,
    recorder: Recorder,
    chance: random.Random,
) -> None:
    """At the end everybody holds what the API server has in the namespaces that match.

    Whatever was in a namespace that was deleted was told as DELETED, and never as LEFT.
    """
    await grant_everywhere(api, namespace, account, "namespaces", "configmaps")
    spaces = Spaces(api, chance)
    names = [await spaces.create() for _ in range(4)]
    worlds = [World(api, each, chance.randrange(1 << 32)) for each in names]
    async with watchcache.connect(downstream.address, timeout="30s") as wc:
        ext = await wc.register(
            f"{namespace}/shop",
            service_account=account,
            watch=[Resource("configmaps", namespace_selector=spaces.selector)],
            wait="20s",
        )
        how: watchcache.WatchOptions = {"bookmark_interval": "1s", "backoff": _BACKOFF}
        async with (
            ext.mirror(**how) as whole,
            ext.mirror(**how, label_selector="tier=gold") as gold,
            asyncio.TaskGroup() as group,
        ):
            cuts = [
                group.create_task(cut_clients(downstream, chance)),
                group.create_task(cut_upstream(upstream, chance)),
            ]
            async with asyncio.TaskGroup() as troubles:
                troubles.create_task(spaces.flap(names))
                troubles.create_task(spaces.live_and_die())
                async with asyncio.TaskGroup() as changes:
                    for world in worlds:
                        changes.create_task(world.change(1000, seconds=12.0))
                spaces.is_over = True
            for task in cuts:
                task.cancel()
            downstream.open()
            everything, golden = {}, {}
            for world in worlds:
                everything |= await world.content()
                golden |= await world.content(tier="gold")
            await at_last(holds(lambda: held_by(whole), everything))
            await at_last(holds(lambda: held_by(gold), golden))

            async def is_whole() -> bool:
                status = await ext.refresh()
                watched = {each.namespace for each in status.sources} - {""}
                return status.state is watchcache.ExtensionState.LIVE and watched == set(names)

            await at_last(is_whole)
    deleted = spaces.gone.union(*(world.deleted_uids for world in worlds))
    for history in recorder.histories:
        expected = golden if history.label_selector else everything
        history.finish(expected, deleted_uids=deleted)
        assert ends_of(history, spaces.gone) <= {(Kind.DELETED, "")}


@pytest.mark.timeout(120)
async def test_a_set_that_changes_while_the_service_is_away(
    api: Api,
    namespace: str,
    account: str,
    far_service: ServiceProcess,
    downstream: Proxy,
    recorder: Recorder,
    chance: random.Random,
) -> None:
    """A mirror is told what joined and what is gone, and loads nothing again."""
    await grant_everywhere(api, namespace, account, "namespaces", "configmaps")
    spaces = Spaces(api, chance)
    names = [await spaces.create() for _ in range(3)]
    worlds = [World(api, each, chance.randrange(1 << 32)) for each in names]
    for world in worlds:
        await world.change(60)
    async with watchcache.connect(downstream.address, timeout="30s") as wc:
        ext = await wc.register(
            f"{namespace}/shop",
            service_account=account,
            watch=[Resource("configmaps", namespace_selector=spaces.selector)],
            wait="20s",
        )
        async with ext.mirror(bookmark_interval="1s", backoff=_BACKOFF) as mirror:
            everything = await worlds[0].content()
            for world in worlds[1:]:
                everything |= await world.content()
            await eventually(holds(lambda: held_by(mirror), everything), "the mirror holds all")
            await asyncio.to_thread(far_service.kill)
            await spaces.label(names[0], is_labelled=False)
            await worlds[1].change(30)
            joined = World(api, await spaces.create(), chance.randrange(1 << 32))
            await joined.change(60)
            await asyncio.to_thread(far_service.start)
            everything = await worlds[1].content() | await worlds[2].content()
            everything |= await joined.content()
            await eventually(holds(lambda: held_by(mirror), everything), "the mirror holds all")
    (history,) = recorder.histories
    history.finish(everything, deleted_uids=worlds[1].deleted_uids)
    assert history.checker.reset_count == 0
