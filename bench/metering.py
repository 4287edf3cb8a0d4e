"""A relay between a client and the service that counts the bytes of both directions.

It stays where it is while the service behind it is replaced: so a client comes back to the same
address.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

__all__ = ["Meter"]

_CHUNK_BYTES = 256 * 1024


class Meter:
    """Listens on a free loopback port; passes everything on to `target`, as host:port."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.sent_bytes = 0
        self.received_bytes = 0
        self._server: asyncio.Server
        self._relays: set[asyncio.Task[None]] = set()
        self._port = 0

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self._port}"

    def take(self) -> tuple[int, int]:
        """Return the bytes that clients sent and received since the last time."""
        taken = self.sent_bytes, self.received_bytes
        self.sent_bytes = self.received_bytes = 0
        return taken

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = asyncio.current_task()
        assert relay is not None, "asyncio serves each connection in a task"
        self._relays.add(relay)
        relay.add_done_callback(self._relays.discard)
        host, _, port = self.target.rpartition(":")
        there: asyncio.StreamWriter | None = None
        try:
            answers, there = await asyncio.open_connection(host, int(port))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send(reader, there))
                group.create_task(self._receive(answers, writer))
        except* OSError:
            pass
        finally:
            for each in (writer, there):
                if each is not None:
                    each.transport.abort()

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            self.sent_bytes += len(chunk)
            await _pass_on(writer, chunk)
        await _end(writer)

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            self.received_bytes += len(chunk)
            await _pass_on(writer, chunk)
        await _end(writer)


async def _pass_on(writer: asyncio.StreamWriter, chunk: bytes) -> None:
    writer.write(chunk)
    await writer.drain()


async def _end(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.write_eof()
