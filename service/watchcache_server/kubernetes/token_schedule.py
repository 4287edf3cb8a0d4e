"""When a token is used, renewed, doubted and asked for again: rules without a clock or a network.

Times are monotonic seconds given by the caller. A token lives from the moment it was *asked for*,
for the lifetime that was *granted*. At 80 % of its life (24 h at most), less a jitter, a renewal is
due; the old token stays good until its end while renewals fail. Failures back off, so that a
ServiceAccount that is gone or forbidden costs one request now and then, not one for each use. A
rejected token (401) is dropped, unless it is very young: an API server that lags behind, or whose
clock does, refuses a token that is good.
"""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["MIN_LIFETIME_SECONDS", "Step", "TokenSchedule"]

# What an API server grants at least.
MIN_LIFETIME_SECONDS: Final = 600.0

_RENEW_AT: Final = 0.8
_RENEW_AFTER_AT_MOST_SECONDS: Final = 24 * 3600.0
_RENEW_JITTER_SECONDS: Final = 10.0
_YOUNG_SECONDS: Final = 30.0
_FIRST_BACKOFF_SECONDS: Final = 1.0
_MAX_BACKOFF_SECONDS: Final = 15.0


class Step(enum.Enum):
    """What to do when a token is wanted."""

    USE = "use"  #: the token is good
    RENEW = "renew"  #: ask for another; on failure the token at hand is still good
    REQUEST = "request"  #: ask for one; there is none that is good
    REFUSE = "refuse"  #: there is none, and it is too early to ask again


class TokenSchedule:
    """The life of the tokens of one identity."""

    __slots__ = ("_backoff_seconds", "_expires_at", "_issued_at", "_renew_at", "_retry_at")

    def __init__(self) -> None:
        self._issued_at = float("-inf")
        self._renew_at = float("-inf")
        self._expires_at = float("-inf")
        self._retry_at = float("-inf")
        self._backoff_seconds = 0.0

    @property
    def expires_at(self) -> float:
        """When the token at hand ends."""
        return self._expires_at

    @property
    def renew_at(self) -> float:
        """When a use of the token at hand renews it; later while renewals fail."""
        return max(self._renew_at, self._retry_at)

    def step(self, now: float) -> Step:
        """Say what to do with a want for a token at `now`."""
        may_ask = now >= self._retry_at
        if now < self._expires_at:
            return Step.RENEW if may_ask and now >= self._renew_at else Step.USE
        return Step.REQUEST if may_ask else Step.REFUSE

    def issued(self, requested_at: float, lifetime_seconds: float, *, jitter: float) -> None:
        """Take up a token: asked for at `requested_at`, granted for `lifetime_seconds`."""
        life = min(lifetime_seconds * _RENEW_AT, _RENEW_AFTER_AT_MOST_SECONDS)
        self._issued_at = requested_at
        self._renew_at = requested_at + life - jitter * min(_RENEW_JITTER_SECONDS, life / 10)
        self._expires_at = requested_at + lifetime_seconds
        self._retry_at = float("-inf")
        self._backoff_seconds = 0.0

    def failed(self, now: float, *, jitter: float, retry_after_seconds: float = 0.0) -> None:
        """Note that asking failed: the next try comes later, jitter included at most 15 s later.

        A server that says how long to wait is obeyed.
        """
        self._backoff_seconds = min(
            max(self._backoff_seconds * 2, _FIRST_BACKOFF_SECONDS), _MAX_BACKOFF_SECONDS
        )
        wait_seconds = self._backoff_seconds * (1 - jitter / 2)
        self._retry_at = now + max(wait_seconds, retry_after_seconds)

    def rejected(self, now: float) -> bool:
        """Drop the token because the API server refuses it; False when it is too young for that."""
        if now - self._issued_at < _YOUNG_SECONDS and now < self._expires_at:
            return False
        self._expires_at = float("-inf")
        return True
