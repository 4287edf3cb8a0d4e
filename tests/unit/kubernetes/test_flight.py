"""Rules of the single flight: shared outcomes, and nobody harmed by another's leaving."""

from __future__ import annotations

import asyncio

import pytest

from watchcache_server.kubernetes.errors import AccessError
from watchcache_server.kubernetes.flight import SingleFlight


class Work:
    """Counts how often it is begun, and lands when told."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_land = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.begun += 1
        await self.may_land.wait()
        if self.error is not None:
            raise self.error
        return self.begun


async def start(flight: SingleFlight[int], work: Work, callers: int) -> list[asyncio.Task[int]]:
    """Start callers and let each get as far as it can."""
    tasks = [asyncio.create_task(flight.run(work)) for _ in range(callers)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_callers_at_the_same_time_share_one_doing() -> None:
    """Ten who ask at once cause one piece of work and get its result."""
    flight, work = SingleFlight[int](), Work()
    tasks = await start(flight, work, 10)
    assert flight.is_running
    work.may_land.set()
    assert await asyncio.gather(*tasks) == [1] * 10
    assert not flight.is_running


async def test_one_after_the_other_each_does_it() -> None:
    """Nothing is remembered: a later caller wants it done anew."""
    flight, work = SingleFlight[int](), Work()
    work.may_land.set()
    assert [await flight.run(work), await flight.run(work)] == [1, 2]


async def test_the_failure_is_shared() -> None:
    """An AccessError is an outcome: nobody repeats what has just failed for all."""
    flight, work = SingleFlight[int](), Work()
    work.error = AccessError("down")
    tasks = await start(flight, work, 3)
    work.may_land.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert outcomes == [work.error] * 3
    assert work.begun == 1


async def test_when_the_first_leaves_the_next_takes_over() -> None:
    """Cancelling who does the work costs the others nothing but time."""
    flight, work = SingleFlight[int](), Work()
    first, second, third = await start(flight, work, 3)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.sleep(0)
    work.may_land.set()
    assert await asyncio.gather(second, third) == [2, 2]


async def test_who_waits_can_leave() -> None:
    """Cancelling a waiter disturbs neither the work nor the other waiters."""
    flight, work = SingleFlight[int](), Work()
    first, second, third = await start(flight, work, 3)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    work.may_land.set()
    assert await asyncio.gather(first, third) == [1, 1]


async def test_a_fault_stays_with_whom_it_happened_to() -> None:
    """An exception that is no AccessError is not handed to callers who never ran that code."""
    flight, work = SingleFlight[int](), Work()
    work.error = RuntimeError("a fault of ours")
    first, second = await start(flight, work, 2)
    work.may_land.set()
    with pytest.raises(RuntimeError):
        await first
    with pytest.raises(RuntimeError):
        await second
    assert work.begun == 2
