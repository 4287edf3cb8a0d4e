"""A signal for any number of waiting tasks, for conditions that each of them checks itself."""

from __future__ import annotations

import asyncio

__all__ = ["Pulse"]


class Pulse:
    """Everyone who waits when it beats goes on; whoever comes later waits for the next beat.

    Check the condition, then wait, with no await in between: no beat can be missed.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def beat(self) -> None:
        """Let all who wait go on."""
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self) -> None:
        """Wait for the next beat."""
        await self._event.wait()
