"""The boundary around every RPC: what a method raises becomes a status, and all is counted.

Methods are coroutines that take a request, and a writer if they stream; they know nothing of gRPC.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError, Message

from watchcache_server.model.errors import InvalidRequestError, LimitExceededError
from watchcache_server.observability.reporting import Reporter
from watchcache_server.serving.errors import internal_status, status_of
from watchcache_server.serving.refusals import retry_seconds
from watchcache_server.serving.writing import Writer

__all__ = ["Boundary"]

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


class _ContextWriter:
    """Writes the messages of one stream and counts them."""

    __slots__ = ("_context", "_method", "_reporter")

    def __init__(self, context: Context, method: str, reporter: Reporter) -> None:
        self._context = context
        self._method = method
        self._reporter = reporter

    async def write(self, message: bytes) -> None:
        try:
            await self._context.write(message)
        except grpc.aio.InternalError as error:
            # The reader has left while a message was on its way to it: the RPC is over.
            raise asyncio.CancelledError from error
        self._reporter.rpc_message_sent(self._method, "server_stream")


class Boundary:
    """Makes handlers of methods, and knows how many RPCs run."""

    def __init__(
        self,
        reporter: Reporter,
        *,
        max_streams_per_connection: int,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`chance` draws from [0, 1)."""
        self._reporter = reporter
        self._chance = chance
        self._max_streams = max_streams_per_connection
        self._streams: Counter[str] = Counter()
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def unary(
        self, name: str, method: Callable[[Any], Awaitable[Message]], request_type: type[Message]
    ) -> Handler:
        """Return the handler of a method with one answer."""

        async def answer(request: bytes) -> bytes:
            message = await method(_parse(request_type, request))
            return message.SerializeToString()

        async def handle(request: bytes, context: Context) -> bytes:
            message: bytes = await self._run(name, "unary", context, answer(request))
            return message

        return grpc.unary_unary_rpc_method_handler(handle)

    def stream(
        self,
        name: str,
        method: Callable[[Any, Writer], Awaitable[None]],
        request_type: type[Message],
    ) -> Handler:
        """Return the handler of a method that streams messages, which are bytes already."""

        async def serve(request: bytes, context: Context) -> None:
            writer = _ContextWriter(context, name, self._reporter)
            with self._place(context.peer()):
                await method(_parse(request_type, request), writer)

        async def handle(request: bytes, context: Context) -> None:
            await self._run(name, "server_stream", context, serve(request, context))

        return grpc.unary_stream_rpc_method_handler(handle)

    def upload(
        self,
        name: str,
        method: Callable[[AsyncIterator[Any]], Awaitable[Message]],
        request_type: type[Message],
    ) -> Handler:
        """Return the handler of a method that takes a stream of messages and answers once."""

        async def parsed(requests: AsyncIterator[bytes]) -> AsyncIterator[Message]:
            async for request in requests:
                yield _parse(request_type, request)

        async def answer(requests: AsyncIterator[bytes]) -> bytes:
            message = await method(parsed(requests))
            return message.SerializeToString()

        async def handle(requests: AsyncIterator[bytes], context: Context) -> bytes:
            message: bytes = await self._run(name, "client_stream", context, answer(requests))
            return message

        return grpc.stream_unary_rpc_method_handler(handle)

    @property
    def running_count(self) -> int:
        """How many RPCs run."""
        return self._running

    async def wait_idle(self, seconds: float) -> None:
        """Wait until no RPC runs, but no longer than so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return

    @contextmanager
    def _place(self, peer: str) -> Iterator[None]:
        """Count a stream of a connection. Raises LimitExceededError when it has too many."""
        if peer.startswith("unix"):
            # All connections to a socket have the same name.
            yield
            return
        if self._streams[peer] >= self._max_streams:
            raise LimitExceededError(
                "streams of one connection",
                f"{self._max_streams} are open and no more are allowed; use another connection, or "
                "raise the setting max_streams_per_connection",
                setting="max_streams_per_connection",
                retry_seconds=retry_seconds(self._chance),
            )
        self._streams[peer] += 1
        try:
            yield
        finally:
            self._streams[peer] -= 1
            if not self._streams[peer]:
                del self._streams[peer]

    async def _run(self, name: str, kind: str, context: Context, work: Awaitable[Any]) -> Any:
        self._running += 1
        self._idle.clear()
        try:
            return await self._answer(name, kind, context, work)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _answer(self, name: str, kind: str, context: Context, work: Awaitable[Any]) -> Any:
        started = time.monotonic()
        self._reporter.rpc_started(name, kind)
        code = "CANCELLED"
        try:
            answer = await work
        except Exception as error:  # noqa: BLE001 (the boundary of RPCs)
            status = status_of(error)
            if status is None:
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


def _parse(request_type: type[Message], request: bytes) -> Message:
    """Read a request here, since what gRPC would say of a malformed one has no details."""
    try:
        return request_type.FromString(request)
    except DecodeError as error:
        raise InvalidRequestError.of(
            "request",
            f"is no {request_type.DESCRIPTOR.full_name}, or not in protobuf's encoding; text has "
            "to be UTF-8",
        ) from error
