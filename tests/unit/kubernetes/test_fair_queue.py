"""Who waits in line is told how many are before it, at a bounded cost."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache_server.kubernetes.fair_queue import FairQueue

pytestmark = pytest.mark.looptime


class Queue:
    """Waiters by name (tenant, number), and everything that each of them was told."""

    def __init__(self) -> None:
        self.fair = FairQueue(lambda: self.fair.call_next())  # noqa: PLW0108 (it is made here)
        self.told: dict[str, list[int]] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.served: list[str] = []

    async def stand(self, *names: str) -> None:
        """Let these stand in line; the tenant is the first letter."""
        for name in names:
            self.told[name] = []
            self.tasks[name] = asyncio.ensure_future(self._wait(name))
        await settle()

    async def _wait(self, name: str) -> None:
        await self.fair.wait(name[0], self.told[name].append)
        self.served.append(name)

    async def call(self, count: int = 1) -> None:
        """Call the next ones."""
        for _ in range(count):
            self.fair.call_next()
        await settle()


async def settle() -> None:
    """Let everything happen that can at this moment."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_who_comes_is_told_its_place_in_the_order_of_service() -> None:
    """One tenant's line does not count for another one but for whose turns come before."""
    queue = Queue()
    await queue.stand("a1", "a2", "a3", "b1", "b2", "c1")
    assert {name: told[0] for name, told in queue.told.items()} == {
        "a1": 0,
        "a2": 1,
        "a3": 2,
        "b1": 1,
        "b2": 3,
        "c1": 2,
    }
    await queue.call(6)
    assert queue.served == ["a1", "b1", "c1", "a2", "b2", "a3"]


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=30), st.integers(0, 10))
def test_a_place_is_how_many_are_served_before(tenants: str, calls: int) -> None:
    """Whatever the line is, and whoever was called before."""

    async def check() -> None:
        queue = Queue()
        await queue.stand(*(f"{tenant}{number}" for number, tenant in enumerate(tenants)))
        await queue.call(calls)
        await queue.stand("a-last")
        before = len(queue.served)
        await queue.call(len(tenants) + 1)
        if "a-last" in queue.served[before:]:
            assert queue.told["a-last"][0] == queue.served[before:].index("a-last")

    asyncio.run(check())


async def test_a_place_is_kept_fresh() -> None:
    """After a second at most everybody near knows that it has moved; nobody is told twice."""
    queue = Queue()
    await queue.stand("a1", "a2", "a3", "b1")
    await queue.call()
    await asyncio.sleep(1.0)
    assert queue.told == {"a1": [0], "a2": [1], "a3": [2], "b1": [1, 0]}
    queue.tasks["b1"].cancel()
    await asyncio.sleep(1.0)
    assert queue.told == {"a1": [0], "a2": [1, 0], "a3": [2, 1], "b1": [1, 0]}
    await asyncio.sleep(60.0)
    assert queue.told["a2"] == [1, 0]


async def test_who_is_passed_is_told_as_well() -> None:
    """Another tenant's first comes before the second of this one."""
    queue = Queue()
    await queue.stand("a1", "a2", "a3")
    await queue.stand("b1", "c1", "d1")
    await queue.call()
    await asyncio.sleep(1.0)
    assert queue.told["a3"] == [2, 4]


async def test_a_long_line_costs_each_a_bounded_number_of_messages() -> None:
    """A place far behind is told by eighths: dozens of messages for a thousand steps."""
    queue = Queue()
    names = [f"a{number}" for number in range(1000)]
    await queue.stand(*names)
    for _ in range(999):
        await queue.call()
        await asyncio.sleep(1.0)
    last = queue.told[names[-1]]
    assert last == sorted(last, reverse=True)
    assert last[-1] == 0
    assert last[-8:] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert len(last) < 50
    assert all(after >= before * 7 // 8 - 1 for before, after in pairwise(last))


async def test_one_sweep_tells_no_more_than_some() -> None:
    """When a whole line moves, the nearest hear first and the others in the seconds after."""
    queue = Queue()
    names = [f"a{number}" for number in range(800)]
    await queue.stand(*names)
    await queue.call(200)
    await asyncio.sleep(1.0)
    assert sum(len(told) == 2 for told in queue.told.values()) == 250
    assert queue.told["a200"] == [200, 0]
    await asyncio.sleep(2.0)
    assert sum(len(told) == 2 for told in queue.told.values()) == 600


async def test_who_cannot_be_told_does_not_stand_in_line() -> None:
    """What comes would be given to nobody, and be lost."""
    queue = Queue()
    await queue.stand("a1")

    def fail(_: int) -> None:
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        await queue.fair.wait("a", fail)
    await queue.stand("a2")
    assert queue.told["a2"] == [1]
    await queue.call(2)
    assert queue.served == ["a1", "a2"]


async def test_nothing_is_swept_for_those_who_do_not_care() -> None:
    """A line that tells nobody needs no timer."""
    lines = FairQueue(lambda: None)
    tasks = [asyncio.ensure_future(lines.wait("a")) for _ in range(3)]
    await settle()
    assert lines.call_next()
    await settle()
    assert lines._sweep_handle is None
    tasks[1].cancel()
    await settle()
    assert lines.call_next()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert lines.is_empty
    assert not lines.call_next()
