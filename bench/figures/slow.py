"""What slow subscribers cost the others, the server and their own client.

Most subscribers read at once. Phases without others, and phases with some more that read one
message a second and some that read nothing, on the same connections, take turns. What counts is how
much later than a raw watch the fast ones have each change: what the API server takes, which is the
same in both, would hide a difference. Then the slow ones stay, and the memory of the server, and of
a process that consumes one message a second through the Python client, is read every second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from bench.corpus import TICK_NAMESPACE
from bench.figures.plan import Plan
from bench.figures.ticking import Ticks, ticking
from bench.process import Memory, Worker, worker
from bench.report import Figure, Spread, percentile, slope
from bench.service import Service, service, watch_of

__all__ = ["crowds", "measure"]

_TICKS_A_SECOND: Final = 300
# Of all subscribers, in thousandths.
_SLOW_SHARE: Final = 100
_STALLED_SHARE: Final = 20
_PROCESSES: Final = 2
_SAMPLED_EVERY: Final = 40
_ARRIVAL_SECONDS: Final = 0.5
_P99: Final = 0.99
_LATENCY_RATIO: Final = 1.2
_GROWTH_MB_A_MINUTE: Final = 0.5


async def measure(plan: Plan) -> list[Figure]:
    """Measure latencies in turns, then memory over time."""
    without: list[float] = []
    beside: list[float] = []
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(service(plan.cluster))
        await served.register("ticks", watch_of("configmaps", [TICK_NAMESPACE]))
        slow = plan.subscriptions * _SLOW_SHARE // 1000
        stalled = plan.subscriptions * _STALLED_SHARE // 1000
        fast = plan.subscriptions - slow - stalled
        more = {
            "slow": slow // _PROCESSES,
            "stalled": stalled // _PROCESSES,
            "sampled_every": _SAMPLED_EVERY,
        }
        crowd = await crowds(stack, plan, served, fast, [""], more)
        ticks = await stack.enter_async_context(ticking(plan.cluster, _TICKS_A_SECOND))
        await asyncio.sleep(plan.rest_seconds)
        for number in range(plan.rounds):
            told = f"  slow {number + 1}, p50/p99 ms after the raw watch (after the write)"
            for word, found in (("fast", without), ("slow", beside)):
                await _ask(crowd, word)
                taken, rate = await _phase(crowd, plan, ticks)
                found.append(percentile(taken["added"], _P99) * 1000)
                told += f"; {word} {_texts(taken)} at {rate:.0f} changes/s"
            print(told, flush=True)
        client = await stack.enter_async_context(
            worker("bench.slow_client", {"name": "ticks", **served.target})
        )
        await client.hear()
        memories = {"the server": served.memory, "the Python client": client.memory}
        growths = await _growths(plan, memories)
        taken = await _take(crowd)
        print(f"  the slow ones have read {taken['slow']} messages meanwhile", flush=True)
    peer, spread = Spread.of(without).middle, Spread.of(beside)
    return [
        Figure(
            name=f"p99 latency of {fast} subscribers beside {slow} slow and {stalled} stalled",
            value=spread.middle,
            unit="ms",
            bound=peer * _LATENCY_RATIO,
            peer=peer,
            spread=spread,
        ),
        *(
            Figure(
                name=f"growth of {name} in a minute of {plan.flat_seconds:.0f} s with slow readers",
                value=growth / 1e6,
                unit="MB",
                bound=_GROWTH_MB_A_MINUTE,
            )
            for name, growth in growths.items()
        ),
    ]


async def crowds(
    stack: AsyncExitStack,
    plan: Plan,
    served: Service,
    readers: int,
    selectors: Sequence[str],
    more: dict[str, Any],
) -> list[Worker]:
    """Start processes of subscribers and wait until they are synced."""
    watch = f"/api/v1/namespaces/{TICK_NAMESPACE}/configmaps?watch=true&timeoutSeconds=3600"
    found = []
    for number in range(_PROCESSES):
        task = {
            "name": "ticks",
            "readers": readers // _PROCESSES,
            "connections": max(1, plan.connections // _PROCESSES),
            "selectors": selectors[number::_PROCESSES] or selectors,
            "url": plan.cluster.url + watch,
            **plan.watch_task,
            **served.target,
            **more,
        }
        found.append(await stack.enter_async_context(worker("bench.crowd", task)))
    for each in found:
        await each.hear()
    return found


async def _ask(crowd: list[Worker], word: str) -> list[Any]:
    for each in crowd:
        each.tell(word)
    return [await each.hear() for each in crowd]


async def _take(crowd: list[Worker]) -> dict[str, Any]:
    """Return what all of them have seen since the last time."""
    total: dict[str, Any] = {}
    for answer in await _ask(crowd, "take"):
        for name, value in answer.items():
            total[name] = total[name] + value if name in total else value
    return total


async def _phase(crowd: list[Worker], plan: Plan, ticks: Ticks) -> tuple[dict[str, Any], float]:
    """Let what has changed settle, then measure; return what came, and the changes a second."""
    await asyncio.sleep(plan.settle_seconds)
    await _take(crowd)
    started, count = time.monotonic(), ticks.count
    await asyncio.sleep(plan.rest_seconds)
    rate = (ticks.count - count) / (time.monotonic() - started)
    await asyncio.sleep(_ARRIVAL_SECONDS)
    return await _take(crowd), rate


async def _growths(plan: Plan, memories: dict[str, Memory]) -> dict[str, float]:
    """Return by how many bytes a minute each process grows."""
    await asyncio.sleep(plan.warm_seconds)
    started = time.monotonic()
    times: list[float] = []
    sizes: dict[str, list[float]] = {name: [] for name in memories}
    while not times or times[-1] < plan.flat_seconds:
        await asyncio.sleep(1.0)
        times.append(time.monotonic() - started)
        for name, memory in memories.items():
            sizes[name].append(memory.now_bytes)
    for name, values in sizes.items():
        print(
            f"  memory of {name}: {values[0] / 1e6:.1f} MB, then {min(values) / 1e6:.1f} to "
            f"{max(values) / 1e6:.1f}, {values[-1] / 1e6:.1f} at last",
            flush=True,
        )
    return {name: slope(times, values) * 60 for name, values in sizes.items()}


def _texts(taken: dict[str, Any]) -> str:
    parts = []
    for name in ("added", "whole"):
        values = [percentile(taken[name], share) * 1000 for share in (0.5, _P99)]
        parts.append("/".join(f"{value:.1f}" for value in values))
    return f"{parts[0]} ({parts[1]})"
