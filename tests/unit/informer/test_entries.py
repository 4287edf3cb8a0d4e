"""Entries keep what identifies an object; tables keep them in order however they come and go."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.items import item
from tests.realistic import pod
from watchcache_server.informer.compression import PLAIN, Codec, train
from watchcache_server.informer.entries import Entry, OwnerIndex, Table, flat_labels
from watchcache_server.informer.texts import Texts


def entry(name: str = "web", namespace: str = "team-a", **fields: Any) -> Entry:
    """Make an entry of a small object."""
    return Entry.of(item(name, namespace=namespace, **fields), PLAIN, "v1", Texts())


def places(entries: Iterable[Entry]) -> list[tuple[str, str]]:
    """Return namespace and name of each entry."""
    return [(e.namespace, e.name) for e in entries]


# Entries


def test_entry_keeps_what_the_object_is_known_by() -> None:
    """All fields of the item arrive; the body comes back bit for bit."""
    thing = item(labels={"b": "2", "a": "1"}, owners=("o-2", "o-1"), body=b'{"a": 1.0e0}')
    made = Entry.of(thing, PLAIN, "v1beta1", Texts())
    assert (made.namespace, made.name, made.uid) == (thing.namespace, thing.name, thing.uid)
    assert (made.resource_version, made.version) == (thing.resource_version, "v1beta1")
    assert made.labels == ("a", "1", "b", "2")
    assert made.owners == ("o-2", "o-1")
    assert (made.raw_size, made.revision) == (12, 0)
    assert made.body() == b'{"a": 1.0e0}'


def test_owner_named_twice_counts_once() -> None:
    """An object may name one owner in two references."""
    assert entry(owners=("o-1", "o-2", "o-1")).owners == ("o-1", "o-2")


def test_entries_are_told_apart_by_identity() -> None:
    """Equal content does not make two entries one: each is a state of its own."""
    first, second = entry(), entry()
    assert first != second
    assert len({first, second}) == 2


def test_recode_changes_the_stored_form_only() -> None:
    """Another codec gives other stored bytes and the same body; the growth is told."""
    samples = [pod(i) for i in range(64)]
    made = Entry.of(item(body=pod(100)), PLAIN, "v1", Texts())
    before = len(made.stored)
    codec = Codec(train(samples) or b"")
    grown = made.recode(codec)
    assert grown < 0
    assert len(made.stored) == before + grown
    assert made.codec is codec
    assert made.body() == pod(100)


def test_garbage_collector_follows_no_entry() -> None:
    """A million entries must not cost a million steps of each collection."""
    table = Table()
    for i in range(3):
        table.put(entry(f"web-{i}", labels={"a": "b"}, owners=("o-1",)))
    gc.collect()
    held = list(table)
    assert not any(map(gc.is_tracked, held))
    assert not gc.is_tracked(table._rows["team-a"])


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=3)))
def test_flat_labels_are_sorted_pairs(labels: dict[str, str]) -> None:
    """Equal labels give equal tuples, in whatever order they came."""
    flat = flat_labels(labels, Texts())
    assert dict(zip(flat[::2], flat[1::2], strict=True)) == labels
    assert list(flat[::2]) == sorted(labels)
    assert flat == flat_labels(dict(reversed(labels.items())), Texts())


# Tables


def test_put_returns_what_it_replaces() -> None:
    """One place holds one entry."""
    table = Table()
    first, second = entry(), entry()
    assert table.put(first) is None
    assert table.put(second) is first
    assert table.get("team-a", "web") is second
    assert table.count == 1


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        pytest.param("team-a", "other", id="unknown name"),
        pytest.param("other", "web", id="unknown namespace"),
        pytest.param("", "web", id="no namespace"),
    ],
)
def test_unknown_place_is_empty(namespace: str, name: str) -> None:
    """Getting or removing what is not there gives None and changes nothing."""
    table = Table()
    table.put(entry())
    assert table.get(namespace, name) is None
    assert table.pop(namespace, name) is None
    assert places(table.after("", "")) == [("team-a", "web")]


def test_last_entry_takes_its_namespace_along() -> None:
    """A namespace without entries costs nothing and comes back in order."""
    table = Table()
    table.put(entry("x", "b"))
    table.put(entry("x", "a"))
    assert table.pop("b", "x") is not None
    assert table._namespaces == ["a"]
    assert table._rows.keys() == table._names.keys() == table._fresh.keys() == {"a"}
    table.put(entry("y", "b"))
    assert places(table.after("", "")) == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize("count", [1, 64, 65, 200])
def test_names_are_sorted_in_however_many_come_at_once(count: int) -> None:
    """A few new names are inserted, many are sorted in; the order is the same."""
    table = Table()
    table.put(entry("name-050x"))
    assert places(table.after("", "")) == [("team-a", "name-050x")]
    names = [f"name-{i:03d}" for i in range(count)]
    for name in reversed(names):
        table.put(entry(name))
    expected = sorted([*names, "name-050x"])
    assert places(table.after("", "")) == [("team-a", name) for name in expected]
    for name in names[1:]:
        table.pop("team-a", name)
    table.put(entry(names[-1]))
    left = sorted({names[0], names[-1], "name-050x"})
    assert places(table.after("", "")) == [("team-a", name) for name in left]


keys = st.tuples(st.sampled_from(("", "a", "b", "c")), st.sampled_from(("x", "y", "z", "zz")))


@given(
    steps=st.lists(st.tuples(st.sampled_from(("put", "pop", "walk")), keys), max_size=40),
    start=keys,
)
def test_table_is_a_sorted_dict(
    steps: list[tuple[str, tuple[str, str]]], start: tuple[str, str]
) -> None:
    """Whatever is put and removed, walked in between or not, a table equals a sorted dict."""
    table = Table()
    model: dict[tuple[str, str], Entry] = {}
    for step, (namespace, name) in steps:
        if step == "put":
            made = entry(name, namespace)
            assert table.put(made) is model.get((namespace, name))
            model[namespace, name] = made
        elif step == "pop":
            assert table.pop(namespace, name) is model.pop((namespace, name), None)
        else:
            assert places(table.after(namespace, name)) == sorted(
                key for key in model if key > (namespace, name)
            )
    assert table.count == len(model)
    assert set(table) == set(model.values())
    assert places(table.after(*start)) == sorted(key for key in model if key > start)


@given(first=st.sets(keys), second=st.sets(keys), shared=st.sets(keys))
def test_tables_are_compared_by_place_and_by_entry(
    first: set[tuple[str, str]], second: set[tuple[str, str]], shared: set[tuple[str, str]]
) -> None:
    """`missing_from` asks for the place, `unlike` for the very entry."""
    one, other = Table(), Table()
    same = {key: entry(key[1], key[0]) for key in shared}
    mine = {key: same.get(key) or entry(key[1], key[0]) for key in first}
    theirs = {key: same.get(key) or entry(key[1], key[0]) for key in second}
    for made in mine.values():
        one.put(made)
    for made in theirs.values():
        other.put(made)
    assert places(one.missing_from(other)) == sorted(first - second)
    unlike = {(e.namespace, e.name): before for e, before in one.unlike(other)}
    assert unlike == {key: theirs.get(key) for key in first if mine[key] is not theirs.get(key)}


# Owners


def test_owned_entries_come_in_order() -> None:
    """However many an owner has: none, one, or several that were added in any order."""
    index = OwnerIndex()
    assert index.owned_by("o-1") == []
    entries = [
        entry(name, ns, owners=("o-1",)) for ns, name in (("b", "x"), ("a", "z"), ("a", "y"))
    ]
    index.add(entries[0])
    assert index.owned_by("o-1") == [entries[0]]
    index.add(entries[1])
    index.add(entries[2])
    assert index.owned_by("o-1") == [entries[2], entries[1], entries[0]]


def test_owner_without_entries_is_forgotten() -> None:
    """The index holds no owner that owns nothing."""
    index = OwnerIndex()
    entries = [entry(f"web-{i}", owners=("o-1", f"o-own-{i}")) for i in range(3)]
    for each in entries:
        index.add(each)
    assert len(index) == 4
    for each in entries:
        index.discard(each)
    assert len(index) == 0


def test_discarding_what_is_not_indexed_changes_nothing() -> None:
    """Neither an owner nobody knows nor another entry of a known owner disturbs the index."""
    index = OwnerIndex()
    known = entry(owners=("o-1",))
    index.add(known)
    index.discard(entry(owners=("o-1", "o-2")))
    assert index.owned_by("o-1") == [known]


def test_entry_can_be_copied() -> None:
    """A copy is another entry with the same content, as a source needs that takes it over."""
    first = entry(owners=("o-1",))
    second = msgspec.structs.replace(first)
    assert second is not first
    assert second.body() == first.body()
