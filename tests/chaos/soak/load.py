"""The load of a soak besides those who stay: who comes and goes, is slow, reads and registers."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import watchcache
from tests.chaos.storm.schedule import NAMESPACES
from tests.chaos.storm.stage import Stage

__all__ = ["Load"]

_NAMES = 5
_VISITORS, _SLOW_ONES, _READERS, _REGISTRARS = 6, 3, 2, 2
_EXTENSION = f"{NAMESPACES[0]}/storm"
_SELECTORS = ("", "tier=gold", "tier in (gold,silver)", "tier!=still", "absent")
_VIEWS = ("full", "metadata", "key")

Part = Callable[[watchcache.Connection, random.Random], Awaitable[None]]


class Load:
    """Runs for a while at a time; all that it opened is closed when it stops."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._seed = seed
        self._round = 0
        #: What was done, by kind.
        self.done: Counter[str] = Counter()
        #: What failed, though nothing may but for an API server that is away.
        self.failures: list[str] = []

    async def run(self, seconds: float) -> None:
        """Put the load on for a while."""
        self._round += 1
        ending = asyncio.Event()
        parts: list[tuple[Part, int]] = [
            (self._visit, _VISITORS),
            (self._dawdle, _SLOW_ONES),
            (self._read, _READERS),
            (self._register, _REGISTRARS),
        ]
        async with asyncio.TaskGroup() as group:
            for part, count in parts:
                for number in range(count):
                    chance = random.Random(f"{self._seed} {self._round} {part.__name__} {number}")
                    group.create_task(self._repeat(part, chance, ending))
            await asyncio.sleep(seconds)
            ending.set()

    async def _repeat(self, part: Part, chance: random.Random, ending: asyncio.Event) -> None:
        """Play a part over and over, each time over a connection of its own."""
        while not ending.is_set():
            try:
                async with watchcache.connect(self._stage.clients.address, timeout="20s") as wc:
                    await part(wc, chance)
            except watchcache.WatchCacheError as error:
                if not error.is_retriable:
                    self.failures.append(f"{part.__name__}: {error!r}")
                self.done["failed"] += 1
            else:
                self.done[part.__name__.strip("_")] += 1
            await asyncio.sleep(chance.uniform(0.0, 0.3))

    async def _visit(self, wc: watchcache.Connection, chance: random.Random) -> None:
        """Keep a mirror, or a watch, for a moment; go without a word."""
        ext = await wc.extension(_EXTENSION)
        seconds = chance.uniform(0.1, 4.0)
        if chance.random() < 0.4:
            async with ext.mirror(bookmark_interval="1s") as mirror:
                await mirror.wait_synced(timeout="20s")
                await asyncio.sleep(seconds)
            return
        options: dict[str, Any] = {
            "label_selector": chance.choice(_SELECTORS),
            "view": chance.choice(_VIEWS),
        }
        async with ext.watch(**options) as watch:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    async for _ in watch:
                        pass

    async def _dawdle(self, wc: watchcache.Connection, chance: random.Random) -> None:
        """Take a few messages a second, so that the history overtakes."""
        ext = await wc.extension(_EXTENSION)
        async with ext.watch(bookmark_interval="1s") as watch:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(chance.uniform(5.0, 10.0)):
                    async for _ in watch:
                        await asyncio.sleep(chance.uniform(0.2, 0.8))

    async def _read(self, wc: watchcache.Connection, chance: random.Random) -> None:
        """Get, list in pages and list afresh."""
        ext = await wc.extension(_EXTENSION)
        for _ in range(20):
            namespace, name = chance.choice(NAMESPACES), f"{chance.randrange(12):02}"
            await ext.get("configmaps", f"{namespace}/{name}")
            async for _ in ext.list("secrets", page_size=5, view="key"):
                pass
        async for _ in ext.list("configmaps", consistent=True):
            pass

    async def _register(self, wc: watchcache.Connection, chance: random.Random) -> None:
        """Register an extension, hold what it has for a moment, change it and free it."""
        name = f"{NAMESPACES[0]}/guest-{chance.randrange(_NAMES)}-{chance.random():.9f}"[:60]
        for resources in (["configmaps"], ["configmaps", "secrets"]):
            ext = await wc.register(
                name,
                service_account="shop",
                watch=resources,
                namespaces=[NAMESPACES[0]],
                wait="20s",
            )
            async with ext.mirror(bookmark_interval="1s") as mirror:
                await mirror.wait_synced(timeout="20s")
                await asyncio.sleep(chance.uniform(0.0, 1.0))
        await ext.deregister()
