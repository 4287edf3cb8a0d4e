"""Rules of what proves that a source does not hold what its API server lists, and of what does not.

Two sides: whoever is right is never accused, whatever comes in between; and what was lost without a
word is found.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.items import item, served, source_spec
from watchcache_server.informer.audit import Audit, Finding
from watchcache_server.informer.comparison import Listed
from watchcache_server.informer.ledger import Ledger
from watchcache_server.informer.objects import Delta, Item, Remove, Upsert
from watchcache_server.informer.source import Source
from watchcache_server.model.states import CheckOutcome, LeftReason

CONSISTENT, MISMATCH, UNCLEAR = (
    CheckOutcome.CONSISTENT,
    CheckOutcome.MISMATCH,
    CheckOutcome.UNCLEAR,
)
WEB = item("web", uid="uid-web", version="5")
DB = item("db", uid="uid-db", version="7")
API = item("api", uid="uid-api", version="15")


def listed(*items: Item) -> list[Listed]:
    """Return objects as a list shows them."""
    return [Listed(each.namespace, each.name, each.uid, each.resource_version) for each in items]


def at(what: Item, version: str, uid: str = "") -> Item:
    """Return an object at another version."""
    return item(what.name, namespace=what.namespace, uid=uid or what.uid, version=version)


def held(*items: Item, position: str = "10", **spec: object) -> Source:
    """Return a source that holds objects, and is at a position."""
    source = Source(1, source_spec(**spec))  # type: ignore[arg-type]
    source.served = served()
    source.stage(items)
    source.commit(position)
    source.note_position(position, 0)
    return source


def stream(source: Source, *deltas: Delta, to: str) -> None:
    """Let a source read changes, by which it is at a version."""
    source.apply(deltas)
    source.note_position(to, 0)


def compared(source: Source, version: str, *items: Item, most_differing: int = 1000) -> Audit:
    """Return an audit of a list that is read at once."""
    audit = Audit(source, most_differing=most_differing)
    audit.begin(version)
    audit.compare(listed(*items))
    return audit


# name: what a list at version 20 shows of a source that holds WEB and DB, and its stream is there
QUIET: dict[str, tuple[list[Item], CheckOutcome, tuple[int, int, int]]] = {
    "the same": ([DB, WEB], CONSISTENT, (0, 0, 0)),
    "an addition that was lost": ([DB, WEB, API], MISMATCH, (1, 0, 0)),
    "a deletion that was lost": ([DB], MISMATCH, (0, 0, 1)),
    "a change that was lost": ([DB, at(WEB, "15")], MISMATCH, (0, 1, 0)),
    "a deletion and an addition": ([DB, at(WEB, "15", "uid-2")], MISMATCH, (0, 1, 0)),
    "one of each": ([at(DB, "12"), API], MISMATCH, (1, 1, 1)),
    "everything": ([], MISMATCH, (0, 0, 2)),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_the_stream_has_not_told_by_then_was_lost(name: str) -> None:
    """Not before the stream is at the version of the list: what differs may be on its way."""
    shown, outcome, counts = QUIET[name]
    source = held(WEB, DB)
    audit = compared(source, "20", *shown)
    assert audit.look() is (CONSISTENT if outcome is CONSISTENT else None)
    source.note_position("20", 0)
    assert audit.look() is outcome
    if outcome is MISMATCH:
        finding = audit.finding()
        assert (finding.missing, finding.outdated, finding.surplus) == counts
        assert (finding.held, finding.listed) == (2, len(shown))
    audit.close()
    assert source.ledger is None


# name: what a list at version 20 shows, what the stream tells before it comes there, and behind it
MOVING: dict[str, tuple[list[Item], list[Delta], list[Delta]]] = {
    "an addition": ([DB, WEB, API], [Upsert(API, is_addition=True)], []),
    "an addition behind it": ([DB, WEB], [], [Upsert(at(API, "21"), is_addition=True)]),
    "a change": ([DB, at(WEB, "15")], [Upsert(at(WEB, "15"))], []),
    "a change behind it": ([DB, WEB], [], [Upsert(at(WEB, "21"))]),
    "two changes": ([DB, at(WEB, "15")], [Upsert(at(WEB, "15"))], [Upsert(at(WEB, "22"))]),
    "a deletion": ([DB], [Remove(at(WEB, "15"))], []),
    "a deletion behind it": ([DB, WEB], [], [Remove(at(WEB, "21"))]),
    "one that came and went": (
        [DB, WEB],
        [Upsert(API, is_addition=True), Remove(at(API, "16"))],
        [],
    ),
    "one that came and went behind it": (
        [DB, WEB, API],
        [Upsert(API, is_addition=True)],
        [Remove(at(API, "22"))],
    ),
    "another object of the name": ([DB, at(WEB, "15", "n")], [Upsert(at(WEB, "15", "n"))], []),
    "all at once": (
        [at(DB, "14"), API],
        [Remove(at(WEB, "13")), Upsert(at(DB, "14")), Upsert(API, is_addition=True)],
        [Remove(at(DB, "21")), Upsert(at(WEB, "22", "n"), is_addition=True), Remove(at(API, "23"))],
    ),
}


@pytest.mark.parametrize("is_early", [True, False], ids=["before the list", "after it"])
@pytest.mark.parametrize("name", MOVING)
def test_a_source_that_is_right_is_never_accused(name: str, is_early: bool) -> None:
    """Whenever it is looked, and whether the stream came before the answer or after it."""
    shown, before, behind = MOVING[name]
    source = held(WEB, DB)
    audit = Audit(source)

    def read() -> None:
        stream(source, *before, to="19")
        if not is_early:
            assert audit.look() is not MISMATCH
        stream(source, *behind, to="25")

    if is_early:
        read()
    audit.begin("20")
    audit.compare(listed(*shown))
    if not is_early:
        assert audit.look() is not MISMATCH
        read()
    assert audit.look() is CONSISTENT


@pytest.mark.parametrize("name", MOVING)
def test_a_number_alone_accuses_nobody_who_is_right(name: str) -> None:
    """It is that of one version, and the source is at another."""
    shown, before, behind = MOVING[name]
    source = held(WEB, DB)
    audit = Audit(source)
    stream(source, *before, *behind, to="25")
    audit.begin("20")
    audit.expect(len(shown))
    assert audit.look() is CONSISTENT


def test_a_loss_is_found_on_a_busy_resource() -> None:
    """What is touched says nothing; what is not does, and the number does."""
    shown = [at(DB, "14"), WEB]
    source = held(WEB, DB, at(API, "8"))
    audit = compared(source, "20", *shown)
    stream(source, Upsert(at(DB, "14")), Remove(at(DB, "22")), to="25")
    assert audit.look() is MISMATCH
    assert audit.finding() == Finding("20", held=3, listed=2, surplus=1)


# What happens to a source that does not hold what is listed: nothing can be told then.
DISTURBANCES: dict[str, Callable[[Source], object]] = {
    "a relist": lambda source: source.commit("20"),
    "a purge": lambda source: source.purge(LeftReason.RIGHTS_REVOKED),
    "an object taken over": lambda source: source.run_ahead(source.table.get("team-a", "web")),  # type: ignore[arg-type]
    "a hand-over": lambda source: setattr(source, "is_retiring", True),
}


@pytest.mark.parametrize("name", DISTURBANCES)
def test_what_was_replaced_cannot_be_compared(name: str) -> None:
    """Nor what is being handed over."""
    source = held(WEB, DB)
    audit = compared(source, "20", DB)
    assert not audit.is_over
    DISTURBANCES[name](source)
    source.note_position("30", 0)
    assert audit.is_over
    assert audit.look() is UNCLEAR


def test_a_list_of_the_past_proves_nothing() -> None:
    """The storage was set back, or somebody answers who is behind."""
    audit = compared(held(WEB, DB), "9", DB)
    assert audit.is_of_the_past
    assert audit.look() is UNCLEAR


def test_versions_that_do_not_compare_prove_nothing() -> None:
    """Only that they are the same."""
    source = held(WEB, DB, position="x10")
    audit = compared(source, "x20", DB)
    source.note_position("x30", 0)
    assert audit.look() is None
    source.note_position("x20", 0)
    assert audit.look() is MISMATCH


def test_steps_whose_versions_do_not_compare_cannot_be_counted() -> None:
    """Objects of another kind of version came meanwhile."""
    source = held(WEB, DB)
    audit = compared(source, "20", DB)
    stream(source, Upsert(at(API, "x1"), is_addition=True), to="25")
    assert audit.look() is UNCLEAR


# name: what is not told with the version at which it happened
UNDATED: dict[str, Delta] = {
    "a deletion of an old server": Remove(WEB),
    "an object that a list has shown to be gone": Upsert(item("late", uid="u", version="12")),
}


class Floor:
    """What hides everything that is new."""

    version = "30"

    def hides(self, _: Item) -> bool:
        return True


@pytest.mark.parametrize("name", UNDATED)
def test_what_is_not_dated_cannot_be_counted(name: str) -> None:
    """The number of objects at a version is not known then; single ones still count."""
    source = held(WEB, DB)
    source.floors.add("", "", Floor())
    audit = compared(source, "20", WEB, DB)
    stream(source, UNDATED[name], to="25")
    assert audit.look() is UNCLEAR
    audit.compare(listed(API))
    assert audit.look() is MISMATCH
    assert audit.finding().held == source.certain_count


def test_objects_in_doubt_are_not_held_to_be_there() -> None:
    """They have left the selector: the list does not show them, and a GET is under way."""
    source = held(WEB, DB, label_selector="a=b")
    audit = compared(source, "20", DB)
    stream(source, Remove(at(WEB, "15")), to="25")
    assert source.table.count == 2
    assert audit.look() is CONSISTENT
    source.resolve(source.unverified[0], is_deleted=True)
    assert audit.look() is CONSISTENT


def test_what_came_back_into_a_selector_counts_again() -> None:
    """In the same form as before."""
    source = held(WEB, DB, label_selector="a=b")
    stream(source, Remove(at(WEB, "9")), to="10")
    audit = compared(source, "20", at(WEB, "15"), DB)
    stream(source, Upsert(at(WEB, "15"), is_addition=True), to="25")
    assert audit.look() is CONSISTENT


def test_other_names_than_those_wanted_are_passed_over() -> None:
    """The list is of the whole namespace."""
    source = held(WEB, DB, names=[("team-a", "web")])
    audit = compared(source, "20", WEB, DB, API)
    source.note_position("20", 0)
    assert audit.look() is CONSISTENT


def test_an_object_that_is_newer_than_the_list_is_not_held_against_it() -> None:
    """It was taken over from another source, which was ahead."""
    source = held(at(WEB, "30"), DB)
    audit = compared(source, "20", WEB, DB)
    source.note_position("20", 0)
    assert audit.look() is CONSISTENT


def test_too_many_differences_are_not_all_remembered() -> None:
    """Then there is no agreement without those that were not."""
    source = held()
    audit = compared(source, "20", WEB, DB, most_differing=1)
    stream(source, Upsert(WEB), Upsert(DB), to="20")
    assert audit.look() is UNCLEAR
    audit = compared(held(position="20"), "20", WEB, DB, most_differing=1)
    assert audit.look() is MISMATCH


def test_too_many_changes_end_it() -> None:
    """What is touched is remembered, so there is a bound."""
    source = held(WEB, DB)
    audit = Audit(source, Ledger(most_touched=1))
    stream(source, Upsert(at(WEB, "15")), Upsert(at(DB, "16")), to="20")
    assert audit.is_over


def test_a_finding_is_said_with_its_numbers() -> None:
    """For people, and for the log."""
    finding = Finding("20", held=7, listed=8, missing=3, outdated=2, surplus=1)
    assert finding.text() == (
        "held at version 20: 7, listed: 8, listed and not held: 3, held in another form: 2, "
        "held and not listed: 1"
    )
    assert Finding("20", held=7, listed=8).text() == "held at version 20: 7, listed: 8"
    assert finding.counts() == {
        "held": 7,
        "listed": 8,
        "missing": 3,
        "outdated": 2,
        "surplus": 1,
    }
