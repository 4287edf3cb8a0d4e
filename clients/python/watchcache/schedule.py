"""Which key is next: pure, and generic over the keys. The clock enters as an argument.

The rules are those of the work queues that controllers know. A key waits at most once; a key that
is being worked on waits until that is finished, so no two workers ever have the same one; no wish
is lost: whatever asks for a key, a run of it begins after that.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["KeySchedule"]

K = TypeVar("K", bound=Hashable)


class KeySchedule(Generic[K]):
    """Keys that wait, keys that wait for a time, and keys that are worked on."""

    def __init__(self) -> None:
        self._ready: deque[K] = deque()
        self._wanted: set[K] = set()
        self._running: dict[K, int] = {}
        self._due: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        """Return how many keys wait, now or for a time; those that are worked on do not count."""
        return len(self._wanted | self._due.keys())

    def add(self, key: K) -> None:
        """Ask for a run of `key` as soon as its turn comes."""
        if key not in self._wanted:
            self._wanted.add(key)
            if key not in self._running:
                self._ready.append(key)

    def add_at(self, key: K, due: float) -> None:
        """Ask for a run of `key` at a time. The earliest time that is asked for counts."""
        known = self._due.get(key)
        if known is None or due < known:
            self._due[key] = due
            self._count += 1
            heapq.heappush(self._timers, (due, self._count, key))

    def take(self, now: float) -> tuple[K, int] | None:
        """Hand out the key that waits longest, with the number of the run; None when none waits."""
        while self._timers and self._timers[0][0] <= now:
            due, _, key = heapq.heappop(self._timers)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        if not self._ready:
            return None
        key = self._ready.popleft()
        self._wanted.discard(key)
        self._count += 1
        self._running[key] = self._count
        return key, self._count

    def finish(self, key: K) -> None:
        """End the run of `key`; it waits again if it was asked for meanwhile."""
        del self._running[key]
        if key in self._wanted:
            self._ready.append(key)

    def is_running(self, key: K, run: int | None = None) -> bool:
        """Say whether `key` is worked on, in this very run if one is named."""
        running = self._running.get(key)
        return running is not None and run in (None, running)

    def next_due(self) -> float | None:
        """Return the earliest time that is waited for."""
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None
