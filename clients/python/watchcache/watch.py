"""A watch that goes on by itself: reconnects, resumes, and registers the extension again.

This is the shell around `progress.py`: it opens streams, waits, and yields. It holds one message at
a time: the next one is read when the consumer asks for it, so a slow consumer costs no memory here
and the service takes care of the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain
from types import TracebackType
from typing import Generic, Self, TypeVar

from watchcache.consistency import longest_wait_seconds
from watchcache.errors import ResourceExhaustedError, UnimplementedError, WatchCacheError
from watchcache.holdings import Holdings, uploads
from watchcache.messages import Disconnected, Message, Synced
from watchcache.progress import Retry, WatchProgress
from watchcache.service import Service, Stream
from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

__all__ = ["Watch"]

T = TypeVar("T")

_CONNECTION_CHECK_SECONDS = 0.25
"""How often a waiting watch looks whether its connection has come back."""

_log = logging.getLogger("watchcache")


class Watch(Generic[T]):
    """An endless asynchronous iterator of messages; also a context manager that ends the stream.

    The loop body has applied a message when it asks for the next one: from there on a new stream
    goes on after it. Errors that waiting cannot mend are raised, such as DeregisteredError.
    """

    def __init__(
        self,
        service: Service,
        request: service_pb2.WatchRequest,
        progress: WatchProgress[T],
        register: Callable[[], Awaitable[None]],
    ) -> None:
        self._service = service
        self._request = request
        self._progress = progress
        self._register = register
        self._stream: Stream[service_pb2.WatchResponse] | None = None
        self._retry: Retry | None = None
        self._closed = asyncio.Event()
        #: Gives what is held, so that a stream that cannot go on by its token is sent only what
        #: differs. None where nothing is held.
        self.holdings: Holdings | None = None

    @property
    def resume_token(self) -> bytes:
        """Where a later watch with the same filter can go on, once all that was yielded is applied.

        Empty while a snapshot is under way.
        """
        return self._progress.resume_token

    @property
    def is_whole(self) -> bool:
        """Whether it brings whole objects, not only their metadata or keys."""
        return self._request.view in (event_pb2.VIEW_UNSPECIFIED, event_pb2.VIEW_FULL)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the stream; iterating ends, also in another task."""
        self._closed.set()
        self._drop_stream()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        while True:
            try:
                await self._wait_for_retry()
                if self._closed.is_set():
                    raise StopAsyncIteration
                message = self._progress.receive(await self._receive())
            except WatchCacheError as error:
                self._drop_stream()
                if self._closed.is_set():
                    raise StopAsyncIteration from error
                disconnected = self._fail(error)
                if disconnected is None:
                    continue
                return disconnected
            except asyncio.CancelledError:
                # Reading cannot go on in the same call; the next one resumes.
                self._drop_stream()
                raise
            if isinstance(message, Synced):
                # It was met: streams that go on from here are not older.
                self._request.ClearField("consistency")
            if message is not None:
                return message

    async def _wait_for_retry(self) -> None:
        if self._retry is None:
            return
        await self._pause(self._retry)
        if self._closed.is_set():
            return
        if self._retry.has_to_register:
            await self._register()
        self._retry = None

    async def _pause(self, retry: Retry) -> None:
        clock = asyncio.get_running_loop().time
        until = clock() + retry.delay_seconds
        was_away = False
        while (left := until - clock()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, _CONNECTION_CHECK_SECONDS)):
                    await self._closed.wait()
            if self._closed.is_set():
                return
            is_connected = self._service.is_connected()
            if was_away and is_connected:
                until = min(until, clock() + retry.reconnected_seconds)
            was_away = not is_connected

    async def _receive(self) -> service_pb2.WatchResponse:
        limit = self._progress.silence_limit_seconds
        if self._stream is None:
            await self._prepare()
            self._stream = self._service.stream(self._service.stub.Watch, self._request)
            # It begins when it is as fresh as asked for.
            limit += longest_wait_seconds(self._request.consistency)
        return await self._stream.receive(limit_seconds=limit)

    async def _prepare(self) -> None:
        """Have the request say where to go on, or what is held."""
        request = self._request
        request.resume_token = self._progress.resume_token
        request.known = b""
        held = iter(self.holdings() if self.holdings is not None else ())
        first = next(held, None)
        request.fail_on_reset = first is not None and bool(request.resume_token)
        if first is not None and not request.resume_token:
            messages = uploads(request.namespace, request.name, chain((first,), held))
            request.known = await self._upload(messages)

    async def _upload(self, messages: Iterator[service_pb2.UploadKnownRequest]) -> bytes:
        try:
            answer = await self._service.upload(self._service.stub.UploadKnown, messages)
        except (ResourceExhaustedError, UnimplementedError) as error:
            # There is too much of it, or the service is an older one: everything comes anew.
            _log.info("watch of %s begins anew: %s", self._request.name, error)
            return b""
        return answer.handle

    def _fail(self, error: WatchCacheError) -> Disconnected | None:
        """Note what follows an error; return what the consumer is told, None for nothing."""
        self._retry = self._progress.fail(error)
        name = f"{self._request.namespace}/{self._request.name}"
        if self._retry.is_silent:
            _log.debug("watch of %s moves to a new connection", name)
            return None
        _log.info("watch of %s: %s; again in %.1f s", name, error, self._retry.delay_seconds)
        return Disconnected(error, self._retry.delay_seconds)

    def _drop_stream(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None
