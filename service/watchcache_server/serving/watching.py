"""Watch: who may open a stream, where it begins, and how many there are."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.model.errors import (
    LimitExceededError,
    ServiceDrainingError,
)
from watchcache_server.observability.reporting import Reporter
from watchcache_server.serving.aging import Aging
from watchcache_server.serving.batches import BatchCache
from watchcache_server.serving.conversion import (
    consistency_of,
    extension_key,
    filter_of,
    seconds_of,
    view_of,
)
from watchcache_server.serving.fresh_reads import FreshReads
from watchcache_server.serving.indexed import require_indexed
from watchcache_server.serving.refusals import retry_seconds
from watchcache_server.serving.starting import check_token, find_start
from watchcache_server.serving.stream import WatchStream
from watchcache_server.serving.uploads import KnownUploads
from watchcache_server.serving.writing import PatientWriter, Writer
from watchcache_server.settings import Settings

__all__ = ["Watching"]

_BOOKMARK_SECONDS: Final = 30.0
_SHORTEST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 300.0


class Watching:
    """Serves Watch streams."""

    def __init__(
        self,
        *,
        registry: ExtensionRegistry,
        settings: Settings,
        reporter: Reporter,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`chance` draws from [0, 1)."""
        self._registry = registry
        self._settings = settings
        self._reporter = reporter
        self._chance = chance
        self._aging = Aging(settings.max_connection_age_seconds, chance)
        self._batches = BatchCache(
            max_bytes=settings.batch_cache_bytes, batch_bytes=settings.batch_bytes
        )
        self._fresh_reads = FreshReads(registry)
        self.uploads = KnownUploads(registry, settings)
        self._streams: dict[WatchStream, Extension] = {}
        # Those that have stalled still take room, until their readers come back or go.
        self._open: Counter[Extension] = Counter()

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
        self._admit(extension)
        require_indexed(extension, wanted)
        if asked is not None:
            check_token(extension, wanted, request)
            await self._fresh_reads.wait_for(extension, asked, wanted)
            self._admit(extension)
        start = find_start(extension, wanted, request, self.uploads.redeem)
        stream = WatchStream(
            registry=self._registry,
            reporter=self._reporter,
            batches=self._batches,
            extension=extension,
            wanted=wanted,
            view=view,
            start=start,
            fails_on_reset=request.fail_on_reset,
            bookmark_seconds=interval,
            ends_at=self._aging.end_of(extension.clock.now()),
            writer=PatientWriter(
                writer,
                limit_seconds=self._settings.stalled_write_seconds,
                subject=f"Watch stream of extension {key}",
                stalled=lambda: self._give_up(stream),
            ),
        )
        # A stream may live for long; what it was asked with need not.
        del request, start
        self._streams[stream] = extension
        self._open[extension] += 1
        extension.subscribed()
        interest, topics = extension.store.interest, wanted.topics or ()
        interest.add(topics, extension.store.revision)
        try:
            await stream.run()
        finally:
            interest.remove(topics)
            self._open[extension] -= 1
            if not self._open[extension]:
                del self._open[extension]
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
        open_count = self._open.total()
        if open_count >= settings.max_subscriptions:
            raise LimitExceededError(
                "Watch streams",
                f"{open_count} are open and no more are allowed; share streams, or raise "
                "the setting max_subscriptions",
                setting="max_subscriptions",
                retry_seconds=retry_seconds(self._chance),
            )
        open_here = self._open[extension]
        if open_here >= settings.max_subscriptions_per_extension:
            raise LimitExceededError(
                f"Watch streams of extension {extension.key}",
                f"{open_here} are open and no more are allowed; share streams, "
                "or raise the setting max_subscriptions_per_extension",
                setting="max_subscriptions_per_extension",
                retry_seconds=retry_seconds(self._chance),
            )
