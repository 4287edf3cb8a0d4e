"""Rules of an extension: its informers, its news, its time to live, and its end."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from tests.unit.extensions.test_informer import World
from tests.unit.extensions.world import events_of, spec_of
from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.model.states import ExtensionState, SourceState


@pytest.fixture
async def world() -> World:
    """Give an extension."""
    return World()


def live(*informers: Informer) -> None:
    """Let informers be live."""
    for informer in informers:
        informer.set_state(SourceState.LIVE, "SYNCED", "")


# Informers


def test_it_is_settled_once_every_informer_is(world: World) -> None:
    """Live or failed; with none there is nothing to wait for."""
    assert world.extension.is_settled
    first, second = world.informer(), world.informer(namespace="team-b")
    live(first)
    assert not world.extension.is_settled
    second.set_state(SourceState.GONE, "KIND_NOT_SERVED", "")
    assert world.extension.is_settled
    assert world.extension.state is ExtensionState.DEGRADED
    assert repr(world.extension) == "Extension(team-a/shop, degraded, 2 informers)"


def test_informers_are_listed_in_the_order_of_lists(world: World) -> None:
    """Only those that a filter lets through, and none that retires."""
    far, near = world.informer(namespace="team-b"), world.informer()
    extension = world.extension
    assert extension.ordered() == [near, far]
    assert extension.informers_in(Filter(namespaces=("team-b",))) == [far]
    extension.retire_informer(far)
    assert extension.ordered() == [near]
    assert extension.informers_in(EVERYTHING) == [near]


def test_the_informer_of_a_source_is_found_while_it_retires(world: World) -> None:
    """Whoever reads an object of it is told how fresh it is."""
    near, far = world.informer(), world.informer(namespace="team-b")
    world.extension.retire_informer(far)
    assert world.extension.informers_of([far.source]) == [far]
    assert world.extension.informers_of([near.source, far.source]) == [near, far]
    assert world.extension.informers_of([]) == []


def test_what_is_left_in_a_removed_informer_has_left(world: World) -> None:
    """With the scope, and nobody says that it was deleted."""
    informer = world.synced("web")
    revision = world.extension.store.revision
    world.extension.remove_informer(informer)
    assert list(events_of(world.extension, revision)) == [("left", "web", "scope")]
    assert informer.is_stopped
    assert informer.status.state is SourceState.STOPPED
    assert not world.extension.informers
    assert not world.extension.store.sources()


# News


def test_what_has_changed_is_told_by_version(world: World) -> None:
    """Nothing twice, and only what a filter lets through."""
    near, far = world.informer(), world.informer(namespace="team-b")
    extension = world.extension
    assert extension.changed(EVERYTHING, 0) == [near, far]
    version = extension.status_version
    assert extension.changed(EVERYTHING, version) == []
    live(far)
    assert extension.changed(EVERYTHING, version) == [far]
    assert extension.changed(Filter(namespaces=("team-a",)), version) == []


def test_a_stream_is_told_of_informers_that_ended(world: World) -> None:
    """If it was there before; one that begins afterwards never knew them."""
    near, far = world.informer(), world.informer(namespace="team-b")
    extension = world.extension
    version = extension.status_version
    extension.retire_informer(far)
    assert extension.changed(EVERYTHING, version) == []
    extension.remove_informer(far)
    assert extension.changed(EVERYTHING, version) == [far]
    assert extension.changed(Filter(namespaces=("team-a",)), version) == []
    assert extension.changed(EVERYTHING, 0) == [near]


def test_an_informer_that_came_back_has_not_ended(world: World) -> None:
    """The one before it is not told of after the one that there is."""
    first = world.informer()
    extension = world.extension
    version = extension.status_version
    extension.retire_informer(first)
    second = world.informer()
    extension.remove_informer(first)
    assert extension.changed(EVERYTHING, version) == [second]


async def test_a_change_of_status_wakes_who_waits(world: World) -> None:
    """And the owner hears of it."""
    waiter = asyncio.create_task(world.extension.pulse.wait())
    await asyncio.sleep(0)
    world.extension.status_changed()
    assert await waiter
    assert world.owner.of("status_changed") == [[world.extension]]


# Time to live


def test_without_a_ttl_it_lives_for_ever(world: World) -> None:
    """Whether anybody uses it or not."""
    world.time.advance(1e9)
    assert world.extension.expires_in is None


def test_the_ttl_runs_while_nobody_holds_it(world: World) -> None:
    """Each hold has to end, and the time begins anew with the last."""
    extension = world.extension
    extension.spec = spec_of(ttl=60.0)
    world.time.advance(20.0)
    assert extension.expires_in == 40.0
    extension.hold()
    extension.subscribed()
    assert extension.subscription_count == 1
    assert extension.expires_in is None
    world.time.advance(1000.0)
    extension.unsubscribed()
    assert extension.expires_in is None
    extension.let_go()
    assert (extension.expires_in, extension.subscription_count) == (60.0, 0)
    world.time.advance(50.0)
    extension.used()
    assert extension.expires_in == 60.0
    world.time.advance(61.0)
    assert extension.expires_in == 0.0


# The end


async def test_its_end_wakes_everybody_and_drops_everything(world: World) -> None:
    """At once, whatever the rate of wake-ups."""
    informer = world.synced("web")
    retiring = world.synced("old", namespace="team-b")
    world.extension.retire_informer(retiring)
    waiter = asyncio.create_task(world.extension.pulse.wait())
    await asyncio.sleep(0)
    world.extension.end("DEREGISTERED")
    assert await waiter
    assert world.extension.ended == "DEREGISTERED"
    assert world.extension.store.object_count == 0
    assert len(world.extension.store.history) == 0
    assert informer.is_stopped
    assert retiring.is_stopped


async def test_nothing_of_it_waits_for_the_collector(world: World) -> None:
    """Objects, informers and the extension go with the last who holds one."""
    world.synced("web")
    world.extension.remove_informer(world.synced("gone", namespace="team-b"))
    retiring = world.synced("old", namespace="team-c")
    world.extension.retire_informer(retiring)
    gone = weakref.ref(world.extension)
    world.extension.end("DEREGISTERED")
    gc.disable()
    try:
        world.owner.heard.clear()
        del world.extension, retiring
        assert gone() is None
    finally:
        gc.enable()
