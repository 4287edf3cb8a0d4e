"""How many bytes a subscriber of unchanged pods needs to go on after a restart of the service.

One subscriber reads a snapshot; then the service is replaced by a fresh one, which syncs; then the
subscriber goes on, by its token or by an upload of what it holds. All of it goes through a relay
that counts the bytes of TCP in both directions, connection and protocol included. Time is that
from opening the connection to Synced; the sync of the fresh service comes before it.
"""

from __future__ import annotations

from typing import Any, Final

from bench.figures.plan import Plan
from bench.metering import Meter
from bench.process import Worker, worker
from bench.report import Figure, Spread
from bench.service import service, watch_of

__all__ = ["measure"]

_SHARE: Final = 0.01
_MODES: Final = {
    "snapshot": "START_MODE_SNAPSHOT",
    "token": "START_MODE_RESUMED",
    "known": "START_MODE_DIFFERENCE",
}
_NAMES: Final = {"token": "by its token", "known": "by an upload of what it holds"}


async def measure(plan: Plan) -> list[Figure]:
    """Measure all rounds: a snapshot, and after a restart each, both ways to go on."""
    sizes: dict[str, list[float]] = {way: [] for way in _MODES}
    async with Meter("") as meter:
        task = {"name": "pods", "address": meter.address, "ca_file": "", "namespace": "bench"}
        async with worker("bench.holder", task) as holder:
            for number in range(plan.rounds):
                told = []
                for way, found in sizes.items():
                    read, sent, received = await _after_restart(plan, meter, holder, way)
                    found.append(sent + received)
                    told.append(
                        f"{way} {sent / 1e6:.3f} MB up, {received / 1e6:.3f} MB down, "
                        f"{read['seconds']:.2f} s"
                    )
                print(f"  resume {number + 1}: {'; '.join(told)}", flush=True)
    snapshot = Spread.of(sizes["snapshot"]).middle / 1e6
    figures = []
    for way, name in _NAMES.items():
        spread = Spread.of([size / 1e6 for size in sizes[way]])
        figures.append(
            Figure(
                name=f"bytes to go on after a restart with {plan.pod_count} pods, {name}",
                value=spread.middle,
                unit="MB",
                bound=snapshot * _SHARE,
                peer=snapshot,
                spread=spread,
            )
        )
    return figures


async def _after_restart(
    plan: Plan, meter: Meter, holder: Worker, way: str
) -> tuple[dict[str, Any], int, int]:
    """Have a fresh service sync, and the subscriber go on; return what it says, and the bytes."""
    async with service(plan.cluster) as served:
        await served.register("pods", watch_of("pods"))
        meter.target = served.target["address"]
        meter.take()
        holder.tell(way)
        read: dict[str, Any] = await holder.hear()
        sent, received = meter.take()
    expected = plan.pod_count if way == "snapshot" else 0
    found = (read["mode"], read["events"], read["held"])
    if found != (_MODES[way], expected, plan.pod_count):
        raise ValueError(f"{way} gave {found} for {plan.pod_count} pods; is the cluster in use?")
    return read, sent, received
