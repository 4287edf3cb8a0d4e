"""Rules of the task of an informer: what it asks, in which order, and what it passes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.items import item as decoded
from tests.items import source_spec
from tests.unit.kubernetes.informer_double import (
    CUT,
    PODS,
    REFUSED,
    Body,
    Exchange,
    added,
    bookmark,
    event,
    pod,
    pod_list,
)
from tests.unit.kubernetes.informer_world import World, settle
from watchcache_server.informer.comparison import Scope
from watchcache_server.informer.effects import Effect
from watchcache_server.informer.reflector import Reflector
from watchcache_server.informer.source import Unverified
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.pace import Pace
from watchcache_server.kubernetes.requests import Request
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import LeftReason, SourceState

pytestmark = pytest.mark.looptime

# The good course


async def test_it_syncs_and_follows(world: World) -> None:
    """Objects of the beginning are collected and committed, later ones applied."""
    world.start()
    exchange = await world.api.asked()
    assert exchange.is_watch
    assert exchange.query["sendInitialEvents"] == "true"
    assert exchange.authorization == "Bearer t1"
    watch = exchange.accept(added("a", "3"), added("b", "7"))
    await settle()
    assert world.sink.staged == {"a": "3", "b": "7"}
    assert world.sink.objects == {}
    watch.send(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)
    assert world.sink.objects == {"a": "3", "b": "7"}
    assert world.sink.synced_at == "10"
    assert world.sink.events == 0, "what was there is no event"
    watch.send(event("MODIFIED", pod("a", "11")), bookmark("12"))
    await settle()
    assert world.sink.objects == {"a": "11", "b": "7"}
    assert world.sink.events == 2


async def test_the_position_is_passed_on(world: World) -> None:
    """With changes, and where a bookmark says that there are none."""
    watch = await world.live()
    watch.send(event("MODIFIED", pod("a", "11")))
    await settle()
    assert world.sink.position == "11"
    before = world.sink.contacts
    watch.send(bookmark("15"))
    await settle()
    assert world.sink.position == "15"
    assert world.sink.contacts == before + 1


async def test_a_reader_that_waits_for_what_is_fresh_has_the_server_asked(world: World) -> None:
    """For its version, and for a bookmark at it if no event says so."""
    watch = await world.live()
    source = world.sink.source
    source.served = PODS
    source.stage(decoded(f"pod-{number}") for number in range(501))
    source.commit("10")
    source.note_position("10", 0)
    asked: list[Request] = []

    async def answer(request: Request) -> Answer:
        asked.append(request)
        return Answer(200, {}, pod_list("20", more="next"))

    world.api.answer_call = answer
    reading = asyncio.create_task(world.sink.freshness.wait(Scope()))
    exchange = await world.api.asked()
    assert watch.is_closed
    assert (exchange.query["resourceVersion"], exchange.query["timeoutSeconds"]) == ("10", "3")
    exchange.accept(bookmark("20"))
    await settle()
    assert world.sink.position == "20"
    source.note_position("20", 0)
    world.sink.freshness.moved()
    assert await reading == ""
    assert [request.query for request in asked] == ["limit=1"]


async def test_a_storage_that_was_set_back_is_noticed_by_a_reader(world: World) -> None:
    """Long before the probe that looks for it in silence."""
    await world.live()
    source = world.sink.source
    source.served = PODS
    source.commit("10")
    source.note_position("10", 0)

    async def answer(request: Request) -> Answer:
        return Answer(200, {}, pod_list("7"))

    world.api.answer_call = answer
    reading = asyncio.create_task(world.sink.freshness.wait(Scope()))
    exchange = await world.api.asked()
    assert exchange.query == {"limit": "1"}
    assert not exchange.is_watch
    exchange.accept(pod_list("7")).end()
    relist = await world.api.asked()
    relist.accept(bookmark("7", is_initial_end=True))
    await settle()
    assert world.sink.synced_at == "7"
    reading.cancel()


async def test_a_deletion_before_the_end_of_a_sync_is_not_committed(world: World) -> None:
    """What came and went in between is not there."""
    world.start()
    watch = (await world.api.asked()).accept(added("a", "3"), added("b", "7"))
    watch.send(event("DELETED", pod("b", "8")), bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)
    assert world.sink.objects == {"a": "3"}


async def test_the_watch_goes_on_where_it_ended(world: World) -> None:
    """A clean end is followed by a watch from the last version."""
    watch = await world.live()
    watch.send(added("b", "11"))
    watch.end()
    exchange = await world.api.asked()
    assert exchange.query["resourceVersion"] == "11"
    assert watch.is_closed


async def test_the_last_event_may_lack_its_line_end(world: World) -> None:
    """It counts all the same."""
    watch = await world.live()
    watch.send(added("b", "11").rstrip())
    watch.end()
    assert (await world.api.asked()).query["resourceVersion"] == "11"
    assert world.sink.objects["b"] == "11"


async def test_a_watch_is_opened_again_in_time(world: World) -> None:
    """That is the check of its right; what still comes of the old one is not heard."""
    watch = await world.live()
    watch.send(bookmark("11"))
    exchange = await world.api.asked()
    assert 45.0 <= world.elapsed <= 60.0
    assert watch.is_closed
    assert exchange.query["resourceVersion"] == "11"
    exchange.accept(added("b", "12"))
    await settle()
    assert world.sink.objects["b"] == "12"


async def test_a_connection_that_carried_a_large_sync_is_left(world: World) -> None:
    """It keeps large buffers, so the watch goes on over a new one, made of what was given back."""
    world.start()
    exchange = await world.api.asked()
    large = [added(f"p{n}", str(n), size=300_000) for n in range(1, 5)]
    first = exchange.accept(*large, bookmark("10", is_initial_end=True))
    exchange = await world.api.asked()
    assert world.elapsed < 1.0
    assert first.is_closed
    assert world.given_back_at == [world.now()]
    assert exchange.query["resourceVersion"] == "10"


async def test_a_connection_that_was_left_meanwhile_is_not_left_again(world: World) -> None:
    """A large sync that ended with its connection leaves nothing to renew."""
    busy = await world.turns.take("another")
    world.start()
    exchange = await world.api.asked()
    large = [added(f"p{n}", str(n), size=300_000) for n in range(1, 5)]
    exchange.accept(*large, bookmark("10", is_initial_end=True)).end()
    exchange = await world.api.asked()
    second = exchange.accept(bookmark("10"))
    busy.give_back()
    await asyncio.sleep(1.0)
    assert not second.is_closed
    assert world.given_back_at == []


async def test_a_watch_that_waited_for_the_pace_is_not_opened_while_others_are_left(
    world: World,
) -> None:
    """Its buffer would be made of theirs."""
    world.pace = Pace(1.0)
    began = world.now()
    watch = await world.live()
    watch.end()
    await asyncio.sleep(0.73)
    world.renewals.want("another", lambda: None)
    await world.api.asked()
    assert world.given_back_at == [world.now()]
    assert world.now() - began > 0.75, "the pace alone would have let it go"


async def test_a_connection_is_left_after_a_large_relist_too(world: World) -> None:
    """Also when objects were held before."""
    watch = await world.live()
    watch.send(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}))
    await world.sink.until(SourceState.STALE)
    exchange = await world.api.asked()
    assert exchange.query["sendInitialEvents"] == "true"
    before = world.sink.events
    large = [added(f"p{n}", str(n + 20), size=300_000) for n in range(1, 5)]
    second = exchange.accept(*large)
    await settle()
    assert world.sink.events == before, "what is listed again is no event"
    second.send(bookmark("30", is_initial_end=True))
    exchange = await world.api.asked()
    assert exchange.query["resourceVersion"] == "30"
    assert second.is_closed


# Lists


async def listing(world: World) -> Exchange:
    """Let it start where initial events are known to fail."""
    world.memory.remember("hub", "", "pods", 3600.0)
    world.start()
    exchange = await world.api.asked()
    assert not exchange.is_watch
    return exchange


async def test_a_resource_that_has_to_be_listed_is(world: World) -> None:
    """Page by page, and committed at the end of the last."""
    exchange = await listing(world)
    assert exchange.query["limit"] == "500"
    exchange.accept(pod_list("10", pod("a", "3"), more="next")).end()
    exchange = await world.api.asked()
    assert exchange.query["continue"] == "next"
    assert world.sink.objects == {}
    exchange.accept(pod_list("10", pod("b", "7"))).end()
    exchange = await world.api.asked()
    assert exchange.is_watch
    assert exchange.query["resourceVersion"] == "10"
    assert world.sink.objects == {"a": "3", "b": "7"}


async def test_what_has_to_be_listed_is_remembered_under_both_of_its_names(world: World) -> None:
    """Other specs may name it by its kind."""
    world.start()
    (await world.api.asked()).refuse(422, "Invalid", "sendInitialEvents is forbidden")
    assert not (await world.api.asked()).is_watch
    assert world.memory.seconds_left("hub", "", "pods") > 0
    assert world.memory.seconds_left("hub", "", "Pod") > 0


BROKEN_LISTS = {
    "cut": b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[',
    "no list": b"<html>",
    "a Status": b'{"kind":"Status","code":500,"reason":"InternalError"}',
}


@pytest.mark.parametrize("name", BROKEN_LISTS)
async def test_a_list_that_cannot_be_used_is_asked_for_again(world: World, name: str) -> None:
    """Nothing of it is kept."""
    exchange = await listing(world)
    exchange.accept(BROKEN_LISTS[name]).end()
    exchange = await world.api.asked()
    assert not exchange.is_watch
    assert world.sink.objects == {}
    exchange.accept(pod_list("10", pod("a", "3"))).end()
    await world.sink.until(SourceState.LIVE)


async def test_an_empty_page_is_one(world: World) -> None:
    """No object is a state of a cluster."""
    exchange = await listing(world)
    exchange.accept(pod_list("10")).end()
    await world.sink.until(SourceState.LIVE)
    assert world.sink.objects == {}


# Failures


async def test_a_server_that_cannot_be_reached_is_asked_again(world: World) -> None:
    """With growing waits, and the state says why."""
    world.start()
    for _ in range(3):
        (await world.api.asked()).fail(REFUSED)
    await world.sink.until(SourceState.UNREACHABLE)
    assert world.sink.state is not None
    assert "connection refused" in world.sink.state[2]
    assert world.sink.state[4] is not None
    (await world.api.asked()).accept(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)
    assert world.elapsed >= 0.8 + 1.6 + 3.2


async def test_a_watch_that_breaks_off_goes_on(world: World) -> None:
    """What came before the break is good."""
    watch = await world.live()
    watch.send(added("b", "11"))
    watch.fail(CUT)
    exchange = await world.api.asked()
    assert exchange.query["resourceVersion"] == "11"
    assert world.sink.objects == {"a": "3", "b": "11"}


async def test_an_event_that_cannot_be_read_ends_the_watch(world: World) -> None:
    """Nothing is ever skipped: it is asked for again."""
    watch = await world.live()
    watch.send(added("b", "11"), b"garbage\n", added("c", "13"))
    exchange = await world.api.asked()
    assert exchange.query["resourceVersion"] == "11"
    assert watch.is_closed
    assert "c" not in world.sink.objects


async def test_retry_after_is_heeded(world: World) -> None:
    """The server knows best when to come again."""
    world.start()
    (await world.api.asked()).refuse(429, "TooManyRequests", **{"Retry-After": "30"})
    await world.api.asked()
    assert world.elapsed >= 30.0


async def test_a_status_whose_body_breaks_off_is_still_a_status(world: World) -> None:
    """The code says what matters."""
    world.start()
    exchange = await world.api.asked()
    body = Body(403, {}, None)
    body.fail(CUT)
    exchange.outcome.set_result(body)
    (await world.api.asked()).refuse(403)
    await world.sink.until(SourceState.FORBIDDEN)


async def test_contact_is_noted_with_every_answer_and_event(world: World) -> None:
    """An answer that refuses is a sign of life too."""
    world.start()
    (await world.api.asked()).refuse(403, "Forbidden")
    await settle()
    assert world.sink.contacts == 1
    (await world.api.asked()).refuse(403, "Forbidden")
    watch = (await world.api.asked()).accept(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)
    before = world.sink.contacts
    watch.send(bookmark("11"))
    await settle()
    assert world.sink.contacts > before


# Restart and faults


async def test_a_new_task_goes_on_with_what_is_held(world: World) -> None:
    """After a fault of ours objects stay, the state says so, and a lost right drops them still."""
    world.sink.is_synced = True
    world.sink.objects = {"a": "3"}
    world.start()
    exchange = await world.api.asked()
    assert world.sink.states[0][0] is SourceState.STALE
    assert world.sink.objects == {"a": "3"}
    while not world.sink.purged:
        exchange.refuse(403)
        exchange = await world.api.asked()
    assert world.sink.purged == [LeftReason.RIGHTS_REVOKED]
    assert world.elapsed >= 60.0


def explode(*_: object, **__: object) -> list[Effect]:
    """Be a fault of ours."""
    raise RuntimeError("a fault")


FAULTS = ("on_opened", "on_events", "on_timer")


@pytest.mark.parametrize("where", FAULTS)
async def test_a_fault_ends_the_task_wherever_it_happens(
    world: World, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the timer: nothing is left that looks alive and is not."""
    monkeypatch.setattr(Reflector, where, explode)
    world.start()
    (await world.api.asked()).accept(added("a", "3"))
    task, world.task = world.task, None
    assert task is not None
    async with asyncio.timeout(100.0):
        with pytest.raises(ExceptionGroup) as caught:
            await task
    assert caught.group_contains(RuntimeError, match="a fault")
    assert not world.turns.is_busy


async def test_a_time_out_of_something_else_is_a_fault(world: World) -> None:
    """Only the closing of a request may end it so."""

    async def resolve(*_: object, **__: object) -> Any:
        raise TimeoutError("a limit of somebody else")

    world.discovery.resolve = resolve  # type: ignore[method-assign]
    world.start()
    task, world.task = world.task, None
    assert task is not None
    with pytest.raises(ExceptionGroup) as caught:
        await task
    assert caught.group_contains(TimeoutError, match="somebody else")


async def test_it_says_what_it_is(world: World) -> None:
    """In logs of faults."""
    assert repr(world.runner()).startswith("<InformerRunner <Reflector pods syncing")


# Objects that left a selector


async def test_what_left_a_selector_is_asked_for_by_name(world: World) -> None:
    """Each deletion of a live stream under a selector leads to a GET of the informer's own."""
    world.spec = selecting()
    watch = await world.live()

    async def answer(request: Request) -> Answer:
        return Answer(404, {}, b"")

    world.api.answer_call = answer
    world.sink.doubts = [Unverified("team-a", "a", "uid-a")]
    watch.send(event("DELETED", pod("a", "11")))
    await settle()
    assert [request.path for request in world.api.called] == ["/api/v1/namespaces/team-a/pods/a"]
    assert world.sink.resolved == [("a", True)]


async def test_what_a_sync_did_not_find_is_asked_for_too(world: World) -> None:
    """Behind a commit there may be doubts as well."""
    world.spec = selecting()

    async def answer(request: Request) -> Answer:
        return Answer(404, {}, b"")

    world.api.answer_call = answer
    world.sink.doubts = [Unverified("team-a", "gone", "uid-gone")]
    await world.live()
    await settle()
    assert world.sink.resolved == [("gone", True)]


def selecting() -> SourceSpec:
    """Return the spec of an informer for which the API server selects."""
    return source_spec(namespace="team-a", label_selector="app=web")
