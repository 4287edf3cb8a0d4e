"""How fast one subscriber that decodes nothing receives a snapshot of all pods, over TLS."""

from __future__ import annotations

from typing import Final

from bench.figures.plan import Plan
from bench.process import worker
from bench.report import Figure, Spread
from bench.service import service, watch_of

__all__ = ["measure"]

_MEGABYTES_A_SECOND: Final = 400


async def measure(plan: Plan) -> list[Figure]:
    """Measure all rounds, each with a fresh subscriber; nothing of a snapshot is cached whole."""
    rates = []
    async with service(plan.cluster, has_tls=True) as served:
        await served.register("pods", watch_of("pods"))
        for number in range(plan.rounds):
            task = {"what": "snapshot", "name": "pods", **served.target}
            used = served.memory.cpu_seconds()
            async with worker("bench.subscribers", task) as subscriber:
                read = await subscriber.hear()
            used = served.memory.cpu_seconds() - used
            rates.append(read["bytes"] / 1e6 / read["seconds"])
            print(
                f"  snapshot {number + 1}: {rates[-1]:.0f} MB/s; {read['bytes'] / 1e6:.0f} MB in "
                f"{read['messages']} messages; the service used {used:.2f} s of a core",
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
