"""WatchCacheService: which method does what, and the boundary around each."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.clusters.errors import UnknownClusterError
from watchcache_server.clusters.registry import ClusterRegistry
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.model.errors import ServiceError
from watchcache_server.observability.reporting import Reporter
from watchcache_server.serving.conversion import extension_key, extension_spec, seconds_of
from watchcache_server.serving.describing import cluster_messages, extension_message
from watchcache_server.serving.errors import internal_status, status_of
from watchcache_server.serving.listing import ExtensionListing
from watchcache_server.serving.reading import Reading
from watchcache_server.serving.watching import Watching
from watchcache_server.settings import Settings

__all__ = ["SERVICE_NAME", "WatchCacheService"]

SERVICE_NAME: Final = "watchcache.v1alpha1.WatchCacheService"

Context = grpc.aio.ServicerContext[Any, Any]
_OUTCOMES: Final = {
    "created": pb.REGISTER_OUTCOME_CREATED,
    "updated": pb.REGISTER_OUTCOME_UPDATED,
    "unchanged": pb.REGISTER_OUTCOME_UNCHANGED,
}


class _ContextWriter:
    """Writes the messages of one stream and counts them."""

    def __init__(self, context: Context, method: str, reporter: Reporter) -> None:
        self._context = context
        self._method = method
        self._reporter = reporter

    async def write(self, message: bytes) -> None:
        await self._context.write(message)
        self._reporter.rpc_message_sent(self._method, "server_stream")


class WatchCacheService:
    """The methods of the service, as a generic handler with bytes for streams."""

    def __init__(
        self,
        *,
        registry: ExtensionRegistry,
        clusters: ClusterRegistry,
        settings: Settings,
        reporter: Reporter,
        wall_clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._clusters = clusters
        self._settings = settings
        self._reporter = reporter
        self._wall_clock = wall_clock
        self._reading = Reading(registry, clusters.default)
        self._listing = ExtensionListing(registry)
        self.watching = Watching(registry=registry, settings=settings, reporter=reporter)
        registry.when_dropped(self.watching.forget)

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what a server is given."""
        unary: dict[str, tuple[Callable[[Any], Awaitable[Message]], type[Message]]] = {
            "Register": (self._register, pb.RegisterRequest),
            "Deregister": (self._deregister, pb.DeregisterRequest),
            "GetObject": (self._get_object, pb.GetObjectRequest),
            "ListObjects": (self._list_objects, pb.ListObjectsRequest),
            "GetExtension": (self._get_extension, pb.GetExtensionRequest),
            "ListExtensions": (self._list_extensions, pb.ListExtensionsRequest),
            "ListClusters": (self._list_clusters, pb.ListClustersRequest),
        }
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for name, (method, request_type) in unary.items():
            handlers[name] = grpc.unary_unary_rpc_method_handler(
                self._unary(name, method),
                request_deserializer=request_type.FromString,
                response_serializer=_serialize,
            )
        streams: dict[str, tuple[Callable[[Any, Any], Awaitable[None]], type[Message]]] = {
            "Watch": (self.watching.serve, pb.WatchRequest),
            "WatchExtensions": (self._listing.watch, pb.WatchExtensionsRequest),
        }
        for name, (stream, request_type) in streams.items():
            # Messages are bytes already; batches are shared by all who are sent them.
            handlers[name] = grpc.unary_stream_rpc_method_handler(
                self._stream(name, stream), request_deserializer=request_type.FromString
            )
        return grpc.method_handlers_generic_handler(SERVICE_NAME, handlers)

    # The boundary

    def _unary(
        self, name: str, method: Callable[[Any], Awaitable[Message]]
    ) -> Callable[[Any, Context], Awaitable[Message]]:
        async def handle(request: Any, context: Context) -> Message:
            answer: Message = await self._bounded(name, "unary", context, method(request))
            return answer

        return handle

    def _stream(
        self, name: str, method: Callable[[Any, Any], Awaitable[None]]
    ) -> Callable[[Any, Context], Awaitable[None]]:
        async def handle(request: Any, context: Context) -> None:
            writer = _ContextWriter(context, name, self._reporter)
            await self._bounded(name, "server_stream", context, method(request, writer))

        return handle

    async def _bounded(self, name: str, kind: str, context: Context, work: Awaitable[Any]) -> Any:
        """Run a method; turn what it raises into a status; count it."""
        started = time.monotonic()
        self._reporter.rpc_started(name, kind)
        code = "CANCELLED"
        try:
            answer = await work
        except (ServiceError, UnknownClusterError) as error:
            status = status_of(error)
            code = status.code.name
        except Exception as error:  # noqa: BLE001 (the boundary of RPCs)
            incident = uuid.uuid4().hex[:12]
            self._reporter.rpc_failed(name, incident, error)
            status = internal_status(incident)
            code = status.code.name
        else:
            code = "OK"
            return answer
        finally:
            self._reporter.rpc_handled(name, kind, code, time.monotonic() - started)
        await context.abort(status.code, status.details, status.trailing_metadata)
        raise AssertionError("abort always raises")

    # The methods

    async def _register(self, request: pb.RegisterRequest) -> pb.RegisterResponse:
        key = extension_key(request.namespace, request.name)
        wait = seconds_of("wait", request.wait) if request.HasField("wait") else 0.0
        spec = await extension_spec(
            key,
            request.spec,
            settings=self._settings,
            default_cluster=self._clusters.default,
        )
        registered = await self._registry.register(key, spec, request.spec)
        extension = registered.extension
        await self._settle(extension, wait)
        return pb.RegisterResponse(
            extension=extension_message(extension, self._registry),
            outcome=_OUTCOMES[registered.outcome],
        )

    async def _settle(self, extension: Extension, wait_seconds: float) -> None:
        due = time.monotonic() + wait_seconds
        while not extension.is_settled and not extension.ended:
            left = due - time.monotonic()
            if left <= 0:
                return
            await extension.pulse.wait(left)

    async def _deregister(self, request: pb.DeregisterRequest) -> pb.DeregisterResponse:
        key = extension_key(request.namespace, request.name)
        return pb.DeregisterResponse(existed=await self._registry.deregister(key))

    async def _get_object(self, request: pb.GetObjectRequest) -> pb.GetObjectResponse:
        return self._reading.get(request)

    async def _list_objects(self, request: pb.ListObjectsRequest) -> pb.ListObjectsResponse:
        return self._reading.list(request)

    async def _get_extension(self, request: pb.GetExtensionRequest) -> pb.GetExtensionResponse:
        extension = self._registry.get(extension_key(request.namespace, request.name))
        return pb.GetExtensionResponse(extension=extension_message(extension, self._registry))

    async def _list_extensions(
        self, request: pb.ListExtensionsRequest
    ) -> pb.ListExtensionsResponse:
        return self._listing.list(request)

    async def _list_clusters(self, _: pb.ListClustersRequest) -> pb.ListClustersResponse:
        return pb.ListClustersResponse(
            clusters=cluster_messages(self._clusters, self._registry, self._wall_clock())
        )


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()
