"""A very small soak in each run of the tests: the programme itself, and not what it proves.

`make soak` takes an hour. In seconds nothing finds its level, so nothing is called flat here;
`tests/unit/test_flatness.py` shows what would be.
"""

from __future__ import annotations

import csv
import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.soak.running import Plan, run
from tests.chaos.soak.sampling import SERIES

pytestmark = pytest.mark.controlplane

_SECONDS = 16


@pytest.fixture(autouse=True)
def quiet_clients() -> Iterator[None]:
    """Let the clients not tell of every end of a stream."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(300)
async def test_a_soak_puts_on_its_load_and_tells_what_it_cost(
    chance: random.Random, tmp_path: Path
) -> None:
    """Streams come and go, tokens and watches turn over, all is right, and every sample is kept."""
    plan = Plan(
        seconds=_SECONDS,
        seed=chance.randrange(1 << 32),
        every_seconds=0.5,
        writes_per_round=80,
        server_restarts=1,
    )
    outcome = await run(plan, tmp_path, lambda _: None)
    told = "\n".join((*outcome.tally.findings, *outcome.lines()))
    assert outcome.is_clean, told
    assert outcome.tally.quiet_moments > 1
    assert len(outcome.restarts) == 1, told
    for part in ("visit", "read", "register", "dawdle"):
        assert outcome.load.done[part], told
    for count in ("rotations", "watches", "events", "streams", "reads", "deregistrations"):
        assert outcome.sampler.counts[count], told
    for series in SERIES:
        assert series.title in told
        assert series.title in outcome.plot()
        assert max(outcome.sampler.values[series.name]) > 0, series
    outcome.sampler.write(tmp_path / "samples.csv")
    with (tmp_path / "samples.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(outcome.sampler.seconds)
    assert all(float(row["memory (MiB)"]) > 10 for row in rows)
