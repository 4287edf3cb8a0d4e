"""The history is a window of consecutive revisions, bounded in count and in bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.items import source_spec
from watchcache_server.informer.history import Change, History
from watchcache_server.informer.source import Source
from watchcache_server.model.states import EventKind

SOURCE = Source(1, source_spec())


def change(revision: int, cost: int = 1) -> Change:
    """Make a change that costs so many bytes."""
    return Change(revision, EventKind.ADDED, SOURCE, None, (), None, False, 0.0, cost)


def filled(costs: list[int], *, max_changes: int = 1_000_000, max_bytes: int = 1 << 40) -> History:
    """Make a history to which changes of these costs were added."""
    history = History(max_changes=max_changes, max_bytes=max_bytes)
    for revision, cost in enumerate(costs, 1):
        history.append(change(revision, cost))
    return history


def revisions(history: History, since: int) -> list[int]:
    """Return the revisions after `since`."""
    return [each.revision for each in history.since(since)]


@pytest.mark.parametrize(
    ("costs", "max_changes", "max_bytes", "expected"),
    [
        pytest.param([], 5, 100, [], id="empty"),
        pytest.param([1] * 5, 5, 100, [1, 2, 3, 4, 5], id="exactly full by count"),
        pytest.param([1] * 6, 5, 100, [2, 3, 4, 5, 6], id="one too many"),
        pytest.param([50, 50], 5, 100, [1, 2], id="exactly full by bytes"),
        pytest.param([50, 50, 1], 5, 100, [2, 3], id="one byte too many"),
        pytest.param([50, 30, 90], 5, 100, [3], id="several make room for a large one"),
        pytest.param([1, 1000], 5, 100, [2], id="the latest stays, however large"),
        pytest.param([1, 1], 0, 100, [], id="no history is kept"),
    ],
)
def test_oldest_changes_go_first(
    costs: list[int], max_changes: int, max_bytes: int, expected: list[int]
) -> None:
    """What is beyond a bound is dropped from the old end, and its bytes with it."""
    history = filled(costs, max_changes=max_changes, max_bytes=max_bytes)
    assert revisions(history, history.first_revision - 1) == expected
    assert history.bytes == sum(costs[revision - 1] for revision in expected)


@pytest.mark.parametrize(
    ("revision", "expected"),
    [
        pytest.param(-1, False, id="before all time"),
        pytest.param(0, False, id="dropped long ago"),
        pytest.param(2, False, id="the next one was dropped"),
        pytest.param(3, True, id="all that follow are here"),
        pytest.param(7, True, id="the present"),
        pytest.param(8, False, id="the future"),
    ],
)
def test_history_covers_what_it_can_continue(revision: int, expected: bool) -> None:
    """A place is covered if it has been and nothing after it is lost."""
    assert filled([1] * 7, max_changes=4).covers(revision) is expected


def test_beginning_is_covered_while_nothing_was_dropped() -> None:
    """Revision 0 is a place: before the first change."""
    assert filled([]).covers(0)
    assert filled([1]).covers(0)
    assert revisions(filled([1]), 0) == [1]


@given(
    costs=st.lists(st.integers(1, 20), max_size=80),
    max_changes=st.integers(1, 30),
    max_bytes=st.integers(1, 200),
)
def test_window_is_consecutive_and_within_its_bounds(
    costs: list[int], max_changes: int, max_bytes: int
) -> None:
    """At any time the window ends at the latest change, has no gap, and keeps its bounds."""
    history = History(max_changes=max_changes, max_bytes=max_bytes)
    for revision, cost in enumerate(costs, 1):
        history.append(change(revision, cost))
        first = history.first_revision
        assert revisions(history, first - 1) == list(range(first, revision + 1))
        assert len(history) == revision - first + 1 <= max_changes
        assert history.bytes <= max_bytes or len(history) == 1


def test_dropped_changes_are_freed() -> None:
    """A long life leaves no trace: neither the changes nor their places in the list pile up."""
    history = filled([1] * 10_000, max_changes=10)
    assert len(history._changes) < 3000
    assert sum(each is not None for each in history._changes) == 10
    assert revisions(history, 9_995) == [9_996, 9_997, 9_998, 9_999, 10_000]
