"""The store: revisions for all sources together, and reads that are complete and in order."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.items import item, served, source_spec
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.history import Change
from watchcache_server.informer.objects import Item, Remove, Upsert
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Found, Position, Store
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import EventKind, LeftReason

ADDED, MODIFIED, DELETED, LEFT = EventKind


def make_store() -> Store:
    """Make an empty store with a long history."""
    return Store(b"epoch-01", max_changes=1000, max_history_bytes=1 << 20)


def add(store: Store, spec: SourceSpec, *objects: Item, read_at: float = 1.0) -> Source:
    """Add a source that has synced."""
    source = store.add_source(spec)
    source.stage(objects)
    store.commit(source, read_at)
    return source


def changes(store: Store) -> list[Change]:
    """Return the whole history."""
    return list(store.history.since(0))


def names(found: Iterable[Found]) -> list[str]:
    """Say where each object is."""
    return [f"{f.source.resource}/{f.entry.namespace}/{f.entry.name}" for f in found]


# Revisions


def test_every_change_has_the_next_revision() -> None:
    """One counter orders the changes of all sources."""
    store = make_store()
    pods = add(store, source_spec("pods"))
    services = add(store, source_spec("services"))
    store.apply(pods, [Upsert(item("a")), Upsert(item("b"))], 2.0)
    store.apply(services, [Upsert(item("c"))], 3.0)
    store.apply(pods, [Remove(item("a", version="2")), Upsert(item("b"))], 4.0)
    assert store.revision == 4
    assert [(c.revision, c.kind, c.source, c.read_at) for c in changes(store)] == [
        (1, ADDED, pods, 2.0),
        (2, ADDED, pods, 2.0),
        (3, ADDED, services, 3.0),
        (4, DELETED, pods, 4.0),
    ]


def test_entry_knows_the_revision_at_which_it_took_its_form() -> None:
    """A snapshot says of each object when it last changed."""
    store = make_store()
    source = add(store, source_spec(), item("a"), item("b"))
    store.apply(source, [Upsert(item("b", version="2"))], 1.0)
    store.apply(source, [Upsert(item("c"))], 1.0)
    revisions = {entry.name: entry.revision for entry in source.table}
    assert revisions == {"a": 1, "b": 2, "c": 3}


def test_first_sync_is_one_change() -> None:
    """Objects that become known at once do not push everything else out of the history."""
    store = make_store()
    source = add(store, source_spec(), *(item(f"web-{i}") for i in range(100)), read_at=7.0)
    [change] = changes(store)
    assert (change.kind, change.source, change.entry) == (ADDED, source, None)
    assert (change.read_at, store.revision) == (7.0, 1)
    assert {entry.revision for entry in source.table} == {1}


def test_empty_first_sync_is_no_change() -> None:
    """There is nothing to tell; the source is synced all the same."""
    store = make_store()
    assert add(store, source_spec()).is_synced
    assert (store.revision, changes(store)) == (0, [])


def test_relist_is_a_change_for_each_difference() -> None:
    """What stayed the same is not told."""
    store = make_store()
    source = add(store, source_spec(), item("a"), item("b"), item("c"))
    source.stage([item("a"), item("b", version="2"), item("d")])
    store.commit(source, 2.0)
    told = [(c.kind, c.entry.name) for c in changes(store) if c.entry is not None]
    assert told == [(DELETED, "c"), (MODIFIED, "b"), (ADDED, "d")]


def test_removed_source_is_gone_and_its_objects_have_left() -> None:
    """They are out of scope; nothing is said of whether they exist."""
    store = make_store()
    source = add(store, source_spec(), item("a"), item("b"))
    store.remove_source(source, LeftReason.SCOPE, 2.0)
    assert store.source(source.number) is None
    assert store.sources() == []
    assert [(c.kind, c.left_reason) for c in changes(store)[1:]] == [(LEFT, LeftReason.SCOPE)] * 2
    assert add(store, source_spec()).number > source.number


def test_answer_about_an_unverified_object_is_a_change() -> None:
    """What a selector hid is told once it is known."""
    store = make_store()
    source = add(store, source_spec(label_selector="app"), item("a"))
    store.apply(source, [Remove(item("a", version="2"))], 2.0)
    assert store.revision == 1
    store.resolve(source, source.unverified[0], 3.0, is_deleted=True)
    assert [(c.kind, c.read_at) for c in changes(store)[1:]] == [(DELETED, 3.0)]


def test_change_counts_for_its_stored_body() -> None:
    """The history is bounded by what it really keeps, not by what it was read as."""
    store = make_store()
    source = add(store, source_spec())
    store.apply(source, [Upsert(item(body=b"x" * 100_000))], 1.0)
    [entry] = source.table
    assert changes(store)[0].cost_bytes == 200 + len(entry.stored) < 1000


# Two names for one resource


@pytest.mark.parametrize(
    ("first", "second", "is_conflict"),
    [
        pytest.param(
            source_spec("deployments", group="apps"),
            source_spec("", group="apps", kind="Deployment"),
            True,
            id="by plural name and by kind",
        ),
        pytest.param(
            source_spec("deployments", group="apps", namespace="a"),
            source_spec("", group="apps", kind="Deployment", namespace="b"),
            False,
            id="in different namespaces",
        ),
        pytest.param(
            source_spec("deployments", group="apps", cluster="edge"),
            source_spec("", group="apps", kind="Deployment"),
            False,
            id="in different clusters",
        ),
    ],
)
def test_second_source_of_the_same_objects_is_refused(
    first: SourceSpec, second: SourceSpec, is_conflict: bool
) -> None:
    """Only discovery can tell that two entries of a spec mean the same objects."""
    store = make_store()
    found = served("deployments", "Deployment", group="apps")
    one, two = store.add_source(first), store.add_source(second)
    assert store.bind(one, found) is None
    assert store.bind(two, found) is (one if is_conflict else None)
    assert two.served is (None if is_conflict else found)
    assert store.bind(one, found) is None, "a source is no rival of itself"


def test_retiring_source_is_no_rival() -> None:
    """The one that follows it has to sync beside it."""
    store = make_store()
    old, new = store.add_source(source_spec()), store.add_source(source_spec(namespace="a"))
    assert store.bind(old, served()) is None
    old.is_retiring = True
    assert store.bind(new, served()) is None


# Reads


@pytest.fixture
def filled() -> Store:
    """Make a store with four sources and seven objects."""
    store = make_store()
    add(store, source_spec("services"), item("z"), item("a", namespace="team-b"))
    add(store, source_spec("pods", namespace="team-b"), item("m", namespace="team-b"))
    add(
        store,
        source_spec("pods", namespace="team-a"),
        item("y", labels={"app": "web"}, owners=("o-1",)),
        item("x", owners=("o-1", "o-2")),
    )
    add(
        store,
        source_spec("deployments", group="apps", cluster="edge"),
        item("web", namespace="team-b", labels={"app": "web"}, owners=("o-1",)),
        item("db", namespace="team-b"),
    )
    return store


IN_ORDER = [
    "pods/team-a/x",
    "pods/team-a/y",
    "pods/team-b/m",
    "services/team-a/z",
    "services/team-b/a",
    "deployments/team-b/db",
    "deployments/team-b/web",
]


def test_list_is_ordered_by_resource_cluster_namespace_and_name(filled: Store) -> None:
    """The order does not depend on which source was added or synced first."""
    assert names(filled.objects(EVERYTHING)) == IN_ORDER
    assert filled.object_count == 7


@pytest.mark.parametrize("cut", range(len(IN_ORDER)))
def test_list_goes_on_behind_a_position(filled: Store, cut: int) -> None:
    """A page begins where the last one ended, whichever source that was in."""
    position = filled.position(list(filled.objects(EVERYTHING))[cut])
    assert names(filled.objects(EVERYTHING, position)) == IN_ORDER[cut + 1 :]


def test_list_goes_on_though_its_last_object_is_gone(filled: Store) -> None:
    """A position is a place in the order, not an object."""
    found = list(filled.objects(EVERYTHING))[1]
    position = filled.position(found)
    filled.apply(found.source, [Remove(item("y", version="2"))], 2.0)
    assert names(filled.objects(EVERYTHING, position)) == IN_ORDER[2:]
    filled.remove_source(found.source, LeftReason.SCOPE, 2.0)
    assert names(filled.objects(EVERYTHING, position)) == IN_ORDER[2:]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(Filter(clusters=("edge",)), IN_ORDER[5:], id="cluster"),
        pytest.param(Filter(resources=(("", "pods"),)), IN_ORDER[:3], id="resource"),
        pytest.param(
            Filter(namespaces=("team-a",)),
            ["pods/team-a/x", "pods/team-a/y", "services/team-a/z"],
            id="namespace",
        ),
        pytest.param(
            Filter(label_selector="app=web"),
            ["pods/team-a/y", "deployments/team-b/web"],
            id="label",
        ),
        pytest.param(Filter(clusters=("nowhere",)), [], id="nothing"),
    ],
)
def test_list_holds_what_passes(filled: Store, wanted: Filter, expected: list[str]) -> None:
    """A list and a subscription with one filter see the same objects."""
    assert names(filled.objects(wanted)) == expected


def test_owned_objects_come_in_the_order_of_lists(filled: Store) -> None:
    """Over all sources that pass, from any position on."""
    expected = ["pods/team-a/x", "pods/team-a/y", "deployments/team-b/web"]
    found = list(filled.owned(EVERYTHING, "o-1"))
    assert names(found) == expected
    for cut, each in enumerate(found):
        position = filled.position(each)
        assert names(filled.owned(EVERYTHING, "o-1", position)) == expected[cut + 1 :]
    assert names(filled.owned(Filter(label_selector="app"), "o-1")) == expected[1:]
    assert names(filled.owned(Filter(clusters=("hub",)), "o-1")) == expected[:2]
    assert names(filled.owned(EVERYTHING, "o-9")) == []


def test_sources_of_one_order_are_told_apart() -> None:
    """A source and its successor may differ in nothing that people see; pages skip neither."""
    store = make_store()
    old = add(store, source_spec(names=[("team-a", "x")]), item("x"))
    old.is_retiring = True
    add(store, source_spec(names=[("team-a", "b")]), item("b"))
    found = list(store.objects(EVERYTHING))
    assert names(found) == ["pods/team-a/x", "pods/team-a/b"]
    assert names(store.objects(EVERYTHING, store.position(found[0]))) == ["pods/team-a/b"]


@pytest.mark.parametrize(
    ("place", "expected", "candidates"),
    [
        pytest.param(("hub", "", "pods", "team-a", "x"), "pods/team-a/x", 1, id="there"),
        pytest.param(("hub", "", "pods", "team-a", "none"), None, 1, id="no such object"),
        pytest.param(("hub", "", "pods", "team-c", "x"), None, 0, id="namespace not watched"),
        pytest.param(("hub", "", "services", "team-c", "x"), None, 1, id="all namespaces watched"),
        pytest.param(("hub", "", "secrets", "team-a", "x"), None, 0, id="resource not watched"),
        pytest.param(("hub", "apps", "pods", "team-a", "x"), None, 0, id="group not watched"),
        pytest.param(("edge", "", "pods", "team-a", "x"), None, 0, id="cluster not watched"),
    ],
)
def test_find_says_which_sources_could_hold_an_object(
    filled: Store, place: tuple[str, str, str, str, str], expected: str | None, candidates: int
) -> None:
    """Without a source nobody can say that an object does not exist."""
    sources, found = filled.find(*place)
    assert len(sources) == candidates
    assert names([found] if found else []) == ([expected] if expected else [])


def test_find_looks_into_every_source_that_could_hold_it() -> None:
    """One name may be covered by several sources that each keep some names."""
    store = make_store()
    add(store, source_spec(names=[("team-a", "x")]), item("x"))
    add(store, source_spec(names=[("team-a", "y")]), item("y"))
    sources, found = store.find("hub", "", "pods", "team-a", "y")
    assert len(sources) == 2
    assert found is not None
    assert found.entry.name == "y"


def test_position_before_everything_skips_nothing(filled: Store) -> None:
    """An empty position is the beginning."""
    assert names(filled.objects(EVERYTHING, Position((), "", ""))) == IN_ORDER


def test_dropping_a_store_lets_go_of_every_object() -> None:
    """Whoever still has a source in hand keeps none of its objects alive."""
    store = make_store()
    source = add(store, source_spec(), item("x", owners=["uid-9"]))
    source.stage([item("y")])
    store.drop()
    assert store.sources() == []
    assert not store.history
    assert (source.table.count, source.raw_bytes, source.stored_bytes) == (0, 0, 0)
    assert list(source.owners.owned_by("uid-9")) == []
    source.commit()
    assert source.table.count == 0
