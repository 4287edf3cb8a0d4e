"""Index paths in the store: what an index finds is what a scan finds, whatever has happened."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.items import item, source_spec
from watchcache_server.informer.cursors import Advance, Cursor, Outcome
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.objects import Item, Remove, Upsert
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Store
from watchcache_server.informer.subscription import advance, begin_snapshot, resume
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import EventKind, LeftReason

NODE = "spec.nodeName"
PHASE = "status.phase"
BY_NODE = source_spec(indexes=(NODE,))
ON_N1 = Filter(fields=((NODE, "n1"),))
ELSEWHERE = Filter(clusters=("edge",), fields=((NODE, "n1"),))


def pod(
    name: str = "web", node: str = "n1", *, version: str = "1", uid: str = "", phase: str = ""
) -> Item:
    """Make a pod on a node."""
    body = {"spec": {"nodeName": node}, "status": {"phase": phase}}
    return item(name, uid=uid or f"uid-{name}", version=version, body=json.dumps(body).encode())


def make_store(*, max_changes: int = 1000) -> Store:
    """Make an empty store."""
    return Store(b"epoch-01", max_changes=max_changes, max_history_bytes=1 << 20)


def add(store: Store, spec: SourceSpec, *objects: Item, version: str = "") -> Source:
    """Add a source that has synced."""
    source = store.add_source(spec)
    source.stage(objects)
    store.commit(source, 1.0, version)
    return source


def names(store: Store, wanted: Filter) -> list[str]:
    """Return the names of what passes."""
    return [found.entry.name for found in store.objects(wanted)]


def told(answer: Advance) -> list[tuple[EventKind, str, LeftReason | None]]:
    """Say what a reader is told."""
    return [(each.kind, each.entry.name, each.left_reason) for each in answer.events]


# Filters


def test_values_of_one_path_are_joined_by_or_and_paths_by_and() -> None:
    """As in the rest of a filter."""
    wanted = Filter(fields=((NODE, "n1"), (NODE, "n2"), (PHASE, "Running")))
    both = (NODE, "n2", PHASE, "Running")
    assert wanted.passes("a", (), both)
    assert not wanted.passes("a", (), (NODE, "n3", PHASE, "Running"))
    assert not wanted.passes("a", (), (NODE, "n1"))
    assert not wanted.passes("a", ())
    assert not wanted.passes_all_objects


def test_a_source_without_the_path_does_not_pass() -> None:
    """It says nothing of such values, whatever its objects hold."""
    assert ON_N1.passes_source(Source(1, BY_NODE))
    assert not ON_N1.passes_source(Source(1, source_spec()))
    assert ON_N1.covers(Source(1, source_spec()))


def test_filters_without_fields_keep_their_digest() -> None:
    """Tokens of before there were index paths go on; with them it is another filter."""
    assert EVERYTHING.digest.hex() == "4987427dcf5e49a9"
    assert len({EVERYTHING.digest, ON_N1.digest, Filter(fields=((NODE, "n2"),)).digest}) == 3


def test_indexes_do_not_change_what_a_source_reads() -> None:
    """So a token of before they were declared leads on."""
    assert Source(1, BY_NODE).identity == Source(2, source_spec()).identity
    assert Source(1, BY_NODE).identity != Source(2, source_spec("nodes")).identity


# Content


def test_without_indexes_an_entry_holds_nothing() -> None:
    """The one empty tuple."""
    store = make_store()
    source = add(store, source_spec(), pod())
    [entry] = source.table
    assert entry.fields is ()  # noqa: F632 (that there is one is the rule)


def test_values_that_are_left_out_are_counted() -> None:
    """Of an object with more of them than the store keeps."""
    store = Store(b"epoch-01", max_changes=9, max_history_bytes=1 << 20, most_index_values=1)
    source = add(store, source_spec(indexes=(NODE, PHASE)), pod(phase="Running"))
    [entry] = source.table
    assert entry.fields == (NODE, "n1")
    assert source.unindexed_count == 1


def test_what_is_left_of_an_object_that_is_gone_has_no_values() -> None:
    """Nor owners, nor a body."""
    store = make_store()
    source = add(store, BY_NODE, pod())
    [entry] = source.table
    assert entry.fields == (NODE, "n1")
    assert entry.without_body().fields == ()


@pytest.mark.parametrize("many", [3, 40], ids=["by the table", "by the index"])
def test_lists_are_in_order_and_go_on_behind_a_place(many: int) -> None:
    """Whether the index leaves little or not."""
    store = make_store()
    others = [pod(f"other-{i:02}", "n2") for i in range(many)]
    add(store, BY_NODE, *others, pod("c"), pod("a"), pod("b"))
    found = list(store.objects(ON_N1))
    assert [each.entry.name for each in found] == ["a", "b", "c"]
    rest = store.objects(ON_N1, store.position(found[0]))
    assert [each.entry.name for each in rest] == ["b", "c"]
    owned = Filter(fields=((NODE, "n2"),), namespaces=("other",))
    assert names(store, owned) == []


NODES = st.sampled_from(["n1", "n2", "n3"])
STEP = st.tuples(st.sampled_from(["put", "remove", "sync"]), st.sampled_from("abcdef"), NODES)


@given(st.lists(STEP, max_size=30), st.sets(NODES, min_size=1))
def test_an_index_finds_what_a_scan_finds(
    steps: list[tuple[str, str, str]], nodes: set[str]
) -> None:
    """After any changes, deletions and relists; and readers with the filter hold the same."""
    store = make_store(max_changes=8)
    source = add(store, BY_NODE)
    wanted = Filter(fields=tuple((NODE, node) for node in sorted(nodes)))
    cursor, held = begin_snapshot(store, wanted), dict[str, str]()
    for version, (step, name, node) in enumerate(steps, 2):
        changed = pod(name, node, version=str(version))
        if step == "put":
            store.apply(source, [Upsert(changed)], 1.0)
        elif step == "remove":
            store.apply(source, [Remove(changed)], 1.0)
        else:
            source.stage([changed])
            store.commit(source, 1.0)
        if version % 3 == 0:
            cursor = _follow(store, wanted, cursor, held)
    _follow(store, wanted, cursor, held)
    scanned = {
        entry.name: entry.resource_version
        for entry in source.table
        if json.loads(entry.body())["spec"]["nodeName"] in nodes
    }
    assert names(store, wanted) == sorted(scanned)
    assert held == scanned
    holding = source._live
    by_index = holding.fields.after([(NODE, node) for node in nodes], "", "")
    assert [entry.name for entry in by_index] == sorted(scanned)
    assert len(holding.fields) == len({entry.fields for entry in source.table})


def _follow(store: Store, wanted: Filter, cursor: Cursor, held: dict[str, str]) -> Cursor:
    """Apply what comes to what is held."""
    outcome = Outcome.MORE
    while outcome is Outcome.MORE:
        answer = advance(store, wanted, cursor)
        cursor, outcome = answer.cursor, answer.outcome
        for event in answer.events:
            if event.kind in (EventKind.ADDED, EventKind.MODIFIED):
                held[event.entry.name] = event.entry.resource_version
            else:
                held.pop(event.entry.name, None)
    assert outcome is Outcome.AT_HEAD
    return cursor


# Changes


def test_an_object_comes_and_goes_with_its_value() -> None:
    """ADDED when it begins to match, LEFT when it ceases to; that it is deleted is no news then."""
    store = make_store()
    source = add(store, BY_NODE, pod(node=""))
    cursor = begin_snapshot(store, ON_N1)
    steps = [
        (Upsert(pod(node="n1", version="2")), [(EventKind.ADDED, "web", None)]),
        (Upsert(pod(node="n1", version="3")), [(EventKind.MODIFIED, "web", None)]),
        (Upsert(pod(node="n2", version="4")), [(EventKind.LEFT, "web", LeftReason.SELECTION)]),
        (Upsert(pod(node="n2", version="5")), []),
        (Remove(pod(node="n2", version="6")), []),
        (Upsert(pod(node="n1", version="7", uid="new")), [(EventKind.ADDED, "web", None)]),
        (Remove(pod(node="n1", version="8", uid="new")), [(EventKind.DELETED, "web", None)]),
    ]
    cursor = advance(store, ON_N1, cursor).cursor
    for delta, expected in steps:
        store.apply(source, [delta], 1.0)
        answer = advance(store, ON_N1, cursor)
        assert told(answer) == expected
        cursor = answer.cursor


# Another set of paths


@pytest.mark.parametrize(
    ("before", "after", "wanted", "is_lost", "is_lost_behind"),
    [
        pytest.param((), (NODE,), ON_N1, True, True, id="a path that is added"),
        pytest.param((NODE,), (), ON_N1, True, True, id="a path that is gone"),
        pytest.param((NODE,), (NODE, PHASE), ON_N1, False, True, id="a path that stays"),
        pytest.param((), (NODE,), EVERYTHING, False, True, id="a reader of everything"),
        pytest.param((), (NODE,), ELSEWHERE, False, False, id="a reader of something else"),
    ],
)
def test_who_filters_by_a_path_that_changes_begins_anew(
    before: tuple[str, ...],
    after: tuple[str, ...],
    wanted: Filter,
    is_lost: bool,
    is_lost_behind: bool,
) -> None:
    """When the objects pass over. Others that keep up are told nothing.

    Who catches up begins anew whenever objects have moved.
    """
    store = make_store()
    old = add(store, source_spec(indexes=before), pod())
    told_up_to = store.revision
    old.is_retiring = True
    successor = add(store, source_spec(indexes=after), pod(), version="1")
    answer = advance(store, wanted, resume(store, told_up_to))
    assert (answer.outcome is Outcome.EXPIRED) is is_lost
    assert told(answer) == []
    behind = advance(store, wanted, resume(store, told_up_to, told_up_to))
    assert (behind.outcome is Outcome.EXPIRED) is is_lost_behind
    assert [NODE in entry.fields for entry in successor.table] == [NODE in after]
    again = advance(store, wanted, begin_snapshot(store, wanted))
    is_in_view = wanted.passes_source(successor)
    assert [each.entry.name for each in again.events] == ["web"] * is_in_view


def test_a_change_that_moves_one_object_is_the_end_for_who_filters_by_the_path() -> None:
    """Objects also pass over one by one, after the first sync."""
    store = make_store()
    old = add(store, source_spec(), pod())
    old.is_retiring = True
    successor = add(store, BY_NODE, version="")
    cursor = resume(store, store.revision)
    store.apply(successor, [Upsert(pod())], 1.0)
    assert advance(store, EVERYTHING, cursor).outcome is Outcome.AT_HEAD
    assert advance(store, ON_N1, cursor).outcome is Outcome.EXPIRED


def test_what_runs_ahead_has_the_values_of_its_new_source() -> None:
    """An object that the old source knows in a newer form is read for the paths of the new one."""
    store = make_store()
    old = add(store, source_spec(), pod(node="n1", version="9"))
    old.is_retiring = True
    successor = add(store, BY_NODE, pod(node="n2", version="3"), version="3")
    [entry] = successor.table
    assert (entry.resource_version, entry.fields) == ("9", (NODE, "n1"))
    assert names(store, ON_N1) == ["web"]
