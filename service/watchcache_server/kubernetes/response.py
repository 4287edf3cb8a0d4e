"""An answer whose headers have come: its body in chunks or whole, and letting go of it.

Every failure is a TransportError of `errors`. A reader that waits too long for more is told so: the
peer may be gone without a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Self

import aiohttp

from watchcache_server.kubernetes.errors import (
    AnswerTooLargeError,
    BodyIdleError,
    TransportClosedError,
)
from watchcache_server.kubernetes.failures import body_failure

__all__ = ["Response", "let_go"]


class Response:
    """An answer whose headers have come. Its body is read once, in chunks or whole.

    Leaving `async with`, or `close`, lets go of the connection at any time; a reader that waits
    then gets TransportClosedError.
    """

    __slots__ = (
        "_cluster",
        "_idle",
        "_on_close",
        "_response",
        "_server",
        "authorization",
        "status",
    )

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        *,
        cluster: str,
        server: str,
        idle_seconds: float,
        authorization: str | None,
        on_close: Callable[[Response], None],
    ) -> None:
        self._response = response
        self._on_close = on_close
        self._cluster = cluster
        self._server = server
        self._idle = _IdleLimit(idle_seconds, response)
        self.status: int = response.status
        #: What was sent, for `Credentials.refresh`; never shown.
        self.authorization = authorization

    def __repr__(self) -> str:
        return f"<Response {self.status} of {self._server}>"

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names in any case."""
        return self._response.headers

    async def read_chunk(self) -> bytes:
        """Return what has arrived, or wait for more; empty at the end of a whole body.

        Raises BodyCutError, BodyIdleError or TransportClosedError; the chunks before are good.
        """
        self._idle.start()
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            if self._idle.is_over:
                raise BodyIdleError(
                    self._cluster,
                    self._server,
                    f"nothing arrived for {self._idle.seconds:g} s",
                ) from error
            if self._response.closed and not isinstance(error, aiohttp.ClientPayloadError):
                raise TransportClosedError(
                    self._cluster, self._server, "the answer was closed here"
                ) from error
            raise body_failure(error, self._cluster, self._server) from error
        finally:
            self._idle.stop()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises as `read_chunk`."""
        while chunk := await self.read_chunk():
            yield chunk

    async def read(self, limit_bytes: int = 8 * 1024 * 1024) -> bytes:
        """Return the whole body. Raises AnswerTooLargeError, and as `read_chunk`."""
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > limit_bytes:
                self.close()
                raise AnswerTooLargeError(
                    self._cluster,
                    self._server,
                    f"an answer is larger than the {limit_bytes} bytes allowed for its kind",
                )
            parts.append(chunk)
        return b"".join(parts)

    def close(self) -> None:
        """Let go of the connection: kept for others when the body was read to its end, else cut."""
        self._on_close(self)
        self._idle.cancel()
        let_go(self._response)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _IdleLimit:
    """Closes an answer whose reader has waited too long.

    One timer for the life of the answer, set anew only when it fires: a limit that costs nothing
    for each chunk. The time in which nobody reads does not count.
    """

    __slots__ = ("_loop", "_response", "_started_at", "_timer", "is_over", "seconds")

    def __init__(self, seconds: float, response: aiohttp.ClientResponse) -> None:
        self.seconds = seconds
        self.is_over = False
        self._response = response
        self._loop = asyncio.get_running_loop()
        self._started_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._started_at = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self.seconds, self._check)

    def stop(self) -> None:
        self._started_at = None

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        if self._started_at is None:
            self._timer = None  # The next wait sets it again.
            return
        deadline = self._started_at + self.seconds
        if self._loop.time() < deadline:
            self._timer = self._loop.call_at(deadline, self._check)
            return
        self._timer = None
        self.is_over = True
        let_go(self._response)


def let_go(response: aiohttp.ClientResponse) -> None:
    """Close an answer. Unless it was read to its end, its connection is cut at once.

    Closed in good order, TLS would wait for the peer's farewell, which a dead one never sends.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()
