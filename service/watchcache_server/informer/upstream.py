"""Upstream versions: what of the API server's order a source reflects, and what it reflected when.

By that a reader's place is told to another store, which counts its revisions differently.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

__all__ = ["UpstreamVersions"]

_MOST = 64


class UpstreamVersions:
    """The versions of one source by the revisions of its store; `newest` is that of the present."""

    __slots__ = ("_told", "newest")

    def __init__(self) -> None:
        self.newest = ""
        self._told: list[tuple[int, str]] = []

    def note(self, version: str, revision: int, *, is_told: bool) -> None:
        """Take that everything up to a version is applied.

        `is_told`: and who is at this revision was told all of it.
        """
        self.newest = version
        if not is_told:
            return
        if self._told and self._told[-1][0] == revision:
            self._told.pop()
        self._told.append((revision, version))
        if len(self._told) > _MOST:
            # Of the older ones every second will do.
            del self._told[1 : _MOST // 2 : 2]

    def at(self, revision: int) -> str:
        """Return a version up to which a reader at a revision was told everything.

        Empty when none is known.
        """
        place = bisect_right(self._told, revision, key=itemgetter(0))
        return self._told[place - 1][1] if place else ""

    def clear(self) -> None:
        """Forget them all: nothing is held any more."""
        self.newest = ""
        self._told.clear()

    def __len__(self) -> int:
        return len(self._told)
