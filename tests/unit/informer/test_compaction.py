"""Compaction: what remains of changes that the history has dropped."""

from __future__ import annotations

import pytest

from tests.items import item, source_spec
from watchcache_server.informer.compaction import Compaction
from watchcache_server.informer.objects import Remove, Upsert
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Store
from watchcache_server.model.states import EventKind, LeftReason

ADDED, MODIFIED, DELETED, LEFT = EventKind


def make_store(*, max_ends: int = 1000) -> tuple[Store, Source]:
    """Make a store whose history holds one change only, with one empty source that has synced."""
    store = Store(b"epoch-01", max_changes=1, max_history_bytes=1 << 20, max_ends=max_ends)
    source = store.add_source(source_spec())
    store.commit(source, 1.0)
    return store, source


def put(store: Store, source: Source, name: str, version: int) -> None:
    """Have an object read from the stream."""
    thing = item(name, uid=f"uid-{name}", version=str(version))
    store.apply(source, [Upsert(thing)], 2.0)


def delete(store: Store, source: Source, name: str, version: int) -> None:
    """Have the end of an object read."""
    thing = item(name, uid=f"uid-{name}", version=str(version))
    store.apply(source, [Remove(thing)], 2.0)


def remaining(store: Store, revision: int = 0) -> list[tuple[int, EventKind, str]]:
    """Say revision, kind and name of what still counts."""
    return [
        (found.revision, found.change.kind, found.change.entry.name)
        for found in store.latest_since(revision)
        if found.change is not None and found.change.entry is not None
    ]


def test_only_the_latest_change_of_an_object_counts() -> None:
    """However often it changed; what is older is passed over."""
    store, source = make_store()
    for version in range(1, 6):
        put(store, source, "a", version)
    put(store, source, "b", 6)
    put(store, source, "c", 7)
    assert remaining(store) == [(5, MODIFIED, "a"), (6, MODIFIED, "b"), (7, ADDED, "c")]
    assert remaining(store, 5) == [(6, MODIFIED, "b"), (7, ADDED, "c")]


def test_the_end_of_an_object_stays_without_its_body() -> None:
    """Also when another one of its name has come; uid and version are kept."""
    store, source = make_store()
    put(store, source, "a", 1)
    delete(store, source, "a", 2)
    store.apply(source, [Upsert(item("a", uid="uid-other", version="3"))], 2.0)
    put(store, source, "b", 4)
    assert remaining(store) == [(2, DELETED, "a"), (3, MODIFIED, "a"), (4, ADDED, "b")]
    end = next(found.change for found in store.latest_since(1) if found.revision == 2)
    assert end is not None
    assert end.entry is not None
    assert (end.entry.uid, end.entry.resource_version) == ("uid-a", "2")
    assert (end.entry.raw_size, end.entry.stored) == (0, b"")


def test_without_its_oldest_ends_the_past_is_lost() -> None:
    """Who comes from before them would keep objects that are gone."""
    store, source = make_store(max_ends=3)
    for number in range(6):
        put(store, source, f"a{number}", 1)
    for number in range(5):
        assert store.covers(0)
        delete(store, source, f"a{number}", 2)
    assert [kind for _, kind, _ in remaining(store)].count(DELETED) <= 4
    assert not store.covers(0)
    assert store.covers(store.revision - 1)


def test_a_first_sync_is_kept_as_one_mark() -> None:
    """It says to walk the source; that of a source that holds nothing any more does not."""
    store, source = make_store()
    late = store.add_source(source_spec("services"))
    late.stage([item("s")])
    store.commit(late, 1.0)
    revision = store.revision
    put(store, source, "a", 1)
    marks = [found.change for found in store.latest_since(0) if found.revision == revision]
    assert [(mark.kind, mark.source, mark.entry) for mark in marks if mark] == [(ADDED, late, None)]
    store.remove_source(late, LeftReason.SCOPE, 2.0)
    assert [found.change for found in store.latest_since(0) if found.revision == revision] == [None]


def test_objects_that_moved_to_another_source_end_the_past() -> None:
    """Their places are wrong, so who is behind that begins anew."""
    store, old = make_store()
    put(store, old, "a", 1)
    before = store.revision
    old.is_retiring = True
    new = store.add_source(source_spec(namespace="team-a"))
    new.stage([item("a", uid="uid-a", version="1")])
    store.commit(new, 2.0, "1")
    put(store, new, "b", 2)
    put(store, new, "c", 3)
    assert not store.covers(before)
    assert [name for _, _, name in remaining(store, store.revision - 1)] == ["c"]


def test_after_a_right_was_revoked_nothing_remains() -> None:
    """Not even the names of what was read with it, but for those who were at the present."""
    store, source = make_store()
    put(store, source, "a", 1)
    put(store, source, "b", 2)
    present = store.revision
    store.purge(source, LeftReason.RIGHTS_REVOKED, 3.0)
    assert not store.covers(present - 1)
    assert [(kind, name) for _, kind, name in remaining(store, present)] == [
        (LEFT, "a"),
        (LEFT, "b"),
    ]


@pytest.mark.parametrize("name_count", [1, 300, 2000])
def test_what_is_kept_stays_below_a_small_multiple_of_what_counts(name_count: int) -> None:
    """Void places go in passing, however long the service runs."""
    store, source = make_store()
    for round_ in range(20_000 // name_count):
        for number in range(name_count):
            put(store, source, f"a{number}", round_ + 1)
    assert len(remaining(store)) == name_count
    assert len(store.compaction) <= 3 * name_count + 1024


def test_nothing_is_kept_at_first() -> None:
    """An empty compaction covers everything that came since."""
    compaction = Compaction(max_ends=1)
    assert (len(compaction), compaction.floor, list(compaction.since(0))) == (0, 0, [])
