"""A watchcache service that does what a test tells it: scripts instead of informers.

Each Watch call takes the next script. A script is a list of steps: a message to send, an error to
end with, or a function to await. After its last step a stream stays open and silent, as a peer
does that has vanished; `End` ends it. The requests that came are kept for the test to look at.
"""

# ruff: noqa: N802  # the methods are named as in the contract

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2
from watchcache.v1alpha1.watch_cache_service_pb2_grpc import (
    WatchCacheServiceServicer,
    add_WatchCacheServiceServicer_to_server,
)


@dataclass(frozen=True)
class Fault:
    """Ends a call with this status, with an ErrorInfo and other details beside it."""

    code: grpc.StatusCode
    reason: str
    message: str = "told to fail"
    details: tuple[Any, ...] = ()

    def status(self) -> status_pb2.Status:
        info = error_details_pb2.ErrorInfo(reason=self.reason, domain="watchcache")
        packed = []
        for detail in (info, *self.details):
            packed.append(any_pb2.Any())
            packed[-1].Pack(detail)
        return status_pb2.Status(code=self.code.value[0], message=self.message, details=packed)


@dataclass(frozen=True)
class End:
    """Ends a stream without an error."""


Step = service_pb2.WatchResponse | Fault | End | Callable[[], Awaitable[None]]

DEREGISTERED = Fault(grpc.StatusCode.NOT_FOUND, "EXTENSION_DEREGISTERED")
NOT_FOUND = Fault(grpc.StatusCode.NOT_FOUND, "EXTENSION_NOT_FOUND")
CONNECTION_AGED = Fault(grpc.StatusCode.UNAVAILABLE, "CONNECTION_AGED")
UNAVAILABLE = Fault(grpc.StatusCode.UNAVAILABLE, "DRAINING")


@dataclass
class FakeService(WatchCacheServiceServicer):
    """The service; `address` is set while it runs."""

    address: str = ""
    scripts: list[Sequence[Step]] = field(default_factory=list)
    extension: extension_pb2.Extension = field(default_factory=extension_pb2.Extension)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    requests: list[Any] = field(default_factory=list)
    streams_open: int = 0
    seconds_left: float = 0.0
    """How long the last call had yet to live when it came."""

    def of_type(self, kind: type[Any]) -> list[Any]:
        return [request for request in self.requests if isinstance(request, kind)]

    @property
    def watches(self) -> list[service_pb2.WatchRequest]:
        return self.of_type(service_pb2.WatchRequest)

    @property
    def uploads(self) -> list[service_pb2.UploadKnownRequest]:
        return self.of_type(service_pb2.UploadKnownRequest)

    async def Watch(self, request: Any, context: Any) -> None:
        self.requests.append(request)
        self.streams_open += 1
        try:
            for step in self.scripts.pop(0) if self.scripts else [UNAVAILABLE]:
                if isinstance(step, End):
                    return
                if isinstance(step, Fault):
                    await _abort(context, step)
                elif isinstance(step, service_pb2.WatchResponse):
                    await context.write(step)
                else:
                    await step()
            await asyncio.Event().wait()
        finally:
            self.streams_open -= 1

    async def UploadKnown(self, requests: Any, context: Any) -> Any:
        async for request in requests:
            self.requests.append(request)
        default = service_pb2.UploadKnownResponse(handle=b"handle-%d" % len(self.uploads))
        queued = self.answers.get("UploadKnown")
        answer = queued.pop(0) if queued else default
        if isinstance(answer, Fault):
            await _abort(context, answer)
        return answer

    async def Register(self, request: Any, context: Any) -> Any:
        default = service_pb2.RegisterResponse(
            extension=self.extension, outcome=service_pb2.REGISTER_OUTCOME_CREATED
        )
        default.extension.namespace = request.namespace
        default.extension.name = request.name
        return await self._answer("Register", request, context, default)

    async def Deregister(self, request: Any, context: Any) -> Any:
        default = service_pb2.DeregisterResponse(existed=True)
        return await self._answer("Deregister", request, context, default)

    async def GetObject(self, request: Any, context: Any) -> Any:
        missing = Fault(grpc.StatusCode.NOT_FOUND, "OBJECT_NOT_FOUND")
        return await self._answer("GetObject", request, context, missing)

    async def ListObjects(self, request: Any, context: Any) -> Any:
        default = service_pb2.ListObjectsResponse()
        return await self._answer("ListObjects", request, context, default)

    async def GetExtension(self, request: Any, context: Any) -> Any:
        default = service_pb2.GetExtensionResponse(extension=self.extension)
        return await self._answer("GetExtension", request, context, default)

    async def ListExtensions(self, request: Any, context: Any) -> Any:
        default = service_pb2.ListExtensionsResponse(extensions=[self.extension])
        return await self._answer("ListExtensions", request, context, default)

    async def WatchExtensions(self, request: Any, context: Any) -> None:
        self.requests.append(request)
        answers = self.answers.get("WatchExtensions", [])
        for place, answer in enumerate(list(answers)):
            if answer is CONNECTION_AGED:
                # The stream that follows it says the rest.
                del answers[: place + 1]
            if isinstance(answer, Fault):
                await _abort(context, answer)
            await context.write(answer)
        await asyncio.Event().wait()

    async def ListClusters(self, request: Any, context: Any) -> Any:
        default = service_pb2.ListClustersResponse()
        return await self._answer("ListClusters", request, context, default)

    async def _answer(self, method: str, request: Any, context: Any, default: Any) -> Any:
        self.requests.append(request)
        self.seconds_left = context.time_remaining() or 0.0
        queued = self.answers.get(method)
        answer = queued.pop(0) if queued else default
        if isinstance(answer, Fault):
            await _abort(context, answer)
        return answer


async def _abort(context: Any, fault: Fault) -> None:
    serialized = fault.status().SerializeToString()
    context.set_trailing_metadata((("grpc-status-details-bin", serialized),))
    await context.abort(fault.code, fault.message)


@asynccontextmanager
async def serving(service: FakeService, address: str = "127.0.0.1:0") -> AsyncIterator[FakeService]:
    """Serve on a free port, or on the one that is named, until left."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_WatchCacheServiceServicer_to_server(service, server)
    port = server.add_insecure_port(address)
    service.address = f"127.0.0.1:{port}" if address.endswith(":0") else address
    await server.start()
    try:
        yield service
    finally:
        await server.stop(None)


def started(
    mode: str = "SNAPSHOT", interval: float = 30.0, uid: str = "extension-1"
) -> service_pb2.WatchResponse:
    """Return the first message of a stream."""
    response = service_pb2.WatchResponse()
    response.started.mode = service_pb2.StartMode.Value(f"START_MODE_{mode}")
    response.started.extension_uid = uid
    response.started.bookmark_interval.FromMilliseconds(int(interval * 1000))
    return response


def source(
    resource: str = "pods", state: str = "LIVE", *, namespace: str = "", **fields: Any
) -> service_pb2.WatchResponse:
    """Return a message about an informer."""
    return service_pb2.WatchResponse(
        source_status=source_status(resource, state, namespace=namespace, **fields)
    )


def source_status(
    resource: str = "pods", state: str = "LIVE", *, namespace: str = "", **fields: Any
) -> extension_pb2.SourceStatus:
    """Return the status of an informer."""
    plural, _, group = resource.partition(".")
    return extension_pb2.SourceStatus(
        cluster=fields.pop("cluster", "hub"),
        group=group,
        resource=plural,
        namespace=namespace,
        state=extension_pb2.SourceState.Value(f"SOURCE_STATE_{state}"),
        **fields,
    )


def event(
    kind: str,
    name: str,
    *,
    rv: int = 1,
    uid: str = "",
    resource: str = "pods",
    namespace: str = "team-a",
    cluster: str = "hub",
    revision: int | None = None,
    body: bytes | None = None,
    left: str = "UNSPECIFIED",
) -> event_pb2.Event:
    """Return a change; uid and body are made up from the name."""
    plural, _, group = resource.partition(".")
    uid = uid or f"uid-{name}"
    content = event_pb2.Object(
        key=event_pb2.ObjectKey(
            cluster=cluster, group=group, resource=plural, namespace=namespace, name=name
        ),
        uid=uid,
        resource_version=str(rv),
        version="v1",
        json=body or b'{"metadata":{"name":"%s","resourceVersion":"%d"}}' % (name.encode(), rv),
    )
    return event_pb2.Event(
        type=event_pb2.EventType.Value(f"EVENT_TYPE_{kind}"),
        object=content,
        revision=rv if revision is None else revision,
        left_reason=event_pb2.LeftReason.Value(f"LEFT_REASON_{left}"),
    )


def batch(*events: event_pb2.Event, token: bytes = b"") -> service_pb2.WatchResponse:
    """Return a batch of changes."""
    return service_pb2.WatchResponse(
        batch=service_pb2.EventBatch(events=events, resume_token=token)
    )


def synced(token: bytes = b"t0") -> service_pb2.WatchResponse:
    """Return the end of a snapshot."""
    return service_pb2.WatchResponse(synced=service_pb2.Synced(resume_token=token))


def bookmark(token: bytes) -> service_pb2.WatchResponse:
    """Return a bookmark."""
    return service_pb2.WatchResponse(bookmark=service_pb2.Bookmark(resume_token=token))


def reset(reason: str = "HISTORY_EXPIRED") -> service_pb2.WatchResponse:
    """Return a reset."""
    return service_pb2.WatchResponse(
        reset=service_pb2.Reset(reason=service_pb2.ResetReason.Value(f"RESET_REASON_{reason}"))
    )


def draining(token: bytes) -> service_pb2.WatchResponse:
    """Return the announcement of the end."""
    return service_pb2.WatchResponse(draining=service_pb2.Draining(resume_token=token))


def known_gone(
    *ids: bytes, kind: str = "DELETED", left: str = "UNSPECIFIED"
) -> service_pb2.WatchResponse:
    """Return that objects of an upload are gone."""
    return service_pb2.WatchResponse(
        known_gone=service_pb2.KnownGone(
            type=event_pb2.EventType.Value(f"EVENT_TYPE_{kind}"),
            left_reason=event_pb2.LeftReason.Value(f"LEFT_REASON_{left}"),
            ids=b"".join(ids),
            cluster="hub",
            resource="pods",
            namespace="team-a",
        )
    )
