"""The difference: what a reader is told that holds something already."""

from __future__ import annotations

import pytest

from tests.items import item, served, source_spec
from watchcache_server.informer.cursors import Advance, Limits, Outcome
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.held import Known, KnownGroup, Past, object_id, version_id
from watchcache_server.informer.objects import Item, Remove, Upsert
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Store
from watchcache_server.informer.subscription import advance, begin_snapshot
from watchcache_server.model.states import EventKind, LeftReason

ADDED, MODIFIED, DELETED, LEFT = EventKind
GROUP = KnownGroup("hub", "", "pods", "team-a", "v1", "full")
GOLD = Filter(label_selector="tier=gold")


def thing(name: str, version: int, tier: str = "gold") -> Item:
    """Make an object."""
    return item(name, uid=f"uid-{name}", version=str(version), labels={"tier": tier})


def make_store(*objects: Item) -> tuple[Store, Source]:
    """Make a store with one source that has synced."""
    store = Store(b"epoch-01", max_changes=100, max_history_bytes=1 << 20)
    source = store.add_source(source_spec())
    source.served = served()
    source.stage(objects)
    store.commit(source, 1.0, "9")
    return store, source


def known(*objects: tuple[str, int]) -> Known:
    """Say that objects are held, by name and version."""
    held = Known()
    for name, version in objects:
        held.add(GROUP, object_id(f"uid-{name}") + version_id(str(version)))
    return held


def told(step: Advance) -> list[tuple[EventKind, str]]:
    """Say kind and name of each event."""
    return [(event.kind, event.entry.name) for event in step.events]


def test_what_is_held_is_not_sent() -> None:
    """What is new or changed is, and what is gone stays with what is known."""
    store, _ = make_store(thing("a", 1), thing("b", 2), thing("c", 3))
    held = known(("a", 1), ("b", 1), ("gone", 1))
    step = advance(store, EVERYTHING, begin_snapshot(store, EVERYTHING, store.revision), held=held)
    assert told(step) == [(ADDED, "b"), (ADDED, "c")]
    assert step.is_coalesced
    assert step.outcome is Outcome.AT_HEAD
    assert held.take(GROUP) == [object_id("uid-gone")]


def test_what_is_held_and_does_not_pass_has_left() -> None:
    """What is not held and does not pass is not spoken of."""
    store, _ = make_store(thing("a", 1, "tin"), thing("b", 2, "tin"), thing("c", 3))
    held = known(("a", 1), ("c", 3))
    step = advance(store, GOLD, begin_snapshot(store, GOLD, store.revision), held=held)
    assert told(step) == [(LEFT, "a")]
    assert step.events[0].left_reason is LeftReason.SELECTION
    assert held.groups == []


def test_what_waits_for_the_next_step_is_not_forgotten() -> None:
    """A step that is full leaves it for the next."""
    store, _ = make_store(*(thing(name, 1, "tin") for name in "abc"))
    held = known(("a", 1), ("b", 1), ("c", 1))
    cursor = begin_snapshot(store, GOLD, store.revision)
    names: list[tuple[EventKind, str]] = []
    while cursor.walk is not None:
        step = advance(store, GOLD, cursor, Limits(events=1), held)
        names += told(step)
        cursor = step.cursor
    assert names == [(LEFT, "a"), (LEFT, "b"), (LEFT, "c")]


def test_ends_come_also_of_what_is_not_walked_yet() -> None:
    """The reader may hold it."""
    store, source = make_store(thing("a", 1), thing("b", 1))
    held = known(("a", 1), ("b", 1))
    cursor = begin_snapshot(store, EVERYTHING, store.revision)
    store.apply(source, [Remove(thing("b", 10)), Upsert(thing("c", 11))], 2.0)
    step = advance(store, EVERYTHING, cursor, held=held)
    assert told(step) == [(DELETED, "b"), (ADDED, "c")]
    assert held.groups == []


def test_what_a_late_source_holds_is_compared_too() -> None:
    """It is walked when it has synced, and the reader may hold some of it."""
    store, _ = make_store()
    held = known(("a", 1), ("b", 1), ("c", 1))
    cursor = begin_snapshot(store, EVERYTHING, store.revision)
    late = store.add_source(source_spec(namespace="team-a", label_selector="late=yes"))
    late.served = served()
    late.stage([thing("a", 1), thing("b", 2), thing("c", 1)])
    store.commit(late, 2.0, "12")
    first = advance(store, EVERYTHING, cursor, Limits(scanned=3), held)
    store.apply(late, [Remove(thing("c", 13))], 2.0)
    store.resolve(late, late.unverified[0], 2.0, is_deleted=True)
    second = advance(store, EVERYTHING, first.cursor, held=held)
    assert told(first) + told(second) == [(ADDED, "b"), (DELETED, "c")]


def test_by_versions_only_what_has_changed_since_is_sent() -> None:
    """To who was told everything up to an upstream version, and filtered as then."""
    store, source = make_store(thing("a", 5), thing("b", 7), thing("c", 8, "tin"))
    held = Past({source: "6"})
    step = advance(store, GOLD, begin_snapshot(store, GOLD, store.revision), held=held)
    assert told(step) == [(ADDED, "b"), (LEFT, "c")]


def test_the_end_of_what_no_longer_passes_is_told_to_who_may_hold_it() -> None:
    """It passed when the reader was told of it, in another life, and nobody here knows."""
    store, source = make_store(thing("a", 8, "tin"), thing("b", 8, "tin"))
    revision = store.revision
    store.apply(source, [Remove(thing("a", 9, "tin"))], 2.0)
    held = Past({source: "6"})
    step = advance(store, GOLD, begin_snapshot(store, GOLD, revision), held=held)
    assert told(step) == [(DELETED, "a"), (LEFT, "b")]
    elsewhere = Filter(namespaces=("team-b",), label_selector="tier=gold")
    step = advance(store, elsewhere, begin_snapshot(store, elsewhere, revision), held=held)
    assert told(step) == []


def test_who_falls_behind_with_a_difference_still_gets_it() -> None:
    """It goes on with its walk, and catches up with what changed meanwhile."""
    store, source = make_store(*(thing(name, 1) for name in "abcd"))
    held = known(*((name, 1) for name in "abcd"))
    cursor = begin_snapshot(store, EVERYTHING, store.revision)
    first = advance(store, EVERYTHING, cursor, Limits(scanned=2), held)
    for version in range(10, 200):
        store.apply(source, [Upsert(thing("a", version))], 2.0)
    store.apply(source, [Remove(thing("d", 200))], 2.0)
    assert not store.history.covers(first.cursor.revision)
    second = advance(store, EVERYTHING, first.cursor, held=held)
    assert told(first) == []
    assert told(second) == [(MODIFIED, "a"), (DELETED, "d")]
    assert held.groups == []


COMES_BACK = [reason for reason in LeftReason if reason is not LeftReason.SELECTION]


@pytest.mark.parametrize("reason", COMES_BACK)
@pytest.mark.parametrize("is_back", [False, True])
def test_who_is_given_by_versions_is_not_told_of_what_may_come_back_as_it_was(
    reason: LeftReason, is_back: bool
) -> None:
    """It begins anew: with its old token it would hold again, by its versions, what it then lacks.

    Found by a storm: rights were revoked and granted while readers came back after a restart.
    """
    store, source = make_store(thing("a", 5))
    cursor = begin_snapshot(store, EVERYTHING, store.revision)
    store.purge(source, reason, 2.0)
    if is_back:
        source.served = served()
        source.stage([thing("a", 5)])
        store.commit(source, 3.0, "6")
    step = advance(store, EVERYTHING, cursor, held=Past({source: "6"}))
    assert (step.outcome, told(step)) == (Outcome.EXPIRED, [])


def test_nor_is_who_falls_behind_meanwhile() -> None:
    """Also where the history no longer has it, and only the end itself is left."""
    store, source = make_store(thing("a", 5))
    other = store.add_source(source_spec(namespace="team-b"))
    other.served = served()
    other.stage([])
    store.commit(other, 1.0, "6")
    cursor = begin_snapshot(store, EVERYTHING, store.revision)
    store.purge(source, LeftReason.RIGHTS_REVOKED, 2.0)
    for version in range(10, 200):
        store.apply(other, [Upsert(item("b", namespace="team-b", version=str(version)))], 2.0)
    assert not store.history.covers(cursor.revision)
    step = advance(store, EVERYTHING, cursor, held=Past({source: "6", other: "6"}))
    assert (step.outcome, told(step)) == (Outcome.EXPIRED, [])


def test_a_storage_that_is_set_back_meanwhile_makes_versions_say_nothing() -> None:
    """What is old by its version may be newer than what the reader holds, or be there again."""
    store, source = make_store(thing("a", 8), thing("b", 2))
    store.note_position(source, "9")
    cursor = begin_snapshot(store, EVERYTHING, store.revision)
    source.stage([thing("a", 3), thing("b", 2)])
    store.commit(source, 2.0, "4")
    step = advance(store, EVERYTHING, cursor, held=Past({source: "9"}))
    assert told(step) == [(ADDED, "a"), (ADDED, "b")]


def test_who_says_what_it_holds_is_told_of_that_as_well() -> None:
    """It says so anew when it comes again."""
    store, source = make_store(thing("a", 5))
    cursor = begin_snapshot(store, EVERYTHING, store.revision)
    store.purge(source, LeftReason.RIGHTS_REVOKED, 2.0)
    step = advance(store, EVERYTHING, cursor, held=known(("a", 5)))
    assert told(step) == [(LEFT, "a")]
