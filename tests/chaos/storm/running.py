"""Runs a storm: round after round of faults and writes, each followed by a quiet moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from tests.chaos.storm.bodies import BodyRecorder
from tests.chaos.storm.judge import Judge
from tests.chaos.storm.meter import Account
from tests.chaos.storm.schedule import NAMESPACES, FaultKind, Round, restarting, rounds
from tests.chaos.storm.stage import HastyService, Stage, staged
from tests.chaos.storm.subscribers import Follower, MirrorKeeper, Subscriber
from tests.chaos.storm.tally import Harm, Tally
from tests.chaos.storm.troublemaker import Troublemaker
from tests.chaos.storm.writers import Writers

__all__ = ["FAULTS_PER_ROUND", "Lasting", "Plan", "run", "subscribers_of"]

#: A quiet moment comes after so many.
FAULTS_PER_ROUND = 200

_ALL, _GOLD = f"{NAMESPACES[0]}/storm", f"{NAMESPACES[0]}/gold"


@dataclass(frozen=True)
class Lasting:
    """A storm by time: so many restarts of the service, spread over it, and what a mirror costs.

    `still` objects are there that nobody changes: a mirror must not be sent them again.
    """

    seconds: float
    restarts: int
    still: int

    def due(self, elapsed_seconds: float) -> int:
        """Return how many restarts should have been made by now, this one included."""
        return min(self.restarts, int(self.restarts * elapsed_seconds / self.seconds) + 1)


@dataclass(frozen=True)
class Plan:
    """Which storm: `only_rounds` leaves out the others, `without` leaves out kinds of faults.

    One that is `lasting` ends with its time, however many faults that makes.
    """

    seed: int
    faults: int
    faults_per_round: int = FAULTS_PER_ROUND
    only_rounds: range | None = None
    without: frozenset[FaultKind] = frozenset()
    stops_at_once: bool = False
    lasting: Lasting | None = None

    def rounds(self) -> Iterator[Round]:
        """Yield the rounds that are to be run."""
        for each in rounds(self.seed, self.faults, self.faults_per_round):
            if self.only_rounds is None or each.number in self.only_rounds:
                kept = tuple(fault for fault in each.faults if fault.kind not in self.without)
                yield Round(each.number, kept, each.writes, each.is_mild)

    def timed_rounds(self, lasting: Lasting) -> Iterator[Round]:
        """Yield rounds until the time is over and all restarts are made."""
        began, made = time.monotonic(), 0
        for each in self.rounds():
            elapsed = time.monotonic() - began
            if elapsed >= lasting.seconds and made >= lasting.restarts:
                return
            # A restart is a reason to pass a state over, which a mild round has none of.
            is_late = elapsed >= lasting.seconds
            count = 0 if each.is_mild and not is_late else lasting.due(elapsed) - made
            made += count
            yield restarting(each, self.seed, count)


async def run(
    plan: Plan,
    folder: Path,
    say: Callable[[str], None],
    tally: Tally | None = None,
    *,
    service_type: type[HastyService] = HastyService,
) -> Tally:
    """Run a storm, with its files in `folder`; return its account, which is kept in `tally`."""
    tally = tally or Tally()
    recorder = BodyRecorder()
    with mock.patch("watchcache.extension.Watch", recorder.watch_type):
        async with staged(folder, tally.strike, service_type) as stage:
            mortals, measured = subscribers_of(stage), []
            if plan.lasting is not None:
                await stage.fill(plan.lasting.still)
                measured = [
                    MirrorKeeper("the measured mirror", stage.meter.address, _ALL, stage.register)
                ]
            subscribers = [*mortals, *measured]
            async with asyncio.TaskGroup() as group:
                lives = [group.create_task(each.run()) for each in subscribers]
                writers = Writers(stage.api)
                trouble = Troublemaker(stage, mortals, tally.strike)
                judge = Judge(stage, subscribers, recorder, writers, tally)
                await judge.judge()
                await _storm(plan, stage, trouble, judge, writers, tally, say)
                for life in lives:
                    life.cancel()
    return tally


async def _storm(
    plan: Plan,
    stage: Stage,
    trouble: Troublemaker,
    judge: Judge,
    writers: Writers,
    tally: Tally,
    say: Callable[[str], None],
) -> None:
    """Have round after round happen, and judge each."""
    told = 0
    todos = plan.rounds() if plan.lasting is None else plan.timed_rounds(plan.lasting)
    for todo in todos:
        if todo.is_mild:
            await stage.remember()
            await judge.judge()
        began = time.monotonic()
        await _rage(todo, stage, trouble, writers, tally)
        raged = time.monotonic()
        await judge.judge()
        ended = time.monotonic()
        if plan.lasting is not None:
            tally.account = _account(stage, judge, writers)
        for finding in tally.findings[told:]:
            say(finding)
        told = len(tally.findings)
        say(
            f"round {todo.number}: {len(todo.faults)} faults in {raged - began:.1f} s, "
            f"equal after {ended - raged:.1f} s; {tally.drawn.total()} faults, "
            f"{tally.events_checked} events, {tally.states_demanded} states demanded, "
            f"{tally.harms.total()} broken promises"
        )
        if plan.stops_at_once and not tally.is_clean:
            break
    if tally.account is not None and not tally.account.is_within:
        tally.blame(Harm.COSTLY, " ".join(tally.account.lines()))
        say(tally.findings[-1])


def _account(stage: Stage, judge: Judge, writers: Writers) -> Account:
    return Account(
        received=stage.meter.bytes_back,
        sent=stage.meter.bytes_there,
        changes=writers.changes,
        change_bytes=writers.change_bytes,
        objects=judge.objects,
        snapshot_bytes=judge.content_bytes,
        restarts=stage.service.starts - 1,
    )


async def _rage(
    todo: Round, stage: Stage, trouble: Troublemaker, writers: Writers, tally: Tally
) -> None:
    """Have the faults and the writes of a round happen, and all faults be over."""
    tally.drawn.update(fault.kind for fault in todo.faults)
    async with asyncio.TaskGroup() as group:
        group.create_task(trouble.make(todo))
        group.create_task(writers.write(todo))
    stage.gateway.forget()


def subscribers_of(stage: Stage) -> Sequence[Subscriber]:
    """Return one subscriber of each sort, yet to be run."""
    address = stage.clients.address
    everything, golden = stage.register, stage.register_gold
    return [
        MirrorKeeper("the mirror", address, _ALL, everything),
        MirrorKeeper("the mirror of gold", address, _ALL, everything, label_selector="tier=gold"),
        MirrorKeeper("the mirror of a selecting informer", address, _GOLD, golden),
        Follower("the follower", address, _ALL, everything),
        Follower("the follower of keys", address, _ALL, everything, view="key"),
        Follower("the follower of a selecting informer", address, _GOLD, golden),
        Follower("the follower of silver", address, _ALL, everything, label_selector="tier=silver"),
    ]
