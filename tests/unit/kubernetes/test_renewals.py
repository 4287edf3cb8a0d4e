"""Rules of leaving connections that have carried much: together, and at a quiet moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from watchcache_server.kubernetes.renewals import Renewals
from watchcache_server.kubernetes.sync_turns import SyncTurns

pytestmark = pytest.mark.looptime


class World:
    """Renewals beside the turns of one cluster; `log` tells what was done, in order."""

    def __init__(self) -> None:
        self.turns = SyncTurns(2)
        self.log: list[str] = []
        self.renewals = Renewals(lambda: [self.turns], lambda: self.log.append("give back"))

    def want(self, *names: str) -> None:
        """Let these want a new connection, which they open as soon as they may."""
        for name in names:
            self.renewals.want(name, lambda name=name: self._reopen(name))

    def _reopen(self, name: str) -> None:
        self.log.append(f"close {name}")
        asyncio.ensure_future(self._open(name))  # noqa: RUF006 (it ends within the test)

    async def _open(self, name: str) -> None:
        await self.renewals.gate()
        self.log.append(f"open {name}")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give renewals that run, and end with the test."""
    world = World()
    task = asyncio.create_task(world.renewals.run())
    yield world
    task.cancel()


async def test_memory_is_given_back_while_all_are_closed(world: World) -> None:
    """So that no new buffer is made from an old one."""
    world.want("a", "b")
    await asyncio.sleep(1.0)
    assert world.log == ["close a", "close b", "give back", "open a", "open b"]


async def test_a_sync_under_way_is_waited_for(world: World) -> None:
    """It leaves behind what buffers would be made from."""
    turn = await world.turns.take("team-a/shop")
    world.want("a")
    await asyncio.sleep(5.0)
    assert world.log == []
    turn.give_back()
    await asyncio.sleep(1.0)
    assert world.log == ["close a", "give back", "open a"]


async def test_syncs_that_never_cease_are_not_waited_for_for_ever(world: World) -> None:
    """Half a minute is enough."""
    world.turns = SyncTurns(1, counted_seconds=1e6)
    await world.turns.take("team-a/shop")
    world.want("a")
    await asyncio.sleep(29.0)
    assert world.log == []
    await asyncio.sleep(2.0)
    assert world.log == ["close a", "give back", "open a"]


async def test_few_are_closed_at_once(world: World) -> None:
    """Those that wait for their turn go on as they are."""
    world.want(*(f"n{number}" for number in range(20)))
    await asyncio.sleep(0.02)
    assert len(world.log) == 16
    await asyncio.sleep(1.0)
    assert world.log.count("give back") == 2
    assert sum(entry.startswith("open") for entry in world.log) == 20


async def test_who_no_longer_wants_it_is_left_alone(world: World) -> None:
    """The connection has ended by itself, or its informer has."""
    turn = await world.turns.take("team-a/shop")
    world.want("a", "b")
    world.renewals.discard("a")
    world.renewals.discard("unknown")
    turn.give_back()
    await asyncio.sleep(1.0)
    assert world.log == ["close b", "give back", "open b"]


async def test_new_connections_may_be_made_at_any_other_time(world: World) -> None:
    """Also when the renewals end in between."""
    await world.renewals.gate()
    world.want("a")
    task = asyncio.create_task(world.renewals.run())
    await asyncio.sleep(0.02)
    task.cancel()
    async with asyncio.timeout(1.0):
        await world.renewals.gate()
