"""Rules of the one timer after failures."""

from __future__ import annotations

import pytest

from watchcache_server.informer.backoff import Backoff, BackoffSettings


@pytest.fixture
def backoff() -> Backoff:
    """Return a backoff with client-go's figures."""
    return Backoff(BackoffSettings())


def test_delays_double_up_to_the_longest(backoff: Backoff) -> None:
    """0.8 s, twice as long after each failure in a row, never above 30 s."""
    now, delays = 100.0, []
    for _ in range(8):
        delay = backoff.next_delay(now=now, jitter=0.0)
        delays.append(delay)
        now += delay
    assert delays == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


@pytest.mark.parametrize(
    ("jitter", "expected"),
    [
        pytest.param(0.0, 0.8, id="none"),
        pytest.param(0.5, 1.2, id="half"),
        pytest.param(0.999, 1.5992, id="nearly all"),
    ],
)
def test_jitter_adds_up_to_as_much_again(backoff: Backoff, jitter: float, expected: float) -> None:
    """The delay is stretched by the jitter, to between one and two times."""
    assert backoff.next_delay(now=0.0, jitter=jitter) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("healthy_for", "expected"),
    [
        pytest.param(119.9, 1.6, id="less than two minutes"),
        pytest.param(120.0, 0.8, id="two minutes"),
    ],
)
def test_two_minutes_of_health_start_anew(
    backoff: Backoff, healthy_for: float, expected: float
) -> None:
    """Health is counted from the end of the last wait."""
    over_at = 10.0 + backoff.next_delay(now=10.0, jitter=0.0)
    assert backoff.next_delay(now=over_at + healthy_for, jitter=0.0) == expected


def test_the_server_may_ask_for_more(backoff: Backoff) -> None:
    """Row: 429 and 503. The wait is never shorter than Retry-After, and jitter comes on top."""
    assert backoff.next_delay(now=0.0, jitter=0.5, at_least=7.0) == pytest.approx(7.4)


def test_the_server_may_not_ask_for_less(backoff: Backoff) -> None:
    """The greater of Retry-After and backoff counts."""
    assert backoff.next_delay(now=0.0, jitter=0.0, at_least=0.1) == 0.8


def test_a_bound_includes_the_jitter(backoff: Backoff) -> None:
    """A probe comes at most so late, jitter included."""
    now = 0.0
    for _ in range(10):
        delay = backoff.next_delay(now=now, jitter=0.999, at_most=15.0)
        assert delay <= 15.0
        now += delay


def test_its_text_shows_where_it_stands(backoff: Backoff) -> None:
    """One line tells a debugger the delay and its end."""
    backoff.next_delay(now=1.0, jitter=0.0)
    assert repr(backoff) == "<Backoff base=0.8s over_at=1.8>"
