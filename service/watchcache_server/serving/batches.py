"""Batches: the next message of a subscriber, made once for all who stand at the same place.

What `advance` returns depends on the store, the filter and the cursor only, and stays true for
ever; so the message made of it is kept, by these, for whoever comes to the same place within a
while.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from watchcache_server.informer.cursors import Cursor, Limits, Outcome
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.held import Held
from watchcache_server.informer.resume import ResumeToken, extension_digest
from watchcache_server.informer.store import Store
from watchcache_server.informer.subscription import advance
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.model.states import View
from watchcache_server.serving.wire import batch_message, event_field

__all__ = ["Batch", "BatchCache", "resume_token"]


class Batch(NamedTuple):
    """One step of a subscriber: a message, empty when there is nothing to say, and what follows."""

    message: bytes
    event_count: int
    cursor: Cursor
    outcome: Outcome
    oldest_read_at: float | None


# Each source takes 16 bytes of a token, and a token goes with each batch.
_MOST_POSITIONS: Final = 16


def resume_token(
    key: ExtensionKey, store: Store, wanted: Filter, cursor: Cursor, *, is_batch: bool = False
) -> bytes:
    """Return the token for a cursor; empty while a walk is under way.

    It leads on after a restart of the service too, but not while its reader is behind; that of a
    batch not if there are many sources: then those of bookmarks do.
    """
    if cursor.walk is not None:
        return b""
    positions = None
    if cursor.behind_since is None:
        positions = store.positions(wanted, cursor.revision)
    packed = ResumeToken.packed(positions or {})
    token = ResumeToken(
        extension_digest(key),
        store.epoch,
        wanted.digest,
        cursor.revision,
        cursor.behind_since,
        () if is_batch and len(packed) > _MOST_POSITIONS else packed,
    )
    return token.encode()


class BatchCache:
    """Messages by place, bounded in bytes; the least recently used go first."""

    def __init__(self, *, max_bytes: int, batch_bytes: int) -> None:
        self._batches: OrderedDict[tuple[bytes, bytes, View, Cursor, bool], Batch] = OrderedDict()
        self._max_bytes = max_bytes
        self._limits = Limits(raw_bytes=batch_bytes)
        self.bytes = 0

    def next(
        self,
        key: ExtensionKey,
        store: Store,
        wanted: Filter,
        view: View,
        cursor: Cursor,
        *,
        is_synced: bool,
        held: Held | None = None,
    ) -> Batch:
        """Return the step behind a cursor. Before `is_synced` a message carries no token.

        What a reader that `held` something is told is for it alone.
        """
        if held is not None:
            return self._make(key, store, wanted, view, cursor, is_synced=False, held=held)
        place = (store.epoch, wanted.digest, view, cursor, is_synced)
        batch = self._batches.get(place)
        if batch is not None and store.covers(cursor.revision):
            self._batches.move_to_end(place)
            return batch
        batch = self._make(key, store, wanted, view, cursor, is_synced=is_synced)
        if batch.message:
            self._keep(place, batch)
        return batch

    def _make(
        self,
        key: ExtensionKey,
        store: Store,
        wanted: Filter,
        view: View,
        cursor: Cursor,
        *,
        is_synced: bool,
        held: Held | None = None,
    ) -> Batch:
        step = advance(store, wanted, cursor, self._limits, held)
        message = b""
        if step.events:
            token = b""
            if is_synced:
                token = resume_token(key, store, wanted, step.cursor, is_batch=True)
            message = batch_message(
                (event_field(event, view) for event in step.events),
                token,
                is_coalesced=step.is_coalesced,
            )
        return Batch(message, len(step.events), step.cursor, step.outcome, step.oldest_read_at)

    def forget(self, store: Store) -> None:
        """Drop the messages of a store: its extension has ended, or a right was lost."""
        for place in [place for place in self._batches if place[0] == store.epoch]:
            self.bytes -= len(self._batches.pop(place).message)

    def _keep(self, place: tuple[bytes, bytes, View, Cursor, bool], batch: Batch) -> None:
        if len(batch.message) > self._max_bytes // 2:
            # One large object is not worth all others.
            return
        self._batches[place] = batch
        self.bytes += len(batch.message)
        while self.bytes > self._max_bytes:
            _, dropped = self._batches.popitem(last=False)
            self.bytes -= len(dropped.message)
