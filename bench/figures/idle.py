"""What the service holds for those who do nothing: idle subscriptions, and informers after a sync.

Both are the growth of the whole process over the number that it grew for, beside some that were
there before, so that what is made once is not counted.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bench.corpus import FILLER_NAMESPACE, TICK_NAMESPACE
from bench.figures.plan import Plan
from bench.process import worker
from bench.report import Figure, Spread
from bench.service import Service, service, watch_of

__all__ = ["measure_informers", "measure_subscriptions"]

_SUBSCRIPTION_BYTES: Final = 30_000
_INFORMER_BYTES: Final = 110_000
_WARM_UP: Final = 10
# So many Registers wait at once; the service syncs fewer at a time.
_PARALLEL: Final = 16


async def measure_subscriptions(plan: Plan) -> list[Figure]:
    """Measure idle streams of one small extension, over few connections."""
    sizes = []
    for number in range(plan.rounds):
        async with service(plan.cluster) as served:
            await served.register("ticks", watch_of("configmaps", [TICK_NAMESPACE]))
            task = {"what": "idle", "name": "ticks", **served.target}
            few = {"connections": 1, "streams": _WARM_UP}
            many = {"connections": plan.connections, "streams": plan.subscriptions}
            async with worker("bench.subscribers", task | few) as first:
                await first.hear()
                await asyncio.sleep(plan.settle_seconds)
                before = served.memory.now_bytes
                async with worker("bench.subscribers", task | many) as second:
                    await second.hear()
                    await asyncio.sleep(plan.settle_seconds)
                    sizes.append((served.memory.now_bytes - before) / plan.subscriptions)
        print(f"  subscriptions {number + 1}: {sizes[-1] / 1000:.1f} KB each", flush=True)
    name = f"an idle subscription ({plan.subscriptions} on {plan.connections} connections)"
    return [_figure(name, sizes, _SUBSCRIPTION_BYTES)]


async def measure_informers(plan: Plan) -> list[Figure]:
    """Measure informers, each of an extension of its own, that have read 5.7 MB and hold little."""
    sizes = []
    for number in range(plan.rounds):
        async with service(plan.cluster) as served:
            await _register(served, range(_WARM_UP))
            await asyncio.sleep(plan.settle_seconds)
            before = served.memory.now_bytes
            await _register(served, range(_WARM_UP, _WARM_UP + plan.informers))
            await asyncio.sleep(plan.settle_seconds)
            sizes.append((served.memory.now_bytes - before) / plan.informers)
        print(f"  informers {number + 1}: {sizes[-1] / 1000:.1f} KB each", flush=True)
    return [
        _figure(f"an idle informer after its sync (of {plan.informers})", sizes, _INFORMER_BYTES)
    ]


async def _register(served: Service, numbers: range) -> None:
    places = asyncio.Semaphore(_PARALLEL)

    async def register(number: int) -> None:
        async with places:
            await served.register(f"filler-{number}", watch_of("configmaps", [FILLER_NAMESPACE]))

    async with asyncio.TaskGroup() as group:
        for number in numbers:
            group.create_task(register(number))


def _figure(name: str, sizes: list[float], bound_bytes: int) -> Figure:
    spread = Spread.of([size / 1000 for size in sizes])
    return Figure(
        name=name, value=spread.middle, unit="KB", bound=bound_bytes / 1000, spread=spread
    )
