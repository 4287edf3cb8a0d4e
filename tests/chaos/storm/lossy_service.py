"""The service with a defect: now and then an event is passed over. A storm has to find it."""

from __future__ import annotations

import itertools

from tests.chaos.storm import hasty_service
from watchcache_server.informer.decoding import Deleted, Modified, WatchEvent
from watchcache_server.informer.streams import EventStream

__all__: list[str] = []

_PASSED_OVER_EVERY = 5

_feed = EventStream.feed
_numbers = itertools.count(1)


def _feed_lossily(self: EventStream, chunk: bytes) -> list[WatchEvent]:
    return [
        event
        for event in _feed(self, chunk)
        if not isinstance(event, Modified | Deleted) or next(_numbers) % _PASSED_OVER_EVERY
    ]


if __name__ == "__main__":
    EventStream.feed = _feed_lossily  # type: ignore[method-assign]
    hasty_service.main()
