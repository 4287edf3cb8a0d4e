"""WatchCacheService: which method does what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.clusters.registry import ClusterRegistry
from watchcache_server.extensions.extension import Clock, Extension
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    FieldViolation,
    InvalidRequestError,
)
from watchcache_server.observability.reporting import Reporter
from watchcache_server.serving.boundary import Boundary
from watchcache_server.serving.conversion import extension_key, registration_of
from watchcache_server.serving.describing import cluster_messages, extension_message
from watchcache_server.serving.listing import ExtensionListing
from watchcache_server.serving.reading import Reading
from watchcache_server.serving.spec_reader import SpecReader
from watchcache_server.serving.watching import Watching
from watchcache_server.serving.writing import Writer
from watchcache_server.settings import Settings

__all__ = ["SERVICE_NAME", "WatchCacheService"]

SERVICE_NAME: Final = "watchcache.v1alpha1.WatchCacheService"

_OUTCOMES: Final = {
    "created": pb.REGISTER_OUTCOME_CREATED,
    "updated": pb.REGISTER_OUTCOME_UPDATED,
    "unchanged": pb.REGISTER_OUTCOME_UNCHANGED,
}


class WatchCacheService:
    """The methods of the service."""

    def __init__(
        self,
        *,
        registry: ExtensionRegistry,
        clusters: ClusterRegistry,
        settings: Settings,
        reporter: Reporter,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._clusters = clusters
        self._clock = clock
        self._specs = SpecReader(
            settings, default_cluster=clusters.default, known_clusters=lambda: clusters.names
        )
        self._boundary = Boundary(
            reporter, max_streams_per_connection=settings.max_streams_per_connection
        )
        self._reading = Reading(
            registry,
            clusters.default,
            longest_wait_seconds=settings.max_freshness_wait_seconds,
        )
        self.listing = ExtensionListing(registry, settings=settings, reporter=reporter, clock=clock)
        self.watching = Watching(registry=registry, settings=settings, reporter=reporter)
        registry.when_dropped(self.watching.forget)

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what a server is given."""
        unary: dict[str, tuple[Callable[[Any], Awaitable[Message]], type[Message]]] = {
            "Register": (self._register, pb.RegisterRequest),
            "Deregister": (self._deregister, pb.DeregisterRequest),
            "GetObject": (self._reading.get, pb.GetObjectRequest),
            "ListObjects": (self._reading.list, pb.ListObjectsRequest),
            "GetExtension": (self._get_extension, pb.GetExtensionRequest),
            "ListExtensions": (self.listing.list, pb.ListExtensionsRequest),
            "ListClusters": (self._list_clusters, pb.ListClustersRequest),
        }
        streams: dict[str, tuple[Callable[[Any, Writer], Awaitable[None]], type[Message]]] = {
            "Watch": (self.watching.serve, pb.WatchRequest),
            "WatchExtensions": (self.listing.watch, pb.WatchExtensionsRequest),
        }
        handlers = {
            "UploadKnown": self._boundary.upload(
                "UploadKnown", self.watching.uploads.take, pb.UploadKnownRequest
            ),
            **{name: self._boundary.unary(name, *method) for name, method in unary.items()},
            **{name: self._boundary.stream(name, *method) for name, method in streams.items()},
        }
        return grpc.method_handlers_generic_handler(SERVICE_NAME, handlers)

    @property
    def running_count(self) -> int:
        """How many RPCs run."""
        return self._boundary.running_count

    async def wait_idle(self, seconds: float) -> None:
        """Wait until no RPC runs, but no longer than so many seconds."""
        await self._boundary.wait_idle(seconds)

    def close(self) -> None:
        """Free what it holds, once no RPC runs."""
        self._specs.close()

    async def _register(self, request: pb.RegisterRequest) -> pb.RegisterResponse:
        key, wait, violations = registration_of(request)
        if not request.HasField("spec"):
            told = (
                "is required, since an empty one closes every informer; send what to watch, or an "
                "ExtensionSpec without a watch_set to close them all"
            )
            raise InvalidRequestError([*violations, FieldViolation("spec", told)])
        spec = await self._specs.read(key, request.spec, violations)
        registered = await self._registry.register(key, spec, request.spec)
        extension = registered.extension
        with self._registry.in_use(extension):
            await self._settle(extension, wait)
        if extension.ended:
            raise ExtensionNotFoundError(key.namespace, key.name, why=extension.ended)
        return pb.RegisterResponse(
            extension=extension_message(extension, self._registry),
            outcome=_OUTCOMES[registered.outcome],
        )

    async def _settle(self, extension: Extension, wait_seconds: float) -> None:
        """Wait until there is nothing to wait for any more, or the time is over."""
        try:
            async with asyncio.timeout(wait_seconds):
                while not (extension.is_settled or extension.ended or self._registry.is_draining):
                    await extension.pulse.wait()
        except TimeoutError:
            return

    async def _deregister(self, request: pb.DeregisterRequest) -> pb.DeregisterResponse:
        key = extension_key(request.namespace, request.name)
        return pb.DeregisterResponse(existed=await self._registry.deregister(key))

    async def _get_extension(self, request: pb.GetExtensionRequest) -> pb.GetExtensionResponse:
        extension = self._registry.get(extension_key(request.namespace, request.name))
        return pb.GetExtensionResponse(extension=extension_message(extension, self._registry))

    async def _list_clusters(self, _: pb.ListClustersRequest) -> pb.ListClustersResponse:
        return pb.ListClustersResponse(
            clusters=cluster_messages(self._clusters, self._registry, self._clock.wall())
        )
