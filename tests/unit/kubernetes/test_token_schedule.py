"""Rules of a token's life, with time given by the test."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from watchcache_server.kubernetes.token_schedule import Step, TokenSchedule


def issued(
    lifetime_seconds: float = 600.0, *, at: float = 0.0, jitter: float = 0.0
) -> TokenSchedule:
    """Return a schedule with a token asked for at `at`."""
    schedule = TokenSchedule()
    schedule.issued(at, lifetime_seconds, jitter=jitter)
    return schedule


STEPS = {
    "just issued": (0.0, Step.USE),
    "before 80 % of its life": (479.9, Step.USE),
    "at 80 % of its life": (480.0, Step.RENEW),
    "just before its end": (599.9, Step.RENEW),
    "at its end": (600.0, Step.REQUEST),
}


@pytest.mark.parametrize("case", STEPS)
def test_a_token_is_used_then_renewed_then_replaced(case: str) -> None:
    """A renewal is due at 80 % of the granted life, counted from the request."""
    now, step = STEPS[case]
    assert issued().step(now) is step


def test_without_a_token_one_is_requested() -> None:
    """The first use asks at once."""
    assert TokenSchedule().step(0.0) is Step.REQUEST


@pytest.mark.parametrize(
    ("lifetime_seconds", "jitter", "renew_at"),
    [
        (600.0, 0.0, 480.0),
        (600.0, 1.0, 470.0),  # ten seconds of jitter at most
        (3600.0, 0.5, 2875.0),
        (50.0, 1.0, 36.0),  # and no more than a tenth of a short life
        (1_000_000.0, 0.0, 86_400.0),  # a day at most
    ],
)
def test_the_renewal_is_early_by_a_jitter(
    lifetime_seconds: float, jitter: float, renew_at: float
) -> None:
    """Many tokens issued together are not renewed together."""
    assert issued(lifetime_seconds, jitter=jitter).renew_at == pytest.approx(renew_at)


def test_while_renewals_fail_the_old_token_is_used_to_its_end() -> None:
    """A failure delays the next try; the token at hand stays good."""
    schedule = issued()
    schedule.failed(480.0, jitter=0.0)
    assert schedule.step(480.5) is Step.USE
    assert schedule.step(481.0) is Step.RENEW
    schedule.failed(599.0, jitter=0.0)
    assert schedule.step(600.5) is Step.REFUSE
    assert schedule.step(601.0) is Step.REQUEST


def test_failures_back_off_to_fifteen_seconds() -> None:
    """A ServiceAccount that is gone costs a request now and then, not one for each use."""
    schedule, now, waits = TokenSchedule(), 0.0, []
    for _ in range(7):
        schedule.failed(now, jitter=0.0)
        assert schedule.step(now) is Step.REFUSE
        waits.append(schedule.renew_at - now)
        now = schedule.renew_at
        assert schedule.step(now) is Step.REQUEST
    assert waits == [1, 2, 4, 8, 15, 15, 15]


def test_jitter_only_shortens_a_backoff() -> None:
    """The bound of 15 s holds with jitter included."""
    schedule = TokenSchedule()
    for _ in range(6):
        schedule.failed(0.0, jitter=0.999)
    assert 7.5 <= schedule.renew_at <= 15.0


def test_a_server_that_says_how_long_to_wait_is_obeyed() -> None:
    """Retry-After is a floor for the next try."""
    schedule = TokenSchedule()
    schedule.failed(0.0, jitter=0.5, retry_after_seconds=40.0)
    assert schedule.renew_at == 40.0


def test_success_forgets_the_failures() -> None:
    """The next failure waits as short as the first."""
    schedule = TokenSchedule()
    for _ in range(4):
        schedule.failed(0.0, jitter=0.0)
    schedule.issued(10.0, 600.0, jitter=0.0)
    schedule.failed(500.0, jitter=0.0)
    assert schedule.renew_at == 501.0


def test_a_rejected_token_is_dropped() -> None:
    """After a 401 another one is requested, at once."""
    schedule = issued()
    assert schedule.rejected(31.0)
    assert schedule.step(31.0) is Step.REQUEST


def test_a_very_young_token_is_kept_though_rejected() -> None:
    """An API server whose clock lags refuses a token from the future; a newer one is no better."""
    schedule = issued()
    assert not schedule.rejected(29.0)
    assert schedule.step(29.0) is Step.USE


@given(lifetime=st.floats(1, 1e7), jitter=st.floats(0, 1), elapsed=st.floats(0, 2e7))
def test_a_token_is_never_used_past_its_end(lifetime: float, jitter: float, elapsed: float) -> None:
    """Whatever was granted, USE and RENEW end with the lifetime."""
    step = issued(lifetime, jitter=jitter).step(elapsed)
    assert (step in (Step.USE, Step.RENEW)) == (elapsed < lifetime)


class ScheduleMachine(RuleBasedStateMachine):
    """Any sequence of events keeps the promises about how often a token is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = TokenSchedule()
        self.now = 0.0
        self.failed_at: float | None = None

    @rule(seconds=st.floats(0, 1000))
    def advance(self, seconds: float) -> None:
        self.now += seconds

    @rule(lifetime=st.floats(1, 5000), jitter=st.floats(0, 1))
    def issue(self, lifetime: float, jitter: float) -> None:
        if self.schedule.step(self.now) in (Step.RENEW, Step.REQUEST):
            self.schedule.issued(self.now, lifetime, jitter=jitter)
            self.failed_at = None

    @rule(jitter=st.floats(0, 0.999))
    def fail(self, jitter: float) -> None:
        if self.schedule.step(self.now) in (Step.RENEW, Step.REQUEST):
            self.schedule.failed(self.now, jitter=jitter)
            self.failed_at = self.now

    @rule()
    def reject(self) -> None:
        self.schedule.rejected(self.now)

    @invariant()
    def failures_are_spaced_and_bounded(self) -> None:
        if self.failed_at is not None:
            assert 0.5 <= self.schedule._retry_at - self.failed_at <= 15.0

    @invariant()
    def a_step_is_always_known(self) -> None:
        step = self.schedule.step(self.now)
        assert (step in (Step.USE, Step.RENEW)) == (self.now < self.schedule.expires_at)


TestScheduleMachine = ScheduleMachine.TestCase
