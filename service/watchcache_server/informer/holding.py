"""A holding: entries together with what is derived from all of them.

A source has one for what is visible and, during a sync, a second one beside it.
"""

from __future__ import annotations

from watchcache_server.informer.entries import Entry, OwnerIndex, Table

__all__ = ["Holding"]


class Holding:
    """Entries, their owner index and their sizes, always in step with each other."""

    __slots__ = ("owners", "raw_bytes", "stored_bytes", "table")

    def __init__(self) -> None:
        self.table = Table()
        self.owners = OwnerIndex()
        self.raw_bytes = 0
        self.stored_bytes = 0

    def has(self, entry: Entry) -> bool:
        """Tell whether this very entry is held."""
        return self.table.get(entry.namespace, entry.name) is entry

    def put(self, entry: Entry) -> None:
        """Hold an entry, in place of the one that has its name, if any."""
        before = self.table.put(entry)
        if before is not None:
            self._left(before)
        self.owners.add(entry)
        self.raw_bytes += entry.raw_size
        self.stored_bytes += len(entry.stored)

    def pop(self, namespace: str, name: str) -> None:
        """Let go of an entry, if there is one of that name."""
        entry = self.table.pop(namespace, name)
        if entry is not None:
            self._left(entry)

    def _left(self, entry: Entry) -> None:
        self.owners.discard(entry)
        self.raw_bytes -= entry.raw_size
        self.stored_bytes -= len(entry.stored)
