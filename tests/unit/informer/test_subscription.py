"""Subscriptions step by step: how much a step returns, what a filter makes of a change."""

from __future__ import annotations

import pytest

from tests.items import item, source_spec
from watchcache_server.informer.cursors import Advance, Cursor, Limits, Outcome, Walk
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.objects import Item, Remove, Upsert
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Store
from watchcache_server.informer.subscription import advance, begin_snapshot, resume
from watchcache_server.model.states import EventKind, LeftReason

ADDED, MODIFIED, DELETED, LEFT = EventKind


def make_store(*objects: Item, max_changes: int = 1000) -> tuple[Store, Source]:
    """Make a store with one source that has synced."""
    store = Store(b"epoch-01", max_changes=max_changes, max_history_bytes=1 << 20)
    source = store.add_source(source_spec())
    source.stage(objects)
    store.commit(source, 1.0)
    return store, source


def told(step: Advance) -> list[tuple[EventKind, str]]:
    """Say kind and name of each event."""
    return [(event.kind, event.entry.name) for event in step.events]


def three() -> list[Item]:
    """Make three objects."""
    return [item(name, body=b"x" * 100) for name in ("a", "b", "c")]


# Snapshots


def test_snapshot_of_an_empty_store_is_at_the_head_at_once() -> None:
    """There is nothing to walk."""
    store = Store(b"epoch-01", max_changes=10, max_history_bytes=1000)
    cursor = begin_snapshot(store, EVERYTHING)
    assert cursor == Cursor(0)
    assert advance(store, EVERYTHING, cursor) == Advance((), cursor, Outcome.AT_HEAD, None)


def test_snapshot_brings_every_object_as_added() -> None:
    """With the revision at which each last changed; how old the bytes are is not asked."""
    store, source = make_store(*three())
    store.apply(source, [Upsert(item("b", version="2"))], 2.0)
    step = advance(store, EVERYTHING, begin_snapshot(store, EVERYTHING))
    assert told(step) == [(ADDED, "a"), (ADDED, "b"), (ADDED, "c")]
    assert [event.revision for event in step.events] == [1, 2, 1]
    assert (step.outcome, step.cursor, step.oldest_read_at) == (Outcome.AT_HEAD, Cursor(2), None)


def test_snapshot_goes_through_sources_in_the_order_of_lists() -> None:
    """Sources that do not pass, or have not synced, are not walked."""
    store, pods = make_store(item("p"))
    services = store.add_source(source_spec("services"))
    store.add_source(source_spec("configmaps"))
    services.stage([item("s")])
    store.commit(services, 1.0)
    cursor = begin_snapshot(store, EVERYTHING)
    assert cursor.walk == Walk((pods.number, services.number))
    assert told(advance(store, EVERYTHING, cursor)) == [(ADDED, "p"), (ADDED, "s")]
    only = Filter(resources=(("", "services"),))
    assert begin_snapshot(store, only).walk == Walk((services.number,))


# Limits


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param(Limits(), [3], id="all at once"),
        pytest.param(Limits(events=2), [2, 1], id="two events"),
        pytest.param(Limits(events=1), [1, 1, 1], id="one event"),
        pytest.param(Limits(raw_bytes=200), [2, 1], id="exactly two bodies"),
        pytest.param(Limits(raw_bytes=199), [1, 1, 1], id="nearly two bodies"),
        pytest.param(Limits(raw_bytes=1), [1, 1, 1], id="less than one body"),
        pytest.param(Limits(scanned=2), [2, 1], id="two looked at"),
    ],
)
@pytest.mark.parametrize("is_walk", [True, False], ids=["snapshot", "changes"])
def test_step_is_bounded(limits: Limits, expected: list[int], is_walk: bool) -> None:
    """A step ends at the first bound, always brings one event, and the last says AT_HEAD."""
    if is_walk:
        store, _ = make_store(*three())
        cursor = begin_snapshot(store, EVERYTHING)
    else:
        store, source = make_store()
        cursor = Cursor(store.revision)
        store.apply(source, map(Upsert, three()), 2.0)
    sizes = []
    names = []
    while True:
        step = advance(store, EVERYTHING, cursor, limits)
        sizes.append(len(step.events))
        names += [event.entry.name for event in step.events]
        cursor = step.cursor
        if step.outcome is Outcome.AT_HEAD:
            break
        assert step.outcome is Outcome.MORE
    assert [size for size in sizes if size] == expected
    assert names == ["a", "b", "c"]


def test_changes_of_others_are_passed_over_in_bounded_steps() -> None:
    """A reader whose filter lets nothing through moves on, without an event and not for ever."""
    store, source = make_store()
    cursor = begin_snapshot(store, EVERYTHING)
    store.apply(source, (Upsert(item("a", version=str(i))) for i in range(1, 11)), 2.0)
    wanted = Filter(namespaces=("elsewhere",))
    revisions = []
    for _ in range(3):
        step = advance(store, wanted, cursor, Limits(scanned=4))
        assert step.events == ()
        cursor = step.cursor
        revisions.append(cursor.revision)
    assert revisions == [4, 8, 10]
    assert advance(store, wanted, cursor).outcome is Outcome.AT_HEAD


def test_step_says_when_its_oldest_change_was_read() -> None:
    """From it the latency of a batch is measured; changes that do not pass do not count."""
    store, source = make_store()
    cursor = Cursor(store.revision)
    store.apply(source, [Upsert(item("a", namespace="other"))], 5.0)
    store.apply(source, [Upsert(item("b"))], 6.0)
    store.apply(source, [Upsert(item("c"))], 7.0)
    assert advance(store, EVERYTHING, cursor).oldest_read_at == 5.0
    assert advance(store, Filter(namespaces=("team-a",)), cursor).oldest_read_at == 6.0
    assert advance(store, EVERYTHING, Cursor(store.revision)).oldest_read_at is None


# What a filter makes of a change

WEB = {"app": "web"}
DB = {"app": "db"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(WEB, WEB, MODIFIED, id="selected before and after"),
        pytest.param(DB, WEB, ADDED, id="begins to match"),
        pytest.param(WEB, DB, LEFT, id="ceases to match"),
        pytest.param(DB, DB, None, id="never matched"),
        pytest.param(None, WEB, ADDED, id="created, matching"),
        pytest.param(None, DB, None, id="created, not matching"),
        pytest.param(WEB, None, DELETED, id="deleted, matching"),
        pytest.param(DB, None, None, id="deleted, not matching"),
    ],
)
def test_change_as_a_label_selector_sees_it(
    before: dict[str, str] | None, after: dict[str, str] | None, expected: EventKind | None
) -> None:
    """What enters a selection is ADDED, what leaves it has LEFT, and only a deletion is DELETED."""
    store, source = make_store(*([] if before is None else [item(labels=before)]))
    cursor = Cursor(store.revision)
    if after is None:
        # The last content may have other labels than the subscriber ever saw.
        store.apply(source, [Remove(item(version="2", labels=WEB))], 2.0)
    else:
        store.apply(source, [Upsert(item(version="2", labels=after))], 2.0)
    step = advance(store, Filter(label_selector="app=web"), cursor)
    assert [event.kind for event in step.events] == ([] if expected is None else [expected])
    for event in step.events:
        assert event.left_reason is (LeftReason.SELECTION if expected is LEFT else None)
        assert event.revision == store.revision


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [pytest.param("team-a", 1, id="its own"), pytest.param("team-b", 0, id="another")],
)
def test_change_as_a_namespace_filter_sees_it(namespace: str, expected: int) -> None:
    """An object never changes its namespace, so it passes for life or not at all."""
    store, source = make_store(item())
    cursor = Cursor(store.revision)
    store.purge(source, LeftReason.RIGHTS_REVOKED, 2.0)
    step = advance(store, Filter(namespaces=(namespace,)), cursor)
    assert len(step.events) == expected
    assert all(event.left_reason is LeftReason.RIGHTS_REVOKED for event in step.events)


def test_change_of_a_source_that_does_not_pass_is_not_seen() -> None:
    """Neither its objects, nor its first sync."""
    store, source = make_store()
    wanted = Filter(resources=(("", "services"),))
    cursor = begin_snapshot(store, wanted)
    store.apply(source, [Upsert(item())], 2.0)
    other = store.add_source(source_spec("configmaps"))
    other.stage([item()])
    store.commit(other, 3.0)
    step = advance(store, wanted, cursor)
    assert (step.events, step.cursor) == ((), Cursor(store.revision))


# Changes during a snapshot


def test_only_changes_behind_the_walk_are_told() -> None:
    """What the walk has not reached yet it will find as it is then."""
    store, source = make_store(*three())
    first = advance(store, EVERYTHING, begin_snapshot(store, EVERYTHING), Limits(events=1))
    assert told(first) == [(ADDED, "a")]
    store.apply(
        source,
        [
            Upsert(item("a", version="2")),
            Upsert(item("b", version="2")),
            Remove(item("c", version="3")),
            Upsert(item("0")),
            Upsert(item("d")),
        ],
        2.0,
    )
    second = advance(store, EVERYTHING, first.cursor)
    assert told(second) == [(MODIFIED, "a"), (ADDED, "0"), (ADDED, "b"), (ADDED, "d")]
    assert second.outcome is Outcome.AT_HEAD


def test_change_of_a_source_that_is_still_to_be_walked_is_not_told() -> None:
    """And one of a source that was walked is."""
    store, pods = make_store(item("p"))
    services = store.add_source(source_spec("services"))
    services.stage([item("s1"), item("s2")])
    store.commit(services, 1.0)
    first = advance(store, EVERYTHING, begin_snapshot(store, EVERYTHING), Limits(events=1))
    store.apply(services, [Upsert(item("s1", version="2"))], 2.0)
    second = advance(store, EVERYTHING, first.cursor, Limits(events=1))
    assert told(second) == [(ADDED, "s1")]
    store.apply(pods, [Upsert(item("p", version="2"))], 2.0)
    assert told(advance(store, EVERYTHING, second.cursor)) == [(MODIFIED, "p"), (ADDED, "s2")]


def test_source_that_syncs_later_is_walked_then() -> None:
    """At the head, in the middle of another walk, or when it is waiting to be walked already."""
    store, _ = make_store(*three())
    late = store.add_source(source_spec("services"))
    walking = advance(store, EVERYTHING, begin_snapshot(store, EVERYTHING), Limits(events=1))
    at_head = advance(store, EVERYTHING, walking.cursor)
    late.stage([item("s")])
    store.commit(late, 2.0)
    assert told(advance(store, EVERYTHING, at_head.cursor)) == [(ADDED, "s")]
    names = [name for _, name in told(advance(store, EVERYTHING, walking.cursor))]
    assert names == ["b", "c", "s"]
    fresh = begin_snapshot(store, EVERYTHING)
    waiting = advance(store, EVERYTHING, fresh, Limits(events=1)).cursor
    store.purge(late, LeftReason.KIND_GONE, 3.0)
    late.stage([item("s")])
    store.commit(late, 4.0)
    names = [name for _, name in told(advance(store, EVERYTHING, waiting))]
    assert names == ["b", "c", "s"]


def test_source_that_syncs_anew_under_the_walk_is_walked_again() -> None:
    """What was told of it has LEFT, and all of it comes again."""
    store, source = make_store(*three())
    first = advance(store, EVERYTHING, begin_snapshot(store, EVERYTHING), Limits(events=2))
    store.purge(source, LeftReason.KIND_GONE, 2.0)
    source.stage(three())
    store.commit(source, 3.0)
    second = advance(store, EVERYTHING, first.cursor)
    assert told(second) == [
        (LEFT, "a"),
        (LEFT, "b"),
        (ADDED, "a"),
        (ADDED, "b"),
        (ADDED, "c"),
    ]


def test_source_that_was_removed_under_the_walk_is_passed_over() -> None:
    """What was told of it has LEFT; the walk goes on with the next one."""
    store, source = make_store(*three())
    services = store.add_source(source_spec("services"))
    services.stage([item("s")])
    store.commit(services, 1.0)
    first = advance(store, EVERYTHING, begin_snapshot(store, EVERYTHING), Limits(events=1))
    store.remove_source(source, LeftReason.SCOPE, 2.0)
    second = advance(store, EVERYTHING, first.cursor)
    assert told(second) == [(LEFT, "a"), (ADDED, "s")]
    assert second.events[0].left_reason is LeftReason.SCOPE


# Places that never were


def test_cursor_from_the_future_has_expired() -> None:
    """A place that has never been continues nothing, though a token may claim it."""
    store, _ = make_store(item())
    future = Cursor(store.revision + 1)
    assert advance(store, EVERYTHING, future).outcome is Outcome.EXPIRED


# Streams that come back


def test_reader_that_missed_nothing_comes_back_to_where_it_was() -> None:
    """There is nothing to repeat."""
    store, _ = make_store(item())
    cursor = resume(store, store.revision)
    assert cursor == Cursor(store.revision)
    assert advance(store, EVERYTHING, cursor).events == ()


def test_repeated_walk_also_tells_of_ends_that_it_has_not_come_to() -> None:
    """A stream was lost in the walk of a late source; what it had told may be gone by now."""
    store, source = make_store()
    token = store.revision
    late = store.add_source(source_spec("services"))
    late.stage(three())
    store.commit(late, 2.0)
    lost = advance(store, EVERYTHING, Cursor(token), Limits(events=2))
    assert told(lost) == [(ADDED, "a"), (ADDED, "b")]
    store.apply(late, [Remove(item("a", version="2")), Upsert(item("b", version="2"))], 3.0)
    store.apply(source, [Upsert(item("p"), is_addition=True)], 4.0)
    back = resume(store, token)
    assert back == Cursor(token, told_revision=store.revision)
    step = advance(store, EVERYTHING, back)
    assert told(step) == [(DELETED, "a"), (ADDED, "p"), (ADDED, "b"), (ADDED, "c")]
    assert step.cursor == Cursor(store.revision)
    store.apply(late, [Remove(item("b", version="5"))], 5.0)
    assert told(advance(store, EVERYTHING, step.cursor)) == [(DELETED, "b")]


def test_walk_of_a_source_that_synced_after_the_return_is_not_repeated() -> None:
    """Nobody can have been told of it, so its deletions before it is walked are of no interest."""
    store, source = make_store()
    token = store.revision
    store.apply(source, [Upsert(item("p"), is_addition=True)], 2.0)
    back = resume(store, token)
    late = store.add_source(source_spec("services"))
    late.stage(three())
    store.commit(late, 3.0)
    store.apply(late, [Remove(item("a", version="2"))], 4.0)
    assert told(advance(store, EVERYTHING, back)) == [(ADDED, "p"), (ADDED, "b"), (ADDED, "c")]
