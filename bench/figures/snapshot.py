"""How fast one subscriber that decodes nothing receives a snapshot of all pods, over TLS."""

from __future__ import annotations

from typing import Final

from bench.figures.plan import Plan
from bench.process import worker
from bench.report import Figure, Spread
from bench.service import service, watch_of

__all__ = ["measure"]

_MEGABYTES_A_SECOND: Final = 400
# One snapshot takes half a second, so each round reads a few.
_TIMES: Final = 3


async def measure(plan: Plan) -> list[Figure]:
    """Measure all rounds, each with a fresh subscriber; nothing of a snapshot is cached whole."""
    rates = []
    async with service(plan.cluster, has_tls=True) as served:
        await served.register("pods", watch_of("pods"))
        for number in range(plan.rounds):
            task = {"what": "snapshot", "name": "pods", "times": _TIMES, **served.target}
            used = served.memory.cpu_seconds()
            async with worker("bench.subscribers", task) as subscriber:
                reads = [await subscriber.hear() for _ in range(_TIMES)]
            used = (served.memory.cpu_seconds() - used) / _TIMES
            of_round = [read["bytes"] / 1e6 / read["seconds"] for read in reads]
            rates += of_round
            print(
                f"  snapshot {number + 1}: {', '.join(f'{rate:.0f}' for rate in of_round)} MB/s; "
                f"{reads[0]['bytes'] / 1e6:.0f} MB in {reads[0]['messages']} messages, for which "
                f"the service used {used:.2f} s of a core",
                flush=True,
            )
    spread = Spread.of(rates)
    return [
        Figure(
            name=f"snapshot of {plan.pod_count} pods over TLS, JSON",
            value=spread.middle,
            unit="MB/s",
            bound=_MEGABYTES_A_SECOND,
            is_least=True,
            spread=spread,
        )
    ]
