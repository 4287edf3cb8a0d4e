"""A TCP proxy whose connections a test can cut or freeze: the network between two programs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

__all__ = ["Proxy", "kubeconfig_through", "reset"]

_CHUNK_BYTES = 64 * 1024


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a TCP reset, in the middle of whatever is sent."""
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class _Line:
    """One connection through the proxy."""

    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self._writers = writers
        self.flowing = asyncio.Event()

    def reset(self) -> None:
        """End both halves with a TCP reset, in the middle of whatever is sent."""
        for writer in self._writers:
            reset(writer)
        self.flowing.set()

    async def close(self) -> None:
        """Reset it, and wait until both sockets are closed."""
        self.reset()
        for writer in self._writers:
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class Proxy:
    """Listens on a free loopback port and passes everything on to a target."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._lines: set[_Line] = set()
        self._taking = asyncio.Event()
        self._taking.set()
        self._is_frozen = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self.port = 0
        #: Bytes passed on to whoever connected, and to the target.
        self.bytes_back = self.bytes_there = 0

    @property
    def address(self) -> str:
        """Where to connect."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> int:
        """Reset all connections; return how many there were."""
        lines, self._lines = self._lines, set()
        for line in lines:
            line.reset()
        return len(lines)

    def shut(self) -> None:
        """Reset all connections, and every new one."""
        self._taking.clear()
        self.cut()

    def open(self) -> None:
        """Take connections again."""
        self._taking.set()

    def freeze(self, *, new_ones: bool = False) -> None:
        """Pass nothing on any more over the connections that there are; they stay open.

        With `new_ones` the same holds for all that come.
        """
        self._is_frozen = new_ones
        for line in self._lines:
            line.flowing.clear()

    def thaw(self) -> None:
        """Pass everything on again, also what was held back."""
        self._is_frozen = False
        for line in self._lines:
            line.flowing.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        self.thaw()
        self.shut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if not self._taking.is_set():
            await _Line(writer).close()
            return
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._target)
        except OSError:
            await _Line(writer).close()
            return
        line = _Line(writer, there_writer)
        if not self._is_frozen:
            line.flowing.set()
        self._lines.add(line)
        if not self._taking.is_set():  # It was shut while the other side was being reached.
            line.reset()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, there_writer, line.flowing, self._count_there))
                group.create_task(_pump(there_reader, writer, line.flowing, self._count_back))
        finally:
            self._lines.discard(line)
            await line.close()

    def _count_there(self, count: int) -> None:
        self.bytes_there += count

    def _count_back(self, count: int) -> None:
        self.bytes_back += count


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    flowing: asyncio.Event,
    count: Callable[[int], None],
) -> None:
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            await flowing.wait()
            writer.write(chunk)
            count(len(chunk))
            await writer.drain()
        writer.write_eof()
    except (OSError, RuntimeError):
        return


def kubeconfig_through(proxy: Proxy, kubeconfig: Path, copy: Path) -> Path:
    """Write a copy of a kubeconfig that reaches its one server through the proxy."""
    tree = yaml.safe_load(kubeconfig.read_text())
    (cluster,) = tree["clusters"]
    cluster["cluster"]["server"] = f"https://{proxy.address}"
    copy.write_text(yaml.safe_dump(tree))
    return copy
