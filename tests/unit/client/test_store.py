"""How a mirror's store applies a stream, and what it tells of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.client.fake_service import event
from watchcache import Event, EventType, InvalidArgumentError, Key, LeftReason, Version
from watchcache.holdings import object_id
from watchcache.messages import KnownGone
from watchcache.objects import decode_json
from watchcache.store import Change, Store
from watchcache.v1alpha1 import event_pb2

Told = tuple[str, str, str]


def _store(*messages: event_pb2.Event) -> Store[dict[str, Any]]:
    store: Store[dict[str, Any]] = Store(decode_json)
    _apply(store, *messages)
    return store


def _apply(store: Store[dict[str, Any]], *messages: event_pb2.Event) -> list[Told]:
    return _told(store.apply([Event(message, decode_json) for message in messages]))


def _snapshot(store: Store[dict[str, Any]], *messages: event_pb2.Event) -> list[Told]:
    store.begin_snapshot()
    assert _apply(store, *messages) == []
    return _told(store.commit_snapshot())


def _told(changes: list[Change[dict[str, Any]]]) -> list[Told]:
    return [
        (change.type.value, change.key.name, str(change.left_reason or "")) for change in changes
    ]


def _versions(store: Store[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    return {key.name: tuple(version) for (_, key), version in store.versions().items()}


def _body(
    name: str, *, labels: dict[str, str] | None = None, owners: tuple[str, ...] = ()
) -> bytes:
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = labels
    if owners:
        metadata["ownerReferences"] = [{"uid": uid} for uid in owners]
    return json.dumps({"metadata": metadata}).encode()


def test_changes_are_told_as_they_are_applied() -> None:
    """Each change is told once, in order, with what was held before and after."""
    store = _store()
    told = _apply(
        store,
        event("ADDED", "a", rv=1),
        event("ADDED", "b", rv=2),
        event("MODIFIED", "a", rv=3),
        event("DELETED", "b", rv=4),
        event("LEFT", "a", rv=5, left="SCOPE"),
    )
    assert told == [
        ("ADDED", "a", ""),
        ("ADDED", "b", ""),
        ("MODIFIED", "a", ""),
        ("DELETED", "b", ""),
        ("LEFT", "a", "SCOPE"),
    ]
    assert store.versions() == {}


def test_an_event_that_comes_twice_changes_nothing() -> None:
    """After a reconnect changes may come again: the store stays, and nobody is told twice."""
    history = [
        event("ADDED", "a", rv=1),
        event("MODIFIED", "a", rv=2),
        event("ADDED", "b", rv=3),
        event("MODIFIED", "b", rv=4),
    ]
    store = _store(*history)
    assert _apply(store, *history) == []
    assert _versions(store) == {"a": ("uid-a", "2"), "b": ("uid-b", "4")}


def test_a_deletion_that_comes_twice_changes_nothing() -> None:
    """What is gone stays gone, and a successor of the same name is not touched."""
    deleted = event("DELETED", "a", rv=2, uid="first")
    store = _store(event("ADDED", "a", rv=1, uid="first"), deleted)
    assert _apply(store, deleted) == []
    _apply(store, event("ADDED", "a", rv=3, uid="second"))
    assert _apply(store, deleted, event("LEFT", "a", rv=9, uid="first")) == []
    assert _versions(store) == {"a": ("second", "3")}


def test_delete_and_recreate_is_two_changes() -> None:
    """Another uid under one name is another object, however it is told."""
    store = _store(event("ADDED", "a", rv=1, uid="first"))
    assert _apply(store, event("MODIFIED", "a", rv=2, uid="second")) == [
        ("DELETED", "a", ""),
        ("ADDED", "a", ""),
    ]


def test_left_is_never_told_as_deleted() -> None:
    """Whatever the reason, known or not, an object that left may be alive."""
    store = _store()
    for number, reason in enumerate((*event_pb2.LeftReason.values(), 99)):
        left = event("LEFT", "a", rv=2 * number + 2)
        left.left_reason = reason
        _apply(store, event("ADDED", "a", rv=2 * number + 1))
        ((kind, _, told),) = _apply(store, left)
        assert kind == "LEFT"
        assert told in set(LeftReason)


def test_a_type_of_a_newer_service_changes_nothing() -> None:
    """What is not understood is not acted upon."""
    store = _store(event("ADDED", "a"))
    unknown = event("ADDED", "a", rv=2)
    unknown.type = 99  # type: ignore[assignment]
    assert _apply(store, unknown) == []
    assert _versions(store) == {"a": ("uid-a", "1")}


def test_a_snapshot_takes_the_place_of_what_is_held() -> None:
    """The difference is told: gone from view, of another incarnation, changed, new."""
    store = _store(
        event("ADDED", "same", rv=1),
        event("ADDED", "changed", rv=1),
        event("ADDED", "missing", rv=1),
        event("ADDED", "recreated", rv=1, uid="first"),
    )
    told = _snapshot(
        store,
        event("ADDED", "same", rv=1),
        event("ADDED", "changed", rv=2),
        event("ADDED", "recreated", rv=3, uid="second"),
        event("ADDED", "new", rv=4),
    )
    assert sorted(told) == [
        ("ADDED", "new", ""),
        ("ADDED", "recreated", ""),
        ("DELETED", "recreated", ""),
        ("LEFT", "missing", "UNKNOWN"),
        ("MODIFIED", "changed", ""),
    ]
    assert told.index(("DELETED", "recreated", "")) < told.index(("ADDED", "recreated", ""))
    assert set(_versions(store)) == {"same", "changed", "recreated", "new"}


def test_what_is_held_stays_until_the_snapshot_is_complete() -> None:
    """Readers see the old state while the new one is collected, and for good if it breaks off."""
    store = _store(event("ADDED", "a"))
    store.begin_snapshot()
    _apply(store, event("ADDED", "b"))
    assert store.is_collecting
    assert set(_versions(store)) == {"a"}
    store.abandon_snapshot()
    assert not store.is_collecting
    assert _apply(store, event("MODIFIED", "a", rv=2)) == [("MODIFIED", "a", "")]
    assert _snapshot(store, event("ADDED", "a", rv=2)) == []


def test_changes_within_a_snapshot_belong_to_it() -> None:
    """Objects that change or go while a snapshot is sent are right at its end."""
    store = _store(event("ADDED", "a", rv=1), event("ADDED", "b", rv=1))
    told = _snapshot(
        store,
        event("ADDED", "a", rv=1),
        event("ADDED", "b", rv=1),
        event("MODIFIED", "a", rv=5),
        event("DELETED", "b", rv=6),
    )
    assert sorted(told) == [("LEFT", "b", "UNKNOWN"), ("MODIFIED", "a", "")]


def test_a_snapshot_shares_the_bodies_that_are_held() -> None:
    """The memory of a snapshot that changes nothing is not paid twice."""
    store = _store(event("ADDED", "a", body=b'{"big": true}'))
    held = store.get("pods", Key("team-a", "a", "hub"))
    _snapshot(store, event("ADDED", "a", body=b'{"big": ' + b"true}"))
    after = store.get("pods", Key("team-a", "a", "hub"))
    assert held is not None
    assert after is not None
    assert after is not held
    assert after.body is held.body


def test_objects_are_told_apart_by_cluster_resource_and_namespace() -> None:
    """The same name elsewhere is another object; selecting narrows by what is given."""
    store = _store(
        event("ADDED", "a"),
        event("ADDED", "a", cluster="edge"),
        event("ADDED", "a", namespace="team-b"),
        event("ADDED", "a", resource="deployments.apps"),
    )
    assert len(store.versions()) == 4
    assert len(list(store.select("pods"))) == 3
    assert [key for key, _ in store.select("pods", cluster="edge")] == [Key("team-a", "a", "edge")]
    in_b = [key for key, _ in store.select("pods", namespace="team-b")]
    assert in_b == [Key("team-b", "a", "hub")]
    assert list(store.select("secrets")) == []
    assert store.get("secrets", Key("", "a", "hub")) is None
    assert store.get("pods", Key("nowhere", "a", "hub")) is None


def test_labels_and_owners_are_indexed() -> None:
    """The indexes are right whether they are built before, between or after changes."""
    web = _body("a", labels={"app": "web", "tier": "gold"}, owners=("o1", "o2"))
    store = _store(
        event("ADDED", "a", body=web), event("ADDED", "b", body=_body("b", labels={"app": "web"}))
    )

    def by_labels(**labels: str) -> set[str]:
        return {key.name for key, _ in store.by_labels("pods", labels)}

    def by_owner(uid: str) -> set[str]:
        return {key.name for key, _ in store.by_owner("pods", uid)}

    assert by_labels(app="web") == {"a", "b"}
    assert by_labels(app="web", tier="gold") == {"a"}
    assert by_labels(app="db") == set()
    assert by_labels() == {"a", "b"}
    assert by_owner("o1") == by_owner("o2") == {"a"}
    assert store.find_uid("uid-a") == ("pods", Key("team-a", "a", "hub"))

    moved = _body("a", labels={"app": "db"}, owners=("o3",))
    _apply(store, event("MODIFIED", "a", rv=2, body=moved), event("DELETED", "b", rv=3))
    assert by_labels(app="web") == set()
    assert by_labels(app="db") == {"a"}
    assert by_owner("o1") == set()
    assert by_owner("o3") == {"a"}
    assert store.find_uid("uid-b") is None

    _snapshot(store, event("ADDED", "c", body=_body("c", labels={"app": "db"}, owners=("o3",))))
    assert by_labels(app="db") == by_owner("o3") == {"c"}
    assert store.find_uid("uid-a") is None


def test_a_change_carries_the_last_known_content() -> None:
    """The object of a change is what it is now, or what it was last known to be."""
    store = _store(event("ADDED", "a", body=b'{"n": 1}'))
    final = event("DELETED", "a", rv=2, body=b'{"n": 2}')
    (change,) = store.apply([Event(final, decode_json)])
    assert change.object == {"n": 2}
    assert [entry.resource_version for entry in change.entries] == ["2"]


def test_a_deletion_without_a_body_keeps_what_was_held() -> None:
    """Where the service sends no content, the mirror's own is the last that is known."""
    store = _store(event("ADDED", "a", body=b'{"n": 1}'))
    final = event("DELETED", "a", rv=2)
    final.object.ClearField("json")
    (change,) = store.apply([Event(final, decode_json)])
    assert change.object == {"n": 1}


def test_keys_alone_have_no_content() -> None:
    """Asking a mirror of keys for content is an error that says what to do."""
    only_key = event("ADDED", "a")
    only_key.object.ClearField("json")
    store = _store(only_key)
    with pytest.raises(InvalidArgumentError, match="keys only"):
        list(store.by_labels("pods", {"app": "web"}))


_NAMES = st.sampled_from("abc")


@given(
    before=st.lists(st.tuples(_NAMES, st.integers(0, 2), st.integers(1, 5)), max_size=8),
    after=st.lists(st.tuples(_NAMES, st.integers(0, 2), st.integers(1, 5)), max_size=8),
)
def test_a_listener_that_applies_the_changes_holds_the_same(
    before: list[tuple[str, int, int]], after: list[tuple[str, int, int]]
) -> None:
    """Replaying what was told gives what is held, for any two snapshots."""
    store = _store()
    mine: dict[str, tuple[str, str]] = {}
    for snapshot in (before, after):
        store.begin_snapshot()
        for name, uid, rv in snapshot:
            added = event("ADDED", name, rv=rv, uid=f"{name}{uid}", revision=1)
            store.apply([Event(added, decode_json)])
        for change in store.commit_snapshot():
            name = change.key.name
            if change.new is None:
                assert mine.pop(name)[0] == change.old.uid if change.old else False
                assert change.type in (EventType.DELETED, EventType.LEFT)
            else:
                assert (change.type is EventType.ADDED) == (name not in mine)
                mine[name] = tuple(Version(change.new.uid, change.new.resource_version))
        assert mine == _versions(store)


# What the service names by ids.

_UUIDS = [f"0f8fad5b-d9cb-469f-a165-7086772895{number:02x}" for number in range(4)]


def _remove(
    store: Store[dict[str, Any]],
    *uids: str,
    kind: EventType = EventType.DELETED,
    reason: LeftReason | None = None,
) -> list[Told]:
    return _told(store.remove_ids(_gone(*uids, kind=kind, reason=reason)))


def _gone(
    *uids: str,
    kind: EventType = EventType.DELETED,
    reason: LeftReason | None = None,
    resource: str = "pods",
) -> KnownGone:
    """Say that objects of a resource are gone."""
    ids = tuple(object_id(uid) for uid in uids)
    return KnownGone(kind, reason, resource, "hub", "team-a", ids)


_UIDS = {
    "a UUID": _UUIDS[0],
    "a UUID in capitals": _UUIDS[0].upper(),
    "a name": "uid-a",
}


@pytest.mark.parametrize("name", _UIDS)
def test_an_object_is_found_by_its_id(name: str) -> None:
    """Whatever its uid looks like; the others stay."""
    store = _store(event("ADDED", "a", uid=_UIDS[name]), event("ADDED", "b", uid="uid-b"))
    assert _remove(store, _UIDS[name]) == [("DELETED", "a", "")]
    assert set(_versions(store)) == {"b"}
    assert _remove(store, _UIDS[name]) == []


def test_what_is_named_is_told_in_order_with_what_was_held() -> None:
    """LEFT keeps its reason, and one that is not held, or named twice, is passed over."""
    store = _store(*(event("ADDED", f"p{n}", uid=uid) for n, uid in enumerate(_UUIDS)))
    left = [("LEFT", "p2", "KIND_GONE"), ("LEFT", "p0", "KIND_GONE")]
    named = (_UUIDS[2], "unheard of", _UUIDS[0], _UUIDS[2], "unheard of")
    assert _remove(store, *named, kind=EventType.LEFT, reason=LeftReason.KIND_GONE) == left
    (change,) = store.remove_ids(_gone(_UUIDS[1]))
    assert change.new is None
    assert change.object["metadata"]["name"] == "p1"
    assert set(_versions(store)) == {"p3"}


@pytest.mark.parametrize("resource", ["events", "events.events.k8s.io"])
def test_an_object_of_another_resource_with_the_same_uid_stays(resource: str) -> None:
    """The core's Events and those of events.k8s.io are the same objects."""
    both = ("events", "events.events.k8s.io")
    store = _store(*(event("ADDED", "e", uid=_UUIDS[0], resource=each) for each in both))
    (change,) = store.remove_ids(_gone(_UUIDS[0], resource=resource))
    assert change.resource == resource
    assert [each for each, _ in store.versions()] == [each for each in both if each != resource]
    assert store.remove_ids(_gone(_UUIDS[0], resource="pods")) == []


def test_names_that_are_told_twice_are_passed_over() -> None:
    """Also where the uid is no UUID."""
    store = _store(event("ADDED", "a"), event("ADDED", "b"))
    assert _remove(store, "uid-a", "uid-a", "uid-b") == [("DELETED", "a", ""), ("DELETED", "b", "")]
    assert store.versions() == {}


def test_the_successor_of_what_is_named_stays() -> None:
    """A difference tells of the new object first, and names the old one afterwards."""
    store = _store(event("ADDED", "a", uid=_UUIDS[0]))
    _apply(store, event("ADDED", "a", rv=2, uid=_UUIDS[1]))
    assert _remove(store, _UUIDS[0]) == []
    assert _versions(store) == {"a": (_UUIDS[1], "2")}


def test_indexes_forget_what_is_named() -> None:
    """Whether they were built before or after."""
    web = _body("a", labels={"app": "web"}, owners=("o1",))
    for is_built in (True, False):
        store = _store(
            event("ADDED", "a", uid=_UUIDS[0], body=web),
            event("ADDED", "b", uid=_UUIDS[1], body=web),
        )
        if is_built:
            assert len(list(store.by_labels("pods", {"app": "web"}))) == 2
            assert len(list(store.by_owner("pods", "o1"))) == 2
        _remove(store, _UUIDS[0])
        assert [key.name for key, _ in store.by_labels("pods", {"app": "web"})] == ["b"]
        assert [key.name for key, _ in store.by_owner("pods", "o1")] == ["b"]
        assert store.find_uid(_UUIDS[0]) is None
        assert store.find_uid(_UUIDS[1]) == ("pods", Key("team-a", "b", "hub"))


def test_revisions_of_another_life_do_not_count() -> None:
    """A service that has restarted counts anew: its small numbers are no old news."""
    store = _store(event("ADDED", "a", rv=7, revision=900), event("ADDED", "b", revision=901))
    changed, deleted = (
        event("MODIFIED", "a", rv=8, revision=3),
        event("DELETED", "b", rv=9, revision=4),
    )
    assert _apply(store, changed, deleted) == []
    store.forget_revisions()
    assert _apply(store, changed, deleted) == [("MODIFIED", "a", ""), ("DELETED", "b", "")]
    assert _apply(store, event("MODIFIED", "a", rv=7, revision=2)) == [], "they count again"


def test_everything_that_is_held_can_be_walked() -> None:
    """With the version in which each is written, one resource, cluster and namespace at a time."""
    other = event("ADDED", "d", resource="deployments.apps")
    other.object.version = "v1beta1"
    store = _store(
        event("ADDED", "a"),
        other,
        event("ADDED", "b", namespace="team-b"),
        event("ADDED", "c"),
    )
    walked = [(resource, key, entry.uid, entry.version) for resource, key, entry in store.walk()]
    assert walked == [
        ("pods", Key("team-a", "a", "hub"), "uid-a", "v1"),
        ("pods", Key("team-a", "c", "hub"), "uid-c", "v1"),
        ("pods", Key("team-b", "b", "hub"), "uid-b", "v1"),
        ("deployments.apps", Key("team-a", "d", "hub"), "uid-d", "v1beta1"),
    ]
