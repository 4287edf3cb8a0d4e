"""Rules of how the informers of an extension follow its spec."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.extensions.world import (
    KEY,
    World,
    events_of,
    only,
    pods,
    running,
    settle,
    state_of,
    sync,
)
from tests.unit.kubernetes.informer_double import REFUSED, added
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.informer import Informer
from watchcache_server.model.states import SourceState

pytestmark = pytest.mark.looptime


def names_of(extension: Extension) -> set[str]:
    """Return the names of the objects that are held."""
    return {entry.name for source in extension.store.sources() for entry in source.table}


async def stopped(world: World, informer: Informer) -> None:
    """Wait until an informer is stopped."""
    async with asyncio.timeout(600.0):
        while not informer.is_stopped:
            await informer.extension.pulse.wait()
    await settle()


async def test_what_did_not_change_is_not_touched() -> None:
    """Its task, its source and its watch go on."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        before = only(extension)
        await world.register(pods("team-a", "team-b"))
        assert before in extension.informers.values()
        exchange = await world.hub.api.asked()
        assert "/namespaces/team-b/" in exchange.request.path
        assert world.hub.api.is_quiet
        assert not extension.retiring


async def test_an_empty_watch_set_closes_everything_at_once() -> None:
    """Tasks, sources and access; what was there has left with the scope."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        await world.register()
        await settle()
        assert not world.left_running()
        assert world.account.holders == 0
        assert not extension.informers
        assert list(events_of(extension, 1)) == [("left", "web", "scope")]


async def test_what_retires_goes_on_until_its_objects_are_taken_over() -> None:
    """Its objects are there all the time, and pass without an event."""
    async with running() as world:
        extension = (await world.register(pods("team-a"))).extension
        watch = await sync(await world.hub.api.asked(), "web", version=10)
        await settle()
        old, revision = only(extension), extension.store.revision
        await world.register(pods())
        successor = await world.hub.api.asked()
        assert list(extension.retiring) == [old]
        watch.send(added("late", "12"))
        await asyncio.sleep(20.0)
        assert names_of(extension) == {"web", "late"}, "it still follows its own watch"
        new = await sync(successor, "web", "late", version=12)
        await stopped(world, old)
        assert names_of(extension) == {"web", "late"}
        assert [what for what, *_ in events_of(extension, revision)].count("left") == 0
        assert watch.is_closed
        assert not new.is_closed
        assert extension.store.sources() == [only(extension).source]


async def test_both_follow_for_a_moment_before_the_old_one_ends() -> None:
    """What was created between the two reads is not said to have left."""
    async with running() as world:
        extension = (await world.register(pods("team-a"))).extension
        watch = await sync(await world.hub.api.asked(), "web", version=10)
        await settle()
        old, revision = only(extension), extension.store.revision
        await world.register(pods())
        successor = await world.hub.api.asked()
        watch.send(added("newest", "21"))
        await settle()
        new = await sync(successor, "web", version=20)
        await asyncio.sleep(0.5)
        assert not old.is_stopped
        new.send(added("newest", "21"))
        await stopped(world, old)
        assert names_of(extension) == {"web", "newest"}
        assert [what for what, *_ in events_of(extension, revision)] == ["added"]


async def test_an_outage_empties_no_store() -> None:
    """A successor that cannot reach its server is waited for."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        old = only(extension)
        await world.register(pods())
        (await world.hub.api.asked()).fail(REFUSED)
        await settle()
        assert state_of(only(extension))[0] is SourceState.UNREACHABLE
        await asyncio.sleep(5.0)
        assert not old.is_stopped
        assert names_of(extension) == {"web"}
        successor = await world.hub.api.asked()
        while "namespaces" in successor.request.path:
            successor = await world.hub.api.asked()
        await sync(successor)
        await stopped(world, old)
        assert names_of(extension) == {"web"}


async def test_a_successor_that_is_refused_is_not_waited_for() -> None:
    """What the spec no longer asks for ends; what it does ask for says that it is not allowed."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        old = only(extension)
        await world.register(pods())
        for _ in range(2):
            (await world.hub.api.asked()).refuse(403, "Forbidden")
        await stopped(world, old)
        assert state_of(only(extension))[0] is SourceState.FORBIDDEN
        assert names_of(extension) == set()


async def test_what_holds_nothing_has_nothing_to_hand_over() -> None:
    """A spec that changes again before the first sync leaves no task behind."""
    async with running() as world:
        extension = (await world.register(pods("team-a"))).extension
        await world.hub.api.asked()
        old = only(extension)
        await world.register(pods())
        await settle()
        assert old.is_stopped
        assert not extension.retiring
        assert len(world.left_running()) == 1


async def test_specs_that_change_twice_quickly_end_with_the_last() -> None:
    """Back to the first spec: a new informer of it takes over, whatever came in between."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        first, revision = only(extension), extension.store.revision
        await world.register(pods())
        await world.hub.api.asked()
        second = only(extension)
        await world.register(pods("team-a"))
        third = only(extension)
        assert second.is_stopped, "it held nothing"
        assert list(extension.retiring) == [first]
        assert third.spec == first.spec
        await sync(await world.hub.api.asked())
        await stopped(world, first)
        assert names_of(extension) == {"web"}
        assert not list(events_of(extension, revision))
        assert extension.store.sources() == [third.source]
        assert len(world.left_running()) == 1


async def test_a_hand_over_begins_anew_when_its_successor_retires() -> None:
    """The moment in which both follow is one with the successor that stays."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        first = only(extension)
        await world.register(pods(label_selector="app=web"))
        await sync(await world.hub.api.asked(), "other")
        await asyncio.sleep(0.5)
        second = only(extension)
        await world.register(pods())
        last = await world.hub.api.asked()
        await asyncio.sleep(5.0)
        assert not first.is_stopped
        assert not second.is_stopped
        await sync(last, "web", "other")
        await stopped(world, first)
        await stopped(world, second)
        assert names_of(extension) == {"web", "other"}


async def test_a_cluster_that_is_left_is_let_go_of_with_its_last_informer() -> None:
    """Access to the others stays."""
    async with running("hub", "edge") as world:
        extension = (await world.register(pods("team-a"), clusters=("edge", "hub"))).extension
        edge = world.clusters.get("edge")
        await sync(await edge.api.asked())
        await sync(await world.hub.api.asked())
        await settle()
        assert set(world.registry.credentials_of(extension)) == {"edge", "hub"}
        await world.register(pods("team-a"))
        await settle()
        assert (world.account.holders, edge.account().holders) == (1, 0)
        assert set(world.registry.credentials_of(extension)) == {"hub"}


async def test_access_is_kept_for_whoever_still_hands_over() -> None:
    """And shared by all informers of a cluster."""
    async with running() as world:
        await world.live(pods("team-a"))
        await world.register(pods())
        assert world.account.holders == 1


async def test_an_end_in_the_middle_of_a_hand_over_leaves_nothing() -> None:
    """While it waits for its successor, and in the moment after."""
    for has_synced in (False, True):
        async with running() as world:
            extension = await world.live(pods("team-a"))
            await world.register(pods())
            successor = await world.hub.api.asked()
            if has_synced:
                await sync(successor)
                await settle()
            assert extension.retiring
            await world.registry.deregister(KEY)
            assert not world.left_running()
            assert world.account.holders == 0
            assert not extension.retiring
