"""A program: connects on uvloop again and again to a server that resets connections as they come.

python -m tests.unit.resetting CA_FILE CERTIFICATE KEY    # exits 0 at its end
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
import struct
import sys
import threading
from pathlib import Path

from watchcache_server.event_loop import EventLoop
from watchcache_server.kubernetes.errors import TransportError
from watchcache_server.kubernetes.requests import get_request
from watchcache_server.kubernetes.tls import TlsMaterial, TlsSource
from watchcache_server.kubernetes.transport import Endpoint, Transport

_ROUNDS = 150
_AT_ONCE = 10
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


async def _serve(port: asyncio.Future[int], context: ssl.SSLContext) -> None:
    chance = random.Random(1)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(_ANSWER)
            await writer.drain()
        writer.close()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65536):
                writer.write(chunk)
        writer.transport.abort()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if chance.random() < 0.4:
            await asyncio.sleep(chance.choice((0.0, 0.0005)))
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", behind)
        await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))

    inner = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    behind = inner.sockets[0].getsockname()[1]
    outer = await asyncio.start_server(accept, "127.0.0.1", 0)
    number: int = outer.sockets[0].getsockname()[1]
    port.get_loop().call_soon_threadsafe(port.set_result, number)
    await outer.serve_forever()


async def _connect(ca_file: str, certificate: str, key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    threading.Thread(target=lambda: asyncio.run(_serve(port, context)), daemon=True).start()
    source = TlsSource(TlsMaterial(ca_file=Path(ca_file)))
    transport = Transport(Endpoint("dev", f"https://127.0.0.1:{await port}"), source)

    async def ask() -> int:
        try:
            async with await transport.open(get_request("/"), None):
                return 1
        except TransportError:
            return 0

    answered = 0
    for _ in range(_ROUNDS):
        answered += sum(await asyncio.gather(*(ask() for _ in range(_AT_ONCE))))
    assert answered > _ROUNDS * _AT_ONCE // 4, f"{answered} were answered"
    await transport.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(_connect(*sys.argv[1:]))
