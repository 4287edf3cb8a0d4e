"""Requests begin at a bounded rate, tenant by tenant."""

from __future__ import annotations

import asyncio

import pytest

from watchcache_server.kubernetes.pace import Pace

pytestmark = pytest.mark.looptime


class Requests:
    """Requests of tenants, and when each began."""

    def __init__(self, per_second: float) -> None:
        self.pace = Pace(per_second)
        self.begun: list[tuple[float, str]] = []
        self._loop = asyncio.get_running_loop()
        self._origin = self._loop.time()

    def ask(self, tenant: str, count: int) -> list[asyncio.Task[None]]:
        """Let a tenant ask for so many at this moment."""
        return [asyncio.ensure_future(self._begin(tenant)) for _ in range(count)]

    async def _begin(self, tenant: str) -> None:
        await self.pace.take(tenant)
        self.begun.append((self._loop.time() - self._origin, tenant))

    def within(self, first: float, last: float) -> int:
        """How many began from one moment up to another."""
        return sum(first <= at < last for at, _ in self.begun)


async def test_a_few_begin_at_once() -> None:
    """Nobody waits for anything but a crowd."""
    requests = Requests(100)
    for _ in range(10):
        await asyncio.gather(*requests.ask("a", 20))
        await asyncio.sleep(1.0)
    assert all(at == pytest.approx(round(at), abs=0.001) for at, _ in requests.begun)


async def test_a_crowd_is_spread() -> None:
    """A thousand at one moment: a burst of a quarter second's worth, then the rate, to the last."""
    requests = Requests(100)
    await asyncio.gather(*requests.ask("a", 1000))
    assert requests.within(0.0, 0.001) <= 27
    for second in range(1, 9):
        assert 95 <= requests.within(second, second + 1) <= 105
    assert requests.begun[-1][0] == pytest.approx(9.75, abs=0.1)


async def test_tenants_take_turns() -> None:
    """One with five hundred informers does not hold up one with a single one."""
    requests = Requests(100)
    tasks = requests.ask("big", 500)
    await asyncio.sleep(0)
    tasks += requests.ask("small", 1)
    await asyncio.gather(*tasks)
    ((at, _),) = [each for each in requests.begun if each[1] == "small"]
    assert at <= 0.05


async def test_who_leaves_wastes_no_moment() -> None:
    """Those who are cancelled while they wait are passed over, and the rate stays what it is."""
    requests = Requests(100)
    tasks = requests.ask("a", 300)
    await asyncio.sleep(0.5)
    for task in tasks[100:200]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(requests.begun) == 200
    assert requests.begun[-1][0] == pytest.approx(1.75, abs=0.1)
    requests.ask("a", 1)
    await asyncio.sleep(0.001)
    assert len(requests.begun) == 201 or requests.begun[-1][0] < 2.0


async def test_a_moment_that_comes_as_its_task_leaves_is_the_next_ones() -> None:
    """Cancelled in the very moment of its call."""
    requests = Requests(10)
    tasks = requests.ask("a", 6)
    await asyncio.sleep(0)
    waiting = [task for task in tasks if not task.done()]
    requests.pace._call()
    waiting[0].cancel()
    await asyncio.sleep(0.01)
    assert sum(task.cancelled() for task in tasks) == 1
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(requests.begun) == 5
