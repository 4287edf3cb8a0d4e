"""Connections that are read into one shared buffer."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
import uvloop

from watchcache_server.kubernetes.buffering import share_buffer


class Recorder(asyncio.Protocol):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.calls: list[str] = []
        self.closed = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        self.received += data

    def eof_received(self) -> bool:
        self.calls.append("eof_received")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("connection_lost")
        self.closed.set_result(None)

    def pause_writing(self) -> None:
        self.calls.append("pause_writing")

    def resume_writing(self) -> None:
        self.calls.append("resume_writing")


async def _read_from_servers(sizes: list[int]) -> list[tuple[bytes, Recorder]]:
    """Read from several servers at once, over connections that share the buffer."""
    bodies = [random.Random(size).randbytes(size) for size in sizes]
    found = []
    for body in bodies:

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes = body
        ) -> None:
            await reader.readexactly(1)
            writer.write(body)
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        transport, recorder = await loop.create_connection(Recorder, "127.0.0.1", port)
        share_buffer(transport)
        found.append((body, recorder, transport, server))
    for _, _, transport, _ in found:
        transport.write(b"!")
    for _, recorder, _, server in found:
        await recorder.closed
        server.close()
    return [(body, recorder) for body, recorder, _, _ in found]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_what_comes_over_several_connections_is_whole_and_apart(run: Any) -> None:
    """Each protocol gets the bytes of its own connection, in order, then the end."""
    for body, recorder in run(_read_from_servers([1, 300_000, 2_000_000])):
        assert recorder.received == body
        assert recorder.calls == ["eof_received", "connection_lost"]


async def test_sharing_again_changes_nothing() -> None:
    """A connection that is taken from the pool again is not wrapped twice."""
    transport = _Transport(Recorder())
    share_buffer(transport)
    once = transport.get_protocol()
    share_buffer(transport)
    assert transport.get_protocol() is once


async def test_flow_control_reaches_the_protocol() -> None:
    """A full write buffer pauses the protocol, and an emptied one lets it go on."""
    recorder = Recorder()
    transport = _Transport(recorder)
    share_buffer(transport)
    transport.get_protocol().pause_writing()
    transport.get_protocol().resume_writing()
    assert recorder.calls == ["pause_writing", "resume_writing"]


class _Transport(asyncio.BaseTransport):
    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
