"""An alarm: the one timer of a task, which may be set anew at any time."""

from __future__ import annotations

import asyncio
from typing import Final

__all__ = ["Alarm"]

# A loop may ring a little early, by its clock's resolution; who then asks for what is left, which
# is next to nothing, must not be rung for ever at the same moment.
_LEAST_SECONDS: Final = 0.001


class Alarm:
    """Rings after the time that it was set to last; `wait` returns when it does."""

    __slots__ = ("_handle", "_rang")

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None
        self._rang = asyncio.Event()

    def set(self, seconds: float) -> None:
        """Ring after so many seconds, and not at the time that was set before."""
        self.cancel()
        loop = asyncio.get_running_loop()
        self._handle = loop.call_later(max(seconds, _LEAST_SECONDS), self._rang.set)

    def ring(self) -> None:
        """Ring now, and at the time that it is set to as well."""
        self._rang.set()

    async def wait(self) -> None:
        """Wait until it rings."""
        await self._rang.wait()
        self._rang.clear()

    def cancel(self) -> None:
        """Not ring."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
