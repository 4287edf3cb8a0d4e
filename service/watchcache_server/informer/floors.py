"""Floors: what the API server has shown of a source, so that nothing older is seen of it any more.

A list proves what there is at its version, which may be ahead of the stream. An object that the
list does not show, at a version that is not newer, came and went before it: the stream has yet to
tell of both. It is passed over then, as a relist would pass over it. Otherwise a reader would find
what had gone before it asked.
"""

from __future__ import annotations

from typing import Protocol

from watchcache_server.informer.objects import Item
from watchcache_server.informer.versions import Order, compare_versions

__all__ = ["Floor", "Floors"]


class Floor(Protocol):
    """What a list has shown at `version`."""

    version: str

    def hides(self, item: Item) -> bool:
        """Tell whether an object had gone by then."""
        ...


class Floors:
    """The floors of one source, by namespace and name of what they are of; empty is any."""

    __slots__ = ("_by_scope", "_highest")

    def __init__(self) -> None:
        self._by_scope: dict[tuple[str, str], Floor] = {}
        self._highest = ""

    def add(self, namespace: str, name: str, floor: Floor) -> None:
        """Take what was shown of some objects, in the place of what was shown of them before."""
        if compare_versions(floor.version, self._highest) is not Order.OLDER:
            self._highest = floor.version
        self._by_scope[namespace, name] = floor

    def hide(self, item: Item) -> bool:
        """Tell whether an object that is not held is to be passed over."""
        if not self._by_scope:
            return False
        scopes = ((item.namespace, item.name), (item.namespace, ""), ("", ""))
        floors = (self._by_scope.get(scope) for scope in scopes)
        return any(floor is not None and floor.hides(item) for floor in floors)

    def move(self, before: str, now: str) -> None:
        """Take that the source is at another version: there, or in a storage that was set back."""
        if self._by_scope and (
            compare_versions(now, before) is Order.OLDER
            or compare_versions(now, self._highest) in (Order.EQUAL, Order.NEWER)
        ):
            self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._by_scope.clear()
        self._highest = ""
