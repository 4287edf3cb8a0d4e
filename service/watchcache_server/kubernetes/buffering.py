"""Lets a connection be read into one buffer that all connections share.

An event loop that has TLS to undo hands an ordinary protocol a new bytes object for each read, made
as large as a read can be (256 KiB on uvloop) and then cut down to what came. That size is mapped
from the system, cut and given back each time, which is a third of the processor time of a sync (see
docs/performance.md). A `BufferedProtocol` says where to read to, and is then told how much came.
"""

from __future__ import annotations

import asyncio
from typing import Final

__all__ = ["share_buffer"]

_BUFFER_BYTES: Final = 64 * 1024
# One for all: between `get_buffer` and `buffer_updated` of one connection nothing else runs, and
# what came is copied out before the next one reads. So an idle connection holds no buffer.
_buffer = memoryview(bytearray(_BUFFER_BYTES))


class _SharedBuffer(asyncio.BufferedProtocol):
    """Passes what is read on to an ordinary protocol, and everything else as it comes."""

    __slots__ = ("_inner",)

    def __init__(self, inner: asyncio.Protocol) -> None:
        self._inner = inner

    def get_buffer(self, _sizehint: int) -> memoryview:
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._inner.data_received(bytes(_buffer[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


def share_buffer(transport: asyncio.BaseTransport) -> None:
    """Have an open connection read into the shared buffer from now on."""
    protocol = transport.get_protocol()
    if isinstance(protocol, asyncio.Protocol):
        transport.set_protocol(_SharedBuffer(protocol))
