"""One Watch stream: what it has said, and what it says next.

A stream owns a cursor, what it has said of the informers' states, and nothing else. It looks for
something to say until there is nothing, then waits for the pulse of its extension. What it writes
is bytes that may be shared with others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Final

from google.protobuf.message import Message

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.informer.comparison import Scope
from watchcache_server.informer.cursors import Cursor, Outcome
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.held import Held, Known
from watchcache_server.informer.subscription import begin_snapshot
from watchcache_server.kubernetes.past import PastLostError
from watchcache_server.model.errors import (
    ConnectionAgedError,
    ExtensionNotFoundError,
    ServiceDrainingError,
)
from watchcache_server.model.states import View
from watchcache_server.observability.reporting import Reporter
from watchcache_server.serving.batches import Batch, BatchCache, resume_token
from watchcache_server.serving.conversion import to_duration
from watchcache_server.serving.describing import source_message
from watchcache_server.serving.indexed import require_indexed
from watchcache_server.serving.known_gone import known_gone, undecided
from watchcache_server.serving.recovering import recover
from watchcache_server.serving.starting import Start, lost
from watchcache_server.serving.wire import batch_message, event_field
from watchcache_server.serving.writing import Writer

__all__ = ["WatchStream"]

_ENDS_IN_MESSAGE: Final = 512
# How often a stream that waits for the past looks whether it is to end.
_LOOK_SECONDS: Final = 0.5


class WatchStream:
    """One stream under way. `run` raises a ServiceError that says why it ends."""

    __slots__ = (
        "_batches",
        "_bookmark_seconds",
        "_cursor",
        "_ends_at",
        "_extension",
        "_fails_on_reset",
        "_has_proof",
        "_has_token",
        "_held",
        "_is_synced",
        "_now",
        "_proving",
        "_registry",
        "_reporter",
        "_said_at",
        "_start",
        "_status_version",
        "_view",
        "_wanted",
        "_writer",
    )

    def __init__(
        self,
        *,
        registry: ExtensionRegistry,
        reporter: Reporter,
        batches: BatchCache,
        extension: Extension,
        wanted: Filter,
        view: View,
        start: Start,
        fails_on_reset: bool,
        bookmark_seconds: float,
        ends_at: float,
        writer: Writer,
    ) -> None:
        """Prepare a stream; at `ends_at`, a moment of the extension's clock, it is old."""
        self._registry = registry
        self._reporter = reporter
        self._batches = batches
        self._extension = extension
        self._wanted = wanted
        self._view = view
        self._start = start
        self._fails_on_reset = fails_on_reset
        self._cursor = start.cursor
        # What the reader came with, until it has been told all that differs.
        self._held: Held | None = start.known
        self._proving: asyncio.Future[None] | None = None
        self._has_proof = False
        self._bookmark_seconds = bookmark_seconds
        self._ends_at = ends_at
        self._writer = writer
        self._now = extension.clock.now
        self._is_synced = False
        self._has_token = start.mode == pb.START_MODE_RESUMED and start.positions is None
        self._status_version = 0
        self._said_at = self._now()

    @property
    def lag(self) -> tuple[int, float]:
        """How many changes of its extension it has yet to look at, and the age of the oldest."""
        store = self._extension.store
        changes = store.revision - self._cursor.revision
        if not changes or not store.concerns(self._wanted, self._cursor.revision):
            return 0, 0.0
        # What the history has dropped is older still; the stream will learn so at its next step.
        first = max(self._cursor.revision, store.history.first_revision - 1)
        oldest = next(store.history.since(first), None)
        return changes, 0.0 if oldest is None else max(0.0, self._now() - oldest.read_at)

    async def run(self) -> None:
        """Say what there is to say, until there is an end."""
        await self._open()
        if self._start.positions is not None:
            await self._recover(self._start.positions)
        # What its reader came with need not live for as long.
        self._start = Start(self._cursor, self._start.mode)
        try:
            await self._say_all()
        finally:
            if self._proving is not None:
                self._proving.cancel()

    async def _say_all(self) -> None:
        while True:
            has_said = await self._say_statuses()
            await self._end_if_over()
            if await self._say_batch() or has_said or await self._say_known_gone():
                # During a write anything may happen: look again.
                continue
            if not await self._say_synced():
                await self._rest()

    async def _open(self) -> None:
        started = pb.Started(
            mode=self._start.mode,
            extension_uid=self._extension.uid,
            bookmark_interval=to_duration(self._bookmark_seconds),
        )
        await self._say(pb.WatchResponse(started=started))
        if self._start.reset is not None:
            await self._say_reset(self._start.reset)

    async def _reset(self, reason: pb.ResetReason.ValueType) -> None:
        """Begin anew with a snapshot, or end if the reader does not want that."""
        if self._fails_on_reset:
            raise lost(reason)
        self._cursor = begin_snapshot(self._extension.store, self._wanted)
        self._is_synced = self._has_token = False
        self._held = None
        await self._say_reset(reason)

    async def _say_reset(self, reason: pb.ResetReason.ValueType) -> None:
        self._reporter.subscriber_reset(self._extension.key, pb.ResetReason.Name(reason))
        await self._say(pb.WatchResponse(reset=pb.Reset(reason=reason)))

    async def _say_statuses(self) -> bool:
        """Say how the informers are that have changed; return whether there were any."""
        since, self._status_version = self._status_version, self._extension.status_version
        if since == self._status_version:
            return False
        # Another spec may no longer have the index paths of the filter.
        require_indexed(self._extension, self._wanted)
        changed = self._extension.changed(self._wanted, since)
        for told in changed:
            await self._say(pb.WatchResponse(source_status=source_message(told)))
        return bool(changed)

    async def _say_batch(self) -> bool:
        """Send the next batch; return whether there may be more to do at once."""
        batch = self._next_batch()
        if batch.outcome is Outcome.EXPIRED:
            await self._reset(pb.RESET_REASON_HISTORY_EXPIRED)
            return True
        self._cursor = batch.cursor
        if batch.message:
            if batch.outcome is Outcome.MORE and self._held is None:
                # The transport works in other threads. Meanwhile the next one is made, and found
                # among the kept ones when its turn comes.
                asyncio.get_running_loop().call_soon(self._make_next)
            await self._write(batch.message)
            latency = None
            if batch.oldest_read_at is not None:
                latency = self._now() - batch.oldest_read_at
            self._reporter.batch_sent(batch.event_count, len(batch.message), latency)
        elif batch.outcome is Outcome.MORE:
            await asyncio.sleep(0)
        return bool(batch.message) or batch.outcome is Outcome.MORE

    def _next_batch(self) -> Batch:
        extension = self._extension
        return self._batches.next(
            extension.key,
            extension.store,
            self._wanted,
            self._view,
            self._cursor,
            is_synced=self._has_token,
            held=self._held,
        )

    def _make_next(self) -> None:
        # What is kept of an extension that has ended is dropped by then.
        if not self._extension.ended:
            self._next_batch()

    async def _say_synced(self) -> bool:
        """Say that all is loaded, once it is; return whether it was said now."""
        if self._is_synced or self._cursor.walk is not None:
            return False
        if not self._extension.is_settled_in(self._wanted):
            return False
        if not (isinstance(self._held, Known) and self._held.count):
            self._held = None
        self._is_synced = True
        self._has_token = self._held is None
        await self._say(pb.WatchResponse(synced=pb.Synced(resume_token=self._token())))
        return True

    async def _say_known_gone(self) -> bool:
        """Name what is gone of what the reader said that it holds; return whether there was any."""
        known = self._held
        if not isinstance(known, Known) or self._cursor.walk is not None:
            return False
        self._has_proof = False
        messages = list(known_gone(self._extension, self._wanted, known))
        if not known.count and self._is_synced:
            self._held = None
            self._has_token = True
        elif self._is_synced and self._proving is None:
            self._proving = asyncio.ensure_future(self._prove(known))
        for message in messages:
            await self._say(pb.WatchResponse(known_gone=message))
        return bool(messages)

    async def _prove(self, known: Known) -> None:
        """Have the informers be as fresh as their API servers: then what is left is gone.

        It is newer than what they hold. Either they are behind what another service has told, or
        the storage was set back since. None waits for another one, whose cluster may be away.
        """

        async def prove(informer: Informer) -> None:
            if not await informer.freshness.wait(Scope()):
                known.proven.add(informer.source)
                self._has_proof = True
                self._extension.pulse.touch()

        async with asyncio.TaskGroup() as group:
            for informer in undecided(self._extension, self._wanted, known):
                group.create_task(prove(informer))

    async def _recover(self, positions: Mapping[bytes, str]) -> None:
        """Go on where another life of the extension has ended; begin anew if that cannot be."""
        while True:
            has_said = await self._say_statuses()
            await self._end_if_over()
            if self._extension.is_settled_in(self._wanted):
                break
            if not has_said:
                await self._wait_for_states()
        recovering = asyncio.ensure_future(recover(self._extension, self._wanted, positions))
        try:
            while not recovering.done():
                left = min(self._silence_left, _LOOK_SECONDS)
                await asyncio.wait([recovering], timeout=left)
                await self._end_if_over()
                if not recovering.done() and self._silence_left <= 0:
                    await self._say(pb.WatchResponse(bookmark=pb.Bookmark()))
            recovered = recovering.result()
        except PastLostError:
            await self._reset(pb.RESET_REASON_EPOCH_CHANGED)
            return
        finally:
            recovering.cancel()
        self._cursor, self._held = recovered.cursor, recovered.held
        for first in range(0, len(recovered.ends), _ENDS_IN_MESSAGE):
            ends = recovered.ends[first : first + _ENDS_IN_MESSAGE]
            fields = (event_field(end, self._view) for end in ends)
            await self._write(batch_message(fields, b"", is_coalesced=True))

    async def _wait_for_states(self) -> None:
        """Wait until an informer is in another state; say a bookmark when nothing was for so long.

        What changes in the store meanwhile is none of a reader's business that is yet to begin.
        """
        left = self._silence_left
        if left > 0:
            await self._extension.pulse.wait(left, self._has_news_of_states)
        else:
            await self._say(pb.WatchResponse(bookmark=pb.Bookmark()))

    def _has_news_of_states(self) -> bool:
        extension = self._extension
        return (
            self._status_version != extension.status_version
            or bool(extension.ended)
            or self._registry.is_draining
        )

    async def _end_if_over(self) -> None:
        extension = self._extension
        if extension.ended:
            raise ExtensionNotFoundError(
                extension.key.namespace, extension.key.name, why=extension.ended
            )
        if self._registry.is_draining:
            await self._say_draining()
            raise ServiceDrainingError
        if self._age_left <= 0:
            await self._say_draining()
            raise ConnectionAgedError

    async def _say_draining(self) -> None:
        await self._say(pb.WatchResponse(draining=pb.Draining(resume_token=self._token())))

    async def _rest(self) -> None:
        """Wait for news; say a bookmark when there was none for so long."""
        left = min(self._silence_left, self._age_left)
        if left > 0 and await self._extension.pulse.wait(left, self._is_concerned):
            return
        store = self._extension.store
        if self._cursor.revision != store.revision:
            if self._held is not None or store.concerns(self._wanted, self._cursor.revision):
                return
            # Nothing of it concerns this reader; its token may as well cover it.
            self._cursor = Cursor(store.revision)
        if self._silence_left <= 0:
            await self._say(pb.WatchResponse(bookmark=pb.Bookmark(resume_token=self._token())))

    def _is_concerned(self) -> bool:
        store = self._extension.store
        return (
            self._has_proof
            or self._has_news_of_states()
            or store.concerns(self._wanted, self._cursor.revision)
        )

    @property
    def _silence_left(self) -> float:
        return self._said_at + self._bookmark_seconds - self._now()

    @property
    def _age_left(self) -> float:
        """What is left of its life; without a token it would begin anew, so it is let go on."""
        has_token = self._has_token and self._cursor.walk is None
        return self._ends_at - self._now() if has_token else math.inf

    def _token(self) -> bytes:
        if not self._has_token:
            return b""
        return resume_token(self._extension.key, self._extension.store, self._wanted, self._cursor)

    async def _say(self, message: Message) -> None:
        await self._write(message.SerializeToString())

    async def _write(self, message: bytes) -> None:
        await self._writer.write(message)
        self._said_at = self._now()
