"""How long to wait before the next attempt: exponential, with jitter, without a clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from watchcache.durations import Duration, seconds_of
from watchcache.errors import InvalidArgumentError

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """The bound of a wait doubles from `initial` to `maximum`; the wait is drawn from below it.

    `floor` is the part of the bound that is always waited: 0 spreads many clients best (full
    jitter), 0.5 keeps a single task from trying again at once.
    """

    initial: Duration = 0.8
    maximum: Duration = 30.0
    floor: float = 0.0
    draw: Callable[[], float] = random.random
    """A number from 0 up to 1; the choice has no bearing on security."""

    def __post_init__(self) -> None:
        initial = seconds_of(self.initial, field="backoff.initial")
        if initial <= 0 or initial > seconds_of(self.maximum, field="backoff.maximum"):
            raise InvalidArgumentError.of(
                "backoff", f"initial is {self.initial}; it must be above 0 and at most maximum"
            )

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after so many failures in a row, the first being 1."""
        # The exponent is bounded so that years of failures do not overflow a float.
        factor = 2.0 ** min(max(failures, 1) - 1, 63)
        bound = min(
            seconds_of(self.initial, field="backoff.initial") * factor,
            seconds_of(self.maximum, field="backoff.maximum"),
        )
        return bound * (self.floor + (1 - self.floor) * self.draw())
