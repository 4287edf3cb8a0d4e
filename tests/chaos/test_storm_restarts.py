"""A storm by time, over restarts of the service: what a mirror costs that is never killed.

An hour with fifty restarts: make chaos ARGS="--seconds 3600 --restarts 50".
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.storm.meter import Account, json_size
from tests.chaos.storm.running import Lasting, Plan, run
from tests.chaos.storm.schedule import FaultKind, restarting, rounds

_STILL = 400
_RESTARTS = 2
_ENDINGS = (FaultKind.SERVICE_KILL, FaultKind.SERVICE_RESTART)


@pytest.fixture
def quiet_clients() -> Iterator[None]:
    """Let the clients not tell of every cut."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.controlplane
@pytest.mark.usefixtures("quiet_clients")
@pytest.mark.timeout(300)
async def test_a_mirror_over_restarts_costs_little_more_than_the_changes(
    chance: random.Random, tmp_path: Path
) -> None:
    """It equals the API server at each quiet moment, and what did not change comes once.

    Each further snapshot would be seen: that of what never changes alone is more than all changes.
    """
    plan = Plan(
        seed=chance.randrange(1 << 32),
        faults=1 << 40,
        faults_per_round=20,
        lasting=Lasting(seconds=8, restarts=_RESTARTS, still=_STILL),
    )
    tally = await run(plan, tmp_path, lambda _: None)
    told = "\n".join((*tally.findings, *tally.lines()))
    assert tally.is_clean, told
    account = tally.account
    assert account is not None
    assert account.restarts >= _RESTARTS, told
    assert account.objects >= _STILL, told
    assert account.changes > 20, told
    assert account.is_within, told
    assert account.received > _STILL * 1500, told
    assert "costly 0" in told


def account(received: int) -> Account:
    """Make an account of a mirror that received so much."""
    return Account(
        received=received,
        sent=0,
        changes=10,
        change_bytes=1000,
        objects=5,
        snapshot_bytes=500,
        restarts=2,
    )


def test_the_bound_is_twice_the_changes_and_one_snapshot() -> None:
    """Less is within it, as much is not."""
    assert account(2499).is_within
    assert not account(2500).is_within
    assert "2,500 bytes, of which 40.0% came" in "".join(account(1000).lines())


def test_json_is_measured_as_an_api_server_writes_it() -> None:
    """Without blanks, in UTF-8."""
    assert json_size({"a": [1, "é"]}) == len('{"a":[1,"é"]}'.encode())


@given(st.integers(0, 1 << 32), st.integers(0, 5))
def test_a_round_has_as_many_restarts_as_are_due(seed: int, count: int) -> None:
    """And none by chance; all else in it stays."""
    (before,) = rounds(seed, 60, 60)
    after = restarting(before, seed, count)
    assert sum(fault.kind in _ENDINGS for fault in after.faults) == count
    assert [f for f in after.faults if f.kind not in _ENDINGS] == [
        f for f in before.faults if f.kind not in _ENDINGS
    ]
    assert after.writes == before.writes
    assert restarting(before, seed, count) == after


@pytest.mark.parametrize("round_seconds", [1.0, 7.0, 30.0, 200.0])
def test_restarts_are_spread_over_the_time(round_seconds: float) -> None:
    """All of them are made, however long a round takes, and none before its time.

    Mild rounds have none, as long as there is time.
    """
    lasting = Lasting(seconds=600, restarts=20, still=0)
    plan = Plan(seed=1, faults=1 << 40, faults_per_round=30, lasting=lasting)
    made, now = 0, 0.0
    with mock.patch("tests.chaos.storm.running.time.monotonic") as clock:
        clock.side_effect = lambda: now
        for todo in plan.timed_rounds(lasting):
            count = sum(fault.kind in _ENDINGS for fault in todo.faults)
            assert not (count and todo.is_mild and now < lasting.seconds)
            made += count
            assert made <= 1 + lasting.restarts * now / lasting.seconds
            now += round_seconds
    assert made == lasting.restarts
    assert now < lasting.seconds + 4 * round_seconds
