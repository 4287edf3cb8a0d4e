"""Writing to a stream, and noticing that its reader takes nothing.

gRPC can end an RPC with a status only when no message is on its way, so a write is never cut off.
One that takes too long makes the stream count as stalled at once, and ends it as soon as its reader
reads again, with a status that says why; a reader that is gone ends it in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from watchcache_server.model.errors import LimitExceededError

__all__ = ["PatientWriter", "Writer"]


class Writer(Protocol):
    """Where a stream's messages go."""

    async def write(self, message: bytes) -> None:
        """Send a message; return when the transport has taken it."""
        ...


class PatientWriter:
    """Writes on behalf of `subject`; calls `stalled`, once, when that takes too long."""

    __slots__ = ("_is_stalled", "_limit_seconds", "_stalled", "_subject", "_writer")

    def __init__(
        self, writer: Writer, *, limit_seconds: float, subject: str, stalled: Callable[[], None]
    ) -> None:
        self._writer = writer
        self._limit_seconds = limit_seconds
        self._subject = subject
        self._stalled = stalled
        self._is_stalled = False

    async def write(self, message: bytes) -> None:
        """Send a message. Raises LimitExceededError when the reader took it too late."""
        alarm = asyncio.get_running_loop().call_later(self._limit_seconds, self._stall)
        try:
            await self._writer.write(message)
        finally:
            alarm.cancel()
        if self._is_stalled:
            raise LimitExceededError(
                self._subject,
                f"its reader took nothing for {self._limit_seconds:g} s; read faster, and open it "
                "again (a Watch with its last resume token)",
                setting="stalled_write_seconds",
            )

    def _stall(self) -> None:
        self._is_stalled = True
        self._stalled()
