"""An informer between a real API server and a sink that remembers what it was told.

    async with following(hub, spec) as follower:
        await follower.wait_for(lambda: "a" in follower.held)

Its way to the server can be barred, so that a test decides what happens between two requests.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import cast

from tests.unit.kubernetes.informer_double import Sink
from watchcache_server.clusters.cluster import Cluster
from watchcache_server.informer.backoff import BackoffSettings
from watchcache_server.informer.objects import Delta, Item, Upsert
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.informer_runner import InformerRunner
from watchcache_server.kubernetes.list_memory import ListMemory
from watchcache_server.kubernetes.pace import Pace
from watchcache_server.kubernetes.renewals import Renewals
from watchcache_server.kubernetes.requests import Request
from watchcache_server.kubernetes.sync_turns import SyncTurns
from watchcache_server.kubernetes.transport import Response
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import LeftReason, SourceState

__all__ = ["HASTY", "Follower", "following"]

_PATIENCE_SECONDS = 40.0
_REST_SECONDS = 5.0

# As usual but for the waits: a watch lasts three seconds, and brings a bookmark after one.
HASTY = ReflectorSettings(
    backoff=BackoffSettings(first_seconds=0.1, longest_seconds=0.5),
    watch_seconds=4,
    initial_idle_seconds=3.0,
    first_sync_patience_seconds=5.0,
    forbidden_grace_seconds=1.0,
    probe_seconds=1.0,
    vanished_seconds=3.0,
    relist_spacing_seconds=0.0,
)


class Follower(Sink):
    """What an informer holds and was told; `bar` keeps its next requests from the server."""

    def __init__(self, spec: SourceSpec, access: ApiAccess) -> None:
        super().__init__()
        self.namespace = spec.namespace
        self.held: dict[str, Item] = {}
        #: What the stream told, in order: the name, the version, and whether it is there.
        self.told: list[tuple[str, str, bool]] = []
        self.requests: list[Request] = []
        self._staged: dict[str, Item] = {}
        self._access = access
        self.credentials = access.credentials
        self._is_free = asyncio.Event()
        self._is_free.set()
        self._waiting = 0
        self._opening = 0

    # Its way to the server

    async def open(self, request: Request) -> Response:
        """Send a request, once the way is free."""
        self._waiting += 1
        try:
            await self._is_free.wait()
        finally:
            self._waiting -= 1
        self.requests.append(request)
        self._opening += 1
        try:
            return await self._access.open(request)
        finally:
            self._opening -= 1

    async def bar(self) -> None:
        """Return when the next request of the informer waits to be sent."""
        self._is_free.clear()
        await self.wait_for(lambda: self._waiting > 0)

    def free(self) -> None:
        """Let its requests pass."""
        self._is_free.set()

    async def come_to_rest(self) -> None:
        """Let the request that is being sent be answered, and send no other.

        If it were cancelled, the goodbye of its connection could outlast the test's event loop.
        """
        self._is_free.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REST_SECONDS):
                while self._opening:  # noqa: ASYNC110 (what is waited for sets no event)
                    await asyncio.sleep(0.02)

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Return when the condition holds."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not condition():  # noqa: ASYNC110 (what is waited for sets no event)
                await asyncio.sleep(0.02)

    @property
    def state_now(self) -> SourceState | None:
        """Its state."""
        return self.state[0] if self.state is not None else None

    # What it is told

    def stage(self, items: Iterable[Item]) -> None:
        self._staged |= {item.name: item for item in items}

    def unstage(self, items: Iterable[Item]) -> None:
        for item in items:
            self._staged.pop(item.name, None)

    def discard(self) -> None:
        self._staged = {}

    def commit(self, read_at: float, resource_version: str) -> None:
        super().commit(read_at, resource_version)
        self.held, self._staged = self._staged, {}

    def apply(self, deltas: list[Delta], read_at: float, resource_version: str) -> None:
        super().apply(deltas, read_at, resource_version)
        for delta in deltas:
            is_there = isinstance(delta, Upsert)
            self.told.append((delta.item.name, delta.item.resource_version, is_there))
            if is_there:
                self.held[delta.item.name] = delta.item
            else:
                self.held.pop(delta.item.name, None)

    def purge(self, reason: LeftReason) -> None:
        super().purge(reason)
        self.held = {}


@contextlib.asynccontextmanager
async def following(
    hub: Cluster, spec: SourceSpec, *, access: ApiAccess | None = None, lists: bool = False
) -> AsyncIterator[Follower]:
    """Run an informer; with `lists` it begins with a list instead of a watch."""
    follower = Follower(spec, access or hub.own)
    loop = asyncio.get_running_loop()
    memory = ListMemory(loop.time)
    if lists:
        memory.remember(spec.cluster, spec.group, spec.resource, 3600.0)
    runner = InformerRunner(
        spec=spec,
        tenant="team-a/shop",
        service_account="team-a/shop",
        access=cast("ApiAccess", follower),
        discovery=hub.discovery,
        sink=follower,
        turns=SyncTurns(2),
        renewals=Renewals(tuple, int),
        pace=Pace(1000),
        memory=memory,
        settings=HASTY,
        max_event_bytes=4 << 20,
        clock=loop.time,
        jitter=lambda: 0.0,
    )
    task = asyncio.create_task(runner.run())
    try:
        yield follower
    finally:
        await follower.come_to_rest()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
