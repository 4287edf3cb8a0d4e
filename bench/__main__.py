"""`python -m bench`: measures the figures, prints them, writes bench/results.json.

Exits 1 when a bound is not met. With `--quick` everything is small: that shows that the benchmark
works, nothing is judged, and nothing is written unless asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from bench.cluster import Cluster, held
from bench.figures import MEASUREMENTS, Plan
from bench.report import Figure, as_json, print_table

_PODS: Final = 20_000
_QUICK_PODS: Final = 600
_QUICK: Final[dict[str, Any]] = {
    "rounds": 1,
    "rest_seconds": 1.0,
    "settle_seconds": 1.0,
    "warm_seconds": 2.0,
    "flat_seconds": 6.0,
    "subscriptions": 100,
    "connections": 4,
    "informers": 10,
    "storm_streams": 200,
    "storm_connections": 2,
}
_RESULTS: Final = Path(__file__).parent / "results.json"


def _arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few of everything, to try it")
    parser.add_argument(
        "--only",
        action="append",
        choices=sorted(MEASUREMENTS),
        help="measure this only; may be given several times",
    )
    parser.add_argument("--pods", type=int, help=f"how many pods; {_PODS} without")
    parser.add_argument("--rounds", type=int, help="how many rounds of each")
    parser.add_argument(
        "--flat-seconds", type=float, help="how long memory is watched beside slow readers"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, help="measure against what `python -m bench.cluster` holds"
    )
    parser.add_argument("--output", type=Path, help=f"where to write; {_RESULTS.name} without")
    return parser.parse_args(words)


@asynccontextmanager
async def _cluster(arguments: argparse.Namespace) -> AsyncIterator[Cluster]:
    if arguments.kubeconfig is not None:
        yield Cluster.of(arguments.kubeconfig)
        return
    pods = arguments.pods or (_QUICK_PODS if arguments.quick else _PODS)
    print(f"starting etcd and kube-apiserver, creating {pods} pods", flush=True)
    async with held(pods) as cluster:
        yield cluster


async def _measure(arguments: argparse.Namespace) -> tuple[list[Figure], str]:
    figures = []
    async with _cluster(arguments) as cluster:
        plan = Plan(
            cluster=cluster,
            pod_count=await cluster.pod_count(),
            token=await cluster.reader_token(),
            **(_QUICK if arguments.quick else {}),
        )
        if arguments.rounds:
            plan = dataclasses.replace(plan, rounds=arguments.rounds)
        if arguments.flat_seconds:
            plan = dataclasses.replace(plan, flat_seconds=arguments.flat_seconds)
        for name, measure in MEASUREMENTS.items():
            if not arguments.only or name in arguments.only:
                started = time.monotonic()
                print(name, flush=True)
                figures += await measure(plan)
                print(f"  in {time.monotonic() - started:.0f} s", flush=True)
        return figures, await cluster.version()


def main(words: list[str] | None = None) -> int:
    """Measure; return the exit code."""
    arguments = _arguments(words)
    figures, kubernetes = asyncio.run(_measure(arguments))
    print_table(figures)
    is_partial = arguments.quick or arguments.only or arguments.pods or arguments.flat_seconds
    output = arguments.output or (None if is_partial else _RESULTS)
    if output is not None:
        output.write_text(as_json(figures, kubernetes), encoding="utf-8")
        print(f"written: {output}")
    return 0 if arguments.quick or all(figure.is_met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
