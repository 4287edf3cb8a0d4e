"""What a list shows that a source has yet to come to.

A list of the API server at some version proves that a source is as fresh when the source is at that
version; and also, for want of any event that would tell, when both show the same objects in the
same form. Where they differ the stream is on its way with the difference, and `look` says when the
source has come to it. From then on nothing older is seen of it (`floors`).

Versions are compared as `versions` says. Those that do not compare can only be equal. A difference
that no event of the stream explains is never taken for none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from watchcache_server.informer.entries import Entry
from watchcache_server.informer.objects import Item
from watchcache_server.informer.source import Source
from watchcache_server.informer.versions import Order, compare_versions

__all__ = ["Comparison", "Listed", "Scope", "is_at_least"]


class Scope(NamedTuple):
    """Objects of a source: all of them, those of a namespace, or the one of a name.

    A name without a namespace is that of a cluster-scoped object.
    """

    namespace: str = ""
    name: str = ""

    def entries(self, source: Source) -> Iterator[Entry]:
        """Yield what a source holds of it. The source may not change meanwhile."""
        if self.name:
            entry = source.table.get(self.namespace, self.name)
            yield from () if entry is None else (entry,)
        elif self.namespace:
            for entry in source.table.after(self.namespace, ""):
                if entry.namespace != self.namespace:
                    return
                yield entry
        else:
            yield from source.table

    def is_larger(self, source: Source, count: int) -> bool:
        """Tell whether a source holds more than so many objects of it."""
        return next(islice(self.entries(source), count, None), None) is not None


class Listed(NamedTuple):
    """An object as a list shows it; without a version it is one that the list does not show."""

    namespace: str
    name: str
    uid: str
    resource_version: str


def is_at_least(version: str, wanted: str) -> bool:
    """Tell whether a version of a resource is a wanted one or newer."""
    return compare_versions(version, wanted) in (Order.EQUAL, Order.NEWER)


class Comparison:
    """What a source has yet to come to, of a list at `version` of the objects of a scope."""

    __slots__ = ("_outstanding", "_source", "_uids", "version")

    def __init__(
        self, source: Source, scope: Scope, version: str, listed: Iterable[Listed]
    ) -> None:
        self.version = version
        self._source = source
        names = source.scope.names
        shown = {
            (each.namespace, each.name): each
            for each in listed
            if not names or (each.namespace, each.name) in names
        }
        self._uids = {each.uid for each in shown.values()}
        gone = [
            Listed(entry.namespace, entry.name, entry.uid, "")
            for entry in scope.entries(source)
            if (entry.namespace, entry.name) not in shown
        ]
        self._outstanding = [each for each in (*shown.values(), *gone) if not self._is_met(each)]
        source.floors.add(*scope, self)

    def look(self) -> bool:
        """Tell whether the source has come to all of it by now."""
        self._outstanding = [each for each in self._outstanding if not self._is_met(each)]
        return not self._outstanding

    def hides(self, item: Item) -> bool:
        """Tell whether an object had gone when the list was made."""
        return item.uid not in self._uids and compare_versions(
            item.resource_version, self.version
        ) in (Order.OLDER, Order.EQUAL)

    def _is_met(self, listed: Listed) -> bool:
        """Tell whether one object is as the list shows it, or has changed since the list.

        What was deleted since is told by the position alone: it is behind the list by then.
        """
        entry = self._source.table.get(listed.namespace, listed.name)
        if entry is None:
            return not listed.resource_version
        if compare_versions(entry.resource_version, self.version) is Order.NEWER:
            return True
        return (entry.uid, entry.resource_version) == (listed.uid, listed.resource_version)
