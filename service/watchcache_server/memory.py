"""Settings of the allocator and the garbage collector that a cache wants.

Measured in docs/performance.md: with glibc's defaults, buffers of a finished sync stay resident
(the threshold above which memory goes back to the system grows by itself), and every thread gets an
arena of its own. The collector has next to nothing to find here, since entries are kept out of its
sight, so it rarely looks at everything; what a crowd of streams leaves behind is collected once it
has gone.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable
from typing import Final

__all__ = ["Crowd", "give_back", "tidy_forever", "tune"]

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_THRESHOLD_BYTES: Final = 128 * 1024
_ARENAS: Final = 2
_LOOK_SECONDS: Final = 5.0
# How many are a crowd, and which part of it may be left when it counts as gone.
_CROWD: Final = 500
_LEFT: Final = 8
# A pass over the youngest objects, one over those and the next older ones, and one over all: two
# milliseconds, ten, and rarely. Thousands of streams that are opened, or woken, at one moment make
# hundreds of thousands of objects; with larger steps one pass over them took 200 ms.
_THRESHOLDS: Final = (5000, 4, 300)
# A pass over all is due by itself only once millions have grown old, and what streams and
# extensions leave behind are cycles that grow old in hours. So it is made when no crowd is there
# and this many passes over the middle, of 20,000 objects each, have gone by since the last one.
_PASSES: Final = 2


def tune() -> bool:
    """Apply the settings to this process; return False where the allocator is not glibc's."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    libc = _glibc()
    if libc is None:
        return False
    return all(
        libc.mallopt(parameter, value) == 1
        for parameter, value in (
            (_M_MMAP_THRESHOLD, _THRESHOLD_BYTES),
            (_M_TRIM_THRESHOLD, _THRESHOLD_BYTES),
            (_M_ARENA_MAX, _ARENAS),
        )
    )


def give_back() -> None:
    """Return free memory to the system."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


class Crowd:
    """Notices that of many most have gone."""

    def __init__(self) -> None:
        self._most = 0

    def has_gone(self, count: int) -> bool:
        """Take how many there are now; return whether a crowd has gone since this was true last."""
        if self._most < _CROWD or count > self._most // _LEFT:
            self._most = max(self._most, count)
            return False
        self._most = count
        return True


async def tidy_forever(count: Callable[[], int]) -> None:
    """Collect, and give back, what calls have left behind: when much has, or a crowd has gone.

    A pass over all objects takes the longer the more calls there are, so it waits for their end.
    """
    crowd = Crowd()
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        running = count()
        has_left_much = running < _CROWD and gc.get_count()[2] >= _PASSES
        if crowd.has_gone(running) or has_left_much:
            gc.collect()
            await asyncio.to_thread(give_back)


def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
