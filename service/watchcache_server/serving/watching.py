"""Watch: one subscriber's stream.

A stream owns a cursor, what it has said of the informers' states, and nothing else. It looks for
something to say until there is nothing, then waits for the pulse of its extension. What it writes
is bytes that may be shared with others; a write that its reader does not take for too long ends the
stream, and a later one resumes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from google.protobuf.message import Message

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.resume import ResumeToken, TokenError, extension_digest
from watchcache_server.informer.subscription import Cursor, Outcome, begin_snapshot, resume
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    ServiceDrainingError,
)
from watchcache_server.model.states import View
from watchcache_server.observability.reporting import Reporter
from watchcache_server.serving.batches import BatchCache, resume_token
from watchcache_server.serving.conversion import (
    extension_key,
    filter_of,
    seconds_of,
    to_duration,
    view_of,
)
from watchcache_server.serving.describing import source_message
from watchcache_server.settings import Settings

__all__ = ["Watching", "Writer"]

_BOOKMARK_SECONDS: Final = 30.0
_SHORTEST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 300.0


class Writer(Protocol):
    """Where a stream's messages go."""

    async def write(self, message: bytes) -> None:
        """Send a message; return when the transport has taken it."""
        ...


class _Start(NamedTuple):
    cursor: Cursor
    is_resumed: bool
    reset: pb.ResetReason.ValueType | None


class Watching:
    """Serves Watch streams."""

    def __init__(
        self, *, registry: ExtensionRegistry, settings: Settings, reporter: Reporter
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._reporter = reporter
        self._batches = BatchCache(
            max_bytes=settings.batch_cache_bytes, batch_bytes=settings.batch_bytes
        )
        self.stream_count = 0
        self._streams: set[_Stream] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def wait_idle(self, seconds: float) -> None:
        """Wait until no stream is open, but no longer than so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return

    @property
    def cached_bytes(self) -> int:
        """Bytes of messages kept for sharing."""
        return self._batches.bytes

    def lags(self) -> Iterator[tuple[int, float]]:
        """Yield for each stream how many changes it is behind, and the age of the oldest."""
        return (stream.lag for stream in list(self._streams))

    async def serve(self, request: pb.WatchRequest, writer: Writer) -> None:
        """Serve one stream until it ends. Raises a ServiceError that says why."""
        key = extension_key(request.namespace, request.name)
        wanted = filter_of(request.filter)
        view = view_of(request.view)
        interval = _BOOKMARK_SECONDS
        if request.HasField("bookmark_interval"):
            interval = seconds_of("bookmark_interval", request.bookmark_interval)
            interval = min(max(interval, _SHORTEST_SECONDS), _LONGEST_SECONDS)
        extension = self._registry.get(key)
        start = _start(extension, wanted, request.resume_token)
        self._admit(extension)
        self.stream_count += 1
        self._idle.clear()
        extension.subscribed()
        stream = _Stream(
            registry=self._registry,
            reporter=self._reporter,
            batches=self._batches,
            stalled_seconds=self._settings.stalled_write_seconds,
            extension=extension,
            wanted=wanted,
            view=view,
            start=start,
            bookmark_seconds=interval,
            writer=writer,
        )
        self._streams.add(stream)
        try:
            await stream.run()
        finally:
            self._streams.discard(stream)
            self.stream_count -= 1
            if not self.stream_count:
                self._idle.set()
            self._registry.unsubscribed(extension)

    def forget(self, extension: Extension) -> None:
        """Drop what is kept for sharing of an extension's objects."""
        self._batches.forget(extension.store)

    def _admit(self, extension: Extension) -> None:
        if self._registry.is_draining:
            raise ServiceDrainingError
        settings = self._settings
        if self.stream_count >= settings.max_subscriptions:
            raise LimitExceededError(
                "Watch streams",
                f"{self.stream_count} are open and no more are allowed; share streams, or raise "
                "the setting max_subscriptions",
                setting="max_subscriptions",
            )
        if extension.subscription_count >= settings.max_subscriptions_per_extension:
            raise LimitExceededError(
                f"Watch streams of extension {extension.key}",
                f"{extension.subscription_count} are open and no more are allowed; share streams, "
                "or raise the setting max_subscriptions_per_extension",
                setting="max_subscriptions_per_extension",
            )


def _start(extension: Extension, wanted: Filter, token: bytes) -> _Start:
    """Find where a stream begins. Raises InvalidRequestError for a token of something else."""
    store = extension.store
    snapshot = begin_snapshot(store, wanted)
    if not token:
        return _Start(snapshot, is_resumed=False, reset=None)
    try:
        found = ResumeToken.decode(token)
    except TokenError as error:
        raise _token_error(f"is no resume token: {error}") from error
    if found.extension != extension_digest(extension.key):
        raise _token_error("belongs to another extension")
    if found.filter != wanted.digest:
        raise _token_error("belongs to another filter")
    if found.epoch != store.epoch:
        return _Start(snapshot, is_resumed=False, reset=pb.RESET_REASON_EPOCH_CHANGED)
    if found.revision > store.revision:
        raise _token_error("is ahead of this extension; it was made up")
    if not store.history.covers(found.revision):
        return _Start(snapshot, is_resumed=False, reset=pb.RESET_REASON_HISTORY_EXPIRED)
    return _Start(resume(store, found.revision), is_resumed=True, reset=None)


def _token_error(problem: str) -> InvalidRequestError:
    return InvalidRequestError.of(
        "resume_token",
        f"{problem}; send the newest token of a stream with this extension and filter, or none",
        reason="RESUME_TOKEN_INVALID",
    )


class _Stream:
    """One stream under way."""

    def __init__(
        self,
        *,
        registry: ExtensionRegistry,
        reporter: Reporter,
        batches: BatchCache,
        stalled_seconds: float,
        extension: Extension,
        wanted: Filter,
        view: View,
        start: _Start,
        bookmark_seconds: float,
        writer: Writer,
    ) -> None:
        self._registry = registry
        self._reporter = reporter
        self._batches = batches
        self._stalled_seconds = stalled_seconds
        self._extension = extension
        self._wanted = wanted
        self._view = view
        self._start = start
        self._cursor = start.cursor
        self._bookmark_seconds = bookmark_seconds
        self._writer = writer
        self._now = extension.clock.now
        self._is_synced = False
        self._has_token = start.is_resumed
        self._status_version = 0
        self._said_at = self._now()

    @property
    def lag(self) -> tuple[int, float]:
        """How many changes of its extension it has yet to look at, and the age of the oldest."""
        store = self._extension.store
        changes = store.revision - self._cursor.revision
        if not changes:
            return 0, 0.0
        # What the history has dropped is older still; the stream will learn so at its next step.
        first = max(self._cursor.revision, store.history.first_revision - 1)
        oldest = next(store.history.since(first))
        return changes, max(0.0, self._now() - oldest.read_at)

    async def run(self) -> None:
        await self._open()
        while True:
            self._check_ended()
            await self._say_statuses()
            if await self._say_batch():
                continue
            if not self._is_synced and await self._say_synced():
                continue
            await self._rest()

    async def _open(self) -> None:
        started = pb.Started(
            mode=pb.START_MODE_RESUMED if self._start.is_resumed else pb.START_MODE_SNAPSHOT,
            extension_uid=self._extension.uid,
            bookmark_interval=to_duration(self._bookmark_seconds),
        )
        await self._say(pb.WatchResponse(started=started))
        if self._start.reset is not None:
            await self._say_reset(self._start.reset)

    async def _say_reset(self, reason: pb.ResetReason.ValueType) -> None:
        self._reporter.subscriber_reset(self._extension.key, pb.ResetReason.Name(reason))
        await self._say(pb.WatchResponse(reset=pb.Reset(reason=reason)))

    async def _say_statuses(self) -> None:
        version = self._extension.status_version
        if version == self._status_version:
            return
        since, self._status_version = self._status_version, version
        for informer in self._extension.ordered_informers(self._wanted):
            if informer.status.version > since:
                await self._say(pb.WatchResponse(source_status=source_message(informer)))

    async def _say_batch(self) -> bool:
        """Send the next batch; return whether there may be more to do at once."""
        extension = self._extension
        batch = self._batches.next(
            extension.key,
            extension.store,
            self._wanted,
            self._view,
            self._cursor,
            is_synced=self._has_token,
        )
        if batch.outcome is Outcome.EXPIRED:
            self._cursor = begin_snapshot(extension.store, self._wanted)
            self._is_synced = self._has_token = False
            await self._say_reset(pb.RESET_REASON_HISTORY_EXPIRED)
            return True
        self._cursor = batch.cursor
        if batch.message:
            await self._write(batch.message)
            latency = None
            if batch.oldest_read_at is not None:
                latency = self._now() - batch.oldest_read_at
            self._reporter.batch_sent(batch.event_count, len(batch.message), latency)
        elif batch.outcome is Outcome.MORE:
            await asyncio.sleep(0)
        # Something may have happened during the write; only a step without events is rest.
        return bool(batch.message) or batch.outcome is Outcome.MORE

    async def _say_synced(self) -> bool:
        """Say that all is loaded, if it is; return whether it was said."""
        informers = self._extension.ordered_informers(self._wanted)
        if self._cursor.walk is not None or not all(
            informer.status.state.is_settled for informer in informers
        ):
            return False
        self._is_synced = self._has_token = True
        await self._say(pb.WatchResponse(synced=pb.Synced(resume_token=self._token())))
        return True

    def _check_ended(self) -> None:
        extension = self._extension
        if extension.ended:
            raise ExtensionNotFoundError(
                extension.key.namespace, extension.key.name, why=extension.ended
            )

    async def _rest(self) -> None:
        """Wait for news; say a bookmark when there was none for so long."""
        extension = self._extension
        if self._registry.is_draining:
            await self._say(pb.WatchResponse(draining=pb.Draining(resume_token=self._token())))
            raise ServiceDrainingError
        left = self._said_at + self._bookmark_seconds - self._now()
        if left > 0 and await extension.pulse.wait(left):
            return
        if self._said_at + self._bookmark_seconds - self._now() <= 0:
            await self._say(pb.WatchResponse(bookmark=pb.Bookmark(resume_token=self._token())))

    def _token(self) -> bytes:
        if not self._has_token:
            return b""
        return resume_token(self._extension.key, self._extension.store, self._wanted, self._cursor)

    async def _say(self, message: Message) -> None:
        await self._write(message.SerializeToString())

    async def _write(self, message: bytes) -> None:
        try:
            async with asyncio.timeout(self._stalled_seconds):
                await self._writer.write(message)
        except TimeoutError:
            self._reporter.stream_stalled(self._extension.key)
            raise LimitExceededError(
                f"Watch stream of extension {self._extension.key}",
                f"its reader took nothing for {self._stalled_seconds:g} s; read faster, and resume "
                "with the last token",
                setting="stalled_write_seconds",
            ) from None
        self._said_at = self._now()
