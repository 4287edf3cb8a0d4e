"""Rules of how far a Watch stream is behind."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.serving.registered import NOW, Registry, spec_of
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.objects import Item, Upsert
from watchcache_server.observability.reporter import Reporters
from watchcache_server.serving.watching import Watching
from watchcache_server.settings import Settings


class Reader:
    """Takes messages; after so many it takes none until it is let go on."""

    def __init__(self, patience: int) -> None:
        self.messages = 0
        self.is_stuck = asyncio.Event()
        self._patience = patience

    async def write(self, message: bytes) -> None:
        self.messages += 1
        if self.messages > self._patience:
            self.is_stuck.set()
            await asyncio.Event().wait()


class Extensions(Registry):
    """Answers what a stream asks of the registry."""

    is_draining = False

    def get(self, key: Any) -> Extension:
        return self.extensions[key]

    def unsubscribed(self, extension: Extension) -> None:
        extension.unsubscribed()


def change(informer: Informer, name: str, read_at: float) -> None:
    """Let an informer read a change at that time."""
    item = Item("team-a", name, f"uid-{name}", "8", {}, (), b"{}")
    informer.apply([Upsert(item, is_addition=True)], read_at)


async def test_a_stream_that_reads_slowly_is_behind_by_what_came_meanwhile() -> None:
    """Counted in changes, and by the age of the oldest; a stream that is gone counts no more."""
    registry: Any = Extensions()
    extension = registry.register("shop", (spec_of("deployments"), 1))
    [informer] = extension.informers.values()
    watching = Watching(registry=registry, settings=Settings(), reporter=Reporters())
    reader = Reader(patience=0)
    request = pb.WatchRequest(namespace="team-a", name="shop")
    stream = asyncio.create_task(watching.serve(request, reader))
    await reader.is_stuck.wait()
    assert list(watching.lags()) == [(0, 0.0)]
    change(informer, "first", NOW - 9.0)
    change(informer, "second", NOW - 4.0)
    assert list(watching.lags()) == [(2, 9.0)]
    stream.cancel()
    await asyncio.wait([stream])
    assert list(watching.lags()) == []


async def test_what_the_history_has_dropped_is_counted_too() -> None:
    """The age is then that of the oldest change which is left: it is at least so old."""
    registry: Any = Extensions()
    extension = registry.register("shop", (spec_of("deployments"), 1))
    [informer] = extension.informers.values()
    watching = Watching(registry=registry, settings=Settings(), reporter=Reporters())
    reader = Reader(patience=0)
    request = pb.WatchRequest(namespace="team-a", name="shop")
    stream = asyncio.create_task(watching.serve(request, reader))
    await reader.is_stuck.wait()
    for number in range(1500):
        change(informer, f"new-{number}", NOW - 2000 + number)
    # The history of these extensions holds a thousand changes.
    assert list(watching.lags()) == [(1500, 1500.0)]
    stream.cancel()
    await asyncio.wait([stream])
