"""Many streams of one connection that are read and thrown away, at next to no cost.

A client of gRPC takes 30 to 50 microseconds for a message. A thousand streams of them would need
more than the machine has, and the time that is measured would be their own. So the readers that
only have to be there speak just enough HTTP/2 to open streams and to take what comes: frames are
walked by their heads, pings and settings are answered, and windows are opened so far that those of
streams never close in the time of a measurement.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Final, Self, cast

__all__ = ["BulkStreams", "Frames"]

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE = 0x0, 0x1, 0x4, 0x6, 0x8
_END_STREAM, _ACK, _END_HEADERS = 0x1, 0x1, 0x4
_INITIAL_WINDOW_SIZE: Final = 4
_STREAM_WINDOW: Final = 1 << 30
_CONNECTION_WINDOW: Final = 1 << 30
_HEAD_BYTES: Final = 9


class Frames:
    """Walks the frames of a connection as bytes come; the contents of data are not kept."""

    def __init__(self) -> None:
        self._buffer = b""
        self._skip = 0
        #: Bytes of data frames, and how many frames of data there were.
        self.data_bytes = 0
        self.data_count = 0

    def feed(self, chunk: bytes) -> list[tuple[int, int, bytes]]:
        """Take bytes in; return type, flags and content of the frames that are not data."""
        found = []
        place = min(self._skip, len(chunk))
        self._skip -= place
        buffer = self._buffer + chunk[place:] if self._buffer or place else chunk
        place, end = 0, len(buffer)
        while end - place >= _HEAD_BYTES:
            length = int.from_bytes(buffer[place : place + 3], "big")
            kind, flags = buffer[place + 3], buffer[place + 4]
            after = place + _HEAD_BYTES + length
            if kind == _DATA:
                self.data_bytes += length
                self.data_count += 1
                self._skip = max(0, after - end)
            elif after > end:
                break
            else:
                found.append((kind, flags, buffer[place + _HEAD_BYTES : after]))
            place = min(after, end)
        self._buffer = buffer[place:]
        return found


class BulkStreams(asyncio.Protocol):
    """The streams of one connection without TLS."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._opened_bytes = 0
        self._transport: asyncio.Transport

    @classmethod
    async def open(cls, address: str, path: str, requests: Sequence[bytes]) -> Self:
        """Connect, and open a stream for each request, which is a message's bytes."""
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        _, streams = await loop.create_connection(cls, host, int(port))
        for number, request in enumerate(requests):
            streams.ask(2 * number + 1, address, path, request)
        return streams

    def ask(self, stream: int, authority: str, path: str, request: bytes) -> None:
        """Open a stream that sends one message."""
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": authority,
            "te": "trailers",
            "content-type": "application/grpc",
        }
        headers = b"".join(_literal(*field) for field in fields.items())
        message = b"\0" + struct.pack(">I", len(request)) + request
        self._transport.write(
            _frame(_HEADERS, _END_HEADERS, stream, headers)
            + _frame(_DATA, _END_STREAM, stream, message)
        )

    @property
    def read_count(self) -> int:
        """How many frames of data came; a message has at least one."""
        return self._frames.data_count

    def close(self) -> None:
        """End all of them."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # Those of uvloop are transports in all but name.
        self._transport = cast("asyncio.Transport", transport)
        window = struct.pack(">HI", _INITIAL_WINDOW_SIZE, _STREAM_WINDOW)
        self._transport.write(_PREFACE + _frame(_SETTINGS, 0, 0, window))
        self._open_window(_CONNECTION_WINDOW)

    def data_received(self, data: bytes) -> None:
        """Throw data away, answer what wants an answer."""
        for kind, flags, content in self._frames.feed(data):
            if kind in (_SETTINGS, _PING) and not flags & _ACK:
                answer = content if kind == _PING else b""
                self._transport.write(_frame(kind, _ACK, 0, answer))
        if (read := self._frames.data_bytes - self._opened_bytes) > _CONNECTION_WINDOW // 4:
            self._opened_bytes += read
            self._open_window(read)

    def _open_window(self, size: int) -> None:
        self._transport.write(_frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", size)))


def _literal(name: str, value: str) -> bytes:
    """Encode a header in the one form of HPACK that needs no table; both are short."""
    return b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + content
