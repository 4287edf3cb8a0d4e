"""Rules of going on after a restart."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.extensions.test_informer import World
from tests.unit.serving.past import ScriptedPast, ended, lost
from tests.unit.serving.watched import change
from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.cursors import Walk
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.kubernetes.past import PastLostError
from watchcache_server.model.states import EventKind, SourceState
from watchcache_server.serving.recovering import Recovered, recover


@pytest.fixture
async def world() -> World:
    """Give an extension."""
    return World()


def names(recovered: Recovered) -> list[str]:
    """Return what ended."""
    return [end.entry.name for end in recovered.ends]


def holds(recovered: Recovered, informer: Informer) -> list[str]:
    """Return the objects of an informer that the reader holds as they are."""
    source = informer.source
    return [entry.name for entry in source.table if recovered.held.has(source, entry)]


# Whether it can begin


def test_informers_in_view_are_to_be_settled(world: World) -> None:
    """Loaded, or failed; those out of view are not waited for."""
    here, there = world.informer(), world.informer(namespace="team-b")
    only_here = Filter(namespaces=("team-a",))
    assert not world.extension.is_settled_in(EVERYTHING)
    assert not world.extension.is_settled_in(only_here)
    here.set_state(SourceState.FORBIDDEN, "VERBS_MISSING", "")
    assert world.extension.is_settled_in(only_here)
    assert not world.extension.is_settled_in(EVERYTHING)
    there.set_state(SourceState.LIVE, "SYNCED", "")
    assert world.extension.is_settled_in(EVERYTHING)


def test_without_informers_all_is_settled(world: World) -> None:
    """There is nothing to wait for."""
    assert world.extension.is_settled_in(EVERYTHING)


# What was missed


async def test_a_reader_is_told_what_changed_and_what_ended(world: World) -> None:
    """It holds what is no newer than its version, and the rest is walked."""
    informer = world.synced("old")
    change(informer, "new", "13")
    past = ScriptedPast(informer, ended(informer, "before", "10"), ended(informer, "after", "12"))
    recovered = await recover(world.extension, EVERYTHING, {informer.source.identity: "11"})
    assert past.asked == ["11"]
    assert names(recovered) == ["after"], "it was told of the other"
    assert holds(recovered, informer) == ["old"]
    walk = Walk((informer.source.number,), is_repeated=True)
    assert recovered.cursor.walk == walk
    assert recovered.cursor.revision == world.extension.store.revision


async def test_each_source_goes_by_its_own_version(world: World) -> None:
    """And one that is new to the reader is walked as a whole."""
    first, second = world.synced("a"), world.synced("b", namespace="team-b")
    third = world.synced("c", namespace="team-c")
    ScriptedPast(first, ended(first, "x", "21"))
    ScriptedPast(second, ended(second, "y", "31", namespace="team-b"))
    unasked = ScriptedPast(third, error=lost())
    positions = {second.source.identity: "30", first.source.identity: "20"}
    recovered = await recover(world.extension, EVERYTHING, positions)
    assert sorted(names(recovered)) == ["x", "y"]
    assert (holds(recovered, first), holds(recovered, second)) == (["a"], ["b"])
    assert holds(recovered, third) == []
    assert unasked.asked == []


async def test_pasts_are_read_at_once(world: World) -> None:
    """Each takes a second or two, and there may be many."""
    informers = [world.synced("a", namespace=f"team-{letter}") for letter in "abc"]
    pasts = [ScriptedPast(informer) for informer in informers]
    for past in pasts:
        past.may_answer.clear()
    positions = {informer.source.identity: "10" for informer in informers}
    task = asyncio.ensure_future(recover(world.extension, EVERYTHING, positions))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [past.asked for past in pasts] == [["10"]] * 3
    for past in pasts:
        past.may_answer.set()
    await task


async def test_changes_since_the_oldest_past_come_too(world: World) -> None:
    """What ended after that, the history tells."""
    first, second = world.synced("a"), world.synced("b", namespace="team-b")
    change(first, "c", "11")
    revision = world.extension.store.revision
    change(first, "d", "12")
    ScriptedPast(first)
    ScriptedPast(second, revision=revision)
    positions = {first.source.identity: "12", second.source.identity: "10"}
    recovered = await recover(world.extension, EVERYTHING, positions)
    assert recovered.cursor.revision == revision


async def test_ends_in_other_namespaces_are_not_told(world: World) -> None:
    """A source of a whole cluster knows of more than is asked for."""
    informer = world.synced(namespace="")
    here = ended(informer, "here", "12", EventKind.LEFT)
    there = ended(informer, "there", "12", namespace="team-b")
    ScriptedPast(informer, here, there)
    wanted = Filter(namespaces=("team-a",))
    recovered = await recover(world.extension, wanted, {informer.source.identity: "11"})
    assert recovered.ends == (here,)


async def test_only_what_is_surely_older_was_told(world: World) -> None:
    """A version that cannot be compared may not have been."""
    informer = world.synced()
    ends = [ended(informer, f"v{version}", version) for version in ("9", "11", "odd", "13")]
    ScriptedPast(informer, *ends)
    recovered = await recover(world.extension, EVERYTHING, {informer.source.identity: "12"})
    assert names(recovered) == ["vodd", "v13"]


# Where it cannot be


async def test_another_spec_has_no_past(world: World) -> None:
    """What the reader holds of the rest nobody here can tell."""
    informer = world.synced("a")
    ScriptedPast(informer)
    positions = {informer.source.identity: "10", b"identity": "10"}
    with pytest.raises(PastLostError, match="something else"):
        await recover(world.extension, EVERYTHING, positions)


async def test_an_informer_out_of_view_is_another_spec(world: World) -> None:
    """The filter is that of the token, so it cannot have been told of it."""
    informer = world.synced("a")
    ScriptedPast(informer)
    with pytest.raises(PastLostError, match="something else"):
        await recover(world.extension, Filter(clusters=("edge",)), {informer.source.identity: "10"})


async def test_an_informer_that_has_not_begun_has_no_past(world: World) -> None:
    """It may be waiting for its turn."""
    informer = world.synced("a")
    with pytest.raises(PastLostError, match="has not begun"):
        await recover(world.extension, EVERYTHING, {informer.source.identity: "10"})


async def test_one_past_that_is_lost_loses_all(world: World) -> None:
    """Nothing is told of half of the sources."""
    first, second = world.synced("a"), world.synced("b", namespace="team-b")
    ScriptedPast(first)
    ScriptedPast(second, error=lost())
    positions = {each.source.identity: "10" for each in (first, second)}
    with pytest.raises(PastLostError, match="410"):
        await recover(world.extension, EVERYTHING, positions)


async def test_a_fault_is_no_lost_past(world: World) -> None:
    """It is raised as it is, and found in the log."""
    informer = world.synced("a")
    ScriptedPast(informer, error=LookupError("a fault"))
    with pytest.raises(LookupError, match="a fault"):
        await recover(world.extension, EVERYTHING, {informer.source.identity: "10"})


async def test_too_much_may_have_happened_meanwhile(world: World) -> None:
    """The history holds so many changes only."""
    informer = world.synced("a")
    revision = world.extension.store.revision
    for number in range(150):
        change(informer, "busy", str(11 + number))
    ScriptedPast(informer, revision=revision)
    with pytest.raises(PastLostError, match="history"):
        await recover(world.extension, EVERYTHING, {informer.source.identity: "10"})
