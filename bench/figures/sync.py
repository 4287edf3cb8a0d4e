"""The time until all pods are synced, and the memory that they take.

In each round a plain reader downloads the same WatchList with the same token first; then a fresh
service syncs. Time is that of the caller: from Register, which has to get a token, to discover the
resource and to connect, to its answer that the extension is LIVE. Memory is how much the process
has grown, whatever it has grown for, and its peak is that of the system's own count.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from bench.figures.plan import Plan
from bench.process import worker
from bench.report import Figure, Spread
from bench.service import service, watch_of

__all__ = ["WATCH_LIST", "measure"]

WATCH_LIST: Final = (
    "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
    "&resourceVersionMatch=NotOlderThan&timeoutSeconds=300"
)
# Longest ratio to the plain download, bytes for each pod, and peak over steady.
_TIME_RATIO: Final = 1.2
_POD_BYTES: Final = 2500
_PEAK_RATIO: Final = 1.4


class _Round(NamedTuple):
    raw_seconds: float
    seconds: float
    steady_bytes: int
    peak_bytes: int


async def measure(plan: Plan) -> list[Figure]:
    """Measure all rounds."""
    rounds = []
    for number in range(plan.rounds):
        each = await _round(plan)
        rounds.append(each)
        print(
            f"  sync {number + 1}: {each.seconds:.2f} s, raw {each.raw_seconds:.2f} s; "
            f"{each.steady_bytes / 1e6:.1f} MB, peak {each.peak_bytes / 1e6:.1f} MB",
            flush=True,
        )
    seconds = Spread.of([each.seconds for each in rounds])
    raw_seconds = Spread.of([each.raw_seconds for each in rounds])
    steady = Spread.of([each.steady_bytes for each in rounds])
    per_pod = Spread.of([each.steady_bytes / plan.pod_count for each in rounds])
    peak = Spread.of([each.peak_bytes for each in rounds])
    return [
        Figure(
            name=f"time to synced, {plan.pod_count} pods by WatchList",
            value=seconds.middle,
            unit="s",
            bound=_TIME_RATIO * raw_seconds.middle,
            peer=raw_seconds.middle,
            spread=seconds,
        ),
        Figure(
            name="resident memory for each pod",
            value=per_pod.middle,
            unit="bytes",
            bound=_POD_BYTES,
            spread=per_pod,
        ),
        Figure(
            name="peak of that memory",
            value=peak.middle / 1e6,
            unit="MB",
            bound=_PEAK_RATIO * steady.middle / 1e6,
            peer=steady.middle / 1e6,
            spread=Spread(peak.least / 1e6, peak.middle / 1e6, peak.most / 1e6),
        ),
    ]


async def _round(plan: Plan) -> _Round:
    task = {
        "url": f"{plan.cluster.url}/api/v1/pods{WATCH_LIST}",
        "ca_file": str(plan.cluster.ca_file),
        "token": plan.token,
    }
    async with worker("bench.raw_reader", task) as reader:
        raw = await reader.hear()
    # The bookmark is a line too.
    if raw["lines"] != plan.pod_count + 1:
        raise ValueError(f"{raw['lines']} lines for {plan.pod_count} pods; is the cluster in use?")
    async with service(plan.cluster) as served:
        memory = served.memory
        before = memory.now_bytes
        memory.forget_peak()
        seconds = await served.register("pods", watch_of("pods"))
        await asyncio.sleep(plan.settle_seconds)
        source = await served.source("pods")
        if source.object_count != plan.pod_count:
            raise ValueError(f"{source.object_count} objects for {plan.pod_count} pods")
        steady, peak = memory.now_bytes - before, memory.peak_bytes - before
    return _Round(raw["seconds"], seconds, steady, peak)
