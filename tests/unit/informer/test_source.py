"""The rules of a source, one by one: what each input changes and what is told of it."""

from __future__ import annotations

import pytest

from tests.items import item, served, source_spec
from watchcache_server.informer.comparison import Comparison, Listed, Scope
from watchcache_server.informer.compression import PLAIN
from watchcache_server.informer.entries import Entry
from watchcache_server.informer.objects import Delta, Item, Remove, Upsert
from watchcache_server.informer.source import Effect, Source, Unverified
from watchcache_server.informer.store import Store
from watchcache_server.informer.texts import Texts
from watchcache_server.model.selectors import Labels
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import EventKind, LeftReason

ADDED, MODIFIED, DELETED, LEFT = EventKind
SELECTING = source_spec(label_selector="app=web")


def synced(*things: Item, spec: SourceSpec | None = None) -> Source:
    """Make a source whose first sync brought these objects."""
    source = Source(1, spec or source_spec())
    source.stage(things)
    assert source.commit() is None
    return source


def told(effects: list[Effect] | None) -> list[tuple[EventKind, str, str]]:
    """Say kind, uid and resourceVersion of each effect."""
    assert effects is not None
    return [(e.kind, e.entry.uid, e.entry.resource_version) for e in effects]


def held(source: Source) -> list[tuple[str, str, str]]:
    """Say name, uid and resourceVersion of each object."""
    return [(e.name, e.uid, e.resource_version) for e in source.table.after("", "")]


# The live stream

HELD = item(uid="uid-1", version="5")


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        pytest.param(
            Upsert(item(uid="uid-1", version="6")), [(MODIFIED, "uid-1", "6")], id="newer version"
        ),
        pytest.param(
            Upsert(item(uid="uid-1", version="6"), is_addition=True),
            [(MODIFIED, "uid-1", "6")],
            id="added again, newer",
        ),
        pytest.param(Upsert(item(uid="uid-1", version="5")), [], id="same version"),
        pytest.param(
            Upsert(item(uid="uid-1", version="4"), is_addition=True), [], id="replayed addition"
        ),
        pytest.param(
            Upsert(item(uid="uid-1", version="4")), [(MODIFIED, "uid-1", "4")], id="going back"
        ),
        pytest.param(
            Upsert(item(uid="uid-1", version="opaque")),
            [(MODIFIED, "uid-1", "opaque")],
            id="version without order",
        ),
        pytest.param(
            Upsert(item(uid="uid-2", version="6"), is_addition=True),
            [(DELETED, "uid-1", "5"), (ADDED, "uid-2", "6")],
            id="another uid, added",
        ),
        pytest.param(
            Upsert(item(uid="uid-2", version="6")),
            [(DELETED, "uid-1", "5"), (ADDED, "uid-2", "6")],
            id="another uid, modified",
        ),
        pytest.param(
            Upsert(item(uid="uid-0", version="4"), is_addition=True),
            [],
            id="replayed addition of an object that was before",
        ),
        pytest.param(
            Upsert(item("other", version="6"), is_addition=True),
            [(ADDED, "uid-1", "6")],
            id="another name",
        ),
        pytest.param(
            Upsert(item("other", version="6")), [(ADDED, "uid-1", "6")], id="modified, not known"
        ),
        pytest.param(
            Remove(item(uid="uid-1", version="6")), [(DELETED, "uid-1", "6")], id="deleted"
        ),
        pytest.param(
            Remove(item(uid="uid-1", version="5")),
            [(DELETED, "uid-1", "5")],
            id="deleted, by a server that keeps the last version",
        ),
        pytest.param(
            Remove(item(uid="uid-2", version="6")),
            [(DELETED, "uid-1", "5")],
            id="end of a successor that was never seen",
        ),
        pytest.param(
            Remove(item(uid="uid-0", version="4")), [], id="end of a predecessor, replayed"
        ),
        pytest.param(
            Remove(item(uid="uid-2", version="opaque")), [], id="end of another uid, no order"
        ),
        pytest.param(Remove(item("other", version="6")), [], id="deleted, not known"),
    ],
)
def test_change_on_the_stream(delta: Delta, expected: list[tuple[EventKind, str, str]]) -> None:
    """Uids say what is one object, versions say what is news, and nothing is told twice."""
    source = synced(HELD)
    assert told(source.apply([delta])) == expected
    assert source.apply([delta]) == []


@pytest.mark.parametrize(
    ("delta", "is_unknown"),
    [
        pytest.param(Remove(item(uid="uid-1", version="6")), False, id="deleted"),
        pytest.param(Remove(item(uid="uid-2", version="6")), True, id="end of a successor"),
        pytest.param(Upsert(item(uid="uid-2", version="6")), True, id="successor"),
    ],
)
def test_deletion_that_was_not_seen_has_an_unknown_last_state(
    delta: Delta, is_unknown: bool
) -> None:
    """Only a deletion on the stream brings the last content."""
    effect = synced(HELD).apply([delta])[0]
    assert effect.kind is DELETED
    assert effect.final_state_unknown is is_unknown


def test_going_back_is_counted() -> None:
    """The stream is the order, but an operator may want to know."""
    source = synced(HELD)
    source.apply([Upsert(item(uid="uid-1", version="4")), Upsert(item(uid="uid-1", version="3"))])
    assert source.going_back_count == 2
    assert held(source) == [("web", "uid-1", "3")]


def test_several_changes_apply_in_order() -> None:
    """One chunk of the stream may hold the whole life of an object, and the next one's birth."""
    source = synced()
    deltas: list[Delta] = [
        Upsert(item(uid="uid-1", version="1"), is_addition=True),
        Upsert(item(uid="uid-1", version="2")),
        Remove(item(uid="uid-1", version="3")),
        Upsert(item(uid="uid-2", version="4"), is_addition=True),
    ]
    assert told(source.apply(deltas)) == [
        (ADDED, "uid-1", "1"),
        (MODIFIED, "uid-1", "2"),
        (DELETED, "uid-1", "3"),
        (ADDED, "uid-2", "4"),
    ]


def test_deletion_carries_last_content_and_labels_before() -> None:
    """A filter decides by the labels that the subscriber knew; the body is the last one."""
    source = synced(item(labels={"app": "web"}))
    [effect] = source.apply([Remove(item(version="2", labels={"app": "db"}, body=b"last"))])
    assert effect.entry.body() == b"last"
    assert effect.before is not None
    assert effect.before.labels == ("app", "web")


def test_change_carries_the_labels_before() -> None:
    """Whether a change enters or leaves a selection depends on both forms."""
    source = synced(item(labels={"app": "web"}))
    [effect] = source.apply([Upsert(item(version="2", labels={"app": "db"}))])
    assert effect.before is not None
    assert (effect.before.labels, effect.entry.labels) == (("app", "web"), ("app", "db"))


# Names


def test_only_named_objects_are_kept() -> None:
    """Where a spec names objects, others do not exist: live, staged or removed."""
    spec = source_spec(names=[("team-a", "web")])
    source = synced(item("web"), item("db"), spec=spec)
    assert held(source) == [("web", "uid-1", "1")]
    assert source.apply([Upsert(item("db")), Remove(item("db")), Upsert(item("web"))]) == []


@pytest.mark.parametrize(
    ("is_namespaced", "namespace"),
    [pytest.param(True, "team-a", id="namespaced"), pytest.param(False, "", id="cluster-scoped")],
)
def test_names_of_an_open_scope_fit_whatever_the_kind_is(
    is_namespaced: bool, namespace: str
) -> None:
    """Manifests name a namespace before anybody knows whether their kind has one."""
    names = [("team-a", "x"), ("team-a", "y")]
    spec = source_spec(namespace="team-a", names=names, is_scope_open=True)
    source = Source(1, spec)
    source.served = served(is_namespaced=is_namespaced)
    source.stage(item(name, namespace=namespace) for name in ("x", "y", "z"))
    source.commit()
    assert [name for name, _, _ in held(source)] == ["x", "y"]
    assert source.namespace == namespace
    assert source.scope.names == tuple((namespace, name) for _, name in names)
    assert source.covers(namespace, "x")
    assert not source.covers(namespace, "z")


# Objects whose end is not proven


def test_deleted_under_a_selector_is_not_believed() -> None:
    """It may only have ceased to match, so the object stays until somebody has looked."""
    source = synced(HELD, spec=SELECTING)
    assert source.apply([Remove(item(uid="uid-1", version="6"))]) == []
    assert held(source) == [("web", "uid-1", "5")]
    assert source.unverified == [Unverified("team-a", "web", "uid-1")]


@pytest.mark.parametrize(
    ("is_deleted", "kind", "reason"),
    [
        pytest.param(True, DELETED, None, id="deleted"),
        pytest.param(False, LEFT, LeftReason.SELECTION, id="no longer selected"),
    ],
)
@pytest.mark.parametrize("is_relisted", [False, True], ids=["on the stream", "by a relist"])
def test_answer_settles_what_became_of_it(
    is_deleted: bool, kind: EventKind, reason: LeftReason | None, is_relisted: bool
) -> None:
    """DELETED only when the API server says so; what a relist found has an unknown last state."""
    source = synced(HELD, spec=SELECTING)
    if is_relisted:
        assert source.commit() == []
    else:
        source.apply([Remove(item(uid="uid-1", version="6"))])
    [subject] = source.unverified
    [effect] = source.resolve(subject, is_deleted=is_deleted)
    assert (effect.kind, effect.left_reason) == (kind, reason)
    assert effect.final_state_unknown is is_relisted
    assert held(source) == []
    assert source.unverified == []
    assert source.resolve(subject, is_deleted=is_deleted) == []


@pytest.mark.parametrize(
    "back",
    [
        pytest.param(Upsert(item(uid="uid-1", version="7"), is_addition=True), id="changed"),
        pytest.param(Upsert(item(uid="uid-1", version="5"), is_addition=True), id="as it was"),
        pytest.param(Upsert(item(uid="uid-1", version="4"), is_addition=True), id="replayed"),
    ],
)
def test_object_that_comes_back_is_not_asked_for(back: Delta) -> None:
    """An answer that arrives after the object came back changes nothing."""
    source = synced(HELD, spec=SELECTING)
    source.apply([Remove(item(uid="uid-1", version="6"))])
    [subject] = source.unverified
    source.apply([back])
    assert source.unverified == []
    assert source.resolve(subject, is_deleted=True) == []
    assert len(held(source)) == 1


def test_answer_about_an_earlier_object_settles_nothing() -> None:
    """The name may be taken by another object, whose own end is still to be asked for."""
    source = synced(HELD, spec=SELECTING)
    source.apply([Remove(item(uid="uid-1", version="6"))])
    [subject] = source.unverified
    replaced = source.apply([Upsert(item(uid="uid-2", version="7"), is_addition=True)])
    assert told(replaced) == [(DELETED, "uid-1", "5"), (ADDED, "uid-2", "7")]
    source.apply([Remove(item(uid="uid-2", version="8"))])
    assert source.resolve(subject, is_deleted=True) == []
    assert source.unverified == [Unverified("team-a", "web", "uid-2")]


def test_unverified_object_outlives_a_relist() -> None:
    """A relist that does not show it proves no more than the stream did."""
    source = synced(HELD, spec=SELECTING)
    source.apply([Remove(item(uid="uid-1", version="6"))])
    source.stage([item("other", version="7")])
    assert told(source.commit()) == [(ADDED, "uid-1", "7")]
    assert source.unverified == [Unverified("team-a", "web", "uid-1")]
    source.stage([item("other", version="7"), HELD])
    assert source.commit() == []
    assert source.unverified == []


def test_end_of_another_uid_is_proof_even_under_a_selector() -> None:
    """Two objects of one name cannot be at once: ours was gone before the other came."""
    source = synced(HELD, spec=SELECTING)
    assert told(source.apply([Remove(item(uid="uid-2", version="9"))])) == [(DELETED, "uid-1", "5")]


# Syncs


def test_first_sync_has_no_difference() -> None:
    """Before it there was nothing; after it all is there at once, and an empty one counts."""
    source = Source(1, source_spec())
    source.stage([item("web")])
    assert not source.is_synced
    assert held(source) == []
    assert source.commit() is None
    assert source.is_synced
    assert held(source) == [("web", "uid-1", "1")]
    assert synced().is_synced


def test_sync_may_come_in_pieces() -> None:
    """Pages and slices of pages add up; nothing is visible before the end."""
    source = Source(1, source_spec())
    for name in ("a", "b", "c"):
        source.stage([item(name)])
        assert held(source) == []
    source.commit()
    assert [name for name, _, _ in held(source)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("staged", "expected"),
    [
        pytest.param([item(uid="uid-1", version="5")], [], id="unchanged"),
        pytest.param([item(uid="uid-1", version="6")], [(MODIFIED, "uid-1", "6")], id="newer"),
        pytest.param([item(uid="uid-1", version="4")], [(MODIFIED, "uid-1", "4")], id="older"),
        pytest.param([], [(DELETED, "uid-1", "5")], id="gone"),
        pytest.param(
            [item(uid="uid-2", version="9")],
            [(DELETED, "uid-1", "5"), (ADDED, "uid-2", "9")],
            id="deleted and created anew",
        ),
        pytest.param([HELD, item("db", uid="uid-3")], [(ADDED, "uid-3", "1")], id="one more"),
        pytest.param(
            [item("db", uid="uid-3")], [(DELETED, "uid-1", "5"), (ADDED, "uid-3", "1")], id="other"
        ),
        pytest.param(
            [item(uid="uid-1", version="6"), item(uid="uid-1", version="7")],
            [(MODIFIED, "uid-1", "7")],
            id="seen twice, the later one counts",
        ),
        pytest.param(
            [item(uid="uid-1", version="6"), item(uid="uid-1", version="5")],
            [],
            id="seen twice, at last as it was",
        ),
    ],
)
def test_relist_tells_the_difference(
    staged: list[Item], expected: list[tuple[EventKind, str, str]]
) -> None:
    """A relist is swapped in at once, as the difference by uid and version."""
    source = synced(HELD)
    source.stage(staged)
    assert held(source) == [("web", "uid-1", "5")]
    effects = source.commit()
    assert told(effects) == expected
    assert all(e.final_state_unknown for e in effects or () if e.kind is DELETED)


def test_unchanged_object_keeps_its_entry() -> None:
    """A relist of many unchanged objects compresses none of them again."""
    source = synced(HELD)
    before = source.table.get("team-a", "web")
    source.stage([item(uid="uid-1", version="5", body=b"not even looked at")])
    source.commit()
    assert source.table.get("team-a", "web") is before


def test_another_served_version_is_a_change_of_every_body() -> None:
    """One resourceVersion has different bodies in different API versions; none may be mixed up."""
    source = Source(1, source_spec("", kind="Widget", version=""))
    source.served = served("widgets", "Widget", version="v1beta1")
    source.stage([HELD])
    source.commit()
    source.served = served("widgets", "Widget", version="v1")
    [entry] = source.table
    assert entry.version == "v1beta1"
    source.stage([HELD])
    assert told(source.commit()) == [(MODIFIED, "uid-1", "5")]
    [entry] = source.table
    assert entry.version == "v1"


def test_discarded_sync_leaves_no_trace() -> None:
    """An error in the middle of a relist empties nothing."""
    source = synced(HELD)
    source.stage([item("db")])
    source.discard()
    assert held(source) == [("web", "uid-1", "5")]
    source.stage([HELD])
    assert source.commit() == []


def test_object_deleted_during_a_sync_is_unstaged() -> None:
    """A watch that lists first may say DELETED before the list has ended."""
    source = synced(HELD)
    source.unstage(item("db"))
    source.stage([item("db"), HELD])
    source.unstage(item("db", version="2"))
    source.unstage(item("never seen"))
    assert source.commit() == []
    assert held(source) == [("web", "uid-1", "5")]


def test_what_happens_during_a_sync_is_part_of_the_difference() -> None:
    """An answer that drops an object in the middle of a relist does not hide it afterwards."""
    source = synced(HELD, spec=SELECTING)
    source.apply([Remove(item(uid="uid-1", version="6"))])
    source.stage([HELD])
    assert told(source.resolve(source.unverified[0], is_deleted=False)) == [(LEFT, "uid-1", "5")]
    assert told(source.commit()) == [(ADDED, "uid-1", "5")]


def test_object_that_the_stream_brought_after_it_was_staged_is_not_told_again() -> None:
    """It is the same at the end of the sync as on the stream."""
    source = synced()
    source.stage([HELD])
    [effect] = source.apply([Upsert(HELD)])
    effect.entry.revision = 7
    assert source.commit() == []
    [entry] = source.table
    assert entry.revision == 7


def test_purge_tells_of_every_object_in_order() -> None:
    """All is LEFT for the reason given, nothing is DELETED, and the source begins anew."""
    source = synced(item("b", labels={"x": "1"}), item("a"), item("c", namespace="other"))
    source.stage([item("d")])
    effects = source.purge(LeftReason.RIGHTS_REVOKED)
    assert [(e.entry.namespace, e.entry.name) for e in effects] == [
        ("other", "c"),
        ("team-a", "a"),
        ("team-a", "b"),
    ]
    assert {(e.kind, e.left_reason) for e in effects} == {(LEFT, LeftReason.RIGHTS_REVOKED)}
    assert effects[2].before is not None
    assert effects[2].before.labels == ("x", "1")
    assert not source.is_synced
    assert (source.raw_bytes, source.stored_bytes, source.table.count) == (0, 0, 0)
    assert source.commit() is None
    assert held(source) == []


# Identity


@pytest.mark.parametrize(
    ("spec", "found", "expected"),
    [
        pytest.param(source_spec("secrets"), None, True, id="by plural name"),
        pytest.param(source_spec("", kind="Secret"), None, True, id="by kind"),
        pytest.param(
            source_spec("", kind="secret"), served("secrets", "Secret"), True, id="by discovery"
        ),
        pytest.param(source_spec("secrets", group="example.com"), None, False, id="other group"),
        pytest.param(source_spec("configmaps"), served("configmaps", "ConfigMap"), False, id="not"),
    ],
)
def test_secrets_are_recognised(spec: SourceSpec, found: object, expected: bool) -> None:
    """Whatever name they were asked by, core Secrets are Secrets."""
    source = Source(1, spec)
    source.served = found  # type: ignore[assignment]
    assert source.is_secret is expected


def test_names_come_from_discovery_once_it_is_done() -> None:
    """Until then a source knows what its spec says."""
    source = Source(1, source_spec("", kind="Widget", group="example.com", version=""))
    assert (source.group, source.resource, source.kind) == ("example.com", "", "Widget")
    assert source.version == ""
    source.served = served("widgets", "Widget", group="example.com", version="v2")
    assert (source.resource, source.kind, source.version) == ("widgets", "Widget", "v2")


PODS = source_spec("pods")
OPEN = source_spec("", kind="Role", namespace="a", is_scope_open=True)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param(PODS, source_spec("pods", namespace="a"), True, id="all and one namespace"),
        pytest.param(PODS, source_spec("pods", label_selector="x"), True, id="with a selector"),
        pytest.param(PODS, source_spec("services"), False, id="other resource"),
        pytest.param(PODS, source_spec("pods", cluster="edge"), False, id="other cluster"),
        pytest.param(PODS, source_spec("pods", group="x"), False, id="other group"),
        pytest.param(PODS, source_spec("", kind="Pod"), False, id="resource and kind, not known"),
        pytest.param(
            source_spec("", kind="Pod"), source_spec("", kind="Pod"), True, id="the same kind"
        ),
        pytest.param(
            source_spec("", kind="Pod"), source_spec("", kind="Job"), False, id="other kind"
        ),
    ],
)
def test_sources_may_share_objects(first: SourceSpec, second: SourceSpec, expected: bool) -> None:
    """Two sources of one type and overlapping scopes could hold the same object."""
    assert Source(1, first).may_share_objects(Source(2, second)) is expected
    assert Source(2, second).may_share_objects(Source(1, first)) is expected


def test_open_scopes_overlap_if_the_kind_has_no_namespaces() -> None:
    """What looks like two namespaces is the whole cluster twice."""
    first, second = Source(1, OPEN), Source(2, source_spec("", kind="Role", namespace="b"))
    assert not first.may_share_objects(second)
    first.served = served("roles", "Role", is_namespaced=False)
    assert first.may_share_objects(second)
    assert first.namespace == ""


@pytest.mark.parametrize(
    ("spec", "namespace", "name", "expected"),
    [
        pytest.param(PODS, "a", "x", True, id="everything"),
        pytest.param(source_spec(namespace="a"), "a", "x", True, id="its namespace"),
        pytest.param(source_spec(namespace="a"), "b", "x", False, id="another namespace"),
        pytest.param(source_spec(names=[("a", "x")]), "a", "x", True, id="its name"),
        pytest.param(source_spec(names=[("a", "x")]), "a", "y", False, id="another name"),
        pytest.param(source_spec(field_selector="metadata.name=x"), "a", "x", True, id="pinned"),
        pytest.param(source_spec(field_selector="metadata.name=x"), "a", "y", False, id="not it"),
        pytest.param(
            source_spec(label_selector="app=web"), "a", "x", False, id="depends on labels"
        ),
        pytest.param(
            source_spec(field_selector="status.phase=Running"), "a", "x", False, id="on a field"
        ),
    ],
)
def test_source_covers_what_it_would_hold_for_certain(
    spec: SourceSpec, namespace: str, name: str, expected: bool
) -> None:
    """An object that a source covers and does not hold does not exist."""
    assert Source(1, spec).covers(namespace, name) is expected


def test_labels_are_kept_flat() -> None:
    """Filters match on flat labels, without a dict for each object."""
    expected: Labels = ("a", "1", "b", "2")
    [entry] = synced(item(labels={"b": "2", "a": "1"})).table
    assert entry.labels == expected


def test_what_a_get_found_gone_does_not_come_back() -> None:
    """The answer may be ahead of the stream, which then tells of an older state."""
    store = Store(b"epoch-01", max_changes=100, max_history_bytes=1 << 20)
    source = store.add_source(source_spec(label_selector="keep=yes"))
    source.stage([item("o", uid="uid-o", version="1")])
    store.commit(source, 1.0)
    store.apply(source, [Remove(item("o", uid="uid-o", version="2"))], 2.0)
    store.resolve(source, source.unverified[0], 2.0, is_deleted=True)
    revision = store.revision
    store.apply(source, [Upsert(item("o", uid="uid-o", version="3"))], 3.0)
    store.apply(source, [Remove(item("o", uid="uid-o", version="4"))], 3.0)
    assert store.revision == revision
    store.apply(source, [Upsert(item("o", uid="uid-new", version="5"))], 3.0)
    assert store.revision == revision + 1


def test_storage_that_was_set_back_brings_back_what_was_found_gone() -> None:
    """Under the same uid: what a GET, a list or another source had proven is of another past."""
    store = Store(b"epoch-01", max_changes=100, max_history_bytes=1 << 20)
    source = store.add_source(source_spec(label_selector="keep=yes"))
    source.stage([item("o", uid="uid-o", version="10"), item("p", uid="uid-p", version="11")])
    store.commit(source, 1.0, "20")
    store.note_position(source, "20")
    store.apply(source, [Remove(item("o", uid="uid-o", version="21"))], 2.0)
    store.resolve(source, source.unverified[0], 2.0, is_deleted=True)
    store.note_position(source, "21")
    Comparison(source, Scope(), "30", [Listed("ns", "p", "uid-p", "11")])
    source.run_ahead(Entry.of(item("q", uid="uid-q", version="40"), PLAIN, "v1", Texts()))
    restored = [
        item("o", uid="uid-o", version="10"),
        item("p", uid="uid-p", version="11"),
        item("r", uid="uid-r", version="12"),
    ]
    source.stage(restored)
    store.commit(source, 3.0, "22")
    assert [name for name, _, _ in held(source)] == ["p", "q"], "it was not set back"
    source.stage(restored)
    source.unstage(restored[2])
    source.stage(restored[2:])
    store.commit(source, 3.0, "15")
    store.note_position(source, "15")
    assert sorted(each.name for each in source.unverified) == ["q"]
    store.resolve(source, source.unverified[0], 3.0, is_deleted=True)
    assert [name for name, _, _ in held(source)] == ["o", "p", "r"]


def test_not_every_dead_object_is_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream passes it in time."""
    monkeypatch.setattr("watchcache_server.informer.source._MOST_DEAD", 3)
    source = Source(1, source_spec(label_selector="keep=yes"))
    for number in range(10):
        source.bury(Entry.of(item(uid=f"uid-{number}"), PLAIN, "v1", Texts()))
    assert list(source._dead) == ["uid-7", "uid-8", "uid-9"]
