"""The waiting time after a failure: the one timer of an informer, for list and watch alike.

client-go's figures: 0.8 s doubling to 30 s, up to as much again by jitter, and a fresh start after
two minutes without a failure (kubernetes/kubernetes#118129 tells why list and watch must share it).
Time and jitter come from the caller.
"""

from __future__ import annotations

import msgspec

__all__ = ["Backoff", "BackoffSettings"]


class BackoffSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the backoff."""

    first_seconds: float = 0.8
    factor: float = 2.0
    longest_seconds: float = 30.0
    # Health for so long after the last wait was over makes the next failure a first one.
    reset_seconds: float = 120.0


class Backoff:
    """Counts failures in a row and says how long to wait after each."""

    __slots__ = ("_base", "_over_at", "_settings")

    def __init__(self, settings: BackoffSettings) -> None:
        self._settings = settings
        self._base = 0.0
        self._over_at = 0.0

    def __repr__(self) -> str:
        return f"<Backoff base={self._base:g}s over_at={self._over_at:g}>"

    def next_delay(
        self, *, now: float, jitter: float, at_least: float = 0.0, at_most: float | None = None
    ) -> float:
        """Count a failure and return the seconds to wait.

        `jitter` in [0, 1) adds that share of the delay. `at_least` is what the server asked for
        (Retry-After): others were told the same, so jitter comes on top of it. `at_most` bounds the
        result, jitter included.
        """
        settings = self._settings
        if self._base == 0.0 or now - self._over_at >= settings.reset_seconds:
            self._base = settings.first_seconds
        else:
            self._base = min(self._base * settings.factor, settings.longest_seconds)
        delay = self._base * (1.0 + jitter)
        if at_least > delay:
            delay = at_least + self._base * jitter
        if at_most is not None:
            delay = min(delay, at_most)
        self._over_at = now + delay
        return delay
