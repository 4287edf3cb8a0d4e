"""Slices: reads a body as fast as it comes, and lets others have the event loop in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from watchcache_server.kubernetes.transport import Response

__all__ = ["SlicedReader"]

# After so much work in one go the event loop is left to others.
_SLICE_SECONDS: Final = 0.002


class SlicedReader:
    """Reads answers, one after the other; `read_at` is when the newest bytes came."""

    __slots__ = ("_clock", "_slice_end", "read_at")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._slice_end = 0.0
        self.read_at = 0.0

    async def chunk(self, response: Response) -> bytes:
        """Return more of the body; empty at its end. Raises as `Response.read_chunk`."""
        chunk = await response.read_chunk()
        self.read_at = self._clock()
        if self.read_at > self._slice_end:
            await asyncio.sleep(0)
            self._slice_end = self._clock() + _SLICE_SECONDS
        return chunk
