"""Settings of the allocator and the garbage collector that a cache wants.

Measured in docs/performance.md: with glibc's defaults, buffers of a finished sync stay resident
(the threshold above which memory goes back to the system grows by itself), and every thread gets an
arena of its own. The collector has next to nothing to find here, since entries are kept out of its
sight, so it runs less often.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Final

__all__ = ["give_back", "tune"]

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_THRESHOLD_BYTES: Final = 128 * 1024
_ARENAS: Final = 2
_YOUNG_OBJECTS: Final = 20_000


def tune() -> bool:
    """Apply the settings to this process; return False where the allocator is not glibc's."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
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


def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
