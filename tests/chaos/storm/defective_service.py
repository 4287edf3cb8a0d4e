"""The service with a defect, named by STORM_DEFECT. A storm has to find it."""

from __future__ import annotations

import itertools
import os
from unittest import mock

from tests.chaos.storm import hasty_service
from watchcache_server.informer.decoding import Deleted, Modified, WatchEvent
from watchcache_server.informer.streams import EventStream
from watchcache_server.serving.stream import WatchStream

__all__ = ["DEFECT"]

#: The variable that names the defect: `loses`, `doubles` or `lies`.
DEFECT = "STORM_DEFECT"

_EVERY = 5

_feed = EventStream.feed
_write = WatchStream._write
_numbers = itertools.count(1)


def _lose(self: EventStream, chunk: bytes) -> list[WatchEvent]:
    """Pass over one event in five."""
    return [
        event
        for event in _feed(self, chunk)
        if not isinstance(event, Modified | Deleted) or next(_numbers) % _EVERY
    ]


async def _double(self: WatchStream, message: bytes) -> None:
    """Send one message in five twice."""
    await _write(self, message)
    if next(_numbers) % _EVERY == 0:
        await _write(self, message)


async def _lie(self: WatchStream, message: bytes) -> None:
    """Change one character of what was written."""
    await _write(self, message.replace(b"xx]", b"xy]"))


_DEFECTS: dict[str, tuple[type, str, object]] = {
    "loses": (EventStream, "feed", _lose),
    "doubles": (WatchStream, "_write", _double),
    "lies": (WatchStream, "_write", _lie),
}


if __name__ == "__main__":
    mock.patch.object(*_DEFECTS[os.environ[DEFECT]]).start()
    hasty_service.main()
