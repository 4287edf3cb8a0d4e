"""Splits the body of a watch into lines.

One JSON value a line, ended by 0x0A and by nothing else: text line splitters also cut at U+0085 and
U+2028, which occur in objects. Chunks are collected and joined once, so an object of any size costs
time linear in its size, however small the pieces it arrives in.
"""

from __future__ import annotations

from watchcache_server.informer.errors import OverLimitError

__all__ = ["DEFAULT_LINE_LIMIT_BYTES", "LineSplitter"]

DEFAULT_LINE_LIMIT_BYTES = 64 * 1024 * 1024


class LineSplitter:
    """Turns chunks into whole lines, without their line ends; blank lines are left out."""

    __slots__ = ("_limit_bytes", "_pieces", "_size")

    def __init__(self, limit_bytes: int = DEFAULT_LINE_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes.

        Raises:
            OverLimitError: a line, complete or not, is longer than the limit.
        """
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._pieces:
            self._pieces.append(lines[0])
            lines[0] = b"".join(self._pieces)
            self._pieces.clear()
            self._size = 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > self._limit_bytes or any(len(line) > self._limit_bytes for line in lines):
            raise OverLimitError(
                f"a watch event is longer than {self._limit_bytes} bytes; "
                "raise the limit of one event"
            )
        return [line for line in lines if line and not line.isspace()]

    def leftover(self) -> bytes:
        """Return what came after the last line end, and forget it."""
        rest = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return b"" if rest.isspace() else rest
