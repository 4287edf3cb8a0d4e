"""The relay that counts bytes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from bench.metering import Meter


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """Serve an answer to every request of one line, then end the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def ask(address: str) -> bytes:
    """Send a line of four bytes and return what comes back."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"ask\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_both_directions_are_counted_and_taken_once() -> None:
    """What was sent and received is told apart, and counts from zero again once taken."""
    async with answering(b"x" * 1000) as target, Meter(target) as meter:
        assert await ask(meter.address) == b"x" * 1000
        assert meter.take() == (4, 1000)
        assert meter.take() == (0, 0)


async def test_the_address_outlives_the_target() -> None:
    """A client comes back to the same address and reaches what is there now."""
    async with answering(b"old") as old, answering(b"new") as new, Meter(old) as meter:
        assert await ask(meter.address) == b"old"
        meter.target = new
        assert await ask(meter.address) == b"new"


async def test_a_target_that_is_away_ends_the_connection() -> None:
    """The client learns so at once, and the relay lives on."""
    with socket.socket() as nobody:
        # Nobody listens there, and nobody else is given the port meanwhile.
        nobody.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{nobody.getsockname()[1]}"
        async with answering(b"back") as target, Meter(away) as meter:
            with suppress(ConnectionError):
                assert await ask(meter.address) == b""
            meter.target = target
            assert await ask(meter.address) == b"back"
