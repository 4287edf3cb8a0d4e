"""A connection that fails takes no other one along."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.controlplane.credentials import Credentials
from watchcache_server.event_loop import EventLoop

_DESCRIPTORS = Path("/proc/self/fd")
_ROUNDS = 30
_AT_ONCE = 20
_LIMIT_SECONDS = 90


@pytest.fixture
def resetting() -> Iterator[int]:
    """Give the port of a server that takes connections and resets each."""
    with socket.create_server(("127.0.0.1", 0), backlog=_AT_ONCE) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    connection.close()

        thread = Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


async def _connect(
    port: int, context: ssl.SSLContext
) -> tuple[socket.socket, BaseException | None]:
    """Connect as aiohttp does: over a socket that is connected first."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setblocking(False)
    error: BaseException | None = None
    try:
        await loop.sock_connect(sock, ("127.0.0.1", port))
    except OSError as refused:
        sock.close()
        return sock, refused
    try:
        await loop.create_connection(
            asyncio.Protocol, sock=sock, ssl=context, server_hostname="server"
        )
    except OSError as reset:
        error = reset
    return sock, error


def test_a_socket_whose_connection_failed_has_no_descriptor(resetting: int) -> None:
    """Dropped, it would close whatever has the number by then; and nothing is left open."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    async def storm() -> None:
        for _ in range(_ROUNDS):
            ends = await asyncio.gather(*(_connect(resetting, context) for _ in range(_AT_ONCE)))
            assert all(error is not None for _, error in ends)
            assert all(sock.fileno() == -1 for sock, _ in ends)

    before = len(list(_DESCRIPTORS.iterdir()))
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(storm())
    # The server may have yet to close what it took last.
    assert len(list(_DESCRIPTORS.iterdir())) < before + _AT_ONCE


async def test_resets_while_connecting_leave_the_process_alone(tmp_path: Path) -> None:
    """No descriptor is closed twice: libuv ends the process for it, or another connection dies."""
    files = Credentials(tmp_path)
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.unit.resetting"),
        *map(str, (files.ca_file, files.serving_certificate, files.serving_key)),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_LIMIT_SECONDS):
            _, told = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
    assert program.returncode == 0, told.decode()[-2000:]


def test_connections_that_succeed_are_as_ever() -> None:
    """With a socket that is passed in, and without."""

    async def talk() -> list[bytes]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        told = []
        for sock in (None, socket.create_connection(address)):
            where = {"sock": sock} if sock else {"host": address[0], "port": address[1]}
            reader, writer = await asyncio.open_connection(**where)
            writer.write(b"hello\n")
            told.append(await reader.readline())
            writer.close()
        server.close()
        return told

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        assert runner.run(talk()) == [b"hello\n", b"hello\n"]


def test_a_refused_connection_is_an_error() -> None:
    """Where no socket is passed in there is nothing to let go of."""

    async def connect() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(connect())
