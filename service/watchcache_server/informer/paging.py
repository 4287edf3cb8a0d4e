"""How the pages of a list are asked for, and what is tried when that fails.

A list that asks for a state not older than a known one has no limit: with one, older servers would
take it for that very version. A list of the newest state has pages. Pages that expire while they
are read are followed by a list in one piece, answers that break off by smaller pages.
"""

from __future__ import annotations

from watchcache_server.informer.effects import List
from watchcache_server.informer.reflector_settings import ReflectorSettings

__all__ = ["Paging"]

# So often pages may expire before the list is asked for in one piece.
_EXPIRIES = 2


class Paging:
    """The list under way, and what was learned from those that failed."""

    __slots__ = (
        "_continue_token",
        "_expiries",
        "_page_items",
        "_settings",
        "floor",
        "is_rest",
        "version",
    )

    def __init__(self, settings: ReflectorSettings) -> None:
        self._settings = settings
        self._page_items = settings.page_items
        self._expiries = 0
        # The version of the first page, which is that of the snapshot that all pages show.
        self.version = ""
        self.floor = ""
        self.is_rest = False
        self._continue_token = ""

    def first(self, floor: str) -> List:
        """Begin a list; `floor` is the version that it must not be older than."""
        self.version = ""
        self.floor = floor
        self.is_rest = False
        self._continue_token = ""
        if floor:
            return List(resource_version=floor, match="NotOlderThan")
        return List(limit=self._limit())

    def rest(self, continue_token: str) -> List:
        """Go on with the list."""
        self.is_rest = True
        self._continue_token = continue_token
        return List(limit=self._limit(), continue_token=continue_token)

    def is_stuck(self, continue_token: str) -> bool:
        """Tell whether a page points to itself: the list would never end."""
        return continue_token == self._continue_token

    def expire(self) -> bool:
        """Note that the rest of a list expired; False if it is time to wait before trying again."""
        self._expiries += 1
        return self._expiries <= _EXPIRIES

    def ease(self) -> None:
        """Note that an answer was too much for one request: ask for less in each."""
        if not self.floor and self._limit() is None:
            self._expiries = 0
        elif not self.floor:
            self._page_items = max(self._settings.least_page_items, self._page_items // 2)

    def reset(self) -> None:
        """Note that a list came through."""
        self._page_items = self._settings.page_items
        self._expiries = 0

    def _limit(self) -> int | None:
        return None if self._expiries >= _EXPIRIES else self._page_items
