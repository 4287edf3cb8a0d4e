"""A small storm in each run of the tests; and storms that find what is wrong with a service.

`make chaos FAULTS=10000` is the same in large.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.storm.defective_service import DEFECT
from tests.chaos.storm.running import Plan, run
from tests.chaos.storm.schedule import FaultKind
from tests.chaos.storm.stage import HastyService
from tests.chaos.storm.tally import Harm, Tally

pytestmark = pytest.mark.controlplane

_FAULTS = 60
_GRAVE = frozenset({FaultKind.SERVICE_KILL, FaultKind.SERVICE_RESTART, FaultKind.SERVER_KILL})


class DefectiveService(HastyService):
    module = "tests.chaos.storm.defective_service"


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
@pytest.mark.parametrize(
    ("defect", "harm"),
    [("loses", Harm.LOST), ("doubles", Harm.DOUBLED), ("lies", Harm.UNTRUE)],
)
async def test_a_storm_finds_a_defect_and_calls_it_what_it_is(
    defect: str, harm: Harm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that passes over an event in five, sends one twice or changes one is caught.

    In a storm this small the loss of a state may be covered by the next one; not in three.
    """
    monkeypatch.setenv(DEFECT, defect)
    # What is wrong stays wrong: the judge waits for it in vain.
    monkeypatch.setattr("tests.chaos.storm.judge._LIMIT_SECONDS", 5.0)
    accounts = []
    for seed in (1, 2, 3):
        plan = Plan(seed=seed, faults=10, faults_per_round=10, without=_GRAVE)
        place = tmp_path / str(seed)
        place.mkdir()
        tally = await run(plan, place, lambda _: None, service_type=DefectiveService)
        if tally.harms[harm]:
            return
        accounts.append(told(tally))
    raise AssertionError("\n".join(accounts))
