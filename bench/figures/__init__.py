"""One module for each group of figures; `MEASUREMENTS` names them in the order of measuring."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from bench.figures import idle, latency, resume, selectors, slow, snapshot, storm, sync
from bench.figures.plan import Plan
from bench.report import Figure

__all__ = ["MEASUREMENTS", "Plan"]

MEASUREMENTS: Final[dict[str, Callable[[Plan], Awaitable[list[Figure]]]]] = {
    "sync": sync.measure,
    "latency": latency.measure,
    "snapshot": snapshot.measure,
    "subscriptions": idle.measure_subscriptions,
    "informers": idle.measure_informers,
    "resume": resume.measure,
    "selectors": selectors.measure,
    "slow": slow.measure,
    "storm": storm.measure,
}
