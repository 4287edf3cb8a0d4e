"""Small objects that are changed all the time, at a rate that is asked for and counted.

Each is written by one writer, never again before its last change was answered: no retries pile up,
and an API server that cannot keep to the rate sets its own. `Ticks.count` says what it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

from bench.cluster import Cluster
from bench.corpus import TICK_COUNT, TICK_NAMESPACE

__all__ = ["Ticks", "ticking"]

_JSON: Final = {"Content-Type": "application/json"}


class Ticks:
    """The changes so far. `labels_of` gives the labels of each, by its number."""

    def __init__(self, labels_of: Callable[[int], dict[str, str]] | None = None) -> None:
        self.count = 0
        self._begun = 0
        self._labels_of = labels_of

    def body(self, name: str) -> bytes:
        """Return the next form of an object."""
        metadata: dict[str, Any] = {"name": name}
        if self._labels_of is not None:
            metadata["labels"] = self._labels_of(self._begun)
        self._begun += 1
        return json.dumps(
            {"metadata": metadata, "data": {"written_at": repr(time.monotonic())}}
        ).encode()


@asynccontextmanager
async def ticking(
    cluster: Cluster,
    changes_a_second: float,
    labels_of: Callable[[int], dict[str, str]] | None = None,
) -> AsyncIterator[Ticks]:
    """Change the small objects all the time."""
    ticks = Ticks(labels_of)
    task = asyncio.create_task(_tick(cluster, ticks, changes_a_second))
    try:
        yield ticks
        if task.done():
            task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _tick(cluster: Cluster, ticks: Ticks, changes_a_second: float) -> None:
    interval = TICK_COUNT / changes_a_second
    async with cluster.session() as session, asyncio.TaskGroup() as group:
        for number in range(TICK_COUNT):
            group.create_task(_tick_one(session, ticks, number, interval))


async def _tick_one(
    session: aiohttp.ClientSession, ticks: Ticks, number: int, interval: float
) -> None:
    loop = asyncio.get_running_loop()
    name = f"tick-{number}"
    path = f"/api/v1/namespaces/{TICK_NAMESPACE}/configmaps/{name}"
    due = loop.time() + interval * number / TICK_COUNT
    while True:
        await asyncio.sleep(max(0.0, due - loop.time()))
        due = max(due + interval, loop.time())
        async with session.put(path, data=ticks.body(name), headers=_JSON) as response:
            await response.read()
            response.raise_for_status()
        ticks.count += 1
