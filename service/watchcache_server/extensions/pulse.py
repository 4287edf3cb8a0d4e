"""A pulse: wakes everybody who waits for news of an extension, at a bounded rate.

Whoever waits has looked before and found nothing new, and nothing can happen between its look and
its wait, since both are on one event loop. News at rest wake at once; in a stream of news wake-ups
keep a distance that grows with the number of those who wait, so that their number times their rate
stays bounded and what they find is worth a message. Whoever can tell that some news is none of its
concern sleeps on. Thousands are woken some at a time, so that between them others have their say.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["Pulse"]


# To ask a waiter whether it is concerned, as a part of what it costs to wake it.
_CHECK_WORK = 0.05
# So many take a few milliseconds to say what they have to.
_WOKEN_AT_ONCE: Final = 64


class Pulse:
    """Wakes its waiters after `touch`. `deliveries_per_second` bounds waiters times wake-ups."""

    __slots__ = (
        "_deliveries_per_second",
        "_handle",
        "_last",
        "_loop",
        "_waiters",
        "_woken",
        "_work",
    )

    def __init__(self, deliveries_per_second: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._deliveries_per_second = deliveries_per_second
        self._waiters: dict[asyncio.Future[None], Callable[[], bool] | None] = {}
        # Those whose wake-up has begun, and who have yet to be woken.
        self._woken: deque[asyncio.Future[None]] = deque()
        # What the last wake-up cost, in deliveries.
        self._work = 0.0
        self._handle: asyncio.Handle | None = None
        self._last = float("-inf")

    def touch(self) -> None:
        """Say that there is news."""
        if self._handle is not None or not self._waiters:
            return
        due = self._last + self._work / self._deliveries_per_second
        if due <= self._loop.time():
            self._handle = self._loop.call_soon(self._wake)
        else:
            self._handle = self._loop.call_at(due, self._wake)

    def wake_now(self) -> None:
        """Wake everybody at once, whatever the rate: something has ended."""
        if self._handle is not None:
            self._handle.cancel()
        self._wake(is_for_all=True)

    def _wake(self, *, is_for_all: bool = False) -> None:
        self._handle = None
        self._last = self._loop.time()
        woken = [
            waiter
            for waiter, is_concerned in self._waiters.items()
            if is_for_all or is_concerned is None or is_concerned()
        ]
        self._work = len(woken) + (len(self._waiters) - len(woken)) * _CHECK_WORK
        for waiter in woken:
            del self._waiters[waiter]
        is_waking = bool(self._woken)
        self._woken.extend(woken)
        if not is_waking:
            self._wake_some()

    def _wake_some(self) -> None:
        """Wake the next few, and the others after whatever else is to be done."""
        for _ in range(min(_WOKEN_AT_ONCE, len(self._woken))):
            waiter = self._woken.popleft()
            if not waiter.done():
                waiter.set_result(None)
        if self._woken:
            self._loop.call_soon(self._wake_some)

    async def wait(
        self,
        timeout_seconds: float | None = None,
        is_concerned: Callable[[], bool] | None = None,
    ) -> bool:
        """Wait for the next wake-up; return False when the time ran out first.

        A wake-up at which `is_concerned` says no is passed over.
        """
        waiter = self._loop.create_future()
        self._waiters[waiter] = is_concerned
        alarm = None
        if timeout_seconds is not None:
            alarm = self._loop.call_later(timeout_seconds, _expire, waiter)
        try:
            await waiter
        except TimeoutError:
            return False
        finally:
            self._waiters.pop(waiter, None)
            if alarm is not None:
                alarm.cancel()
        return True


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
