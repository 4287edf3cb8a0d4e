"""One flight: concurrent callers that want the same work done share one doing of it.

There is no task of its own: the first caller does the work, the others wait for its outcome. When
the first is cancelled, the next one takes over, so that nobody's leaving harms another, and nothing
is left to clean up. An AccessError is shared as the outcome; any other exception stays with the
caller it happened to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from watchcache_server.kubernetes.errors import AccessError

__all__ = ["SingleFlight"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Landed(Generic[T]):
    value: T


class SingleFlight(Generic[T]):
    """Runs one piece of work at a time, for all who ask meanwhile."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: asyncio.Future[_Landed[T] | AccessError | None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether somebody is at it."""
        return self._running is not None

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work`, or join who is doing it. The work must have a time limit of its own."""
        while self._running is not None:
            joined = await asyncio.shield(self._running)
            if isinstance(joined, _Landed):
                return joined.value
            if joined is not None:
                raise joined
        future = asyncio.get_running_loop().create_future()
        self._running = future
        outcome: _Landed[T] | AccessError | None = None
        try:
            value = await work()
            outcome = _Landed(value)
        except AccessError as error:
            outcome = error
            raise
        else:
            return value
        finally:
            self._running = None
            future.set_result(outcome)
