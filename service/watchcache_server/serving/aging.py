"""The age of connections: when gRPC tells one to go, and when the streams on it end.

A stream that lives for weeks ties its client to one process: a replica that was added later, or
that came back, gets nobody. So gRPC itself tells a connection that has reached its age to take no
more calls (GOAWAY; the moment differs by a tenth either way, by chance), upon which a client makes
another connection for what it calls next. The streams on the old one go on; each ends by itself, in
good order, at a moment drawn for it, which is after that. Its client opens it again, and so on the
new connection. Only what does not end so, as a stream whose reader takes nothing, is cut off with
the connection after the grace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

__all__ = ["Aging", "connection_options"]

# As parts of the age. A stream is never older than its connection: when it ends, the connection has
# been told to go, at 1.1 of its age at the latest.
_FIRST: Final = 1.1
_SPREAD: Final = 0.25
# The last stream is opened as the connection is told to go, and lives for 1.35.
_GRACE: Final = 2


class Aging:
    """Draws the ends of streams."""

    def __init__(self, age_seconds: float, chance: Callable[[], float]) -> None:
        """`age_seconds` is that of connections, 0 for no limit; `chance` draws from [0, 1)."""
        self._age_seconds = age_seconds
        self._chance = chance

    def end_of(self, begin: float) -> float:
        """Return when a stream that begins at a moment is to end."""
        if not self._age_seconds:
            return math.inf
        return begin + self._age_seconds * (_FIRST + _SPREAD * self._chance())


def connection_options(age_seconds: float) -> list[tuple[str, int]]:
    """Return what gRPC has to be told of the age of connections."""
    if not age_seconds:
        return []
    milliseconds = int(age_seconds * 1000)
    return [
        ("grpc.max_connection_age_ms", milliseconds),
        ("grpc.max_connection_age_grace_ms", _GRACE * milliseconds),
    ]
