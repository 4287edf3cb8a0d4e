"""Rules of the one timer of a task."""

from __future__ import annotations

import asyncio

import pytest

from watchcache_server.kubernetes.alarm import Alarm

pytestmark = pytest.mark.looptime


async def test_it_rings_at_the_time_that_it_was_set_to_last() -> None:
    """Setting it anew replaces what it was, be it later or earlier."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    alarm = Alarm()
    for seconds in (60.0, 5.0, 20.0):
        alarm.set(seconds)
    await alarm.wait()
    assert loop.time() - began == pytest.approx(20.0)


async def test_it_rings_once() -> None:
    """Until it is set again it is silent."""
    alarm = Alarm()
    alarm.set(1.0)
    await alarm.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600.0):
            await alarm.wait()


async def test_a_ring_that_nobody_waited_for_is_not_lost() -> None:
    """Who was busy hears it afterwards."""
    alarm = Alarm()
    alarm.set(1.0)
    await asyncio.sleep(5.0)
    async with asyncio.timeout(0.1):
        await alarm.wait()


async def test_a_cancelled_alarm_does_not_ring() -> None:
    """Nothing is left behind in the loop."""
    alarm = Alarm()
    alarm.cancel()
    alarm.set(1.0)
    alarm.cancel()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10.0):
            await alarm.wait()


async def test_time_passes_between_two_rings() -> None:
    """Who is rung too early by next to nothing, and asks for the rest, does not spin."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    alarm = Alarm()
    for _ in range(3):
        alarm.set(1e-15)
        await alarm.wait()
    assert loop.time() > began
