"""Rules of turns to sync: few at once, fair among tenants, and none is ever lost."""

from __future__ import annotations

import asyncio

import pytest

from watchcache_server.kubernetes.sync_turns import SyncTurns, Turn

pytestmark = pytest.mark.looptime


class Line:
    """Tenants that stand in line; `served` is the order in which they got a turn."""

    def __init__(self, limit: int, **settings: float) -> None:
        self.turns = SyncTurns(limit, **settings)
        self.served: list[str] = []
        self.held: list[Turn] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def stand(self, *tenants: str) -> None:
        """Let these ask, in this order."""
        for tenant in tenants:
            self.tasks.append(asyncio.ensure_future(self._take(tenant)))
            await settle()

    async def _take(self, tenant: str) -> None:
        turn = await self.turns.take(tenant)
        self.served.append(tenant)
        self.held.append(turn)

    async def serve_all(self) -> None:
        """Give every turn back, until nobody stands in line."""
        while self.held:
            self.held.pop(0).give_back()
            await settle()


async def settle() -> None:
    """Let everything happen that can."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_no_more_than_the_limit_hold_a_turn() -> None:
    """The third waits until one of the two gives its turn back."""
    line = Line(2)
    await line.stand("a")
    assert not line.turns.is_busy
    await line.stand("b", "c")
    assert line.turns.is_busy
    assert line.served == ["a", "b"]
    line.held[0].give_back()
    await settle()
    assert line.served == ["a", "b", "c"]


async def test_turns_go_round_among_tenants() -> None:
    """Whoever wants one does not wait for all that another one wants; each goes in order."""
    line = Line(1)
    await line.stand("big", "big", "big", "big", "small", "other", "small")
    await line.serve_all()
    assert line.served == ["big", "big", "small", "other", "big", "small", "big"]


async def test_a_turn_is_given_back_once() -> None:
    """Giving back again is nothing."""
    line = Line(1)
    await line.stand("a", "b", "c")
    line.held[0].give_back()
    line.held[0].give_back()
    await settle()
    assert line.served == ["a", "b"]


async def test_whoever_leaves_the_line_is_passed_over() -> None:
    """A tenant that was cancelled while it waited gets no turn, and takes none away."""
    line = Line(1)
    await line.stand("a", "b", "b", "c")
    line.tasks[1].cancel()
    line.tasks[2].cancel()
    await settle()
    await line.serve_all()
    assert line.served == ["a", "c"]
    assert not line.turns.is_busy


async def test_a_turn_that_comes_as_its_tenant_leaves_goes_on() -> None:
    """Cancelled in the moment of its turn, a tenant passes it on."""
    line = Line(1)
    await line.stand("a", "b", "c")
    line.held[0].give_back()
    line.tasks[1].cancel()
    await settle()
    assert line.served == ["a", "c"]
    line.held[1].give_back()
    assert not line.turns.is_busy


async def test_a_turn_given_back_as_others_leave_goes_to_whoever_stays() -> None:
    """Cancelled in the same moment, before any of them can act: the holder and those behind it."""
    line = Line(1)
    await line.stand("a", "b", "b", "c")
    line.tasks[1].cancel()
    line.tasks[2].cancel()
    line.held[0].give_back()
    await settle()
    assert line.served == ["a", "c"]


async def test_a_turn_given_back_as_all_others_leave_is_free() -> None:
    """An extension that ends takes no turn along, whatever the number of its syncs in line."""
    line = Line(1)
    await line.stand("a", "a", "a")
    for task in line.tasks:
        task.cancel()
    line.held[0].give_back()
    await settle()
    assert [task.cancelled() for task in line.tasks] == [False, True, True]
    assert not line.turns.is_busy
    await line.stand("b")
    assert line.served == ["a", "b"]


async def test_who_stands_behind_one_that_leaves_keeps_the_place_of_the_tenant() -> None:
    """A turn that passes a cancelled one over goes to the next of the same tenant."""
    line = Line(1)
    await line.stand("a", "b", "b", "c")
    line.tasks[1].cancel()
    line.held[0].give_back()
    await settle()
    await line.serve_all()
    assert line.served == ["a", "b", "c"]


async def test_a_turn_that_lasts_too_long_no_longer_counts() -> None:
    """Syncs that never end hold nobody up for ever; giving such a turn back is nothing."""
    line = Line(1, counted_seconds=30.0)
    await line.stand("slow", "next")
    await asyncio.sleep(29.0)
    assert line.served == ["slow"]
    await asyncio.sleep(1.5)
    assert line.served == ["slow", "next"]
    line.held[0].give_back()
    assert line.turns.is_busy
