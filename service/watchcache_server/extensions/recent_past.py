"""What ended before an informer began, for readers who come from before: found once, for all.

After a restart every reader comes with a token of another life. What each of them holds is given by
an upstream version; what is there now is in the store. Here is the rest: what went in between.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from watchcache_server.informer.compression import PLAIN
from watchcache_server.informer.cursors import Event
from watchcache_server.informer.entries import Entry
from watchcache_server.informer.objects import Item
from watchcache_server.informer.texts import Texts
from watchcache_server.informer.versions import Order, compare_versions
from watchcache_server.kubernetes.past import PastLostError, PastReader
from watchcache_server.model.states import EventKind, LeftReason

if TYPE_CHECKING:
    from watchcache_server.extensions.informer import Informer

__all__ = ["RecentPast", "Since"]


class Since(NamedTuple):
    """What ended after an upstream version and up to a revision of the store, oldest first."""

    version: str
    revision: int
    ends: tuple[Event, ...]

    def after(self, version: str) -> tuple[Event, ...]:
        """Return the ends after a later version."""
        return tuple(
            end
            for end in self.ends
            if compare_versions(end.entry.resource_version, version)
            not in (Order.OLDER, Order.EQUAL)
        )


class RecentPast:
    """The recent past of one informer."""

    __slots__ = ("_found", "_informer", "_reader", "_turn")

    def __init__(self, informer: Informer, reader: PastReader) -> None:
        self._informer = informer
        self._reader = reader
        self._found: Since | None = None
        # Made by the first who asks: most informers are never asked.
        self._turn: asyncio.Lock | None = None

    async def since(self, version: str) -> Since:
        """Return what ended after an upstream version. Raises PastLostError.

        The informer holds objects. What ended after the revision that is returned, the history of
        the store tells.
        """
        self._turn = self._turn or asyncio.Lock()
        async with self._turn:
            self._check_storage()
            found = self._found
            if found is None or not self._serves(found, version):
                found = self._found = await self._find(version)
            return found

    def _serves(self, found: Since, version: str) -> bool:
        is_early = compare_versions(found.version, version) in (Order.OLDER, Order.EQUAL)
        return is_early and self._informer.extension.store.history.covers(found.revision)

    async def _find(self, version: str) -> Since:
        store, source = self._informer.extension.store, self._informer.source
        if not source.is_synced:
            raise PastLostError("the informer holds nothing")
        revision = store.revision
        ended = await self._reader.ended(source, version, source.position)
        self._check_storage()
        ends = [self._event(item, EventKind.DELETED, revision) for item in ended.deleted]
        ends += [self._event(item, EventKind.LEFT, revision) for item in ended.left]
        return Since(version, revision, tuple(ends))

    def _check_storage(self) -> None:
        if self._informer.source.was_set_back:
            raise PastLostError("the storage of the cluster was set back since")

    def _event(self, item: Item, kind: EventKind, revision: int) -> Event:
        source = self._informer.source
        entry = Entry.of(item, PLAIN, source.version, Texts()).without_body()
        reason = LeftReason.SELECTION if kind is EventKind.LEFT else None
        return Event(kind, source, entry, revision, reason, final_state_unknown=True)
