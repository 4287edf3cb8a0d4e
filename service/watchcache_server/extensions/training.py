"""Trains dictionaries for sources off the event loop, and brings their entries up to date.

Both go on beside everything else: training in a thread, the entries in slices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.compression import train

__all__ = ["Trainer"]

# So many entries are compressed anew in one go: about a millisecond.
_SLICE_ENTRIES: Final = 32

Guard = Callable[[Informer, Callable[[], Awaitable[None]]], Awaitable[None]]


class Trainer:
    """Serves the source of one informer after another; `run` is its task.

    `guarded` does work about an informer, and keeps its faults from the others.
    """

    def __init__(self, guarded: Guard) -> None:
        self._guarded = guarded
        self._due: dict[Informer, None] = {}
        self._wake = asyncio.Event()

    def request(self, informer: Informer) -> None:
        """Note that the source of an informer wants a dictionary."""
        self._due[informer] = None
        self._wake.set()

    async def run(self) -> None:
        """Train until cancelled."""
        while True:
            await self._wake.wait()
            while self._due:
                informer = next(iter(self._due))
                del self._due[informer]
                if not informer.is_stopped:
                    await self._guarded(informer, lambda: _train(informer))  # noqa: B023
            self._wake.clear()


async def _train(informer: Informer) -> None:
    """Give a source a better dictionary, if there is one."""
    source = informer.source
    samples = source.training_samples()
    if samples is None:
        return
    dictionary = await asyncio.to_thread(train, samples)
    if not source.adopt(dictionary, samples):
        return
    entries = source.recodable()
    is_more = True
    while is_more and not informer.is_stopped:
        is_more = source.recode(entries, _SLICE_ENTRIES)
        await asyncio.sleep(0)
