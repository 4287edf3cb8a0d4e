"""The pulse of an extension: who waits is woken, at a bounded rate."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from watchcache_server.extensions.pulse import Pulse

pytestmark = pytest.mark.looptime


async def test_news_at_rest_wakes_at_once() -> None:
    """A single change reaches a waiter without any delay."""
    pulse = Pulse(100)
    waiter = asyncio.ensure_future(pulse.wait())
    await asyncio.sleep(0)
    before = asyncio.get_running_loop().time()
    pulse.touch()
    assert await waiter
    assert asyncio.get_running_loop().time() == before


async def test_wake_ups_keep_a_distance_that_grows_with_the_waiters() -> None:
    """Waiters times wake-ups stay below the rate: 50 waiters at 100 a second, twice a second."""
    pulse = Pulse(100)
    wakes: list[float] = []
    loop = asyncio.get_running_loop()

    async def follow(is_noting: bool) -> None:
        while len(wakes) < 5:
            await pulse.wait()
            if is_noting:
                wakes.append(loop.time())

    tasks = [asyncio.ensure_future(follow(number == 0)) for number in range(50)]
    await asyncio.sleep(0)
    while len(wakes) < 5:
        pulse.touch()
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    distances = [after - before for before, after in pairwise(wakes[1:])]
    assert distances
    assert min(distances) >= 0.5


async def test_a_wait_ends_with_its_time() -> None:
    """Without news the wait says so after its time, and leaves nothing behind."""
    pulse = Pulse(100)
    started = asyncio.get_running_loop().time()
    assert not await pulse.wait(3.0)
    assert asyncio.get_running_loop().time() - started == pytest.approx(3.0)
    assert not pulse._waiters


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    """Whoever stops waiting is forgotten."""
    pulse = Pulse(100)
    waiter = asyncio.ensure_future(pulse.wait(60))
    await asyncio.sleep(0)
    assert len(pulse._waiters) == 1
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert not pulse._waiters


async def test_an_end_wakes_everybody_whatever_the_rate() -> None:
    """wake_now does not wait for the next beat."""
    pulse = Pulse(1)
    first = asyncio.ensure_future(pulse.wait())
    await asyncio.sleep(0)
    pulse.touch()
    await first
    second = asyncio.ensure_future(pulse.wait())
    await asyncio.sleep(0)
    pulse.touch()
    before = asyncio.get_running_loop().time()
    pulse.wake_now()
    assert await second
    assert asyncio.get_running_loop().time() == before


async def test_news_without_waiters_cost_nothing() -> None:
    """A touch that nobody waits for schedules no wake-up."""
    pulse = Pulse(100)
    pulse.touch()
    assert not await pulse.wait(0.5)


async def test_news_that_concerns_a_waiter_not_leaves_it_asleep() -> None:
    """It costs little, so others hear of the next news sooner; an end wakes everybody."""
    pulse = Pulse(100)
    loop = asyncio.get_running_loop()
    is_concerned = False
    sleepers = [asyncio.ensure_future(pulse.wait(None, lambda: is_concerned)) for _ in range(100)]
    awake = asyncio.ensure_future(pulse.wait())
    await asyncio.sleep(0)
    pulse.touch()
    assert await awake
    again = asyncio.ensure_future(pulse.wait())
    await asyncio.sleep(0)
    before = loop.time()
    pulse.touch()
    assert await again
    assert loop.time() - before == pytest.approx(0.06)
    assert not any(sleeper.done() for sleeper in sleepers)
    is_concerned = True
    pulse.touch()
    assert await sleepers[0]
    is_concerned = False
    last = asyncio.ensure_future(pulse.wait(None, lambda: is_concerned))
    await asyncio.sleep(0)
    pulse.wake_now()
    assert await last


@pytest.mark.parametrize("is_end", [False, True], ids=["news", "an end"])
async def test_thousands_are_woken_some_at_a_time(is_end: bool) -> None:
    """Others have their say in between, and the last one is woken as well."""
    pulse = Pulse(10**9)
    woken: list[int] = []

    async def wait(number: int) -> None:
        await pulse.wait()
        woken.append(number)

    tasks = [asyncio.ensure_future(wait(number)) for number in range(1000)]
    await asyncio.sleep(0)
    tasks[500].cancel()
    if is_end:
        pulse.wake_now()
    else:
        pulse.touch()
    most = before = 0
    while len(woken) < 999:
        await asyncio.sleep(0)
        most, before = max(most, len(woken) - before), len(woken)
    assert 0 < most <= 64
    assert woken == [number for number in range(1000) if number != 500]
