"""Turns: how many syncs may be under way at once against one cluster, and whose is next.

    turn = await turns.take("team-a/shop")
    try: ...
    finally: turn.give_back()

Who asks is served in turns: a tenant that wants five hundred syncs does not hold up one that wants
a single one; the syncs of one tenant go first come, first served. A sync that takes very long keeps
going but no longer counts, so that some that never end hold nobody up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Final

from watchcache_server.kubernetes.fair_queue import FairQueue

__all__ = ["SyncTurns", "Turn"]

_COUNTED_SECONDS: Final = 30.0


class Turn:
    """Leave to sync, counted until it is given back or its time is over."""

    __slots__ = ("_timer", "_turns")

    def __init__(self, turns: SyncTurns, counted_seconds: float) -> None:
        self._turns: SyncTurns | None = turns
        self._timer = asyncio.get_running_loop().call_later(counted_seconds, self.give_back)

    def give_back(self) -> None:
        """Let the next one go; may be called again."""
        turns, self._turns = self._turns, None
        if turns is not None:
            self._timer.cancel()
            turns.pass_on()


class SyncTurns:
    """Turns for one cluster."""

    def __init__(self, limit: int, *, counted_seconds: float = _COUNTED_SECONDS) -> None:
        self._limit = limit
        self._free = limit
        self._counted_seconds = counted_seconds
        self._queue = FairQueue(self.pass_on)

    @property
    def is_busy(self) -> bool:
        """Whether a newcomer has to wait."""
        return self._free == 0

    @property
    def is_in_use(self) -> bool:
        """Whether a sync is under way that counts."""
        return self._free < self._limit

    async def take(self, who: Hashable, tell: Callable[[int], None] | None = None) -> Turn:
        """Wait for a turn; `tell` hears how many are before this one, while it has to wait."""
        if self._free:
            self._free -= 1
        else:
            await self._queue.wait(who, tell)
        return Turn(self, self._counted_seconds)

    def pass_on(self) -> None:
        """Give a turn that has become free to the next; called by the turn."""
        if not self._queue.call_next():
            self._free += 1
