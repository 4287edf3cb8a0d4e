"""Where an informer stands in the order of its resource, and from where it may ask again.

The position is the version of a list, of an end of initial events, of a live event or of a
bookmark, in the order of their arrival. Nobody passes it the version of a listed object or of a
synthetic event.
"""

from __future__ import annotations

from watchcache_server.informer.versions import Order, compare_versions

__all__ = ["Position"]


class Position:
    """The last version seen; empty before the first list and after `forget`."""

    __slots__ = ("_asks_newest", "version")

    def __init__(self, version: str = "") -> None:
        self.version = version
        self._asks_newest = False

    def __repr__(self) -> str:
        return f"<Position {self.version or 'none'}{' newest' if self._asks_newest else ''}>"

    @property
    def floor(self) -> str:
        """The version that a list must not be older than; empty to ask for the newest state."""
        return "" if self._asks_newest else self.version

    def advance(self, version: str) -> bool:
        """Move on with a live event or bookmark; False if its version is an older one.

        Servers before 1.10 send deletions with the version before them
        (kubernetes/kubernetes#58545).
        """
        if compare_versions(version, self.version) is Order.OLDER:
            return False
        self.version = version
        return True

    def is_behind(self, version: str) -> bool:
        """Whether a server that is at `version` has lost what was seen here."""
        return compare_versions(version, self.version) is Order.OLDER

    def ask_newest(self) -> None:
        """Make the next list ask for the newest state instead of one not older than this."""
        self._asks_newest = True

    def restart(self, version: str) -> None:
        """Take the version of a list, which may be lower than before if the storage was rewound."""
        self.version = version
        self._asks_newest = False

    def forget(self) -> None:
        """Start as if nothing had been seen."""
        self.version = ""
        self._asks_newest = False
