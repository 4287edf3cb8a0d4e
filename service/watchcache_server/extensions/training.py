"""Trains dictionaries for sources off the event loop, and brings their entries up to date.

Both go on beside everything else: training in a thread, the entries in slices.
"""

from __future__ import annotations

import asyncio
from typing import Final

from watchcache_server.informer.compression import train
from watchcache_server.informer.source import Source

__all__ = ["Trainer"]

# So many entries are compressed anew in one go: about a millisecond.
_SLICE_ENTRIES: Final = 32


class Trainer:
    """Serves one source after another; `run` is its task."""

    def __init__(self) -> None:
        self._due: dict[Source, None] = {}
        self._wake = asyncio.Event()

    def request(self, source: Source) -> None:
        """Note that a source wants a dictionary."""
        self._due[source] = None
        self._wake.set()

    async def run(self) -> None:
        """Train until cancelled."""
        while True:
            await self._wake.wait()
            while self._due:
                source = next(iter(self._due))
                del self._due[source]
                await self.train(source)
            self._wake.clear()

    async def train(self, source: Source) -> None:
        """Give one source a better dictionary, if there is one."""
        samples = source.training_samples()
        if samples is None:
            return
        dictionary = await asyncio.to_thread(train, samples)
        if not source.adopt(dictionary, samples):
            return
        entries = source.recodable()
        is_more = True
        while is_more:
            is_more = source.recode(entries, _SLICE_ENTRIES)
            await asyncio.sleep(0)
