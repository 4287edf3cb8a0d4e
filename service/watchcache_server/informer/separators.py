"""What stands between two items of one list body, learned from the body itself.

Servers write all items of a list alike, so the bytes from the last brace of one item to the first
key of the next (and its value, if that is short) find most item ends with one `bytes.find`.
"""

from __future__ import annotations

import re

__all__ = ["Separator"]

# How an item begins: its first key and the beginning of the value; with a string all of it.
_BEGINNING = re.compile(rb'\{\s*+"[^"\\]*+"\s*+:\s*+(?:\{\s*+"|"[^"\\]*+")?+')

# So many items may have to be found by structure before the separator is given up.
_MISSES = 8


class Separator:
    """Finds places where an item may end; offsets are those of the buffer it searches."""

    __slots__ = ("_gap_size", "_misses", "_pattern", "_searched_to")

    def __init__(self) -> None:
        self._pattern = b""
        self._gap_size = 0
        self._searched_to = 0
        self._misses = 0

    @property
    def is_known(self) -> bool:
        """Whether there is anything to search for."""
        return bool(self._pattern)

    def learn(self, gap: bytes, item: bytes) -> None:
        """Take the bytes between two items, and the second of them, as the example."""
        beginning = _BEGINNING.match(item)
        if beginning is not None and self._misses < _MISSES:
            self._pattern = b"}" + gap + beginning.group()
            self._gap_size = len(gap)

    def find(self, buffer: bytearray, start: int) -> int:
        """Return the offset just past a brace that may end the item at `start`, or -1.

        Bytes are searched once: a place that was returned is not returned again.
        """
        found = buffer.find(self._pattern, max(start, self._searched_to))
        if found < 0:
            self._searched_to = max(self._searched_to, len(buffer) - len(self._pattern) + 1)
            return -1
        self._searched_to = found + 1
        return found + 1

    def next_start(self, end: int) -> int:
        """Return where the item after the one that ended at `end` begins."""
        return end + self._gap_size

    def miss(self) -> None:
        """Note that an item was not found by this separator; too many, and it is given up."""
        self._misses += 1
        if self._misses >= _MISSES:
            self._pattern = b""

    def shift(self, count: int) -> None:
        """Note that so many bytes were taken from the front of the buffer."""
        self._searched_to = max(0, self._searched_to - count)
