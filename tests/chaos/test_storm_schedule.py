"""The schedule of a storm comes from its seed, and from nothing else."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.storm.running import Plan
from tests.chaos.storm.schedule import WRITERS, FaultKind, rounds

SEEDS = st.integers(0, 1 << 32)


@given(SEEDS, st.integers(1, 250))
def test_the_same_seed_draws_the_same_storm(seed: int, faults: int) -> None:
    """Faults, writes and all their details are the same each time, and as many as asked for."""
    first, second = list(rounds(seed, faults, 40)), list(rounds(seed, faults, 40))
    assert first == second
    assert sum(len(each.faults) for each in first) == faults
    assert all(len(each.writes) == len(WRITERS) for each in first)


def test_another_process_draws_the_same_storm() -> None:
    """Nothing of a process, such as the seed of its hashes, has a part in it."""
    code = (
        "from tests.chaos.storm.schedule import rounds; print(list(rounds(7, 90, 40)).__repr__())"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert shown == f"{list(rounds(7, 90, 40))!r}\n"


@given(SEEDS)
def test_fewer_faults_are_the_beginning_of_more(seed: int) -> None:
    """A failing storm can be made shorter: what is left happens as before."""
    long, short = list(rounds(seed, 200, 40)), list(rounds(seed, 90, 40))
    assert short[:2] == long[:2]
    assert short[2].faults == long[2].faults[:10]
    assert short[2].writes == long[2].writes


@given(SEEDS)
def test_one_round_alone_is_what_it_was_among_others(seed: int) -> None:
    """A failing round can be run alone, and without kinds of faults that do not matter."""
    whole = list(Plan(seed, 200, 40).rounds())
    (alone,) = Plan(seed, 200, 40, only_rounds=range(3, 4)).rounds()
    assert alone == whole[3]
    (without,) = Plan(
        seed, 200, 40, only_rounds=range(2, 3), without=frozenset({FaultKind.CUT})
    ).rounds()
    assert without.writes == whole[2].writes
    assert list(without.faults) == [
        fault for fault in whole[2].faults if fault.kind is not FaultKind.CUT
    ]


@given(SEEDS)
def test_other_seeds_draw_other_storms(seed: int) -> None:
    """The seed matters for faults and for writes."""
    (one,), (other,) = rounds(seed, 40, 40), rounds(seed + 1, 40, 40)
    assert one.faults != other.faults
    assert one.writes != other.writes


@given(SEEDS)
def test_the_first_round_has_every_kind_and_every_fourth_is_mild(seed: int) -> None:
    """Even a small storm has all kinds; in mild rounds no informer has a reason to list again."""
    drawn = list(rounds(seed, 160, 40))
    assert {fault.kind for fault in drawn[0].faults} == set(FaultKind)
    unforgiving = {FaultKind.EXPIRED, FaultKind.SERVICE_KILL, FaultKind.SERVER_KILL}
    assert not {fault.kind for fault in drawn[3].faults} & unforgiving
