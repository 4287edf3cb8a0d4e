"""Catching up: a reader that the history has overtaken learns the latest of what has changed."""

from __future__ import annotations

import pytest

from tests.items import item, source_spec
from watchcache_server.informer.cursors import Advance, Cursor, Limits, Outcome
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.objects import Item, Remove, Upsert
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Store
from watchcache_server.informer.subscription import advance, begin_snapshot, resume
from watchcache_server.model.states import EventKind, LeftReason

ADDED, MODIFIED, DELETED, LEFT = EventKind
GOLD = Filter(label_selector="tier=gold")


def make_store(*objects: Item, max_changes: int = 3) -> tuple[Store, Source]:
    """Make a store with a short history and one source that has synced."""
    store = Store(b"epoch-01", max_changes=max_changes, max_history_bytes=1 << 20)
    source = store.add_source(source_spec())
    source.stage(objects)
    store.commit(source, 1.0)
    return store, source


def thing(name: str, version: int, *, tier: str = "", uid: str = "") -> Item:
    """Make an object; its uid follows from its name unless one is given."""
    labels = {"tier": tier} if tier else {}
    return item(name, uid=uid or f"uid-{name}", version=str(version), labels=labels)


def churn(store: Store, source: Source, count: int = 5) -> None:
    """Change an object that nobody here asks for, until the history has forgotten the rest."""
    for _ in range(count):
        version = store.revision + 100
        store.apply(source, [Upsert(thing("noise", version))], 2.0)


def told(step: Advance) -> list[tuple[EventKind, str, str]]:
    """Say kind, uid and version of each event, but for the noise."""
    return [
        (event.kind, event.entry.uid, event.entry.resource_version)
        for event in step.events
        if event.entry.name != "noise"
    ]


def test_who_is_overtaken_is_told_the_latest_of_each_object() -> None:
    """In one go to the present, where it is a reader like any other again."""
    store, source = make_store(thing("a", 1), thing("b", 1), thing("c", 1), thing("noise", 1))
    behind = Cursor(store.revision)
    for version in (2, 3, 4):
        store.apply(source, [Upsert(thing("a", version))], 2.0)
    store.apply(source, [Remove(thing("b", 5)), Upsert(thing("d", 6))], 2.0)
    churn(store, source)
    step = advance(store, EVERYTHING, behind)
    assert told(step) == [
        (MODIFIED, "uid-a", "4"),
        (DELETED, "uid-b", "5"),
        (ADDED, "uid-d", "6"),
    ]
    assert step.is_coalesced
    assert (step.outcome, step.cursor) == (Outcome.AT_HEAD, Cursor(store.revision))
    assert not advance(store, EVERYTHING, step.cursor).is_coalesced


def test_delete_and_recreate_are_two_events() -> None:
    """The end of the old object is told before the beginning of the new."""
    store, source = make_store(thing("a", 1), thing("noise", 1))
    behind = Cursor(store.revision)
    store.apply(source, [Remove(thing("a", 2)), Upsert(thing("a", 3, uid="uid-new"))], 2.0)
    churn(store, source)
    step = advance(store, EVERYTHING, behind)
    assert told(step) == [(DELETED, "uid-a", "2"), (ADDED, "uid-new", "3")]


def test_what_came_and_went_unseen_is_not_told() -> None:
    """Its reader never knew of it."""
    store, source = make_store(thing("noise", 1))
    behind = Cursor(store.revision)
    store.apply(source, [Upsert(thing("a", 2)), Remove(thing("a", 3))], 2.0)
    churn(store, source)
    assert told(advance(store, EVERYTHING, behind)) == []


def test_what_was_told_on_the_way_is_also_told_to_be_gone() -> None:
    """Though it was unknown when the reader fell behind."""
    store, source = make_store(thing("noise", 1))
    behind = Cursor(store.revision)
    store.apply(source, [Upsert(thing("a", 2)), Upsert(thing("b", 3))], 2.0)
    churn(store, source)
    first = advance(store, EVERYTHING, behind, Limits(events=1))
    assert told(first) == [(ADDED, "uid-a", "2")]
    assert first.cursor.behind_since == behind.revision
    store.apply(source, [Remove(thing("a", 4)), Remove(thing("b", 5))], 2.0)
    churn(store, source)
    assert told(advance(store, EVERYTHING, first.cursor)) == [(DELETED, "uid-a", "4")]


def test_what_a_lost_stream_may_have_told_is_told_to_be_gone() -> None:
    """The reader came back with an older token; what it was sent beyond that it may hold."""
    store, source = make_store(thing("noise", 1))
    behind = resume(store, store.revision)
    store.apply(source, [Upsert(thing("a", 2))], 2.0)
    churn(store, source)
    assert told(advance(store, EVERYTHING, behind, Limits(events=1))) == [(ADDED, "uid-a", "2")]
    back = resume(store, behind.revision, behind_since=behind.revision)
    store.apply(source, [Remove(thing("a", 3))], 2.0)
    churn(store, source)
    assert told(advance(store, EVERYTHING, back)) == [(DELETED, "uid-a", "3")]


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        pytest.param(("gold", "gold"), [(MODIFIED, "uid-a", "3")], id="still"),
        pytest.param(("gold", "tin"), [(LEFT, "uid-a", "3")], id="no longer"),
        pytest.param(("tin", "gold"), [(MODIFIED, "uid-a", "3")], id="now"),
        pytest.param(("tin", "tin"), [(LEFT, "uid-a", "3")], id="never"),
    ],
)
def test_what_does_not_pass_the_filter_has_left(
    tiers: tuple[str, str], expected: list[tuple[EventKind, str, str]]
) -> None:
    """What its reader held of it is not known any more, so it is said in any case."""
    before, after = tiers
    store, source = make_store(thing("a", 1, tier=before), thing("noise", 1))
    behind = Cursor(store.revision)
    store.apply(source, [Upsert(thing("a", 2)), Upsert(thing("a", 3, tier=after))], 2.0)
    churn(store, source)
    step = advance(store, GOLD, behind)
    assert told(step) == expected
    reasons = [event.left_reason for event in step.events if event.entry.name == "a"]
    assert reasons == [LeftReason.SELECTION if kind is LEFT else None for kind, _, _ in expected]


def test_other_namespaces_are_not_spoken_of() -> None:
    """The namespace of an object never changes, so it was never in view."""
    store, source = make_store(thing("a", 1), thing("noise", 1))
    behind = Cursor(store.revision)
    store.apply(source, [Remove(thing("a", 2))], 2.0)
    churn(store, source)
    elsewhere = Filter(namespaces=("team-b",))
    assert advance(store, elsewhere, behind).events == ()


def test_a_snapshot_that_is_overtaken_goes_on() -> None:
    """So it ends, however slow its reader; what changes meanwhile comes after it, once."""
    store, source = make_store(*(thing(name, 1) for name in "abcd"), thing("noise", 1))
    first = advance(store, EVERYTHING, begin_snapshot(store, EVERYTHING), Limits(events=2))
    assert told(first) == [(ADDED, "uid-a", "1"), (ADDED, "uid-b", "1")]
    store.apply(source, [Upsert(thing("a", 2)), Upsert(thing("c", 3))], 2.0)
    store.apply(source, [Remove(thing("b", 4))], 2.0)
    churn(store, source)
    rest = advance(store, EVERYTHING, first.cursor)
    assert told(rest) == [
        (ADDED, "uid-d", "1"),
        (MODIFIED, "uid-a", "2"),
        (MODIFIED, "uid-c", "3"),
        (DELETED, "uid-b", "4"),
    ]
    assert rest.is_coalesced
    assert rest.outcome is Outcome.AT_HEAD


def test_a_source_that_synced_meanwhile_is_walked() -> None:
    """At its place among the changes; what changed since then comes later."""
    store, source = make_store(thing("noise", 1))
    behind = Cursor(store.revision)
    late = store.add_source(source_spec("services"))
    late.stage([thing("s", 1), thing("t", 1), thing("u", 1)])
    store.commit(late, 2.0)
    store.apply(late, [Upsert(thing("t", 2))], 2.0)
    churn(store, source)
    first = advance(store, EVERYTHING, behind, Limits(events=1))
    assert told(first) == [(ADDED, "uid-s", "1")]
    store.apply(late, [Upsert(thing("u", 3))], 2.0)
    assert told(advance(store, EVERYTHING, first.cursor)) == [
        (MODIFIED, "uid-t", "2"),
        (MODIFIED, "uid-u", "3"),
    ]


def test_it_arrives_however_slowly_it_goes() -> None:
    """Each step gets on, though far more changes come between two steps than one can hold."""
    names = [f"a{number}" for number in range(20)]
    store, source = make_store(*(thing(name, 1) for name in names))
    cursor = Cursor(store.revision)
    version = 1
    held = {f"uid-{name}": "1" for name in names}
    for _ in range(10):
        for name in names:
            version += 1
            store.apply(source, [Upsert(thing(name, version))], 2.0)
        step = advance(store, EVERYTHING, cursor, Limits(events=3, scanned=7))
        held |= {event.entry.uid: event.entry.resource_version for event in step.events}
        assert step.cursor.revision > cursor.revision
        cursor = step.cursor
    steps = 0
    while cursor.behind_since is not None:
        step = advance(store, EVERYTHING, cursor, Limits(events=3, scanned=7))
        held |= {event.entry.uid: event.entry.resource_version for event in step.events}
        cursor = step.cursor
        steps += 1
    assert held == {f"uid-{e.name}": e.resource_version for e in source.table}
    assert steps < 40


def test_who_comes_from_before_all_that_is_kept_begins_anew() -> None:
    """Objects that are gone would stay with it for ever."""
    store, source = make_store(thing("a", 1))
    behind = Cursor(store.revision)
    store.purge(source, LeftReason.RIGHTS_REVOKED, 2.0)
    store.apply(source, [Upsert(thing("b", 2))], 2.0)
    assert advance(store, EVERYTHING, Cursor(behind.revision - 1)).outcome is Outcome.EXPIRED


def test_objects_that_moved_between_sources_reset_who_is_behind() -> None:
    """Where they are now says nothing of what its reader was told."""
    store, old = make_store(thing("a", 1), max_changes=4)
    behind = Cursor(store.revision, behind_since=store.revision)
    old.is_retiring = True
    new = store.add_source(source_spec(namespace="team-a"))
    new.stage([thing("a", 1)])
    store.commit(new, 2.0, "1")
    assert advance(store, EVERYTHING, behind).outcome is Outcome.EXPIRED
    assert advance(store, EVERYTHING, Cursor(behind.revision)).outcome is Outcome.AT_HEAD
