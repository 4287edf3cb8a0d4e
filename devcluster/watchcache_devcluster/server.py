"""The HTTP side: sockets, TLS, the order of checks, streams, and what faults do to them.

`Server` listens, and carries each request through faults, authentication, authorization and then
discovery, a resource's endpoint, a watch, or the admin paths. It knows connections and nothing of
objects; errors of any layer become `Status` bodies here and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import ssl
import struct
import uuid
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict

from watchcache_devcluster import errors
from watchcache_devcluster.admin import ADMIN_PREFIX, Admin
from watchcache_devcluster.authentication import Authenticator
from watchcache_devcluster.discovery import Discovery
from watchcache_devcluster.endpoints import Call, Endpoints, Reply, in_slices
from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.faults import Fault, FaultSet
from watchcache_devcluster.listing import ListOptions
from watchcache_devcluster.rbac import Authorizer, Question
from watchcache_devcluster.requests import RequestInfo
from watchcache_devcluster.storage import Storage
from watchcache_devcluster.streams import Severed, WatchResponse
from watchcache_devcluster.watches import Watch

__all__ = ["Server", "Timings"]

_log = logging.getLogger(__name__)
_http_log = logging.getLogger(f"{__name__}.http")
# A real one reads so much before a body: selectors may be long.
_HEADER_BYTES: Final = 1024 * 1024
_encode = msgspec.json.Encoder().encode
_MAX_BODY_BYTES = 8 * 1024 * 1024
_SLICE_BYTES = 256 * 1024
_GZIP_BYTES = 128 * 1024
_HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
_HEADERS = {"Cache-Control": "no-cache, private"}


@dataclass(frozen=True, slots=True)
class Timings:
    """How long things take; all in seconds."""

    bookmark_seconds: float = 60.0
    min_watch_seconds: float = 1800.0
    fresh_timeout_seconds: float = 3.0


def _is_no_bad_request(record: logging.LogRecord) -> bool:
    """Let everything through but that a client does not speak HTTP, which it is told."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


_http_log.addFilter(_is_no_bad_request)


class Server:
    """One listening API server; it can be stopped and started again on the same port."""

    def __init__(
        self,
        *,
        storage: Storage,
        endpoints: Endpoints,
        discovery: Discovery,
        authenticator: Authenticator,
        authorizer: Authorizer,
        faults: FaultSet,
        admin: Admin,
        timings: Timings,
    ) -> None:
        self._storage = storage
        self._endpoints = endpoints
        self._discovery = discovery
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._faults = faults
        self._admin = admin
        self._timings = timings
        self._runner: web.ServerRunner | None = None
        self._web: web.Server | None = None

    async def start(self, host: str, port: int, context: ssl.SSLContext) -> int:
        """Listen; return the port.

        Raises:
            OSError: the port is taken, or the host is not an address of this machine.
        """
        web_server = web.Server(
            self._handle,
            request_factory=_make_request,
            access_log=None,
            logger=_http_log,
            handler_cancellation=True,
            keepalive_timeout=3600.0,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )
        runner = web.ServerRunner(web_server, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, host, port, ssl_context=context, reuse_address=True)
        try:
            await site.start()
        except OSError:
            await runner.cleanup()
            raise
        self._web, self._runner = web_server, runner
        bound: int = runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """Stop listening and reset every connection."""
        if self._runner is None:
            return
        runner, self._runner = self._runner, None
        for site in list(runner.sites):
            await site.stop()
        self.reset_connections()
        await runner.cleanup()

    def reset_connections(self) -> int:
        """Reset every open connection; return how many there were."""
        connections = list(self._web.connections) if self._web is not None else []
        for connection in connections:
            if connection.transport is not None:
                reset(connection.transport)
        return len(connections)

    # One request

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        info = RequestInfo.parse(request.method, request.path, request.query)
        try:
            try:
                cut = await self._strike(request, info)
                return await self._answer(request, info, cut)
            except ApiError as error:
                return _refusal(error)
        except (Severed, ConnectionError):
            # Nobody is left to be answered.
            return web.Response()
        except Exception as error:  # noqa: BLE001 - the boundary: a mistake must not look like a cut
            _log.exception("%s %s failed", request.method, request.path)
            return _refusal(errors.internal(repr(error)))

    async def _strike(self, request: web.BaseRequest, info: RequestInfo) -> list[Fault]:
        """Let the faults for a new request happen; return those that its body must suffer."""
        later: list[Fault] = []
        if info.path.startswith(ADMIN_PREFIX):
            return later
        for fault in self._faults.strike(info):
            match fault.kind:
                case "delay":
                    await asyncio.sleep(fault.seconds)
                case "status":
                    raise fault.to_error()
                case "gone" if info.verb != "watch":
                    raise fault.to_error()
                case "reset" if not fault.after_events:
                    reset(request.transport)
                    raise Severed
                case "half-open" if not fault.after_events:
                    await asyncio.get_running_loop().create_future()
                case _:
                    later.append(fault)
        return later

    async def _answer(
        self, request: web.BaseRequest, info: RequestInfo, cut: list[Fault]
    ) -> web.StreamResponse:
        certificate = None
        if request.transport is not None:
            certificate = request.transport.get_extra_info("peercert")
        if info.path in _HEALTH_PATHS:
            return web.Response(text="ok", headers=_HEADERS)
        user = self._authenticator.identify(request.headers, certificate)
        question = Question(
            verb=info.verb,
            group=info.group,
            resource=info.resource,
            subresource=info.subresource,
            namespace=info.namespace,
            name=info.name,
            path="" if info.is_resource else info.path,
        )
        if not self._authorizer.allows(user, question):
            raise self._authorizer.why_not(user, question)
        if info.path.startswith(ADMIN_PREFIX):
            return await self._admin.handle(request)
        accept = request.headers.get("Accept", "")
        if not info.is_resource:
            found = self._discovery.answer(info.path, accept)
            if found is None:
                raise errors.no_such_path()
            document, media_type = found
            return await self._send(request, Reply(200, [_encode(document)], media_type), cut)
        self._endpoints.resolve(info)
        data = await request.read()
        media_type = request.headers.get("Content-Type", "").partition(";")[0].strip()
        call = self._endpoints.call(
            info,
            request.query,
            data,
            accept=accept,
            media_type=media_type,
            user=user,
            agent=request.headers.get("User-Agent", ""),
        )
        if info.verb == "watch":
            return await self._watch(request, call, cut)
        return await self._send(request, await self._endpoints.handle(call), cut)

    async def _send(
        self, request: web.BaseRequest, reply: Reply, cut: list[Fault]
    ) -> web.StreamResponse:
        headers: CIMultiDict[str] = CIMultiDict(_HEADERS)
        headers["Audit-Id"] = str(uuid.uuid4())
        headers["Content-Type"] = reply.media_type
        for warning in reply.warnings:
            escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
            headers.add("Warning", f'299 - "{escaped}"')
        first, is_more, slices = await _first_slice(reply.pieces)
        if cut:
            return await _send_cut(request, reply.status, headers, first, cut[0])
        if not is_more and len(first) < _GZIP_BYTES:
            return web.Response(status=reply.status, body=first, headers=headers)
        compressor = None
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            compressor = zlib.compressobj(1, wbits=31)
            headers.update({"Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
        response = web.StreamResponse(status=reply.status, headers=headers)
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            async for piece in _chain(first, slices):
                sent = piece
                if compressor is not None:
                    sent = await asyncio.to_thread(compressor.compress, piece)
                if sent:
                    await response.write(sent)
            if compressor is not None:
                await response.write(compressor.flush())
            await response.write_eof()
        return response

    async def _watch(
        self, request: web.BaseRequest, call: Call, cut: list[Fault]
    ) -> web.StreamResponse:
        query: Mapping[str, str] = call.query
        if call.info.path_name:
            query = {**query, "fieldSelector": f"metadata.name={call.info.path_name}"}
        options = ListOptions.parse(query, call.resource, is_watch=True)
        timeout = float(options.timeout_seconds)
        if timeout <= 0:
            timeout = self._timings.min_watch_seconds * (1.0 + random.random())  # noqa: S311
        watch = Watch(
            self._storage,
            self._storage.table(call.resource.table),
            self._endpoints.scope(call),
            options,
            call.view,
            timeout_seconds=timeout,
            bookmark_seconds=self._timings.bookmark_seconds,
            fresh_timeout_seconds=self._timings.fresh_timeout_seconds,
        )
        stream = WatchResponse(call.info, watch, request, cut, reset)
        self._faults.register(stream)
        try:
            return await stream.run()
        finally:
            self._faults.unregister(stream)
            watch.close()


def _make_request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: Any
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=_MAX_BODY_BYTES
    )


def _refusal(error: ApiError) -> web.Response:
    headers = dict(_HEADERS)
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    if error.plain_text:
        return web.Response(status=error.code, text=f"{error.message}\n", headers=headers)
    headers["Content-Type"] = "application/json"
    return web.Response(status=error.code, body=_encode(error.to_status()) + b"\n", headers=headers)


async def _first_slice(
    pieces: Iterable[bytes],
) -> tuple[bytes, bool, AsyncIterator[bytes]]:
    """Return the first slice, whether more may follow, and the rest."""
    slices = in_slices(pieces, _SLICE_BYTES)
    first = await anext(slices, b"")
    return first, len(first) >= _SLICE_BYTES, slices


async def _chain(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


async def _send_cut(
    request: web.BaseRequest, status: int, headers: CIMultiDict[str], body: bytes, fault: Fault
) -> web.StreamResponse:
    """Send half of a body, then end it as the fault says."""
    response = web.StreamResponse(status=status, headers=headers)
    await response.prepare(request)
    await response.write(body[: len(body) // 2 or 1])
    if fault.clean:
        await response.write_eof()
        return response
    if request.transport is not None:
        request.transport.close()
    raise Severed


def reset(transport: asyncio.BaseTransport | None) -> None:
    """End a connection with a TCP reset."""
    if transport is None:
        return
    try:
        connection = transport.get_extra_info("socket")
    except AttributeError:
        # Closed twice, a TLS transport of asyncio has let go of its connection: it is over.
        return
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if isinstance(transport, asyncio.Transport) or hasattr(transport, "abort"):
        transport.abort()
