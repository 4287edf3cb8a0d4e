"""A small storm in each run of the tests; and a storm finds a service that loses what it is told.

`make chaos FAULTS=10000` is the same in large.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.storm.running import Plan, run
from tests.chaos.storm.schedule import FaultKind
from tests.chaos.storm.stage import HastyService
from tests.chaos.storm.tally import Harm, Tally

pytestmark = pytest.mark.controlplane

_FAULTS = 60
_GRAVE = frozenset({FaultKind.SERVICE_KILL, FaultKind.SERVICE_RESTART, FaultKind.SERVER_KILL})


class LossyService(HastyService):
    module = "tests.chaos.storm.lossy_service"


@pytest.fixture(autouse=True)
def quiet_clients() -> Iterator[None]:
    """Let the clients not tell of every cut."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def told(tally: Tally) -> str:
    """Return the whole account."""
    return "\n".join((*tally.findings, *tally.lines()))


@pytest.mark.timeout(300)
async def test_a_storm_loses_doubles_and_misorders_nothing(
    chance: random.Random, tmp_path: Path
) -> None:
    """Through faults of every kind nothing is lost, doubled, misordered or untrue, all recovers.

    Each kind of fault happens at least once, and most of those drawn strike something.
    """
    plan = Plan(seed=chance.randrange(1 << 32), faults=_FAULTS, faults_per_round=_FAULTS)
    tally = await run(plan, tmp_path, lambda _: None)
    assert tally.is_clean, told(tally)
    assert tally.drawn.total() == _FAULTS
    assert all(tally.drawn[kind] for kind in FaultKind)
    assert sum(map(tally.struck, FaultKind)) > _FAULTS / 2, told(tally)
    assert tally.events_checked > 100
    assert tally.objects_compared > 20
    assert tally.bodies_compared > 100
    assert tally.quiet_moments == 2


@pytest.mark.timeout(300)
async def test_a_storm_finds_a_service_that_passes_over_events(tmp_path: Path) -> None:
    """A service that passes over one event in five is caught, and the loss is called a loss."""
    plan = Plan(seed=1, faults=10, faults_per_round=10, without=_GRAVE)
    # What is wrong stays wrong: the judge waits for it in vain.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.chaos.storm.judge._LIMIT_SECONDS", 5.0)
        tally = await run(plan, tmp_path, lambda _: None, service_type=LossyService)
    assert tally.harms[Harm.LOST], told(tally)
