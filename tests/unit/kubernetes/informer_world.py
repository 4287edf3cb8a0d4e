"""The task of an informer between an API server and a sink, for its tests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.items import source_spec
from tests.unit.kubernetes.informer_double import (
    Api,
    Body,
    Found,
    Sink,
    added,
    bookmark,
)
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.kubernetes.errors import (
    ServiceAccountNotFoundError,
)
from watchcache_server.kubernetes.informer_runner import InformerRunner
from watchcache_server.kubernetes.list_memory import ListMemory
from watchcache_server.kubernetes.pace import Pace
from watchcache_server.kubernetes.renewals import Renewals
from watchcache_server.kubernetes.sync_turns import SyncTurns
from watchcache_server.model.states import SourceState

__all__ = ["NOBODY", "World", "settle", "world"]

NOBODY = ServiceAccountNotFoundError("hub", "team-a", "shop")
_NAMESPACED = source_spec(namespace="team-a")


class World:
    """An informer's task between an API server and a sink."""

    def __init__(self) -> None:
        self.api = Api()
        self.discovery = Found()
        self.sink = Sink()
        self.turns = SyncTurns(2)
        self.renewals = Renewals(lambda: [self.turns], self._give_back)
        self.given_back_at: list[float] = []
        self.pace = Pace(1000)
        self.memory = ListMemory(self.now)
        self.settings = ReflectorSettings()
        self.spec = _NAMESPACED
        self.task: asyncio.Task[None] | None = None
        self._began = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since it was started."""
        return self.now() - self._began

    @staticmethod
    def now() -> float:
        """Return the time of the loop, which is the one that the test lets pass."""
        return asyncio.get_running_loop().time()

    def _give_back(self) -> None:
        self.given_back_at.append(self.now())

    def runner(self, sink: Sink | None = None, api: Api | None = None) -> InformerRunner:
        """Make an informer of these parts."""
        parts: Any = {
            "access": api or self.api,
            "discovery": self.discovery,
            "sink": sink or self.sink,
        }
        return InformerRunner(
            spec=self.spec,
            tenant="team-a/shop",
            service_account="team-a/shop",
            turns=self.turns,
            renewals=self.renewals,
            pace=self.pace,
            memory=self.memory,
            settings=self.settings,
            max_event_bytes=1024 * 1024,
            clock=self.now,
            jitter=lambda: 0.0,
            **parts,
        )

    def start(self) -> None:
        """Start it."""
        self._began = self.now()
        self.task = asyncio.create_task(self.runner().run())

    async def live(self, version: str = "10") -> Body:
        """Let it start and sync; return the watch that runs."""
        self.start()
        exchange = await self.api.asked()
        watch = exchange.accept(added("a", "3"), bookmark(version, is_initial_end=True))
        await self.sink.until(SourceState.LIVE)
        return watch

    async def stop(self) -> None:
        """Cancel it and wait for its end; a fault in it comes out here."""
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give an informer that ends with the test."""
    world = World()
    renewing = asyncio.create_task(world.renewals.run())
    yield world
    await world.stop()
    renewing.cancel()


async def settle() -> None:
    """Let everything happen that can."""
    for _ in range(20):
        await asyncio.sleep(0)
