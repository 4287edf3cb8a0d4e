"""Only so many informers of a cluster sync at once: who holds a turn, and who gives it back."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kubernetes.informer_double import (
    Api,
    added,
    bookmark,
    pod,
    pod_list,
)
from tests.unit.kubernetes.informer_world import World, settle
from watchcache_server.kubernetes.pace import Pace
from watchcache_server.kubernetes.sync_turns import SyncTurns
from watchcache_server.model.states import SourceState

pytestmark = pytest.mark.looptime


async def test_a_live_informer_holds_no_turn(world: World) -> None:
    """Only syncs are bounded."""
    world.turns = SyncTurns(1)
    await world.live()
    assert not world.turns.is_busy


async def test_whoever_waits_for_its_turn_says_so(world: World) -> None:
    """PENDING while it is queued, SYNCING once its turn has come."""
    world.turns = SyncTurns(1)
    other = await world.turns.take("another")
    world.start()
    await world.sink.until(SourceState.PENDING)
    assert world.sink.states[-1] == (SourceState.PENDING, "QUEUED")
    assert world.sink.state is not None
    assert "max_concurrent_syncs" in world.sink.state[2]
    assert world.api.is_quiet
    other.give_back()
    await world.sink.until(SourceState.SYNCING)
    (await world.api.asked()).accept(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)


async def test_whoever_waits_says_behind_how_many(world: World) -> None:
    """Also as the line moves; a STALE one, which holds objects, keeps saying that."""
    world.turns = SyncTurns(1)
    held = await world.turns.take("another")
    others = [asyncio.ensure_future(world.turns.take("another")) for _ in range(3)]
    await settle()
    world.start()
    await world.sink.until(SourceState.PENDING)
    assert world.sink.state is not None
    assert ", one before it;" in world.sink.state[2]
    held.give_back()
    await asyncio.sleep(2.0)
    assert ", next;" in world.sink.state[2]
    assert world.sink.state[0] is SourceState.PENDING
    (await others[0]).give_back()
    await world.sink.until(SourceState.SYNCING)
    for task in others[1:]:
        task.cancel()


async def test_opening_keeps_to_the_pace_of_the_cluster(world: World) -> None:
    """Another informer's requests come first where they were first."""
    world.pace = Pace(1)
    await world.pace.take("another")
    world.start()
    await settle()
    assert world.api.is_quiet
    (await world.api.asked()).accept(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)
    assert world.elapsed == pytest.approx(0.75, abs=0.1)


WAITING = {
    "forbidden": (403, SourceState.FORBIDDEN),
    "throttled": (429, SourceState.SYNCING),
    "bad request": (400, SourceState.UNREACHABLE),
    "broken server": (500, SourceState.UNREACHABLE),
}


@pytest.mark.parametrize("name", WAITING)
async def test_an_informer_that_waits_to_try_again_holds_no_turn(world: World, name: str) -> None:
    """One kind that cannot be read never holds up another."""
    code, state = WAITING[name]
    world.turns = SyncTurns(1)
    world.start()
    (await world.api.asked()).refuse(code)
    if code in (400, 403):
        # It is tried in another way first.
        (await world.api.asked()).refuse(code)
    await settle()
    assert [each for each, _ in world.sink.states][-1] is state
    assert not world.turns.is_busy


async def test_a_forbidden_informer_does_not_flap_while_it_is_queued(world: World) -> None:
    """It has more to say than that it waits."""
    world.turns = SyncTurns(1)
    world.start()
    (await world.api.asked()).refuse(403)
    (await world.api.asked()).refuse(403)
    await world.sink.until(SourceState.FORBIDDEN)
    other = await world.turns.take("another")
    await asyncio.sleep(30.0)
    assert world.sink.states[-1][0] is SourceState.FORBIDDEN
    other.give_back()
    (await world.api.asked()).accept(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)


async def test_probing_a_live_cluster_needs_no_turn(world: World) -> None:
    """Whether the server was set back is asked beside every sync, so that the watch goes on."""
    world.turns = SyncTurns(1, counted_seconds=1e6)
    watch = await world.live()
    await world.turns.take("another")
    watch.end()
    # Watches that bring nothing for so long lead to a question where the server is.
    while (exchange := await world.api.asked()).is_watch:
        watch = exchange.accept()
        await asyncio.sleep(20.0)
        watch.end()
    assert exchange.query == {"limit": "1"}
    exchange.accept(pod_list("12", pod("a", "3"))).end()
    assert (await world.api.asked()).is_watch


async def test_a_turn_is_given_back_at_whatever_point_the_informer_ends(world: World) -> None:
    """While it waits for one, while the request is opened, and while its body is read."""
    for step in ("queued", "opening", "reading"):
        world.turns = SyncTurns(1)
        other = await world.turns.take("another") if step == "queued" else None
        world.api = Api()
        world.start()
        if step != "queued":
            exchange = await world.api.asked()
            if step == "reading":
                exchange.accept(added("a", "3"))
        await settle()
        assert world.turns.is_busy
        await world.stop()
        if other is not None:
            other.give_back()
        assert not world.turns.is_busy, step
