"""Rules of what proves that a source has come to a list (informers 1.1, KEP-5504)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.items import item, served, source_spec
from watchcache_server.informer.comparison import Comparison, Listed, Scope, is_at_least
from watchcache_server.informer.objects import Delta, Item, Remove, Upsert
from watchcache_server.informer.source import Source, Unverified
from watchcache_server.model.states import LeftReason

WEB = item("web", uid="uid-web", version="5")
DB = item("db", uid="uid-db", version="7")
OTHER = item("web", namespace="team-b", uid="uid-other", version="6")


def listed(*items: Item) -> list[Listed]:
    """Return objects as a list shows them."""
    return [Listed(each.namespace, each.name, each.uid, each.resource_version) for each in items]


def held(*items: Item, position: str = "10", **spec: Any) -> Source:
    """Return a source that holds objects, and is at a position."""
    source = Source(1, source_spec(**spec))
    source.served = served()
    source.stage(items)
    source.commit(position)
    source.note_position(position, 0)
    return source


def apply(source: Source, delta: Delta, position: str) -> None:
    """Let a source read a change."""
    source.apply([delta])
    source.note_position(position, 0)


def changed(what: Item, version: str, uid: str = "") -> Item:
    """Return an object at another version."""
    return item(what.name, namespace=what.namespace, uid=uid or what.uid, version=version)


# name: what the list shows at version 20, and whether a source that holds WEB and DB has come to it
SHOWN: dict[str, tuple[list[Item], bool]] = {
    "the same": ([DB, WEB], True),
    "a change": ([DB, changed(WEB, "15")], False),
    "an older form than is held": ([DB, changed(WEB, "4")], False),
    "another object": ([DB, WEB, item("new", uid="uid-new", version="15")], False),
    "one that should be held by now": ([DB, WEB, item("lost", uid="uid-l", version="9")], False),
    "one less": ([DB], False),
    "none": ([], False),
    "another object of the name": ([DB, changed(WEB, "15", "uid-2")], False),
    "an object before the one of the name": ([DB, changed(WEB, "4", "uid-0")], False),
    "a version that does not compare": ([DB, changed(WEB, "x1")], False),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_source_has_come_to_a_list_of_what_it_holds(name: str) -> None:
    """Anything else is yet to come, or cannot be explained, which is no proof either."""
    shown, is_met = SHOWN[name]
    comparison = Comparison(held(WEB, DB), Scope(), "20", listed(*shown))
    assert comparison.look() is is_met


# name: what the list shows, and the event that brings the source there
EVENTS: dict[str, tuple[list[Item], Delta]] = {
    "a change": ([DB, changed(WEB, "15")], Upsert(changed(WEB, "15"))),
    "a later change": ([DB, changed(WEB, "15")], Upsert(changed(WEB, "21"))),
    "an addition": ([DB, WEB, changed(OTHER, "15")], Upsert(changed(OTHER, "15"))),
    "a deletion": ([DB], Remove(changed(WEB, "15"))),
    "an object after a deletion": ([DB], Upsert(changed(WEB, "21", "n"))),
    "another object of the name": ([DB, changed(WEB, "15", "n")], Upsert(changed(WEB, "15", "n"))),
    "an object after it": ([DB, changed(WEB, "15", "n")], Upsert(changed(WEB, "21", "m"))),
}


@pytest.mark.parametrize("name", EVENTS)
def test_the_stream_brings_a_source_to_a_list(name: str) -> None:
    """Not before its event has come; what is met once stays met."""
    shown, delta = EVENTS[name]
    source = held(WEB, DB)
    comparison = Comparison(source, Scope(), "20", listed(*shown))
    assert not comparison.look()
    source.note_position("12", 0)
    assert not comparison.look(), "a position before the change proves nothing"
    apply(source, delta, "18")
    assert comparison.look()
    apply(source, Remove(changed(DB, "30")), "30")
    assert comparison.look(), "what comes later takes nothing back"


def test_what_became_after_the_list_is_no_difference() -> None:
    """The list is of the past by then."""
    source = held(WEB, DB)
    apply(source, Upsert(item("late", uid="uid-late", version="21")), "21")
    assert Comparison(source, Scope(), "20", listed(WEB, DB)).look()


def test_versions_that_do_not_compare_have_to_be_the_same() -> None:
    """As aggregated APIs have them: equal objects still prove it."""
    opaque = item("web", uid="uid-web", version="a9")
    source = held(opaque, position="z1")
    assert Comparison(source, Scope(), "q7", listed(opaque)).look()
    newer = Comparison(source, Scope(), "q8", listed(changed(opaque, "b1")))
    assert not newer.look()
    apply(source, Upsert(changed(opaque, "b1")), "q8")
    assert newer.look()


def test_an_object_in_doubt_is_waited_for() -> None:
    """Under a selector the stream's DELETED proves nothing; what it was is found out first."""
    source = held(WEB, DB, label_selector="app=web")
    comparison = Comparison(source, Scope(), "20", listed(DB))
    apply(source, Remove(changed(WEB, "15")), "20")
    assert not comparison.look()
    source.resolve(Unverified("team-a", "web", "uid-web"), is_deleted=True)
    assert comparison.look()


# name: a scope, and what of WEB, DB and OTHER belongs to it
SCOPES: dict[str, tuple[Scope, list[Item]]] = {
    "everything": (Scope(), [WEB, DB, OTHER]),
    "a namespace": (Scope("team-a"), [WEB, DB]),
    "another one": (Scope("team-b"), [OTHER]),
    "a namespace without objects": (Scope("team-c"), []),
    "an object": (Scope("team-a", "web"), [WEB]),
    "an object that is not there": (Scope("team-b", "db"), []),
}


@pytest.mark.parametrize("name", SCOPES)
def test_a_scope_is_compared_with_what_is_held_of_it(name: str) -> None:
    """Objects beside it do not count."""
    scope, within = SCOPES[name]
    source = held(WEB, DB, OTHER)
    assert {entry.uid for entry in scope.entries(source)} == {each.uid for each in within}
    assert Comparison(source, scope, "20", listed(*within)).look()
    assert Comparison(source, scope, "20", []).look() is not bool(within)
    assert not scope.is_larger(source, len(within))
    assert not within or scope.is_larger(source, len(within) - 1)


def test_objects_that_the_spec_does_not_name_do_not_count() -> None:
    """The list has no way to leave them out."""
    source = held(WEB, names=[("team-a", "web")])
    assert Comparison(source, Scope(), "20", listed(WEB, DB, OTHER)).look()


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("10", "9", True),
        ("9", "10", False),
        ("10", "10", True),
        ("x", "x", True),
        ("x", "y", False),
    ],
)
def test_a_version_is_reached_by_itself_or_a_newer_one(
    version: str, wanted: str, *, expected: bool
) -> None:
    """The longer number is the greater one."""
    assert is_at_least(version, wanted) is expected


@given(data=st.data())
def test_nothing_else_is_ever_taken_for_the_state_of_the_list(data: st.DataObject) -> None:
    """Whatever happened in a cluster, and in whatever portions the stream brings it.

    The source has come to the list exactly when it holds what that shows, at the latest when all
    events up to it have come. From then on it is never older: it holds what there was at the list,
    or later.
    """
    history = _history(data)
    listed_at = data.draw(st.integers(0, len(history)), label="events before the list")
    state = _state(history[:listed_at])
    version = str(100 + listed_at * 10 + data.draw(st.integers(0, 9), label="writes elsewhere"))
    source = held(position="100")
    read = data.draw(st.integers(0, listed_at), label="events read before the list")
    _read(source, history[:read], read)
    shown = [Listed("team-a", name, uid, rv) for name, (uid, rv) in state.items()]
    comparison = Comparison(source, Scope(), version, shown)
    while True:
        is_met = comparison.look()
        holds = {entry.name: (entry.uid, entry.resource_version) for entry in source.table}
        if read <= listed_at:
            assert is_met is (holds == state)
        if is_met or is_at_least(source.position, version):
            assert holds == _state(history[: max(read, listed_at)])
        if read >= listed_at:
            assert is_met or is_at_least(source.position, version)
        if read == len(history):
            return
        portion = data.draw(st.integers(1, len(history) - read), label="events of a chunk")
        _read(source, history[read : read + portion], read + portion)
        read += portion


def _history(data: st.DataObject) -> list[tuple[str, str, str, str]]:
    """Draw what happens in a cluster: (ADDED, MODIFIED or DELETED, name, uid, version)."""
    history: list[tuple[str, str, str, str]] = []
    living: dict[str, str] = {}
    names = data.draw(st.lists(st.sampled_from("abc"), max_size=12), label="names")
    for number, name in enumerate(names, 1):
        version = str(100 + number * 10)
        if name not in living:
            living[name] = f"uid-{number}"
            history.append(("ADDED", name, living[name], version))
        elif data.draw(st.booleans(), label="is it deleted"):
            history.append(("DELETED", name, living.pop(name), version))
        else:
            history.append(("MODIFIED", name, living[name], version))
    return history


def _state(history: list[tuple[str, str, str, str]]) -> dict[str, tuple[str, str]]:
    state: dict[str, tuple[str, str]] = {}
    for kind, name, uid, version in history:
        if kind == "DELETED":
            del state[name]
        else:
            state[name] = (uid, version)
    return state


def _read(source: Source, events: list[tuple[str, str, str, str]], count: int) -> None:
    """Let a source read these events, which make so many in all."""
    deltas: list[Delta] = []
    for kind, name, uid, version in events:
        thing = item(name, uid=uid, version=version)
        deltas.append(Remove(thing) if kind == "DELETED" else Upsert(thing, kind == "ADDED"))
    source.apply(deltas)
    source.note_position(str(100 + count * 10), 0)


GHOST = item("ghost", uid="uid-ghost", version="15")


@pytest.mark.parametrize(
    "scope", [Scope(), Scope("team-a"), Scope("team-a", "ghost")], ids=["all", "namespace", "name"]
)
def test_what_came_and_went_before_the_list_is_passed_over(scope: Scope) -> None:
    """Who was told that there is no such object must not find it a moment later."""
    source = held(WEB, DB)
    within = [each for each in (WEB, DB) if scope.name in ("", each.name)]
    assert Comparison(source, scope, "20", listed(*within)).look()
    assert source.apply([Upsert(GHOST, is_addition=True)]) == []
    assert source.apply([Remove(changed(GHOST, "17"))]) == []
    source.note_position("17", 0)
    later = changed(GHOST, "21", "uid-later")
    [effect] = source.apply([Upsert(later, is_addition=True)])
    assert effect.entry.uid == "uid-later", "one that came after the list is seen"


def test_beside_what_was_listed_nothing_is_passed_over() -> None:
    """Nothing was shown of it."""
    source = held(WEB, DB)
    Comparison(source, Scope("team-a", "web"), "20", listed(WEB))
    Comparison(source, Scope("team-b"), "20", [])
    assert len(source.apply([Upsert(GHOST, is_addition=True)])) == 1


def test_a_relist_that_is_older_than_the_list_brings_nothing_back() -> None:
    """It may be of the time between."""
    source = held(WEB, DB)
    assert Comparison(source, Scope(), "20", listed(WEB, DB)).look()
    source.stage([WEB, DB, GHOST])
    assert source.commit("16") == []
    assert source.table.get("team-a", "ghost") is None


def test_a_storage_that_was_set_back_shows_what_it_has() -> None:
    """The list was of a future that is no more."""
    source = held(WEB, DB)
    assert Comparison(source, Scope(), "20", listed(WEB, DB)).look()
    source.note_position("7", 0)
    assert len(source.apply([Upsert(changed(GHOST, "8"), is_addition=True)])) == 1


def test_where_the_stream_has_come_to_the_list_everything_is_as_it_says() -> None:
    """Also what it says twice, in numbers of its own."""
    source = held(WEB, DB)
    assert Comparison(source, Scope(), "20", listed(WEB, DB)).look()
    source.note_position("20", 0)
    assert len(source.apply([Upsert(GHOST, is_addition=True)])) == 1


def test_what_is_dropped_takes_its_floors_along() -> None:
    """The objects that come after it begin anew."""
    source = held(WEB, DB)
    assert Comparison(source, Scope(), "20", listed(WEB, DB)).look()
    source.purge(LeftReason.RIGHTS_REVOKED)
    source.stage([GHOST])
    source.commit("18")
    assert source.table.get("team-a", "ghost") is not None


def test_the_newest_of_several_lists_has_to_be_reached() -> None:
    """In whatever order their answers come."""
    source = held(WEB, DB)
    Comparison(source, Scope(), "20", listed(WEB, DB))
    Comparison(source, Scope("team-a", "none"), "18", [])
    source.note_position("18", 0)
    assert source.apply([Upsert(changed(GHOST, "19"), is_addition=True)]) == []
    source.note_position("20", 0)
    assert len(source.apply([Upsert(changed(GHOST, "21"), is_addition=True)])) == 1
