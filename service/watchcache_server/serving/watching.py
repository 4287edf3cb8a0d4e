"""Watch: who may open a stream, where it begins, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.resume import ResumeToken, TokenError, extension_digest
from watchcache_server.informer.subscription import begin_snapshot, resume
from watchcache_server.model.errors import (
    InvalidRequestError,
    LimitExceededError,
    ServiceDrainingError,
)
from watchcache_server.observability.reporting import Reporter
from watchcache_server.serving.batches import BatchCache
from watchcache_server.serving.conversion import (
    consistency_of,
    extension_key,
    filter_of,
    seconds_of,
    view_of,
)
from watchcache_server.serving.fresh_reads import FreshReads
from watchcache_server.serving.stream import Start, WatchStream
from watchcache_server.serving.writing import PatientWriter, Writer
from watchcache_server.settings import Settings

__all__ = ["Watching"]

_BOOKMARK_SECONDS: Final = 30.0
_SHORTEST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 300.0


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
        self._fresh_reads = FreshReads(registry)
        self._streams: dict[WatchStream, Extension] = {}
        # Those that have stalled still take room, until their readers come back or go.
        self._open_count = 0

    @property
    def stream_count(self) -> int:
        """How many streams are open; one that has stalled is none any more."""
        return len(self._streams)

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
        asked = consistency_of(request.consistency, self._settings.max_freshness_wait_seconds)
        extension = self._registry.get(key)
        start = _start(extension, wanted, request.resume_token)
        self._admit(extension)
        if asked is not None:
            await self._fresh_reads.wait_for(extension, asked, wanted)
            start = _start(extension, wanted, request.resume_token)
            self._admit(extension)
        stream = WatchStream(
            registry=self._registry,
            reporter=self._reporter,
            batches=self._batches,
            extension=extension,
            wanted=wanted,
            view=view,
            start=start,
            bookmark_seconds=interval,
            writer=PatientWriter(
                writer,
                limit_seconds=self._settings.stalled_write_seconds,
                subject=f"Watch stream of extension {key}",
                stalled=lambda: self._give_up(stream),
            ),
        )
        self._streams[stream] = extension
        self._open_count += 1
        extension.subscribed()
        try:
            await stream.run()
        finally:
            self._open_count -= 1
            self._let_go(stream)

    def _give_up(self, stream: WatchStream) -> None:
        """Take that a stream has stalled: it holds nothing any more."""
        self._reporter.stream_stalled(self._streams[stream].key)
        self._let_go(stream)

    def _let_go(self, stream: WatchStream) -> None:
        extension = self._streams.pop(stream, None)
        if extension is not None:
            self._registry.unsubscribed(extension)

    def forget(self, extension: Extension) -> None:
        """Drop what is kept for sharing of an extension's objects."""
        self._batches.forget(extension.store)

    def _admit(self, extension: Extension) -> None:
        if self._registry.is_draining:
            raise ServiceDrainingError
        settings = self._settings
        if self._open_count >= settings.max_subscriptions:
            raise LimitExceededError(
                "Watch streams",
                f"{self._open_count} are open and no more are allowed; share streams, or raise "
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


def _start(extension: Extension, wanted: Filter, token: bytes) -> Start:
    """Find where a stream begins. Raises InvalidRequestError for a token of something else."""
    store = extension.store
    snapshot = begin_snapshot(store, wanted)
    if not token:
        return Start(snapshot, is_resumed=False, reset=None)
    try:
        found = ResumeToken.decode(token)
    except TokenError as error:
        raise _token_error(f"is no resume token: {error}") from error
    if found.extension != extension_digest(extension.key):
        raise _token_error("belongs to another extension")
    if found.filter != wanted.digest:
        raise _token_error("belongs to another filter")
    if found.epoch != store.epoch:
        return Start(snapshot, is_resumed=False, reset=pb.RESET_REASON_EPOCH_CHANGED)
    if found.revision > store.revision:
        raise _token_error("is ahead of this extension; it was made up")
    if not store.covers(found.revision):
        return Start(snapshot, is_resumed=False, reset=pb.RESET_REASON_HISTORY_EXPIRED)
    cursor = resume(store, found.revision, found.behind_since)
    return Start(cursor, is_resumed=True, reset=None)


def _token_error(problem: str) -> InvalidRequestError:
    return InvalidRequestError.of(
        "resume_token",
        f"{problem}; send the newest token of a stream with this extension and filter, or none",
        reason="RESUME_TOKEN_INVALID",
    )
