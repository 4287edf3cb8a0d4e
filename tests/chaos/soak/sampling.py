"""Samples of a service, every few seconds: what the kernel says, its metrics, and its own count."""

from __future__ import annotations

import asyncio
import csv
import json
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.chaos.soak.flatness import Verdict, judge
from tests.process_figures import descriptors_of, memory_of, sockets_of, threads_of

__all__ = ["SERIES", "Sampler", "Series"]

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Series:
    """One thing that is sampled: `floor` is how much it may move in any case, in its unit."""

    name: str
    title: str
    unit: str
    floor: float
    scale: float = 1.0


#: What has to be flat.
SERIES = (
    Series("memory", "Resident memory", "MiB", 4.0, _MIB),
    Series("objects", "Python objects", "thousands", 10.0, 1000.0),
    Series("tasks", "asyncio tasks", "tasks", 8.0),
    Series("descriptors", "Open descriptors", "descriptors", 6.0),
    Series("sockets", "Sockets", "sockets", 6.0),
    Series("threads", "Threads", "threads", 2.0),
    Series("cached", "Objects as stored", "KiB", 16.0, 1024.0),
    Series("history", "History", "KiB", 256.0, 1024.0),
    Series("batches", "Batches kept for sharing", "KiB", 256.0, 1024.0),
)
_METRICS = {
    "cached": 'watchcache_cached_bytes{.*form="stored"',
    "history": "watchcache_history_bytes",
    "batches": "watchcache_batch_cache_bytes",
}
#: What is counted beside them.
COUNTERS = {
    "rotations": "watchcache_token_rotations_total",
    "watches": "watchcache_watch_restarts_total",
    "relists": "watchcache_relists_total",
    "registrations": "watchcache_registrations_total",
    "deregistrations": "watchcache_extensions_ended_total",
    "events": "watchcache_events_sent_total",
    "streams": 'grpc_server_started_total{.*grpc_method="Watch"',
    "reads": 'grpc_server_started_total{.*grpc_method="(GetObject|ListObjects)"',
    "faults": "watchcache_(rpc|informer)_failures_total",
}


@dataclass
class Sampler:
    """Takes samples of one process, whose metrics are served and whose figures are in a file."""

    pid: int
    metrics_url: str
    figures: Path
    every_seconds: float
    seconds: list[float] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    informers: list[float] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=dict)

    async def run(self) -> None:
        """Sample until cancelled."""
        began = time.monotonic()
        async with aiohttp.ClientSession() as session:
            while True:
                await self._take(session, time.monotonic() - began)
                await asyncio.sleep(self.every_seconds)

    async def _take(self, session: aiohttp.ClientSession, at: float) -> None:
        async with session.get(self.metrics_url) as response:
            text = await response.text()
        told: Mapping[str, float] = json.loads(self.figures.read_text())
        sample = {
            "memory": memory_of(self.pid),
            "threads": threads_of(self.pid),
            "sockets": sockets_of(self.pid),
            "descriptors": descriptors_of(self.pid),
            **told,
            **{name: total(text, pattern) for name, pattern in _METRICS.items()},
        }
        self.counts = {name: total(text, pattern) for name, pattern in COUNTERS.items()}
        self.informers.append(total(text, "watchcache_informers{"))
        self.seconds.append(at)
        for series in SERIES:
            self.values[series.name].append(sample[series.name] / series.scale)

    def verdicts(self) -> dict[Series, Verdict]:
        """Judge every series. Raises ValueError where there are too few samples."""
        return {
            each: judge(self.seconds, self.values[each.name], floor=each.floor) for each in SERIES
        }

    def write(self, path: Path) -> None:
        """Write all samples as CSV, in the units of the series."""
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["seconds", *(f"{each.name} ({each.unit})" for each in SERIES)])
            for number, at in enumerate(self.seconds):
                row = (round(self.values[each.name][number], 3) for each in SERIES)
                writer.writerow([round(at, 1), *row])


def total(text: str, pattern: str) -> float:
    """Sum up the metrics whose name and labels begin with a pattern."""
    found = re.compile(pattern)
    lines = (line for line in text.splitlines() if found.match(line))
    return sum(float(line.rpartition(" ")[2]) for line in lines)
