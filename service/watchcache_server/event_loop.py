"""The event loop of the process: uvloop's, with one of its faults mended.

When a connection over a socket that is passed in cannot be made, as when a server takes connections
and resets them, uvloop closes the descriptor, and the socket, which knows nothing of that, closes
it again when it is dropped. By then the number may be that of another connection: that one is dead
without knowing, or the process is aborted (MagicStack/uvloop#653 and #738). aiohttp makes all its
connections in this way.
"""

from __future__ import annotations

import socket
from typing import Any

import uvloop

__all__ = ["EventLoop"]


class EventLoop(uvloop.Loop):
    """A loop on which a connection that fails takes no other one along."""

    async def create_connection(
        self, *args: Any, sock: socket.socket | None = None, **options: Any
    ) -> Any:
        """Connect; a socket that is passed in is the loop's in any case."""
        try:
            return await super().create_connection(*args, sock=sock, **options)
        except BaseException:
            if sock is not None:
                # The loop closes the descriptor; the socket has none any more.
                sock.detach()
            raise
