"""A pulse: wakes everybody who waits for news of an extension, at a bounded rate.

Whoever waits has looked before and found nothing new, and nothing can happen between its look and
its wait, since both are on one event loop. News at rest wake at once; in a stream of news wake-ups
keep a distance that grows with the number of those who wait, so that their number times their rate
stays bounded and what they find is worth a message.
"""

from __future__ import annotations

import asyncio

__all__ = ["Pulse"]


class Pulse:
    """Wakes its waiters after `touch`. `deliveries_per_second` bounds waiters times wake-ups."""

    __slots__ = ("_deliveries_per_second", "_handle", "_last", "_loop", "_waiters")

    def __init__(self, deliveries_per_second: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._deliveries_per_second = deliveries_per_second
        self._waiters: set[asyncio.Future[None]] = set()
        self._handle: asyncio.Handle | None = None
        self._last = float("-inf")

    def touch(self) -> None:
        """Say that there is news."""
        if self._handle is not None or not self._waiters:
            return
        due = self._last + len(self._waiters) / self._deliveries_per_second
        if due <= self._loop.time():
            self._handle = self._loop.call_soon(self._wake)
        else:
            self._handle = self._loop.call_at(due, self._wake)

    def wake_now(self) -> None:
        """Wake everybody at once, whatever the rate: something has ended."""
        if self._handle is not None:
            self._handle.cancel()
        self._wake()

    def _wake(self) -> None:
        self._handle = None
        self._last = self._loop.time()
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the next wake-up; return False when the time ran out first."""
        waiter = self._loop.create_future()
        self._waiters.add(waiter)
        alarm = None
        if timeout_seconds is not None:
            alarm = self._loop.call_later(timeout_seconds, _expire, waiter)
        try:
            await waiter
        except TimeoutError:
            return False
        finally:
            self._waiters.discard(waiter)
            if alarm is not None:
                alarm.cancel()
        return True


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
