"""Tells, in the demo, of watches on the dev cluster that break and of how they go on.

A watch that breaks and goes on where it stood is no news to a client: no state changes and nothing
is sent twice. So this looks at what the service counts on its metrics page, and at the watches that
run on the dev cluster. It only looks; it leaves it to the console what its lines look like.
"""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from watchcache_devcluster import FaultSet

__all__ = ["Breaks"]

_LOOK_SECONDS: Final = 0.2
_LIMIT_SECONDS: Final = 5.0
_FAILED: Final = "watchcache_informer_requests_failed"
_RELISTS: Final = "watchcache_relists"
# A missing right is a state of its informer, which the story shows; asking again is no break.
_STATES: Final = frozenset({"verbs_missing", "forbidden"})


class _Counts(NamedTuple):
    failed: Counter[str]
    relists: float


class Breaks:
    """Looks for breaks until it is cancelled; says what broke, and when all of it goes on."""

    def __init__(
        self,
        page: str,
        faults: FaultSet,
        *,
        on_break: Callable[[Counter[str]], None],
        on_resumed: Callable[[float, bool], None],
    ) -> None:
        self._page = page
        self._faults = faults
        self._on_break = on_break
        self._on_resumed = on_resumed

    async def follow(self) -> None:
        """Call `on_break(how many by reason)`, later `on_resumed(seconds, read anew)`; go on."""
        before = await self._count()
        earlier, running = set[str](), self._running()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = await self._count()
            broken = now.failed - before.failed
            if broken:
                # A watch that had just ended may not have been counted yet at the last look.
                await self._tell(broken, before.relists, earlier | running)
                now = await self._count()
            earlier, running, before = running, self._running(), now

    async def _tell(self, broken: Counter[str], relists: float, running: set[str]) -> None:
        began = time.perf_counter()
        self._on_break(broken)
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if running <= self._running():
                now = await self._count()
                self._on_resumed(time.perf_counter() - began, now.relists > relists)
                return

    def _running(self) -> set[str]:
        return {info.path for info in self._faults.running()}

    async def _count(self) -> _Counts:
        page = await asyncio.to_thread(self._read)
        failed: Counter[str] = Counter()
        relists = 0.0
        for family in text_string_to_metric_families(page):
            if family.name == _FAILED:
                for sample in family.samples:
                    if sample.labels.get("reason", "") not in _STATES:
                        failed[sample.labels.get("reason", "")] = int(sample.value)
            elif family.name == _RELISTS:
                relists = sum(sample.value for sample in family.samples)
        return _Counts(failed, relists)

    def _read(self) -> str:
        with urllib.request.urlopen(self._page, timeout=_LIMIT_SECONDS) as answer:  # noqa: S310
            return str(answer.read().decode())
