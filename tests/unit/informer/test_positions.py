"""Upstream positions: the versions by which another store goes on where a reader was."""

from __future__ import annotations

import pytest

from tests.items import item, served, source_spec
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.objects import Remove, Upsert
from watchcache_server.informer.resume import ResumeToken
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Store
from watchcache_server.model.states import LeftReason


def make_store() -> Store:
    """Make an empty store."""
    return Store(b"epoch-01", max_changes=1000, max_history_bytes=1 << 20)


def add(store: Store, resource: str = "pods", *, version: str = "10", **spec: str) -> Source:
    """Add a source that has synced."""
    source = store.add_source(source_spec(resource, **spec))
    source.served = served(resource, resource.title())
    source.stage([item("a", uid=f"uid-{resource}")])
    store.commit(source, 1.0, version)
    store.note_position(source, version)
    return source


def change(store: Store, source: Source, version: str) -> None:
    """Have a change read."""
    thing = item("a", uid=f"uid-{source.resource}", version=version, labels={"v": version})
    store.apply(source, [Upsert(thing)], 1.0)
    store.note_position(source, version)


def test_a_reader_stands_where_its_sources_stood() -> None:
    """By the revision up to which it was told, not by the present."""
    store = make_store()
    pods, services = add(store), add(store, "services", version="11")
    first = store.revision
    change(store, pods, "12")
    change(store, services, "15")
    assert store.positions(EVERYTHING, first) == {pods.identity: "10", services.identity: "11"}
    assert store.positions(EVERYTHING, first + 1) == {pods.identity: "12", services.identity: "11"}
    now = store.positions(EVERYTHING, store.revision)
    assert now == {pods.identity: "12", services.identity: "15"}
    only = Filter(resources=(("", "services"),))
    assert store.positions(only, store.revision) == {services.identity: "15"}


def test_a_bookmark_moves_the_position_without_a_change() -> None:
    """So a quiet resource does not fall out of the API server's history."""
    store = make_store()
    pods = add(store)
    store.note_position(pods, "90")
    store.note_position(pods, "")
    assert store.positions(EVERYTHING, store.revision) == {pods.identity: "90"}
    assert pods.position == "90"


def test_an_older_position_will_do_where_many_are_passed() -> None:
    """It has what lies between told once more, and nothing lost."""
    store = make_store()
    pods = add(store)
    for version in range(11, 500):
        change(store, pods, str(version))
    for revision in range(1, store.revision + 1):
        version = store.positions(EVERYTHING, revision)
        assert version is not None
        assert int(version[pods.identity]) <= revision + 9
    assert store.positions(EVERYTHING, store.revision) == {pods.identity: "499"}
    assert len(pods._upstream) <= 64


def test_while_it_is_open_what_became_of_an_object_the_position_stays() -> None:
    """Its reader has yet to be told."""
    store = make_store()
    pods = add(store, label_selector="keep=yes")
    store.apply(pods, [Remove(item("a", uid="uid-pods", version="11"))], 1.0)
    store.note_position(pods, "11")
    assert store.positions(EVERYTHING, store.revision) == {pods.identity: "10"}
    (subject,) = pods.unverified
    store.resolve(pods, subject, 1.0, is_deleted=True)
    store.note_position(pods, "12")
    assert store.positions(EVERYTHING, store.revision) == {pods.identity: "12"}


@pytest.mark.parametrize("trouble", ["retiring", "removed", "purged"])
def test_positions_are_none_where_they_would_not_say_all(trouble: str) -> None:
    """A reader at this revision holds objects that no position speaks of."""
    store = make_store()
    pods, services = add(store), add(store, "services")
    revision = store.revision
    assert store.positions(EVERYTHING, revision) is not None
    if trouble == "retiring":
        pods.is_retiring = True
    elif trouble == "removed":
        store.remove_source(pods, LeftReason.SCOPE, 2.0)
    else:
        store.purge(pods, LeftReason.KIND_GONE, 2.0)
    assert store.positions(EVERYTHING, revision) is None
    if trouble != "retiring":
        expected = {services.identity: "10"}
        assert store.positions(EVERYTHING, store.revision) == expected


def test_a_source_without_objects_notes_no_position() -> None:
    """Before its first sync there is nothing that could be told."""
    store = make_store()
    source = store.add_source(source_spec())
    store.note_position(source, "10")
    assert source.position == ""
    assert store.positions(EVERYTHING, store.revision) == {}


def test_an_identity_tells_what_is_read_in_which_form() -> None:
    """The same for the same spec in every process, another one for another version of the API."""
    first, same = Source(1, source_spec(version="")), Source(2, source_spec(version=""))
    other = Source(3, source_spec(version="", namespace="team-a"))
    for source in (first, same, other):
        source.served = served()
    assert first.identity == same.identity != other.identity
    same.served = served(version="v2")
    assert first.identity != same.identity


def test_only_plain_numbers_go_into_a_token() -> None:
    """Of other versions nobody can tell which is later."""
    assert ResumeToken.packed({b"12345678": "10"}) == ((b"12345678", 10),)
    assert ResumeToken.packed({b"12345678": "10", b"87654321": "odd"}) == ()
    assert ResumeToken.packed({b"12345678": str(2**64)}) == ()
    assert ResumeToken.packed({}) == ()
