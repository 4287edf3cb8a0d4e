"""Runs a soak: rounds of writes and mixed load, each followed by a quiet moment."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any
from unittest import mock

from tests.chaos.soak.drawing import Panel, draw
from tests.chaos.soak.flatness import WARM_UP, Verdict
from tests.chaos.soak.load import Load
from tests.chaos.soak.sampling import Sampler, Series
from tests.chaos.soak.soaking_service import FIGURES, SPEED
from tests.chaos.storm.bodies import BodyRecorder
from tests.chaos.storm.judge import Judge
from tests.chaos.storm.running import subscribers_of
from tests.chaos.storm.schedule import Round, rounds
from tests.chaos.storm.stage import HastyService, Stage, staged
from tests.chaos.storm.tally import Harm, Tally
from tests.chaos.storm.writers import Writers

__all__ = ["Outcome", "Plan", "run"]

_DAY_SECONDS = 86400
# A watch of sixty seconds is cut by up to a quarter, so that not all end at once.
_USUAL_WATCH_SECONDS = 52.5
_WRITE_SECONDS = 0.08
_ENDLESS = 1 << 40
_STILL = 500
_FIGURES_LIMIT_SECONDS = 20.0
# The history and what is kept of ends are full, as after days, before the judged part begins.
_SETTINGS: dict[str, Any] = {
    "watch_timeout_seconds": 5,
    "history_changes": 1500,
    "history_ends": 200,
    "longest_backoff_seconds": 4,
    "drain_seconds": 1,
    "log_level": "warning",
}


class SoakingService(HastyService):
    """The service with days in an hour, and its usual waits."""

    module = "tests.chaos.soak.soaking_service"

    def __init__(self, kubeconfigs: list[str], log: Path, **_: object) -> None:
        super().__init__(kubeconfigs, log, **_SETTINGS)
        self.figures = log.with_name("figures.json")

    def start(self) -> None:
        """Start it and wait until it serves."""
        with mock.patch.dict(os.environ, {FIGURES: str(self.figures)}):
            super().start()


@dataclass(frozen=True)
class Plan:
    """Which soak: how long, how often a sample is taken, and how often the API server restarts."""

    seconds: float
    seed: int
    every_seconds: float = 5.0
    writes_per_round: int = 250
    server_restarts: int = 4


@dataclass
class Outcome:
    """What came of it."""

    sampler: Sampler
    tally: Tally
    load: Load
    writers: Writers
    elapsed_seconds: float = 0.0
    #: When the API server was restarted, by the time of the samples.
    restarts: list[float] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every stream was right, and nothing failed that may not."""
        return self.tally.is_clean

    @property
    def grown(self) -> list[Series]:
        """What is not flat."""
        return [each for each, found in self.sampler.verdicts().items() if not found.is_flat]

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        tokens = self.elapsed_seconds * SPEED / _DAY_SECONDS
        counts, informers = self.sampler.counts, mean(self.sampler.informers)
        watches = counts["watches"] * _USUAL_WATCH_SECONDS / informers / _DAY_SECONDS
        yield (
            f"{self.elapsed_seconds:.0f} s: {tokens:.1f} days of tokens ({counts['rotations']:.0f} "
            f"renewed), {watches:.1f} days of watches ({counts['watches']:.0f} opened again, of "
            f"{informers:.0f} informers); "
            f"{len(self.restarts)} restarts of the API server, {counts['relists']:.0f} relists"
        )
        yield (
            f"{self.writers.written} writes, {counts['events']:.0f} events sent over "
            f"{counts['streams']:.0f} streams, {counts['reads']:.0f} reads, "
            f"{counts['registrations']:.0f} registrations, {counts['deregistrations']:.0f} "
            f"extensions freed"
        )
        yield "load: " + ", ".join(f"{what} {n}" for what, n in sorted(self.load.done.items()))
        tally = self.tally
        yield (
            f"events checked {tally.events_checked} (and {tally.events_unfinished} of streams that "
            f"went before a comparison), quiet moments {tally.quiet_moments}, objects compared "
            f"there {tally.objects_compared}"
        )
        yield ", ".join(f"{harm.value} {tally.harms[harm]}" for harm in Harm)
        yield from self._table()

    def _table(self) -> Iterator[str]:
        samples = len(self.sampler.seconds)
        yield f"{samples} samples; growth over the last {1 - WARM_UP:.0%} of the time:"
        yield f"  {'':26} {'level':>10} {'growth':>10} {'noise':>8} {'bound':>8}"
        for series, found in self.sampler.verdicts().items():
            title = f"{series.title}, {series.unit}"
            yield (
                f"  {title:36.36} {found.level:10.1f} {found.growth:+10.2f} {found.noise:8.2f} "
                f"{found.bound:8.2f}  {'flat' if found.is_flat else 'GROWS'}"
            )

    def plot(self) -> str:
        """Return the samples as an SVG."""
        panels = [
            Panel(series.title, _remark(found), series.unit, self.sampler.values[series.name])
            for series, found in self.sampler.verdicts().items()
        ]
        first, last = self.sampler.seconds[0], self.sampler.seconds[-1]
        return draw(
            f"A soak of {self.elapsed_seconds / 60:.0f} minutes",
            panels,
            [at / 60 for at in self.sampler.seconds],
            judged_from=(first + (last - first) * WARM_UP) / 60,
            marks=[at / 60 for at in self.restarts],
        )


def _remark(found: Verdict) -> str:
    return f"growth {found.growth:+.2g}, bound {found.bound:.2g}"


async def run(plan: Plan, folder: Path, say: Callable[[str], None]) -> Outcome:
    """Run a soak, with its files in `folder`."""
    tally, recorder = Tally(), BodyRecorder()
    with mock.patch("watchcache.extension.Watch", recorder.watch_type):
        async with staged(folder, tally.strike, SoakingService) as stage:
            await stage.fill(_STILL)
            subscribers = subscribers_of(stage)
            writers = Writers(stage.api)
            judge = Judge(stage, subscribers, recorder, writers, tally)
            load = Load(stage, plan.seed)
            outcome = Outcome(await _sampler(stage, plan), tally, load, writers)
            async with asyncio.TaskGroup() as group:
                lives = [group.create_task(each.run()) for each in subscribers]
                await judge.judge()
                lives.append(group.create_task(outcome.sampler.run()))
                await _soak(plan, stage, judge, outcome, say)
                for life in lives:
                    life.cancel()
    faults = outcome.sampler.counts["faults"]
    if faults:
        tally.blame(Harm.FAULTY, f"the service counts {faults:.0f} faults of its own")
    return outcome


async def _sampler(stage: Stage, plan: Plan) -> Sampler:
    service = stage.service
    assert isinstance(service, SoakingService)
    async with asyncio.timeout(_FIGURES_LIMIT_SECONDS):
        while not service.figures.exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)
    url = f"http://127.0.0.1:{service.http_port}/metrics"
    return Sampler(service.pid, url, service.figures, plan.every_seconds)


async def _soak(
    plan: Plan, stage: Stage, judge: Judge, outcome: Outcome, say: Callable[[str], None]
) -> None:
    began = time.monotonic()
    tally, told = outcome.tally, 0
    for todo in rounds(plan.seed, _ENDLESS, plan.writes_per_round):
        elapsed = time.monotonic() - began
        if elapsed >= plan.seconds:
            return
        due = int((plan.server_restarts + 1) * elapsed / plan.seconds)
        is_restarting = due > len(outcome.restarts)
        if is_restarting:
            outcome.restarts.append(elapsed)
        await _round(plan, todo, stage, outcome, is_restarting=is_restarting)
        await judge.judge()
        for failure in outcome.load.failures:
            tally.blame(Harm.STUCK, failure)
        outcome.load.failures.clear()
        for finding in tally.findings[told:]:
            say(finding)
        told = len(tally.findings)
        outcome.elapsed_seconds = time.monotonic() - began
        memory = outcome.sampler.values["memory"]
        say(
            f"{outcome.elapsed_seconds:6.0f} s: {tally.events_checked} events, "
            f"{outcome.load.done.total()} visits, "
            f"{memory[-1] if memory else 0:.0f} MiB, {tally.harms.total()} broken promises"
        )


async def _round(
    plan: Plan, todo: Round, stage: Stage, outcome: Outcome, *, is_restarting: bool
) -> None:
    """Put on the load of one round."""
    async with asyncio.TaskGroup() as group:
        group.create_task(outcome.writers.write(todo))
        group.create_task(outcome.load.run(plan.writes_per_round * _WRITE_SECONDS))
        if is_restarting:
            await asyncio.to_thread(stage.control_plane.restart)
