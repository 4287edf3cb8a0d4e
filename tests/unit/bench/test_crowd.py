"""What a crowd of subscribers says of the changes it had."""

from __future__ import annotations

import pytest

from bench.crowd import Arrivals


def arrivals(monkeypatch: pytest.MonkeyPatch, times: list[float]) -> Arrivals:
    """Make arrivals whose clock gives these times, one for each."""
    clock = iter(times)
    monkeypatch.setattr("bench.crowd.time.monotonic", lambda: next(clock))
    return Arrivals()


def test_each_stream_is_compared_with_the_raw_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """One change counts once for each stream that had it, before the raw watch or after it."""
    found = arrivals(monkeypatch, [9.5, 10.0, 10.25])
    found.came("1", written_at=9.0)
    found.came_raw("1")
    found.came("1", written_at=9.0)
    assert found.take() == {"added": [-0.5, 0.25], "whole": [0.5, 1.25]}


def test_what_is_under_way_between_two_phases_counts_in_neither(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A change of the phase before would count for the phase that it arrives in."""
    found = arrivals(monkeypatch, [1.0, 2.0, 3.0])
    found.came_raw("1")
    found.came("2", written_at=1.5)
    assert found.take() == {"added": [], "whole": []}
    found.came("1", written_at=0.5)
    assert found.take() == {"added": [], "whole": []}
