"""One WatchExtensions stream: what it has said of the extensions, and what it says next.

It looks at the extensions that changed since its last look, and rests until something changes
anywhere. Looks keep a distance, so that many changes at once become one message for each extension;
a spec, which may be large, is sent once for each generation.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Clock, Extension
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.model.errors import ConnectionAgedError, ServiceDrainingError
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.serving.conversion import to_timestamp
from watchcache_server.serving.describing import extension_message
from watchcache_server.serving.writing import Writer

__all__ = ["ExtensionStream"]

# The contract names it.
_HEARTBEAT_SECONDS: Final = 30.0


class _Sent(NamedTuple):
    """Which spec a reader holds of an extension."""

    uid: str
    generation: int


class ExtensionStream:
    """One stream under way. `run` raises a ServiceError that says why it ends."""

    def __init__(
        self,
        *,
        registry: ExtensionRegistry,
        clock: Clock,
        namespace: str,
        name: str,
        interval_seconds: float,
        ends_at: float,
        writer: Writer,
    ) -> None:
        """Prepare a stream; at `ends_at`, a moment of the clock, it is old."""
        self._registry = registry
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._interval_seconds = interval_seconds
        self._ends_at = ends_at
        self._writer = writer
        self._sent: dict[ExtensionKey, _Sent] = {}
        self._version = -1
        self._said_at = self._looked_at = clock.now()

    async def run(self) -> None:
        """Say what there is to say, until there is an end."""
        await self._say_changes()
        await self._say_synced()
        while not self._registry.is_draining:
            if self._clock.now() >= self._ends_at:
                raise ConnectionAgedError
            await self._rest()
            await self._say_changes()
        raise ServiceDrainingError

    async def _say_changes(self) -> None:
        """Say what has changed since the last look."""
        registry = self._registry
        since, self._version = self._version, registry.version
        self._looked_at = self._clock.now()
        if since == self._version:
            return
        present = {
            each.key: each
            for each in registry.extensions(self._namespace)
            if self._name in ("", each.key.name)
        }
        for key in [key for key in self._sent if key not in present]:
            del self._sent[key]
            reason = registry.ended.get(key, "DEREGISTERED")
            removed = pb.RemovedExtension(namespace=key.namespace, name=key.name, reason=reason)
            await self._say(pb.WatchExtensionsResponse(removed=removed))
        for extension in present.values():
            # One that ended during a write is said to be removed in the next round.
            if not extension.ended and self._is_news(extension, since):
                await self._say_extension(extension)

    def _is_news(self, extension: Extension, since: int) -> bool:
        sent = self._sent.get(extension.key)
        is_other = sent is None or sent.uid != extension.uid
        return is_other or extension.registry_version > since

    async def _say_extension(self, extension: Extension) -> None:
        spec = _Sent(extension.uid, extension.generation)
        is_new_spec = self._sent.get(extension.key) != spec
        self._sent[extension.key] = spec
        message = extension_message(extension, self._registry, with_spec=is_new_spec)
        await self._say(pb.WatchExtensionsResponse(extension=message))

    async def _say_synced(self) -> None:
        synced = pb.ExtensionsSynced(time=to_timestamp(self._clock.wall()))
        await self._say(pb.WatchExtensionsResponse(synced=synced))

    async def _rest(self) -> None:
        """Wait for changes; give a sign of life when nothing was said for so long."""
        registry = self._registry
        silent_at = self._said_at + _HEARTBEAT_SECONDS
        left = min(silent_at, self._ends_at) - self._clock.now()
        if left > 0 and registry.version == self._version:
            await registry.pulse.wait(left)
        if self._clock.now() >= silent_at:
            await self._say_synced()
        # What changes shortly after another change is told with what follows.
        pause = self._looked_at + self._interval_seconds - self._clock.now()
        if pause > 0 and not registry.is_draining:
            await asyncio.sleep(pause)

    async def _say(self, message: pb.WatchExtensionsResponse) -> None:
        await self._writer.write(message.SerializeToString())
        self._said_at = self._clock.now()
