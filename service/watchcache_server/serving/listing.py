"""ListExtensions and WatchExtensions: the extensions and how they are doing."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Callable
from typing import Final

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Clock
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.model.errors import (
    InvalidRequestError,
    LimitExceededError,
    ServiceDrainingError,
)
from watchcache_server.model.names import dns_label_problem, dns_subdomain_problem
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.observability.reporting import Reporter
from watchcache_server.serving.aging import Aging
from watchcache_server.serving.describing import extension_message
from watchcache_server.serving.extension_stream import ExtensionStream
from watchcache_server.serving.reading import page_size_of
from watchcache_server.serving.refusals import retry_seconds
from watchcache_server.serving.writing import PatientWriter, Writer
from watchcache_server.settings import Settings

__all__ = ["ExtensionListing"]

_PAGE_SIZE: Final = 100
_LARGEST_PAGE: Final = 1000
_PAGE_BYTES: Final = 1024 * 1024


class ExtensionListing:
    """Serves what concerns extensions as a whole."""

    def __init__(
        self,
        registry: ExtensionRegistry,
        *,
        settings: Settings,
        reporter: Reporter,
        clock: Clock,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`chance` draws from [0, 1)."""
        self._registry = registry
        self._settings = settings
        self._reporter = reporter
        self._clock = clock
        self._chance = chance
        self._aging = Aging(settings.max_connection_age_seconds, chance)
        self._stream_count = 0

    @property
    def stream_count(self) -> int:
        """How many WatchExtensions streams are open, those that have stalled included."""
        return self._stream_count

    async def list(self, request: pb.ListExtensionsRequest) -> pb.ListExtensionsResponse:
        """Return a page of extensions, ordered by namespace and name."""
        _check_scope(request.namespace, "")
        limit = page_size_of(request.page_size, _PAGE_SIZE, _LARGEST_PAGE)
        after = _decode_token(request.page_token)
        response = pb.ListExtensionsResponse()
        size = 0
        last: ExtensionKey | None = None
        for extension in self._registry.extensions(request.namespace):
            if extension.ended or (after is not None and extension.key <= after):
                continue
            message = extension_message(extension, self._registry)
            size += message.ByteSize()
            is_full = len(response.extensions) >= limit or size > _PAGE_BYTES
            if last is not None and is_full:
                response.next_page_token = base64.urlsafe_b64encode(str(last).encode()).decode()
                break
            response.extensions.append(message)
            last = extension.key
            # Those with hundreds of informers take a millisecond each.
            await asyncio.sleep(0)
        return response

    async def watch(self, request: pb.WatchExtensionsRequest, writer: Writer) -> None:
        """Send the present state of the extensions asked for, then each change."""
        _check_scope(request.namespace, request.name)
        self._admit()
        stream = ExtensionStream(
            registry=self._registry,
            clock=self._clock,
            namespace=request.namespace,
            name=request.name,
            interval_seconds=self._settings.extension_watch_interval_seconds,
            ends_at=self._aging.end_of(self._clock.now()),
            writer=PatientWriter(
                writer,
                limit_seconds=self._settings.stalled_write_seconds,
                subject="WatchExtensions stream",
                stalled=lambda: self._reporter.stream_stalled(None),
            ),
        )
        # One that has stalled still takes room, until its reader comes back or goes.
        self._stream_count += 1
        try:
            await stream.run()
        finally:
            self._stream_count -= 1

    def _admit(self) -> None:
        if self._registry.is_draining:
            raise ServiceDrainingError
        if self._stream_count >= self._settings.max_extension_watches:
            raise LimitExceededError(
                "WatchExtensions streams",
                f"{self._stream_count} are open and no more are allowed; share streams, or raise "
                "the setting max_extension_watches",
                setting="max_extension_watches",
                retry_seconds=retry_seconds(self._chance),
            )


def _check_scope(namespace: str, name: str) -> None:
    problem = dns_label_problem(namespace) if namespace else None
    if problem is not None:
        raise InvalidRequestError.of("namespace", problem)
    if not name:
        return
    if not namespace:
        raise InvalidRequestError.of("namespace", "is required when a name is given")
    problem = dns_subdomain_problem(name)
    if problem is not None:
        raise InvalidRequestError.of("name", problem)


def _decode_token(token: str) -> ExtensionKey | None:
    if not token:
        return None
    try:
        text = base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except ValueError:
        text = ""
    namespace, slash, name = text.partition("/")
    if not slash or dns_label_problem(namespace) or dns_subdomain_problem(name):
        raise InvalidRequestError.of(
            "page_token",
            "is none of ours, or was altered; send next_page_token as it came",
            reason="PAGE_TOKEN_INVALID",
        )
    return ExtensionKey(namespace, name)
