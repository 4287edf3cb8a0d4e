"""An alarm: the one timer of a task, which may be set anew at any time."""

from __future__ import annotations

import asyncio

__all__ = ["Alarm"]


class Alarm:
    """Rings after the time that it was set to last; `wait` returns when it does."""

    __slots__ = ("_handle", "_rang")

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None
        self._rang = asyncio.Event()

    def set(self, seconds: float) -> None:
        """Ring after so many seconds, and no earlier time that was set."""
        self.cancel()
        self._handle = asyncio.get_running_loop().call_later(seconds, self._rang.set)

    async def wait(self) -> None:
        """Wait until it rings."""
        await self._rang.wait()
        self._rang.clear()

    def cancel(self) -> None:
        """Not ring."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
