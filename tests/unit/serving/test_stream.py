"""Rules of one Watch stream: what it says, in which order, and when it is silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.items import item, served, source_spec
from tests.unit.serving.watched import Reader, Watched, change, delete
from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Clock
from watchcache_server.informer.objects import Upsert
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    LimitExceededError,
    ServiceDrainingError,
)
from watchcache_server.model.states import LeftReason, SourceState

pytestmark = pytest.mark.looptime

ADDED, MODIFIED = event_pb2.EVENT_TYPE_ADDED, event_pb2.EVENT_TYPE_MODIFIED
DELETED, LEFT = event_pb2.EVENT_TYPE_DELETED, event_pb2.EVENT_TYPE_LEFT


@pytest.fixture
async def world() -> AsyncIterator[Watched]:
    """Give an extension that is watched."""
    world = Watched()
    yield world
    await world.close()


def clocked(world: Watched) -> None:
    """Let the extension's clock be that of the loop."""
    now = asyncio.get_running_loop().time
    world.extension.clock = Clock(now=now, wall=now)


# The order of a stream


async def test_a_stream_opens_with_states_and_a_snapshot(world: Watched) -> None:
    """Started, the state of each informer, the objects, and Synced with the first token."""
    world.live("a", "b")
    reader = world.watch()
    synced = await reader.until("synced")
    assert reader.kinds == ["started", "source_status", "batch", "synced"]
    started = reader.messages[0].started
    assert started.mode == pb.START_MODE_SNAPSHOT
    assert started.extension_uid == world.extension.uid
    assert started.bookmark_interval == Duration(seconds=30)
    assert reader.events == [(ADDED, "a"), (ADDED, "b")]
    assert not reader.of("batch")[0].resume_token
    assert synced.resume_token


async def test_an_extension_without_informers_is_synced_at_once(world: Watched) -> None:
    """There is nothing to wait for."""
    reader = world.watch()
    assert (await reader.until("synced")).resume_token
    assert reader.kinds == ["started", "synced"]


async def test_changes_follow_each_with_a_token(world: Watched) -> None:
    """In order, and several that come at once in one batch."""
    informer = world.live("a")
    reader = world.watch()
    await reader.until("synced")
    change(informer, "b", "11")
    delete(informer, "a", "12")
    batch = await reader.until("batch", 2)
    assert [(each.type, each.object.key.name) for each in batch.events] == [
        (ADDED, "b"),
        (DELETED, "a"),
    ]
    assert batch.resume_token
    sent = world.reporter.of("batch_sent")
    assert [count for count, *_ in sent] == [1, 2]


async def test_synced_waits_for_every_informer_in_view(world: Watched) -> None:
    """Until it is loaded or has failed; its first objects come before."""
    world.live("a")
    second = world.informer(namespace="team-b")
    reader = world.watch()
    await reader.until("batch")
    await asyncio.sleep(1.0)
    assert "synced" not in reader.kinds
    second.stage([item("late", namespace="team-b")])
    second.commit(0.0, "10")
    second.set_state(SourceState.LIVE, "SYNCED", "")
    await reader.until("synced")
    assert reader.events == [(ADDED, "a"), (ADDED, "late")]


async def test_an_informer_that_failed_holds_nothing_up(world: Watched) -> None:
    """Its state was said; what it holds later comes as ADDED."""
    failed = world.informer()
    failed.set_state(SourceState.FORBIDDEN, "VERBS_MISSING", "needs list")
    reader = world.watch()
    await reader.until("synced")
    (status,) = reader.of("source_status")
    assert status.state == extension_pb2.SOURCE_STATE_FORBIDDEN
    failed.stage([item("a")])
    failed.commit(0.0, "10")
    await reader.until("batch")
    assert reader.events == [(ADDED, "a")]


async def test_informers_out_of_view_are_not_waited_for(world: Watched) -> None:
    """Nor spoken of."""
    world.live("a")
    world.informer(namespace="team-b")
    reader = world.watch(filter=pb.Filter(namespaces=["team-a"]))
    await reader.until("synced")
    assert len(reader.of("source_status")) == 1


async def test_a_kind_of_which_only_the_name_is_known_is_waited_for(world: Watched) -> None:
    """It may be the resource that the filter asks for."""
    informer = world.extension.add_informer(source_spec("", kind="Pod", namespace="team-a"))
    reader = world.watch(filter=pb.Filter(resources=[pb.ResourceRef(resource="pods")]))
    await reader.until("source_status")
    await asyncio.sleep(1.0)
    assert "synced" not in reader.kinds
    informer.bind(served())
    informer.stage([item("a")])
    informer.commit(0.0, "10")
    informer.set_state(SourceState.LIVE, "SYNCED", "")
    await reader.until("synced")
    assert reader.events == [(ADDED, "a")]


async def test_the_next_part_of_a_snapshot_is_made_while_one_is_on_its_way(world: Watched) -> None:
    """And kept for its turn; nothing more is made of an extension that has ended."""
    world.live(*(f"p{number}" for number in range(1200)))
    for is_ended in (False, True):
        world.watching.forget(world.extension)
        reader = Reader(patience=2)
        world.watch(reader)
        await reader.until_stuck()
        first = world.watching.cached_bytes
        assert first > 0
        if is_ended:
            world.extension.end("DEREGISTERED")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (world.watching.cached_bytes > first) is not is_ended
        reader.go_on()
        if not is_ended:
            await reader.until("synced")
            assert len(reader.events) == 1200


async def test_a_step_that_looks_at_much_and_finds_nothing_leaves_the_loop_to_others(
    world: Watched,
) -> None:
    """A filter that few objects pass is no reason to hold everybody up."""
    world.live(*(f"p{number}" for number in range(10_000)))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    reader = world.watch(filter=pb.Filter(label_selector="app=none"))
    before = turns
    await reader.until("synced")
    assert turns - before >= 2
    assert reader.events == []
    task.cancel()


# States


async def test_a_new_state_is_said_at_once(world: Watched) -> None:
    """Of the informer that has it only."""
    world.live("a")
    other = world.live("b", namespace="team-b")
    reader = world.watch()
    await reader.until("synced")
    other.set_state(SourceState.STALE, "CONNECTION_FAILED", "refused")
    status = await reader.until("source_status", 3)
    assert (status.namespace, status.state) == ("team-b", extension_pb2.SOURCE_STATE_STALE)


async def test_a_state_that_changes_during_a_write_is_not_missed(world: Watched) -> None:
    """The stream looks again before it rests, whatever it was saying."""
    first = world.live("a")
    second = world.live("b", namespace="team-b")
    reader = world.watch()
    await reader.until("synced")
    reader.hold()
    first.set_state(SourceState.STALE, "CONNECTION_FAILED", "refused")
    await reader.until_stuck()
    second.set_state(SourceState.STALE, "CONNECTION_FAILED", "refused")
    began = asyncio.get_running_loop().time()
    reader.go_on()
    await reader.until("source_status", 4)
    assert asyncio.get_running_loop().time() - began < 1.0


async def test_an_end_during_the_telling_of_states_is_noticed_at_once(world: Watched) -> None:
    """Not only with the next bookmark."""
    informer = world.live("a")
    reader = world.watch()
    await reader.until("synced")
    reader.hold()
    informer.set_state(SourceState.STALE, "CONNECTION_FAILED", "refused")
    await reader.until_stuck()
    world.extension.end("DEREGISTERED")
    began = asyncio.get_running_loop().time()
    reader.go_on()
    await world.error()
    assert asyncio.get_running_loop().time() - began < 1.0
    assert reader.kinds[-1] == "source_status", "nothing of what was dropped is sent"


async def test_states_that_keep_changing_hold_no_event_up(world: Watched) -> None:
    """Each round says both."""
    informer = world.live("a")
    reader = world.watch()
    await reader.until("synced")
    for number in range(50):
        reader.hold()
        informer.set_state(SourceState.STALE, "CONNECTION_FAILED", f"attempt {number}")
        if number == 10:
            change(informer, "b", "11")
        await reader.until_stuck()
        reader.go_on()
        await asyncio.sleep(0)
        if number == 12:
            assert (ADDED, "b") in reader.events


async def test_an_informer_that_ended_is_said_to_have_stopped(world: Watched) -> None:
    """And its objects have left."""
    informer = world.live("a")
    reader = world.watch()
    await reader.until("synced")
    world.extension.retire_informer(informer)
    world.extension.remove_informer(informer)
    status = await reader.until("source_status", 2)
    assert status.state == extension_pb2.SOURCE_STATE_STOPPED
    batch = await reader.until("batch", 2)
    assert batch.events[0].left_reason == event_pb2.LEFT_REASON_SCOPE


# Bookmarks


async def test_silence_is_broken_by_bookmarks(world: Watched) -> None:
    """After the interval that was asked for, counted from the last message, with the token."""
    clocked(world)
    informer = world.live("a")
    reader = world.watch(bookmark_interval=Duration(seconds=10))
    synced = await reader.until("synced")
    loop = asyncio.get_running_loop()
    began = loop.time()
    bookmark = await reader.until("bookmark")
    assert loop.time() - began == pytest.approx(10.0, abs=0.1)
    assert bookmark.resume_token == synced.resume_token
    await asyncio.sleep(6.0)
    change(informer, "b", "11")
    batch = await reader.until("batch", 2)
    began = loop.time()
    bookmark = await reader.until("bookmark", 2)
    assert loop.time() - began == pytest.approx(10.0, abs=0.1)
    assert bookmark.resume_token == batch.resume_token


async def test_a_bookmark_of_an_unfinished_snapshot_has_no_token(world: Watched) -> None:
    """There is nothing to resume yet."""
    clocked(world)
    world.informer()
    reader = world.watch(bookmark_interval=Duration(seconds=10))
    assert (await reader.until("bookmark")).resume_token == b""


INTERVALS = {"too short": (0.1, 1.0), "too long": (3600.0, 300.0), "as asked": (7.5, 7.5)}


@pytest.mark.parametrize("name", INTERVALS)
async def test_the_interval_is_brought_into_bounds(world: Watched, name: str) -> None:
    """And said in Started."""
    asked, expected = INTERVALS[name]
    wanted = Duration(seconds=int(asked), nanos=int(asked % 1 * 1e9))
    reader = world.watch(bookmark_interval=wanted)
    started = await reader.until("started")
    assert started.bookmark_interval.ToMilliseconds() == expected * 1000


# Resume and reset


async def test_a_token_goes_on_after_what_it_covers(world: Watched) -> None:
    """Deletions included, and nothing twice."""
    informer = world.live("a", "b")
    reader = world.watch()
    token = (await reader.until("synced")).resume_token
    change(informer, "c", "11")
    delete(informer, "a", "12")
    resumed = world.watch(resume_token=token)
    await resumed.until("synced")
    assert resumed.messages[0].started.mode == pb.START_MODE_RESUMED
    assert resumed.events == [(ADDED, "c"), (DELETED, "a")]
    assert resumed.of("batch")[0].resume_token


async def test_beyond_the_history_a_stream_catches_up(world: Watched) -> None:
    """The latest of each object comes, marked; also on a stream that fell behind while open."""
    informer = world.live("a")
    reader = world.watch()
    token = (await reader.until("synced")).resume_token
    reader.hold()
    change(informer, "b", "11")
    await reader.until_stuck()
    for number in range(150):
        change(informer, "b", str(20 + number))
    delete(informer, "a", "200")
    late = world.watch(resume_token=token)
    await late.until("synced")
    assert late.messages[0].started.mode == pb.START_MODE_RESUMED
    # An earlier stream of this reader may have told it of b.
    assert late.events == [(MODIFIED, "b"), (DELETED, "a")]
    batch = late.of("batch")[0]
    assert batch.coalesced
    assert [event.object.resource_version for event in batch.events] == ["169", "200"]
    reader.go_on()
    await reader.until("batch", 3)
    assert reader.of("reset") == []
    assert [each.coalesced for each in reader.of("batch")[1:]] == [False, True]
    assert reader.events[-2:] == [(MODIFIED, "b"), (DELETED, "a")]
    change(informer, "b", "300")
    assert not (await late.until("batch", 2)).coalesced


async def test_beyond_all_that_is_kept_a_snapshot_begins_anew(world: Watched) -> None:
    """Reset says why, also to a stream that fell behind while it was open."""
    informer = world.live("a")
    reader = world.watch()
    token = (await reader.until("synced")).resume_token
    reader.hold()
    change(informer, "b", "11")
    await reader.until_stuck()
    for number in range(1200):
        change(informer, "gone", str(20 + 2 * number))
        delete(informer, "gone", str(21 + 2 * number))
    late = world.watch(resume_token=token)
    await late.until("synced")
    assert [each.reason for each in late.of("reset")] == [pb.RESET_REASON_HISTORY_EXPIRED]
    assert late.kinds[:2] == ["started", "reset"]
    assert late.events == [(ADDED, "a"), (ADDED, "b")]
    reader.go_on()
    await reader.until("synced", 2)
    after = reader.messages[reader.kinds.index("reset") :]
    assert [each.WhichOneof("response") for each in after] == ["reset", "batch", "synced"]
    assert not after[1].batch.resume_token
    assert [key for key, _ in world.reporter.of("subscriber_reset")] == [world.extension.key] * 2


async def test_what_was_read_with_a_lost_right_is_sent_no_more(world: Watched) -> None:
    """Who is behind begins anew; who was up to date is told that it has left."""
    informer = world.live("a")
    reader, slow = world.watch(), world.watch()
    await reader.until("synced")
    await slow.until("synced")
    slow.hold()
    change(informer, "b", "11")
    await slow.until_stuck()
    await reader.until("batch", 2)
    change(informer, "secret", "12")
    await reader.until("batch", 3)
    informer.purge(LeftReason.RIGHTS_REVOKED)
    world.watching.forget(world.extension)
    await reader.until("batch", 4)
    slow.go_on()
    await slow.until("synced", 2)
    assert "secret" not in {name for _, name in slow.events}
    left = reader.of("batch")[3].events
    assert {each.left_reason for each in left} == {event_pb2.LEFT_REASON_RIGHTS_REVOKED}
    assert not any(each.object.HasField("body") for each in left)
    came_back = world.watch(resume_token=reader.of("batch")[2].resume_token)
    await came_back.until("synced")
    assert not any(event.object.json for batch in came_back.of("batch") for event in batch.events)


# Ends


async def test_an_extension_that_ends_ends_its_streams(world: Watched) -> None:
    """Each with the reason, at once, wherever it stands."""
    world.live("a")
    resting, writing = world.watch(), Reader()
    writing.hold()
    world.watch(writing)
    await resting.until("synced")
    await writing.until_stuck()
    world.extension.end("TTL_EXPIRED")
    error = await world.error(0)
    assert isinstance(error, ExtensionNotFoundError)
    assert error.reason == "EXTENSION_TTL_EXPIRED"
    writing.go_on()
    assert isinstance(await world.error(1), ExtensionNotFoundError)
    assert world.watching.stream_count == 0


async def test_a_drain_reaches_streams_in_every_phase(world: Watched) -> None:
    """At rest, opening, in the middle of a snapshot, and with more to say than is ever said."""
    informer = world.live(*(f"p{number}" for number in range(1200)))
    resting = world.watch()
    token = (await resting.until("synced")).resume_token
    opening, walking, busy = Reader(patience=0), Reader(patience=2), Reader(patience=2)
    world.watch(opening)
    world.watch(walking)
    change(informer, "busy", "9999")
    world.watch(busy, resume_token=token)
    for reader in (opening, walking, busy):
        await reader.until_stuck()
    for number in range(5):
        change(informer, "busy", str(10_000 + number))
    world.drain()
    for reader in (opening, walking, busy):
        reader.go_on()
    for number, reader in enumerate((resting, opening, walking, busy)):
        assert isinstance(await world.error(number), ServiceDrainingError)
        assert reader.kinds[-1] == "draining"
    assert resting.of("draining")[0].resume_token
    assert not opening.of("draining")[0].resume_token
    assert not walking.of("draining")[0].resume_token
    assert busy.of("draining")[0].resume_token


async def test_a_reader_that_takes_nothing_holds_nothing(world: Watched) -> None:
    """Once it has stalled its stream counts no more; it ends when the reader comes back."""
    world.watching = Watched(stalled_write_seconds=5).watching
    parts: Any = world
    world.watching._registry = parts
    world.watching._reporter = world.reporter
    informer = world.live("a")
    reader = world.watch()
    await reader.until("synced")
    reader.hold()
    change(informer, "b", "11")
    await reader.until_stuck()
    assert (world.watching.stream_count, world.extension.subscription_count) == (1, 1)
    await asyncio.sleep(5.5)
    assert (world.watching.stream_count, world.extension.subscription_count) == (0, 0)
    assert world.reporter.of("stream_stalled") == [[world.extension.key]]
    assert not world.tasks[-1].done()
    reader.go_on()
    error = await world.error()
    assert isinstance(error, LimitExceededError)
    assert error.setting == "stalled_write_seconds"
    assert "team-a/shop" in error.subject
    assert world.extension.subscription_count == 0, "it is not let go of twice"


async def test_a_stream_behind_a_dropped_history_has_no_age(world: Watched) -> None:
    """A scrape at that moment is no fault."""
    informer = world.live("a")
    reader = world.watch()
    await reader.until("synced")
    reader.hold()
    change(informer, "b", "11")
    await reader.until_stuck()
    change(informer, "c", "12")
    assert next(iter(world.watching.lags()))[0] == 1
    world.extension.store.history.forget()
    assert list(world.watching.lags()) == [(1, 0.0)]


# News of others


async def test_a_stream_sleeps_through_what_is_none_of_its_concern(world: Watched) -> None:
    """Its bookmarks go along, and what concerns it comes at once."""
    clocked(world)
    informer = world.live("a")
    selector = pb.Filter(label_selector="tier=gold")
    reader = world.watch(filter=selector, bookmark_interval=Duration(seconds=10))
    await reader.until("synced")
    for number in range(150):
        change(informer, "a", str(20 + number))
    (lag,) = world.watching.lags()
    assert lag == (0, 0.0)
    token = (await reader.until("bookmark")).resume_token
    assert reader.events == []
    assert len(reader.of("batch")) == 0
    for number in range(20):
        change(informer, "a", str(200 + number))
    late = world.watch(filter=selector, resume_token=token)
    await late.until("synced")
    assert late.kinds == ["started", "source_status", "synced"]
    gold = item("b", uid="uid-b", version="300", labels={"tier": "gold"})
    informer.apply([Upsert(gold)], 0.0)
    await reader.until("batch")
    assert reader.events == [(ADDED, "b")]
    assert len(world.extension.store.interest) == 1


async def test_topics_are_followed_while_somebody_reads(world: Watched) -> None:
    """And no longer."""
    world.live("a")
    reader = world.watch(filter=pb.Filter(label_selector="tier=gold"))
    await reader.until("synced")
    assert len(world.extension.store.interest) == 1
    await world.close()
    assert len(world.extension.store.interest) == 0
