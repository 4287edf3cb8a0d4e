"""What the subscribers of the benchmark make of what they receive."""

from __future__ import annotations

import pytest

from bench.subscribers import Latencies


def latencies(monkeypatch: pytest.MonkeyPatch, times: list[float]) -> Latencies:
    """Make latencies whose clock gives these times, one for each arrival."""
    clock = iter(times)
    monkeypatch.setattr("bench.subscribers.time.monotonic", lambda: next(clock))
    return Latencies()


def test_an_arrival_is_compared_with_that_of_the_raw_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is added is the time after the raw watch, less than nothing included."""
    found = latencies(monkeypatch, [10.0, 10.25, 19.5, 20.0])
    found.came_raw("1")
    found.came("1", written_at=9.0)
    found.came("2", written_at=18.0)
    found.came_raw("2")
    assert found.take() == {"added": [0.25, -0.5], "whole": [1.25, 1.5]}


def test_a_change_counts_once_it_came_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is under way waits for the next time, and none is told twice."""
    found = latencies(monkeypatch, [1.0, 2.0])
    found.came_raw("1")
    assert found.take() == {"added": [], "whole": []}
    found.came("1", written_at=0.0)
    assert found.take() == {"added": [1.0], "whole": [2.0]}
    assert found.take() == {"added": [], "whole": []}
