"""A fair queue: who waits for something that is scarce, tenant by tenant, and who is called next.

    queue = FairQueue(pass_on)
    await queue.wait("team-a/shop", tell=show)      # until it is called
    ...
    queue.call_next()                               # whoever has something to give

Tenants, each with a line of its own, are served in turns, and those of one tenant first come, first
served: one that wants five hundred of something does not hold up one that wants a single one. Who
waits can be told how many are before it, by that order. It is told anew when that number has
changed by an eighth, so that a queue of any length costs each of those in it some dozens of
messages and not one for each step, and a sweep that finds many to tell leaves the rest to the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Final

__all__ = ["FairQueue"]

_SWEEP_SECONDS: Final = 1.0
_TOLD_IN_SWEEP: Final = 250
# A number that is told again differs by this part of what was told.
_STEP: Final = 8


class _Waiter:
    """One that waits. `told` is the number that it was told last."""

    __slots__ = ("future", "tell", "told")

    def __init__(self, future: asyncio.Future[None], tell: Callable[[int], None] | None) -> None:
        self.future = future
        self.tell = tell
        self.told = 0

    def hear(self, before: int) -> bool:
        """Take how many are before it; return whether it was told."""
        is_news = before != self.told and abs(before - self.told) * _STEP >= self.told
        if self.tell is None or not is_news:
            return False
        self.told = before
        self.tell(before)
        return True


class FairQueue:
    """The lines of all tenants for one thing."""

    def __init__(self, pass_on: Callable[[], object]) -> None:
        """`pass_on` gives what came for somebody who is gone to the next, or keeps it."""
        self._pass_on = pass_on
        # Whoever is first here is served next.
        self._lines: dict[Hashable, deque[_Waiter]] = {}
        # How many of them want to know their place.
        self._listening = 0
        self._sweep_handle: asyncio.TimerHandle | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits."""
        return not self._lines

    async def wait(self, who: Hashable, tell: Callable[[int], None] | None = None) -> None:
        """Wait to be called; `tell` hears at once, and as it changes, how many are before this."""
        waiter = _Waiter(asyncio.get_running_loop().create_future(), tell)
        self._lines.setdefault(who, deque()).append(waiter)
        self._listening += tell is not None
        try:
            if tell is not None:
                waiter.told = self._last_of(who)
                tell(waiter.told)
            await waiter.future
        except BaseException:
            if waiter.future.done() and not waiter.future.cancelled():
                # It was called at the very moment at which it was no longer wanted.
                self._pass_on()
            else:
                self._leave(who, waiter)
            raise
        finally:
            self._listening -= tell is not None

    def call_next(self) -> bool:
        """Call whoever is next; return False when nobody waits."""
        while self._lines:
            who = next(iter(self._lines))
            line = self._lines.pop(who)
            while line:
                waiter = line.popleft()
                # One that is cancelled stands here until its task runs again.
                if not waiter.future.done():
                    if line:
                        self._lines[who] = line
                    waiter.future.set_result(None)
                    self._moved(waiter)
                    return True
        return False

    def _leave(self, who: Hashable, waiter: _Waiter) -> None:
        """Remove a waiter, unless a call that passed it over has done so."""
        line = self._lines.get(who, deque())
        if waiter in line:
            line.remove(waiter)
            if not line:
                del self._lines[who]
            self._moved(waiter)

    # How many are before each

    def _last_of(self, who: Hashable) -> int:
        """Return how many are served before the last one of a tenant."""
        rounds = len(self._lines[who]) - 1
        before, count = 1, rounds
        for tenant, line in self._lines.items():
            if tenant == who:
                before = 0
            else:
                count += min(len(line), rounds + before)
        return count

    def _in_order(self) -> Iterator[_Waiter]:
        """Yield all in the order in which they are served if nobody comes or goes."""
        lines = [iter(line) for line in self._lines.values()]
        while lines:
            going = []
            for line in lines:
                waiter = next((each for each in line if not each.future.done()), None)
                if waiter is not None:
                    yield waiter
                    going.append(line)
            lines = going

    def _moved(self, waiter: _Waiter) -> None:
        """Have those who want to know told in a while that this one is before them no more."""
        if self._listening and self._sweep_handle is None and self._lines:
            loop = waiter.future.get_loop()
            self._sweep_handle = loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._sweep_handle = None
        told = 0
        for before, waiter in enumerate(list(self._in_order())):
            told += waiter.hear(before)
            if told == _TOLD_IN_SWEEP:
                self._moved(waiter)
                return
