"""The schedule of the checks: which informer is compared with its API server, and when.

    checks = Checks(seconds=900, clock=clock, jitter=jitter, guarded=guarded)
    entry = checks.add(informer, access)
    entry.runner = runner                  # the task that can mend what is found
    checks.discard(entry)

One task serves all informers: an informer at rest costs an entry in a heap, and no task and no
timer. Each is checked once in an interval, spread by chance, a few at a time for each cluster. One
whose check costs its API server much is checked less often; one that was just listed anew because
of a check, soon, to see whether that has helped (`remedy`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from watchcache_server.extensions.observed import Observed
from watchcache_server.informer.remedy import Remedy
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.alarm import Alarm
from watchcache_server.kubernetes.checking import Checked, Follower, check
from watchcache_server.model.states import CheckOutcome, SourceState

__all__ = ["CheckEntry", "Checks", "Mender"]

# Checks under way at once against one cluster.
_PARALLEL: Final = 2
_COSTLY_FACTOR: Final = 4
_AFTER_RELIST_SECONDS: Final = 60.0
_MOST_DEAD: Final = 64

Guard = Callable[[Observed, Callable[[], Awaitable[None]]], Awaitable[None]]


class Mender(Follower, Protocol):
    """What is asked of an informer's task, and that it mends what it holds."""

    def distrust(self) -> None:
        """List anew."""
        ...


class CheckEntry:
    """An informer whose checks are due; without one once it was discarded."""

    __slots__ = ("access", "informer", "is_queued", "pause_seconds", "remedy", "runner")

    def __init__(self, informer: Observed, access: ApiAccess) -> None:
        self.informer: Observed | None = informer
        self.access = access
        #: The task of the informer, which may be started again.
        self.runner: Mender | None = None
        #: What was found and done before; None while nothing was.
        self.remedy: Remedy | None = None
        self.pause_seconds = 0.0
        self.is_queued = False


class _Lane:
    """The checks of one cluster."""

    __slots__ = ("running", "waiting")

    def __init__(self) -> None:
        self.running = 0
        self.waiting: deque[CheckEntry] = deque()


class Checks:
    """Checks informers; `run` is its task. With an interval of 0 seconds none is checked."""

    def __init__(
        self,
        *,
        seconds: float,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        guarded: Guard,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._jitter = jitter
        self._guarded = guarded
        # When it is due, a number that grows, and what is due.
        self._heap: list[tuple[float, int, CheckEntry]] = []
        self._serial = 0
        self._dead = 0
        self._lanes: dict[str, _Lane] = {}
        self._alarm = Alarm()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, informer: Observed, access: ApiAccess) -> CheckEntry:
        """Have an informer checked, for the first time within the interval to come."""
        entry = CheckEntry(informer, access)
        if self._seconds:
            entry.pause_seconds = self._seconds * (0.25 + 0.75 * self._jitter())
            self._put(entry)
        return entry

    def discard(self, entry: CheckEntry) -> None:
        """Check an informer no more, and let go of it."""
        entry.informer = entry.runner = entry.remedy = None
        del entry.access
        self._dead += entry.is_queued
        if self._dead > _MOST_DEAD and 2 * self._dead > len(self._heap):
            self._heap = [each for each in self._heap if each[2].informer is not None]
            heapq.heapify(self._heap)
            self._dead = 0

    async def run(self) -> None:
        """Check until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._begin(await self._next(), group)
        finally:
            self._alarm.cancel()

    def _begin(self, entry: CheckEntry, group: asyncio.TaskGroup) -> None:
        """Check what is due, or have it wait for those under way."""
        if entry.informer is None:
            self._dead -= 1
            return
        lane = self._lanes.setdefault(entry.informer.spec.cluster, _Lane())
        if lane.running < _PARALLEL:
            lane.running += 1
            group.create_task(self._work(lane, entry))
        else:
            lane.waiting.append(entry)

    def _put(self, entry: CheckEntry) -> None:
        self._serial += 1
        entry.is_queued = True
        heapq.heappush(self._heap, (self._clock() + entry.pause_seconds, self._serial, entry))
        if self._heap[0][2] is entry:
            self._alarm.set(entry.pause_seconds)

    async def _next(self) -> CheckEntry:
        """Wait until something is due, and take it."""
        while not self._heap or self._heap[0][0] > self._clock():
            if self._heap:
                self._alarm.set(self._heap[0][0] - self._clock())
            await self._alarm.wait()
        entry = heapq.heappop(self._heap)[2]
        entry.is_queued = False
        return entry

    async def _work(self, lane: _Lane, entry: CheckEntry) -> None:
        """Check one informer, and then those that wait."""
        try:
            await self._visit(entry)
            while lane.waiting:
                await self._visit(lane.waiting.popleft())
        finally:
            lane.running -= 1

    async def _visit(self, entry: CheckEntry) -> None:
        informer = entry.informer
        if informer is None:
            return
        entry.pause_seconds = self._seconds * (0.75 + 0.5 * self._jitter())
        if _is_due(informer):
            await self._guarded(informer, partial(_check, entry, informer))
        if entry.informer is not None:
            self._put(entry)


def _is_due(informer: Observed) -> bool:
    """Tell whether an informer can be held to what it holds."""
    source = informer.source
    return (
        informer.status.state is SourceState.LIVE
        and source.is_synced
        and not source.is_retiring
        and not informer.extension.store.predecessors(source)
    )


async def _check(entry: CheckEntry, informer: Observed) -> None:
    source, runner = informer.source, entry.runner
    assert runner is not None, "what is live is run by somebody"
    checked = await check(entry.access, source, runner)
    if entry.runner is not runner or informer.source is not source:
        # It ended meanwhile, or was started again.
        return
    if checked.is_costly:
        entry.pause_seconds *= _COSTLY_FACTOR
    is_mended = _mend(entry, checked, runner)
    informer.checked(checked, is_mended=is_mended)


def _mend(entry: CheckEntry, checked: Checked, runner: Mender) -> bool:
    """Have an informer that was proven wrong list anew, unless that is of no use; tell whether."""
    if checked.outcome is CheckOutcome.CONSISTENT:
        entry.remedy = None
    if checked.finding is None:
        return False
    entry.remedy = entry.remedy or Remedy()
    if not entry.remedy.is_due(checked.finding):
        return False
    runner.distrust()
    entry.pause_seconds = min(entry.pause_seconds, _AFTER_RELIST_SECONDS)
    return True
