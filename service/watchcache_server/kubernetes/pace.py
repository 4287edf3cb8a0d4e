"""The pace of the informers' requests to one cluster: so many a second, tenant by tenant.

    await pace.take("team-a/shop")
    response = await access.open(...)

When an API server restarts, all watches of all extensions end at one moment. Without a pace they
would all be opened again in that moment, against a server that has just come up, and each costs
this process a handshake as well. A few may go at once, so that nobody waits at other times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Final

from watchcache_server.kubernetes.fair_queue import FairQueue

__all__ = ["Pace"]

# So much of what a second allows may go at once after a rest.
_BURST_SECONDS: Final = 0.25


class Pace:
    """Moments to begin a request."""

    def __init__(self, per_second: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._interval_seconds = 1.0 / per_second
        self._queue = FairQueue(self._call)
        # When the next request would be due if each kept its distance.
        self._due = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, who: Hashable) -> None:
        """Wait until a request may begin."""
        if self._queue.is_empty and self._is_allowed:
            self._count()
        else:
            waiting = self._queue.wait(who)
            self._arm()
            await waiting

    @property
    def _is_allowed(self) -> bool:
        return self._loop.time() >= self._due - _BURST_SECONDS

    def _count(self) -> None:
        self._due = max(self._due, self._loop.time()) + self._interval_seconds

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_at(self._due - _BURST_SECONDS, self._call_due)

    def _call_due(self) -> None:
        """Call those whose moment has come."""
        self._timer = None
        while self._is_allowed and self._call():
            self._count()
        if not self._queue.is_empty:
            self._arm()

    def _call(self) -> bool:
        """Call the next; also with a moment that came for one who is gone."""
        return self._queue.call_next()
