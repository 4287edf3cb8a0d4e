"""A ledger: what happens to a source while it is compared with a list of its API server.

A list is of one version, and the source goes on meanwhile. What the stream has not touched since
the list was asked for must be held as the list shows it; and of how many objects were held at the
version of the list the ledger knows by how many came and went behind it. It is there during a
comparison only, and is void once there is nothing to compare any more.
"""

from __future__ import annotations

from typing import Final

from watchcache_server.informer.entries import Entry
from watchcache_server.informer.objects import Delta, Remove
from watchcache_server.informer.versions import Order, compare_versions

__all__ = ["Ledger"]

_MOST_TOUCHED: Final = 100_000


class Ledger:
    """What was touched, and how many objects came after a version, less those that went."""

    __slots__ = ("_most", "_newer", "_steps", "_version", "is_countable", "is_void", "touched")

    def __init__(self, *, most_touched: int = _MOST_TOUCHED) -> None:
        self._most = most_touched
        self._version = ""
        # Until the version is known: the version of each step.
        self._steps: list[tuple[str, int]] = []
        self._newer = 0
        self.touched: set[tuple[str, str]] = set()
        #: Whether the number of objects at a version can be told.
        self.is_countable = True
        #: Whether there is nothing to compare any more.
        self.is_void = False

    @property
    def newer(self) -> int:
        """How many objects more there are than at the version."""
        return self._newer

    def touch(self, namespace: str, name: str) -> None:
        """Note that an object may have changed for a reason of our own."""
        self.touched.add((namespace, name))
        if len(self.touched) > self._most:
            self.void()

    def note(self, delta: Delta, live: Entry | None, step: int) -> None:
        """Note an event of the stream: what was held before it, how many objects more after it."""
        item = delta.item
        self.touch(item.namespace, item.name)
        if isinstance(delta, Remove):
            # Servers before 1.10 do not say when something was deleted.
            is_plain = live is None or self._order(item.resource_version, live) is Order.NEWER
        else:
            # What is passed over since a list has shown that it is gone was there for a while.
            is_plain = live is not None or step != 0
        self.is_countable = self.is_countable and is_plain
        if step and self._version:
            self._count(item.resource_version, step)
        elif step:
            self._steps.append((item.resource_version, step))

    def begin(self, version: str) -> None:
        """Take the version of the list; no other one comes."""
        self._version = version
        for step in self._steps:
            self._count(*step)
        self._steps.clear()

    def void(self) -> None:
        """Take that there is nothing to compare: it was all replaced, or changes too fast."""
        self.is_void = True
        self.touched.clear()
        self._steps.clear()

    def _count(self, version: str, step: int) -> None:
        order = compare_versions(version, self._version)
        if order is Order.NEWER:
            self._newer += step
        elif order is Order.UNKNOWN:
            self.is_countable = False

    def _order(self, version: str, live: Entry) -> Order:
        return compare_versions(version, live.resource_version)
