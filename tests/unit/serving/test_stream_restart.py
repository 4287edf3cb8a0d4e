"""Rules of a stream that goes on where another life of the extension has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.unit.serving.past import ScriptedPast, ended, lost
from tests.unit.serving.watched import Reader, Watched, change
from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Clock
from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.filters import EVERYTHING
from watchcache_server.informer.resume import ResumeToken, extension_digest
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    ResumeLostError,
    ServiceDrainingError,
)
from watchcache_server.model.states import EventKind, SourceState

pytestmark = pytest.mark.looptime

ADDED, DELETED = event_pb2.EVENT_TYPE_ADDED, event_pb2.EVENT_TYPE_DELETED
LEFT = event_pb2.EVENT_TYPE_LEFT


@pytest.fixture
async def world() -> AsyncIterator[Watched]:
    """Give an extension that is watched."""
    world = Watched()
    now = asyncio.get_running_loop().time
    world.extension.clock = Clock(now=now, wall=now)
    yield world
    await world.close()


def come_back(world: Watched, *informers: Informer, version: int = 11, **request: Any) -> Reader:
    """Watch as one to whom another life has told everything up to a version of these."""
    token = ResumeToken(
        extension_digest(world.extension.key),
        b"8 bytes!",
        EVERYTHING.digest,
        5000,
        positions=tuple((informer.source.identity, version) for informer in informers),
    )
    interval = Duration(seconds=1)
    return world.watch(resume_token=token.encode(), bookmark_interval=interval, **request)


async def test_what_was_missed_is_sent_and_nothing_else(world: Watched) -> None:
    """Ends first, then what is newer than what was told, then Synced with the first token."""
    informer = world.live("kept")
    change(informer, "new", "13")
    before, after = ended(informer, "before", "9"), ended(informer, "x", "12")
    past = ScriptedPast(informer, before, after, ended(informer, "y", "12", EventKind.LEFT))
    reader = come_back(world, informer)
    synced = await reader.until("synced")
    assert reader.kinds == ["started", "source_status", "batch", "batch", "synced"]
    started = reader.messages[0].started
    assert started.mode == pb.START_MODE_RESUMED
    assert started.extension_uid == world.extension.uid
    assert reader.events == [(DELETED, "x"), (LEFT, "y"), (ADDED, "new")]
    batches = reader.of("batch")
    assert [(batch.coalesced, batch.resume_token) for batch in batches] == [(True, b"")] * 2
    left = batches[0].events[1]
    assert left.left_reason == event_pb2.LEFT_REASON_SELECTION
    assert left.final_state_unknown
    assert past.asked == ["11"]
    token = ResumeToken.decode(synced.resume_token)
    assert (token.epoch, token.revision) == (
        world.extension.store.epoch,
        world.extension.store.revision,
    )
    change(informer, "later", "14")
    batch = await reader.until("batch", 3)
    assert not batch.coalesced
    assert batch.resume_token


async def test_an_object_that_is_there_again_is_there_in_the_end(world: Watched) -> None:
    """Its end is told before the walk comes to the new one."""
    informer = world.live("kept")
    change(informer, "again", "13")
    ScriptedPast(informer, ended(informer, "again", "12"))
    reader = come_back(world, informer)
    await reader.until("synced")
    assert reader.events == [(DELETED, "again"), (ADDED, "again")]


async def test_many_ends_are_split_into_messages(world: Watched) -> None:
    """None is lost, and their order is kept."""
    informer = world.live()
    ScriptedPast(informer, *(ended(informer, f"p{number}", "12") for number in range(1025)))
    reader = come_back(world, informer)
    await reader.until("synced")
    assert [len(batch.events) for batch in reader.of("batch")] == [512, 512, 1]
    assert reader.events == [(DELETED, f"p{number}") for number in range(1025)]


async def test_it_waits_until_the_informers_are_settled(world: Watched) -> None:
    """States and bookmarks without a token are said meanwhile."""
    informer = world.informer()
    past = ScriptedPast(informer)
    reader = come_back(world, informer)
    for count in (1, 2):
        assert (await reader.until("bookmark", count)).resume_token == b""
    assert (past.asked, reader.of("synced")) == ([], [])
    informer.set_state(SourceState.SYNCING, "LISTING", "")
    assert (await reader.until("source_status", 2)).reason == "LISTING"
    assert past.asked == []
    informer.commit(0.0, "20")
    informer.set_state(SourceState.LIVE, "SYNCED", "")
    assert (await reader.until("synced")).resume_token
    assert past.asked == ["11"]


async def test_what_others_change_meanwhile_is_no_reason_not_to_wait(world: Watched) -> None:
    """The others of the service are served, bookmarks come, and all is said once it is settled.

    Found by a storm of restarts: a reader whose silence was over never waited again, and with it
    stood the whole service.
    """
    busy, late = world.live("kept"), world.informer(namespace="team-b")
    past, other = ScriptedPast(busy), ScriptedPast(late)
    reader = come_back(world, busy, late)
    for count in range(1, 4):
        change(busy, "kept", str(20 + count))
        assert (await reader.until("bookmark", count)).resume_token == b""
    assert (past.asked, reader.of("batch")) == ([], [])
    late.commit(0.0, "20")
    late.set_state(SourceState.LIVE, "SYNCED", "")
    assert (await reader.until("synced")).resume_token
    assert reader.events == [(ADDED, "kept")]
    assert (past.asked, other.asked) == (["11"], ["11"])


async def test_bookmarks_come_while_the_past_is_read(world: Watched) -> None:
    """Its reader would take the stream for dead otherwise."""
    informer = world.live("a")
    past = ScriptedPast(informer)
    past.may_answer.clear()
    reader = come_back(world, informer)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for count in range(1, 4):
        assert (await reader.until("bookmark", count)).resume_token == b""
    assert loop.time() - began == pytest.approx(3.0, abs=0.5)
    assert reader.kinds[:3] == ["started", "source_status", "bookmark"]
    assert past.asked == ["11"]
    past.may_answer.set()
    assert (await reader.until("synced")).resume_token


ENDS = {"drain": ServiceDrainingError, "end": ExtensionNotFoundError}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("is_reading", [False, True], ids=["loading", "reading"])
async def test_an_end_is_noticed_while_it_waits(
    world: Watched, name: str, is_reading: bool
) -> None:
    """For informers, or for the past: soon, without a token, and nothing is left running."""
    informer = world.live("a") if is_reading else world.informer()
    past = ScriptedPast(informer)
    past.may_answer.clear()
    reader = come_back(world, informer)
    await reader.until("bookmark")
    assert bool(past.asked) is is_reading
    loop = asyncio.get_running_loop()
    began = loop.time()
    world.drain() if name == "drain" else world.extension.end("DEREGISTERED")
    assert type(await world.error()) is ENDS[name]
    assert loop.time() - began < 1.5
    assert [each.resume_token for each in reader.of("draining")] == [b""] * (name == "drain")
    await asyncio.sleep(0)
    assert past.was_cancelled is is_reading


async def test_a_reader_that_leaves_ends_the_reading(world: Watched) -> None:
    """Nobody waits for it any more."""
    informer = world.live("a")
    past = ScriptedPast(informer)
    past.may_answer.clear()
    reader = come_back(world, informer)
    await reader.until("bookmark")
    await world.close()
    await asyncio.sleep(0)
    assert past.was_cancelled


# Where it cannot be


async def test_a_lost_past_begins_anew(world: Watched) -> None:
    """With a Reset, and a snapshot in which nothing that was held counts."""
    informer = world.live("a")
    ScriptedPast(informer, error=lost())
    reader = come_back(world, informer)
    assert (await reader.until("synced")).resume_token
    assert [each.reason for each in reader.of("reset")] == [pb.RESET_REASON_EPOCH_CHANGED]
    assert reader.events == [(ADDED, "a")]
    assert not reader.of("batch")[0].coalesced
    assert world.reporter.of("subscriber_reset") == [
        [world.extension.key, "RESET_REASON_EPOCH_CHANGED"]
    ]


async def test_who_wants_no_reset_is_told_that_the_past_is_lost(world: Watched) -> None:
    """It says what it holds then."""
    informer = world.live("a")
    ScriptedPast(informer, error=lost())
    reader = come_back(world, informer, fail_on_reset=True)
    error = await world.error()
    assert isinstance(error, ResumeLostError)
    assert "restarted" in str(error)
    assert reader.of("reset") == []
    assert reader.events == []


async def test_an_informer_that_failed_has_no_past(world: Watched) -> None:
    """What became of its objects is open; the others are not told halfway."""
    informer, failed = world.live("a"), world.informer(namespace="team-b")
    failed.set_state(SourceState.UNREACHABLE, "CONNECTION_FAILED", "refused")
    ScriptedPast(informer, ended(informer, "x", "12"))
    ScriptedPast(failed, error=lost())
    reader = come_back(world, informer, failed)
    await reader.until("synced")
    assert [each.reason for each in reader.of("reset")] == [pb.RESET_REASON_EPOCH_CHANGED]
    assert reader.events == [(ADDED, "a")]


async def test_an_informer_that_failed_and_was_not_told_of_holds_nothing_up(
    world: Watched,
) -> None:
    """The reader holds nothing of it."""
    informer, failed = world.live("a"), world.informer(namespace="team-b")
    failed.set_state(SourceState.FORBIDDEN, "VERBS_MISSING", "needs list")
    ScriptedPast(informer, ended(informer, "x", "12"))
    reader = come_back(world, informer)
    assert (await reader.until("synced")).resume_token
    assert reader.of("reset") == []
    assert reader.events == [(DELETED, "x")]


async def test_a_fault_ends_the_stream_and_nothing_else(world: Watched) -> None:
    """It is not taken for a lost past."""
    informer = world.live("a")
    ScriptedPast(informer, error=LookupError("a fault"))
    reader = come_back(world, informer)
    assert isinstance(await world.error(), LookupError)
    assert reader.of("reset") == []
    assert world.watching.stream_count == 0
