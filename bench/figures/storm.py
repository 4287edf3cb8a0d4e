"""Thousands of streams that are opened at one moment, and again after the service has restarted.

How long it takes until the last one is at the present, what the service holds at most and in the
end, and how much later than at rest a stream that was there before has its changes meanwhile: those
who come must not hold up those who are there.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from bench.corpus import CROWD_NAMESPACE, TICK_NAMESPACE
from bench.figures.plan import Plan
from bench.figures.ticking import ticking
from bench.process import Worker, worker
from bench.report import Figure, Spread, percentile
from bench.service import Service, service, watch_of

__all__ = ["measure"]

_TICKS_A_SECOND: Final = 80
_ARRIVAL_SECONDS: Final = 0.5
_LIMIT_SECONDS: Final = 120
_LATENCY_MS: Final = 500
_SYNCED_SECONDS: Final = 20
_KEPT_BYTES: Final = 80_000_000
# The service tidies up after a crowd within five seconds.
_TIDY_SECONDS: Final = 10.0


async def measure(plan: Plan) -> list[Figure]:
    """Measure on few connections and on many."""
    figures = []
    for connections in (plan.storm_connections, plan.storm_streams // 10):
        opened, again, latencies, kept = [], [], [], []
        for _ in range(plan.storm_rounds):
            told = await _round(plan, connections)
            opened.append(told["open"]["last"])
            again.append(told["again"]["last"])
            latencies.append(max(told["latency"]) * 1000)
            kept.append(float(told["kept"]))
        name = f"{plan.storm_streams} streams on {connections} connections"
        figures += [
            _figure(f"{name} opened at once: the last is synced", opened, "s", _SYNCED_SECONDS),
            _figure(f"{name} after a restart: the last is synced", again, "s", _SYNCED_SECONDS),
            _figure(f"{name}: worst latency of a stream beside", latencies, "ms", _LATENCY_MS),
            _figure(f"{name}: memory after they have gone", kept, "bytes", _KEPT_BYTES),
        ]
    return figures


def _figure(name: str, values: list[float], unit: str, bound: float) -> Figure:
    spread = Spread.of(values)
    return Figure(name=name, value=spread.middle, unit=unit, bound=bound, spread=spread)


async def _round(plan: Plan, connections: int) -> dict[str, Any]:
    settings = {
        "listen": f"127.0.0.1:{_free_port()}",
        "max-streams-per-connection": str(max(1000, plan.storm_streams // connections)),
    }
    told: dict[str, Any] = {}
    async with ticking(plan.cluster, _TICKS_A_SECOND), _serving(plan, settings) as served:
        task = {
            "name": "crowd",
            "streams": plan.storm_streams,
            "connections": connections,
            **served.target,
        }
        async with _probe(plan, served) as probe:
            before = served.memory.now_bytes
            await _take(probe)
            async with worker("bench.storm", task) as storm:
                told["open"] = await _whole(storm)
                told["latency"] = (await _take(probe))["added"]
                told["held"] = served.memory.now_bytes - before
                told["peak"] = served.memory.peak_bytes - before
                _print(told, "open", connections)
            await asyncio.sleep(_TIDY_SECONDS)
            told["kept"] = served.memory.now_bytes - before
            _print_memory(told)
        async with worker("bench.storm", task) as storm:
            await _whole(storm)
            await served.stop()
            async with _serving(plan, settings) as other, _probe(plan, other) as probe:
                await _take(probe)
                told["again"] = await _whole(storm)
                told["latency"] += (await _take(probe))["added"]
                _print(told, "again", connections)
    return told


@asynccontextmanager
async def _serving(plan: Plan, settings: dict[str, str]) -> AsyncIterator[Service]:
    async with service(plan.cluster, settings=settings) as served:
        await served.register("ticks", watch_of("configmaps", [TICK_NAMESPACE]))
        await served.register("crowd", watch_of("configmaps", [CROWD_NAMESPACE]))
        yield served


@asynccontextmanager
async def _probe(plan: Plan, served: Service) -> AsyncIterator[Worker]:
    watch = f"/api/v1/namespaces/{TICK_NAMESPACE}/configmaps?watch=true&timeoutSeconds=3600"
    task = {
        "what": "latency",
        "name": "ticks",
        "url": plan.cluster.url + watch,
        **plan.watch_task,
        **served.target,
    }
    async with worker("bench.subscribers", task) as probe:
        yield probe


async def _whole(storm: Worker) -> dict[str, Any]:
    storm.tell("whole")
    async with asyncio.timeout(_LIMIT_SECONDS):
        told: dict[str, Any] = await storm.hear()
    return told


async def _take(probe: Worker) -> dict[str, list[float]]:
    await asyncio.sleep(_ARRIVAL_SECONDS)
    probe.tell("take")
    taken: dict[str, list[float]] = await probe.hear()
    return taken


def _print(told: dict[str, Any], what: str, connections: int) -> None:
    came = told[what]
    values = [percentile(told["latency"], share) * 1000 for share in (0.5, 0.99, 1)]
    texts = "/".join(f"{value:.1f}" for value in values)
    print(
        f"  {what}, {connections} connections: synced after {came['first']:.2f}, "
        f"{came['median']:.2f} and {came['last']:.2f} s; ends {came['ends']}; "
        f"{came['resets']} resets; beside them p50/p99/max {texts} ms",
        flush=True,
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _print_memory(told: dict[str, Any]) -> None:
    sizes = ", ".join(f"{name} {told[name] / 1e6:.0f} MB" for name in ("peak", "held", "kept"))
    print(f"  memory: {sizes}", flush=True)
