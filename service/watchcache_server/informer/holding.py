"""A holding: entries together with what is derived from all of them.

A source has one for what is visible and, during a sync, a second one beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import itemgetter
from typing import Final

from watchcache_server.informer.entries import Entry, FieldIndex, OwnerIndex, Table

__all__ = ["Holding"]

# Sorting what an index has is worth it where that is at most one in so many entries.
_INDEX_WORTH: Final = 4


class Holding:
    """Entries, their indexes and their sizes, always in step with each other."""

    __slots__ = ("fields", "owners", "raw_bytes", "stored_bytes", "table")

    def __init__(self) -> None:
        self.table = Table()
        self.owners = OwnerIndex()
        self.fields = FieldIndex()
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
        self.fields.add(entry)
        self.raw_bytes += entry.raw_size
        self.stored_bytes += len(entry.stored)

    def pop(self, namespace: str, name: str) -> None:
        """Let go of an entry, if there is one of that name."""
        entry = self.table.pop(namespace, name)
        if entry is not None:
            self._left(entry)

    def candidates(
        self, groups: Iterable[Collection[tuple[str, str]]], namespace: str, name: str
    ) -> Iterable[Entry]:
        """Return the entries behind (namespace, name) that may have a value of each group.

        In order; by an index where one leaves little, else it is the whole table.
        """
        counts = [(self.fields.count(group), group) for group in groups]
        if counts:
            count, group = min(counts, key=itemgetter(0))
            if count * _INDEX_WORTH <= self.table.count:
                return self.fields.after(group, namespace, name)
        return self.table.after(namespace, name)

    def _left(self, entry: Entry) -> None:
        self.owners.discard(entry)
        self.fields.discard(entry)
        self.raw_bytes -= entry.raw_size
        self.stored_bytes -= len(entry.stored)
