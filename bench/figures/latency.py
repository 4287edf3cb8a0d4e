"""How much later than a raw watch a subscriber has each change: at rest, and during a large sync.

Small objects are changed 80 times a second, all told. One process watches them both ways, so that
what the API server and a busy machine do to both is left out, and what the service adds is left.
Phases at rest and phases in which another extension syncs all pods alternate, in one running
service.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bench.corpus import TICK_NAMESPACE
from bench.figures.plan import Plan
from bench.figures.ticking import ticking
from bench.process import Worker, worker
from bench.report import Figure, Spread, percentile
from bench.service import service, watch_of

__all__ = ["measure"]

_ABOVE_REST_MS: Final = 25
_TICKS_A_SECOND: Final = 80
# Long enough for what is under way to arrive.
_ARRIVAL_SECONDS: Final = 0.5
_P99: Final = 0.99


async def measure(plan: Plan) -> list[Figure]:
    """Measure all rounds; each has percentiles of its own."""
    rest: list[float] = []
    busy: list[float] = []
    async with service(plan.cluster) as served:
        await served.register("ticks", watch_of("configmaps", [TICK_NAMESPACE]))
        watch = f"/api/v1/namespaces/{TICK_NAMESPACE}/configmaps?watch=true&timeoutSeconds=3600"
        task = {
            "what": "latency",
            "name": "ticks",
            "url": plan.cluster.url + watch,
            **plan.watch_task,
            **served.target,
        }
        async with (
            worker("bench.subscribers", task) as probe,
            ticking(plan.cluster, _TICKS_A_SECOND),
        ):
            await asyncio.sleep(plan.rest_seconds)
            await _take(probe)
            for number in range(plan.rounds):
                await asyncio.sleep(plan.rest_seconds)
                at_rest = await _take(probe)
                seconds = await served.register("pods", watch_of("pods"))
                during = await _take(probe)
                await served.deregister("pods")
                await asyncio.sleep(min(1.0, plan.rest_seconds))
                await _take(probe)
                rest.append(percentile(at_rest["added"], _P99) * 1000)
                busy.append(percentile(during["added"], _P99) * 1000)
                print(
                    f"  latency {number + 1}, p50/p99/max in ms, added: {_texts(at_rest['added'])} "
                    f"at rest, {_texts(during['added'])} during {seconds:.1f} s of sync "
                    f"({len(during['added'])} changes); from write to arrival: "
                    f"{_texts(at_rest['whole'])} and {_texts(during['whole'])}",
                    flush=True,
                )
    spread, peer = Spread.of(busy), Spread.of(rest).middle
    return [
        Figure(
            name=f"latency added to an event, p99, while {plan.pod_count} pods sync",
            value=spread.middle,
            unit="ms",
            bound=peer + _ABOVE_REST_MS,
            peer=peer,
            spread=spread,
        )
    ]


async def _take(probe: Worker) -> dict[str, list[float]]:
    await asyncio.sleep(_ARRIVAL_SECONDS)
    probe.tell("take")
    taken: dict[str, list[float]] = await probe.hear()
    return taken


def _texts(seconds: list[float]) -> str:
    values = [percentile(seconds, share) * 1000 for share in (0.5, _P99, 1)]
    return "/".join(f"{value:.1f}" for value in values)
