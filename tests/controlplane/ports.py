"""Free loopback ports for servers that must keep their port over a restart.

The ports lie below the kernel's ephemeral range. A client that keeps trying to reach a stopped
server on an ephemeral port can be given that very port as its own, connect to itself, and so keep
the server from starting again.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

__all__ = ["free_ports", "is_free"]

_LOWEST = 20000
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_ATTEMPTS = 200


def free_ports(count: int) -> list[int]:
    """Return `count` ports that are free on 127.0.0.1 now; another process may take them later."""
    chosen: list[int] = []
    for _ in range(_ATTEMPTS):
        port = random.randrange(_LOWEST, _first_ephemeral_port())
        if port not in chosen and is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise OSError(f"no {count} free ports between {_LOWEST} and {_first_ephemeral_port()}")


def is_free(port: int) -> bool:
    """Tell whether a server could listen on 127.0.0.1 at `port` now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _first_ephemeral_port() -> int:
    try:
        first = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32768
    # A machine whose whole range is ephemeral leaves no better choice than to draw from it.
    return first if first > _LOWEST + 1000 else 60000
