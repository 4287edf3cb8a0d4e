"""What a change costs the service when each subscriber has a label selector of its own.

Each change gives one of the small objects the label of the next subscriber in turn. So with 1, a
few or as many selectors as subscribers, the same number of events is delivered in the long run: one
that begins to match and one that ceases to, for each change. What differs is the matching, and how
much of it can be shared. Processor time is that of the whole service, over the changes written.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from bench.corpus import TICK_NAMESPACE
from bench.figures.plan import Plan
from bench.figures.slow import crowds
from bench.figures.ticking import ticking
from bench.report import Figure, Spread
from bench.service import service, watch_of

__all__ = ["measure", "selectors"]

_TICKS_A_SECOND: Final = 300
_FEW: Final = 8
# As many as a few, and what is noise.
_RATIO: Final = 1.2


async def measure(plan: Plan) -> list[Figure]:
    """Measure one, a few and all different selectors in turns, each with a fresh service."""
    cases = (1, _FEW, plan.subscriptions)
    costs: dict[int, list[float]] = {case: [] for case in cases}
    for number in range(plan.rounds):
        told = []
        for case in cases:
            cost, rate, read = await _cost(plan, case)
            costs[case].append(cost)
            told.append(f"{case}: {cost * 1e6:.0f} us ({rate:.0f} changes/s, {read} messages)")
        print(f"  selectors {number + 1}, of a core for each change, {'; '.join(told)}", flush=True)
    many, few = Spread.of(costs[plan.subscriptions]), Spread.of(costs[_FEW])
    return [
        Figure(
            name=f"a change with {plan.subscriptions} different selectors, against {_FEW}",
            value=many.middle * 1e6,
            unit="us",
            bound=few.middle * _RATIO * 1e6,
            peer=few.middle * 1e6,
            spread=Spread(many.least * 1e6, many.middle * 1e6, many.most * 1e6),
        )
    ]


def selectors(different: int, subscribers: int) -> list[str]:
    """Return the selectors, each of another subscriber's label, spread over all of them."""
    return [f"subscriber=s{number * subscribers // different}" for number in range(different)]


async def _cost(plan: Plan, different: int) -> tuple[float, float, int]:
    """Return seconds of a core for each change, changes a second, and messages delivered."""

    def labels_of(number: int) -> dict[str, str]:
        return {"subscriber": f"s{number % plan.subscriptions}"}

    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(service(plan.cluster))
        await served.register("ticks", watch_of("configmaps", [TICK_NAMESPACE]))
        chosen = selectors(different, plan.subscriptions)
        more = {"slow": 0, "stalled": 0, "sampled_every": 0}
        crowd = await crowds(stack, plan, served, plan.subscriptions, chosen, more)
        ticks = await stack.enter_async_context(ticking(plan.cluster, _TICKS_A_SECOND, labels_of))
        await asyncio.sleep(plan.settle_seconds)
        for each in crowd:
            each.tell("take")
            await each.hear()
        count, used = ticks.count, served.memory.cpu_seconds()
        await asyncio.sleep(plan.rest_seconds)
        changes = ticks.count - count
        seconds = served.memory.cpu_seconds() - used
        read = 0
        for each in crowd:
            each.tell("take")
            read += (await each.hear())["read"]
    return seconds / changes, changes / plan.rest_seconds, read
