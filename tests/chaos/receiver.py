"""A subscriber that follows the contract and nothing else, and keeps what it needs to go on."""

from __future__ import annotations

from typing import Any

import watchcache
from tests.history_records import Key
from watchcache import EventType

__all__ = ["Receiver", "held_by"]


class Receiver:
    """Holds objects and a token over any number of watches, each of which may be killed."""

    def __init__(self) -> None:
        self.held: dict[Key, tuple[str, str]] = {}
        self.token = b""
        self.lives = 0
        self._incoming: dict[Key, tuple[str, str]] | None = None

    async def follow(self, ext: watchcache.Extension, **options: Any) -> None:
        """Apply what a watch sends from where the last one got to, until cancelled."""
        self.lives += 1
        self._incoming = None
        async with ext.watch(resume_token=self.token, **options) as watch:
            try:
                async for message in watch:
                    self._take(message)
            finally:
                # Also a message that is not yielded can have brought a token.
                self.token = watch.resume_token

    def _take(self, message: watchcache.Message[dict[str, Any]]) -> None:
        if isinstance(message, watchcache.Started):
            is_snapshot = message.mode is watchcache.StartMode.SNAPSHOT
            self._incoming = {} if is_snapshot else None
        elif isinstance(message, watchcache.Reset):
            self._incoming = {}
        elif isinstance(message, watchcache.Synced) and self._incoming is not None:
            self.held, self._incoming = self._incoming, None
        elif isinstance(message, watchcache.Batch):
            held = self.held if self._incoming is None else self._incoming
            for event in message.events:
                key = _key(event.resource, event.key)
                if event.type in (EventType.ADDED, EventType.MODIFIED):
                    held[key] = (event.uid, event.resource_version)
                elif held.get(key, ("",))[0] == event.uid:
                    del held[key]


def held_by(mirror: watchcache.Mirror[Any]) -> dict[Key, tuple[str, str]]:
    """Return uid and resourceVersion of all that a mirror holds."""
    return {
        _key(resource, key): (version.uid, version.resource_version)
        for (resource, key), version in mirror.snapshot().items()
    }


def _key(resource: str, key: watchcache.Key) -> Key:
    plural, _, group = resource.partition(".")
    return Key(key.cluster, group, plural, key.namespace, key.name)
