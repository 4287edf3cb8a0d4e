"""The history checker accepts good histories and catches every kind of bad one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.histories import (
    DB,
    GOLD,
    RESUMED,
    SILVER,
    SNAPSHOT,
    WEB,
    batch,
    change,
    coalesced,
    snapshot,
)
from tests.history_checker import HistoryChecker, Rule
from tests.history_records import (
    Bookmark,
    Disconnected,
    Draining,
    Key,
    Record,
    Reset,
    Started,
    Synced,
)


def rules(records: Iterable[Record]) -> list[Rule]:
    """Say which rules a history breaks."""
    checker = HistoryChecker()
    checker.feed(*records)
    return [violation.rule for violation in checker.violations]


HELD = change("ADDED", 1)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([], id="nothing"),
        pytest.param([SNAPSHOT, Synced(), Bookmark(), Draining(), Disconnected()], id="empty"),
        pytest.param(
            [
                *snapshot(HELD),
                batch(change("MODIFIED", 2, version="2"), change("MODIFIED", 3, version="10")),
                batch(change("DELETED", 4, version="11")),
            ],
            id="the life of an object",
        ),
        pytest.param(
            [
                *snapshot(HELD),
                batch(change("DELETED", 2), change("ADDED", 3, "uid-2", "2")),
                batch(change("MODIFIED", 4, "uid-2", "3")),
            ],
            id="deleted and created anew",
        ),
        pytest.param(
            [*snapshot(HELD), batch(change("LEFT", 2), change("ADDED", 3, version="3"))],
            id="left and back",
        ),
        pytest.param(
            [
                *snapshot(HELD),
                coalesced(
                    change("DELETED", 2, "uid-7", key=DB),
                    change("ADDED", 5, version="5"),
                    change("MODIFIED", 9, "uid-2", "9", key=DB),
                ),
                batch(change("MODIFIED", 10, "uid-2", "10", key=DB)),
            ],
            id="caught up",
        ),
        pytest.param(
            [
                SNAPSHOT,
                batch(change("ADDED", 7), has_token=False),
                batch(
                    change("MODIFIED", 8, version="2"),
                    change("ADDED", 3, "uid-2", key=DB),
                    has_token=False,
                ),
                Synced(),
            ],
            id="a change within a snapshot",
        ),
        pytest.param(
            [*snapshot(HELD), Disconnected(), *snapshot(HELD)], id="a new snapshot after all"
        ),
        pytest.param(
            [*snapshot(HELD), Reset(), batch(HELD, has_token=False), Synced()], id="reset"
        ),
        pytest.param([SNAPSHOT, batch(HELD, has_token=False), Reset(), Synced()], id="reset early"),
        pytest.param(
            [*snapshot(HELD), Disconnected(), RESUMED, batch(change("MODIFIED", 2, version="2"))],
            id="resumed",
        ),
        pytest.param(
            [
                *snapshot(HELD),
                batch(change("ADDED", 5, "uid-2", key=DB), has_token=False),
                batch(change("DELETED", 6), change("ADDED", 7, "uid-3"), has_token=False),
                Disconnected(),
                RESUMED,
                batch(change("ADDED", 5, "uid-2", key=DB), has_token=False),
                batch(change("DELETED", 6), change("ADDED", 7, "uid-3")),
            ],
            id="resumed, with what came after the token again",
        ),
        pytest.param(
            [*snapshot(HELD), Disconnected(), RESUMED, batch(change("DELETED", 2)), Synced()],
            id="resumed, and all caught up on",
        ),
        pytest.param(
            [
                *snapshot(HELD),
                batch(change("ADDED", 5, "uid-2", key=DB), has_token=False),
                Disconnected(),
                RESUMED,
                batch(change("DELETED", 6, "uid-2", key=DB)),
                Synced(),
            ],
            id="resumed, with the end of what came after the token",
        ),
        pytest.param(
            [
                *snapshot(HELD),
                batch(change("MODIFIED", 9, version="2")),
                batch(
                    change("ADDED", 5, "uid-2", key=DB),
                    change("ADDED", 5, "uid-3", key=DB._replace(name="x")),
                ),
            ],
            id="a source that is loaded late",
        ),
        pytest.param(
            [
                *snapshot(HELD),
                batch(change("MODIFIED", 9, version="2")),
                Disconnected(),
                Started(is_resumed=False, is_difference=True, extension_uid="another"),
                Synced(),
                batch(change("MODIFIED", 3, version="3")),
            ],
            id="the difference to another life, which counts for itself",
        ),
        pytest.param(
            [*snapshot(HELD), batch(change("MODIFIED", 2, version="opaque"))],
            id="versions without order",
        ),
        pytest.param(
            [*snapshot(HELD), batch(change("LEFT", 2, reason="NEW_REASON"))], id="unknown reason"
        ),
    ],
)
def test_good_history_is_accepted(records: list[Record]) -> None:
    """Whatever the contract allows is no violation."""
    assert rules(records) == []


BAD = [
    pytest.param([Bookmark()], Rule.OPENING, id="does not begin"),
    pytest.param([SNAPSHOT, Synced(), SNAPSHOT], Rule.OPENING, id="begins twice"),
    pytest.param(
        [SNAPSHOT, Synced(), Disconnected(), Bookmark()], Rule.OPENING, id="goes on when lost"
    ),
    pytest.param([RESUMED], Rule.RESUMABLE, id="resumed from nothing"),
    pytest.param(
        [SNAPSHOT, batch(HELD, has_token=False), Disconnected(), RESUMED],
        Rule.RESUMABLE,
        id="resumed from within a snapshot",
    ),
    pytest.param(
        [*snapshot(HELD), Reset(), Disconnected(), RESUMED],
        Rule.RESUMABLE,
        id="resumed from within a reset",
    ),
    pytest.param([SNAPSHOT, Synced(), Synced()], Rule.SNAPSHOT, id="synced twice"),
    pytest.param(
        [
            *snapshot(HELD),
            batch(change("MODIFIED", 9, version="2")),
            Disconnected(),
            Started(is_resumed=False, is_difference=True),
            Synced(),
            batch(change("MODIFIED", 3, version="3")),
        ],
        Rule.REVISIONS,
        id="back among the revisions after a difference",
    ),
    pytest.param(
        [*snapshot(), Disconnected(), RESUMED, Synced(), Synced()],
        Rule.SNAPSHOT,
        id="synced twice when resumed",
    ),
    pytest.param([*snapshot(), Draining(), Bookmark()], Rule.LAST, id="more after the last"),
    pytest.param([SNAPSHOT, batch(HELD)], Rule.TOKEN, id="token of half a snapshot"),
    pytest.param([SNAPSHOT, Bookmark()], Rule.TOKEN, id="bookmark of half a snapshot"),
    pytest.param([SNAPSHOT, Synced(has_token=False)], Rule.TOKEN, id="synced without a token"),
    pytest.param(
        [*snapshot(), Bookmark(has_token=False)], Rule.TOKEN, id="bookmark without a token"
    ),
    pytest.param(
        [*snapshot(), Draining(has_token=False)], Rule.TOKEN, id="draining without a token"
    ),
    pytest.param([*snapshot(HELD), batch(change("ADDED", 2))], Rule.UNIQUE, id="added twice"),
    pytest.param(
        [*snapshot(HELD), coalesced(change("ADDED", 2))], Rule.UNIQUE, id="told twice on the way"
    ),
    pytest.param(
        [*snapshot(change("ADDED", 1, version="9")), coalesced(change("ADDED", 2, version="8"))],
        Rule.ORDERED,
        id="gone back on the way",
    ),
    pytest.param(
        [*snapshot(HELD), coalesced(change("ADDED", 2, "uid-2", "2"))],
        Rule.IDENTITY,
        id="replaced on the way without an end",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("MODIFIED", 2))], Rule.UNIQUE, id="modified to the same"
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("DELETED", 2), change("DELETED", 3))],
        Rule.UNIQUE,
        id="deleted twice",
    ),
    pytest.param(
        [*snapshot(), batch(change("MODIFIED", 2))], Rule.KNOWN, id="modified, never added"
    ),
    pytest.param([*snapshot(), batch(change("DELETED", 2))], Rule.KNOWN, id="deleted, never added"),
    pytest.param([*snapshot(), batch(change("LEFT", 2))], Rule.KNOWN, id="left, never added"),
    pytest.param(
        [*snapshot(HELD), Reset(), batch(change("MODIFIED", 2, version="2"), has_token=False)],
        Rule.KNOWN,
        id="modified, of before a reset",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("MODIFIED", 2, "uid-2", "2"))],
        Rule.IDENTITY,
        id="created anew, told as modified",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("ADDED", 2, "uid-2", "2"))],
        Rule.IDENTITY,
        id="created anew without the deletion",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("DELETED", 2, "uid-2", "2"))],
        Rule.IDENTITY,
        id="deletion of another object",
    ),
    pytest.param(
        [
            *snapshot(HELD),
            batch(change("MODIFIED", 2, version="10"), change("MODIFIED", 3, version="9")),
        ],
        Rule.ORDERED,
        id="out of order",
    ),
    pytest.param(
        [
            *snapshot(HELD),
            batch(change("MODIFIED", 3, version="2")),
            batch(change("MODIFIED", 3, version="3")),
        ],
        Rule.REVISIONS,
        id="one revision twice",
    ),
    pytest.param(
        [
            *snapshot(HELD, change("ADDED", 1, "uid-2", key=DB)),
            batch(change("MODIFIED", 5, version="2")),
            batch(change("MODIFIED", 4, "uid-2", "3", key=DB)),
        ],
        Rule.REVISIONS,
        id="revisions of two objects out of order",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("LEFT", 3), change("ADDED", 2, version="2"))],
        Rule.REVISIONS,
        id="back before it left",
    ),
    pytest.param(
        [
            *snapshot(HELD),
            batch(change("ADDED", 5, "uid-2", key=DB), has_token=False),
            Disconnected(),
            RESUMED,
            Synced(),
        ],
        Rule.ATOMIC,
        id="what was seen after the token is gone, and nobody says so",
    ),
    pytest.param(
        [*snapshot(HELD), Disconnected(), RESUMED, Synced(), batch(change("DELETED", 5, key=DB))],
        Rule.KNOWN,
        id="deleted, never added, when all was caught up on",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("LEFT", 2, reason=""))], Rule.REASON, id="no reason"
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("DELETED", 2, reason="SELECTION"))],
        Rule.REASON,
        id="deleted for a reason",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("DELETED", 2), change("ADDED", 3, version="3"))],
        Rule.DELETED_ONCE,
        id="back from the dead",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("DELETED", 2)), Reset(), batch(HELD, has_token=False)],
        Rule.DELETED_ONCE,
        id="back from the dead after a reset",
    ),
    pytest.param(
        [
            *snapshot(HELD),
            batch(change("MODIFIED", 2, version="2")),
            Disconnected(),
            RESUMED,
            batch(change("MODIFIED", 2, version="2")),
        ],
        Rule.UNIQUE,
        id="told again, though a token had come with it",
    ),
    pytest.param(
        [
            *snapshot(HELD),
            batch(change("DELETED", 2), has_token=False),
            Disconnected(),
            RESUMED,
            batch(change("ADDED", 3, "uid-2", "2")),
        ],
        Rule.IDENTITY,
        id="a deletion after the token is lost",
    ),
]


@pytest.mark.parametrize(("records", "expected"), BAD)
def test_bad_history_is_caught(records: list[Record], expected: Rule) -> None:
    """Each kind of violation is noted where it happens, by its rule."""
    assert expected in rules(records)
    assert rules(records[:-1]) == [], "the last record is the bad one"


def test_every_rule_has_a_history_that_breaks_it() -> None:
    """A rule that nothing can break is no rule; two are for the end, one for a selector alone."""
    broken = {case.values[1] for case in BAD}
    assert broken == set(Rule) - {Rule.NO_GAP, Rule.DELETED_TRULY, Rule.SELECTED}


# With a selector


@pytest.mark.parametrize(
    ("kind", "labels", "reason", "is_good"),
    [
        pytest.param("ADDED", GOLD, "", True, id="added, matching"),
        pytest.param("ADDED", SILVER, "", False, id="added, not matching"),
        pytest.param("MODIFIED", GOLD, "", True, id="modified, matching"),
        pytest.param("MODIFIED", SILVER, "", False, id="modified, not matching"),
        pytest.param("LEFT", SILVER, "LEFT_REASON_SELECTION", True, id="left, not matching"),
        pytest.param("LEFT", GOLD, "LEFT_REASON_SELECTION", False, id="left, matching"),
        pytest.param("LEFT", GOLD, "LEFT_REASON_SCOPE", True, id="left for another reason"),
        pytest.param("DELETED", GOLD, "", True, id="deleted, matching"),
        pytest.param("MODIFIED", None, "", True, id="labels unknown"),
    ],
)
def test_labels_are_compared_with_the_selector(
    kind: str, labels: dict[str, str] | None, reason: str, is_good: bool
) -> None:
    """Only what matches is ADDED and MODIFIED, and only what no longer matches LEFT for that."""
    checker = HistoryChecker(matches=lambda found: found.get("tier") == "gold")
    checker.feed(*snapshot() if kind == "ADDED" else snapshot(HELD))
    checker.feed(batch(replace(change(kind, 2, version="2", reason=reason), labels=labels)))
    assert [v.rule for v in checker.violations] == ([] if is_good else [Rule.SELECTED])


def test_an_upstream_selector_may_be_why_a_matching_object_left() -> None:
    """The informer's own selector says nothing of the labels that a subscriber asked for."""
    checker = HistoryChecker(matches=lambda found: True, is_selected_upstream=True)
    checker.feed(*snapshot(HELD), batch(replace(change("LEFT", 2), labels=GOLD)))
    checker.assert_clean()


# The end


@pytest.mark.parametrize(
    ("records", "expected", "deleted", "rule"),
    [
        pytest.param(snapshot(HELD), {WEB: ("uid-1", "1")}, None, None, id="equal"),
        pytest.param(
            [*snapshot(HELD), Disconnected()],
            {WEB: ("uid-1", "1")},
            None,
            None,
            id="equal, and then lost",
        ),
        pytest.param(
            [*snapshot(HELD), batch(change("DELETED", 2))], {}, {"uid-1"}, None, id="equal, empty"
        ),
        pytest.param(snapshot(), {WEB: ("uid-1", "1")}, None, Rule.NO_GAP, id="lost ADDED"),
        pytest.param(snapshot(HELD), {}, None, Rule.NO_GAP, id="lost DELETED"),
        pytest.param(snapshot(HELD), {WEB: ("uid-1", "2")}, None, Rule.NO_GAP, id="lost MODIFIED"),
        pytest.param(
            snapshot(HELD), {WEB: ("uid-2", "1")}, None, Rule.NO_GAP, id="lost replacement"
        ),
        pytest.param(
            [SNAPSHOT, batch(HELD, has_token=False)],
            {WEB: ("uid-1", "1")},
            None,
            Rule.SNAPSHOT,
            id="never synced",
        ),
        pytest.param([], {}, None, Rule.SNAPSHOT, id="never begun"),
        pytest.param(
            [*snapshot(HELD), batch(change("DELETED", 2))],
            {},
            set(),
            Rule.DELETED_TRULY,
            id="left, but called deleted",
        ),
        pytest.param(
            [*snapshot(HELD), batch(change("DELETED", 2))],
            {WEB._replace(namespace="b"): ("uid-1", "1")},
            None,
            Rule.DELETED_TRULY,
            id="called deleted, but there",
        ),
    ],
)
def test_end_is_compared_with_the_api_server(
    records: list[Record],
    expected: dict[Key, tuple[str, str]],
    deleted: set[str] | None,
    rule: Rule | None,
) -> None:
    """Nothing is missing, nothing is left over, and DELETED meant deleted."""
    checker = HistoryChecker()
    checker.feed(*records)
    assert checker.violations == []
    checker.finish(expected, deleted_uids=deleted)
    found = {violation.rule for violation in checker.violations}
    assert found - {Rule.NO_GAP} == ({rule} if rule else set()) - {Rule.NO_GAP}
    assert (rule is Rule.NO_GAP) <= (Rule.NO_GAP in found)


def test_history_may_begin_with_an_earlier_token() -> None:
    """What was held when the token was given is where the stream goes on."""
    checker = HistoryChecker({WEB: ("uid-1", "1")})
    checker.feed(RESUMED, batch(change("MODIFIED", 9, version="2")))
    checker.finish({WEB: ("uid-1", "2")})
    checker.assert_clean()


def test_violations_are_shown_with_their_place() -> None:
    """Who reads a failed test sees which record broke which rule."""
    checker = HistoryChecker()
    checker.feed(*snapshot(HELD), batch(change("ADDED", 2)))
    with pytest.raises(
        AssertionError, match=r"1 violations:\nrecord 4: ADDED of deployments\.apps"
    ):
        checker.assert_clean()
    assert checker.change_count == 2
    assert checker.held == {WEB: ("uid-1", "1")}
