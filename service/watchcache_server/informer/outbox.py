"""Collects the effects of one input, in the order in which they are to be performed."""

from __future__ import annotations

from watchcache_server.informer.condition import Condition
from watchcache_server.informer.effects import Effect, Request, SetState, Wait
from watchcache_server.informer.timers import Deadline, Timers
from watchcache_server.model.states import SourceState

__all__ = ["Outbox"]


class Outbox:
    """First what happens to the store, then the state, the timer, and the next request."""

    __slots__ = ("_effects", "_published", "_published_attempt", "_request")

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._request: Request | None = None
        self._published: Condition | None = None
        self._published_attempt: float | None = None

    def add(self, effect: Effect) -> None:
        """Add an effect that is no request."""
        self._effects.append(effect)

    def ask(self, request: Request) -> None:
        """Add the request of this input."""
        assert self._request is None, "one request at a time"
        self._request = request

    def drain(self, condition: Condition, timers: Timers, now: float) -> list[Effect]:
        """Return what was collected, with the state and the timer where they changed."""
        effects, self._effects = self._effects, []
        attempt = timers.at(Deadline.RETRY)
        if self._is_news(condition, attempt):
            self._published = condition
            effects.append(
                SetState(
                    state=condition.state,
                    reason=condition.reason,
                    message=condition.message,
                    missing_verbs=condition.missing_verbs,
                    next_attempt_seconds=None if attempt is None else max(0.0, attempt - now),
                )
            )
        self._published_attempt = attempt
        seconds = timers.arm(now)
        if seconds is not None:
            effects.append(Wait(seconds))
        if self._request is not None:
            effects.append(self._request)
            self._request = None
        return effects

    def _is_news(self, condition: Condition, attempt: float | None) -> bool:
        if condition != self._published:
            return True
        # That a live watch is opened again in a moment is nobody's concern.
        if attempt is None or condition.state is SourceState.LIVE:
            return False
        return attempt != self._published_attempt
