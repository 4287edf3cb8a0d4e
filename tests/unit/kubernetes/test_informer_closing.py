"""What comes of a request that an informer has closed: nothing is heard of it any more."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kubernetes.informer_double import (
    REFUSED,
    Exchange,
    added,
    bookmark,
)
from tests.unit.kubernetes.informer_world import World, settle
from watchcache_server.model.states import LeftReason, SourceState

pytestmark = pytest.mark.looptime


async def purging(world: World) -> Exchange:
    """Return the watch that is being opened as the grace time of a lost right runs out."""
    watch = await world.live()
    watch.end()
    (await world.api.asked()).refuse(403)
    (await world.api.asked()).refuse(403)
    while True:
        exchange = await world.api.asked()
        if world.elapsed >= 45.0:
            return exchange
        exchange.refuse(403)
        (await world.api.asked()).refuse(403)


async def test_a_request_that_is_closed_while_it_is_opened_is_let_go(world: World) -> None:
    """What may no longer be read is dropped, and the next request is a sync."""
    exchange = await purging(world)
    assert exchange.query.get("resourceVersion") == "10"
    following = await world.api.asked()
    assert world.sink.purged == [LeftReason.RIGHTS_REVOKED]
    assert exchange.outcome.cancelled()
    assert following.query["sendInitialEvents"] == "true"
    following.accept(bookmark("20", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)


LATE = ("opened", "refused", "failed")


@pytest.mark.parametrize("how", LATE)
async def test_an_answer_in_the_moment_of_the_closing_is_not_heard(world: World, how: str) -> None:
    """It is an answer to nothing: the request that follows is asked and heard as ever."""
    exchange = await purging(world)
    loop = asyncio.get_running_loop()
    purge = world.sink.purge

    def answer_now(reason: LeftReason) -> None:
        purge(reason)
        # The answer is there before the cancellation of its reader.
        {
            "opened": exchange.accept,
            "refused": lambda: exchange.refuse(500),
            "failed": lambda: exchange.fail(REFUSED),
        }[how]()

    world.sink.purge = answer_now  # type: ignore[method-assign]
    following = await world.api.asked()
    assert following.query["sendInitialEvents"] == "true"
    before = loop.time()
    following.accept(bookmark("20", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)
    assert loop.time() == before, "there was nothing to wait for"


async def test_events_in_the_moment_of_a_reopening_are_not_applied(world: World) -> None:
    """They come again with the watch that follows, from the version before them."""
    watch = await world.live()
    counted = world.sink.counted

    def send_now(event_name: str, reason: str) -> None:
        counted(event_name, reason)
        if (event_name, reason) == ("watch_ended", "reopen"):
            watch.send(added("late", "11"))

    world.sink.counted = send_now  # type: ignore[method-assign]
    exchange = await world.api.asked()
    assert exchange.query["resourceVersion"] == "10"
    assert "late" not in world.sink.objects


async def test_an_end_in_the_moment_of_a_reopening_is_no_failure(world: World) -> None:
    """The watch that follows goes out at once."""
    watch = await world.live()
    counted = world.sink.counted

    def end_now(event_name: str, reason: str) -> None:
        counted(event_name, reason)
        if (event_name, reason) == ("watch_ended", "reopen"):
            watch.end()

    world.sink.counted = end_now  # type: ignore[method-assign]
    before = world.now()
    exchange = await world.api.asked()
    exchange.accept()
    await settle()
    assert world.now() - before <= 60.0
    assert world.sink.states[-1][0] is SourceState.LIVE


async def test_initial_events_that_stall_are_listed_instead(world: World) -> None:
    """The timer fires while the body is read."""
    world.start()
    stalled = (await world.api.asked()).accept(added("a", "3"))
    exchange = await world.api.asked()
    assert not exchange.is_watch
    assert stalled.is_closed
    assert world.elapsed == pytest.approx(30.0, abs=1.0)
    assert world.sink.staged == {}, "what had come is of no use"
