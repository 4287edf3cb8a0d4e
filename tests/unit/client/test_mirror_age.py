"""How old the data of a mirror is, and how one waits for it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

import watchcache
from tests.unit.client.fake_service import (
    event,
)
from tests.unit.client.scripted_watch import (
    SNAPSHOT,
    ScriptedWatch,
    changes,
    mirror_of,
    status,
)
from watchcache import (
    Backoff,
    Bookmark,
    Disconnected,
    MirrorClosedError,
    NotSyncedError,
    StaleError,
    Started,
    StartMode,
    Synced,
    UnavailableError,
)

_QUICK = Backoff(0.001, 0.01)
_RESUMED = Started(StartMode.RESUMED, "extension-1", 10.0)
_AWAY = Disconnected(UnavailableError("the service is away"), 1.0)

# How old it is.


@pytest.mark.looptime
async def test_age_is_the_time_since_the_stream_confirmed_the_data() -> None:
    """Batches, bookmarks and the end of a snapshot confirm it."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        await watch.say_snapshot()
        assert mirror.age == pytest.approx(0)
        await asyncio.sleep(7)
        assert mirror.age == pytest.approx(7)
        await watch.say(changes(event("ADDED", "a")))
        assert mirror.age == pytest.approx(0)
        await asyncio.sleep(3)
        await watch.say(Bookmark())
        assert mirror.age == pytest.approx(0)
        await asyncio.sleep(2)
        await watch.say(status("secrets", "SYNCING"))
        assert mirror.age == pytest.approx(2)


@pytest.mark.looptime
async def test_data_that_is_too_old_cannot_be_read() -> None:
    """A service that is down leaves the last state readable until `max_age`, and says so then."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch, max_age=90)
    async with mirror:
        await watch.say_snapshot(event("ADDED", "a"))
        await watch.say(_AWAY)
        await asyncio.sleep(89)
        assert len(mirror.list("pods")) == 1
        assert not mirror.is_stale
        await asyncio.sleep(2)
        assert mirror.is_stale
        with pytest.raises(
            StaleError, match=r"91\.0 s old and may be 90 s: the service is away"
        ) as e:
            mirror.list("pods")
        assert e.value.age_seconds == pytest.approx(91)
        await watch.say(_RESUMED, status(), Bookmark())
        assert len(mirror.list("pods")) == 1


@pytest.mark.looptime
async def test_without_a_max_age_old_data_stays_readable() -> None:
    """The age is there to be asked for."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        await watch.say_snapshot(event("ADDED", "a"))
        await asyncio.sleep(10_000)
        assert len(mirror.list("pods")) == 1
        assert mirror.age == pytest.approx(10_000)
        assert not mirror.is_stale


@pytest.mark.looptime
async def test_what_is_caught_up_on_is_not_taken_for_new() -> None:
    """After resuming, batches are of the past until a bookmark, or an interval, says otherwise."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        await watch.say_snapshot()
        await watch.say(_AWAY)
        await asyncio.sleep(60)
        await watch.say(_RESUMED, status(), changes(event("ADDED", "a")))
        assert mirror.age == pytest.approx(60)
        await watch.say(Bookmark())
        assert mirror.age == pytest.approx(0)
        await watch.say(_AWAY, _RESUMED)
        await asyncio.sleep(11)
        await watch.say(changes(event("ADDED", "b", rv=2)))
        assert mirror.age == pytest.approx(0)


@pytest.mark.looptime
async def test_a_stale_informer_makes_its_resource_old() -> None:
    """A live stream from a service that has lost its API server proves nothing."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch, max_age=90)
    contact = Timestamp()
    contact.FromDatetime(datetime.now(UTC) - timedelta(seconds=60))
    stale = status("secrets", "STALE", last_contact_time=contact, message="no route")
    async with mirror:
        await watch.say(SNAPSHOT, status(), stale, Synced())
        assert mirror.age == pytest.approx(60, abs=5)
        await asyncio.sleep(40)
        await watch.say(Bookmark())
        assert mirror.list("pods") == []
        with pytest.raises(StaleError, match="no route"):
            mirror.list("secrets")
        await watch.say(status("secrets"), Bookmark())
        assert mirror.list("secrets") == []


@pytest.mark.looptime
async def test_a_silent_stream_makes_the_data_old() -> None:
    """Nobody needs to notice a break for the data to age."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch, max_age=30)
    async with mirror:
        await watch.say_snapshot()
        await asyncio.sleep(31)
        with pytest.raises(StaleError, match="has not confirmed it"):
            mirror.list("pods")


# How it waits.


@pytest.mark.looptime
async def test_waiting_ends_with_the_snapshot() -> None:
    """And with the resources that are named, once they can be read."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror, asyncio.timeout(100), asyncio.TaskGroup() as group:
        waits = [
            group.create_task(mirror.wait_synced()),
            group.create_task(mirror.wait_synced("pods", "secrets", timeout="1m")),
        ]
        await watch.say(SNAPSHOT, status(), status("secrets", "FORBIDDEN"), Synced())
        assert [wait.done() for wait in waits] == [True, False]
        await asyncio.sleep(30)
        await watch.say(status("secrets"))
        assert [wait.done() for wait in waits] == [True, True]


@pytest.mark.looptime
async def test_waiting_too_long_says_what_is_missing() -> None:
    """The error names the informer and its reason, or the break."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        with pytest.raises(NotSyncedError, match="the snapshot has not come yet"):
            await mirror.wait_synced(timeout=5)
        await watch.say(SNAPSHOT, status("secrets", "FORBIDDEN", message="needs list"), Synced())
        with pytest.raises(NotSyncedError, match="secrets on hub is FORBIDDEN"):
            await mirror.wait_synced("secrets", timeout=5)


async def test_a_mirror_that_has_ended_says_why() -> None:
    """Waiting and reading raise what ended it; nobody waits for ever."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        await watch.say_snapshot()
        waiting = asyncio.create_task(mirror.wait_synced("secrets"))
        await watch.say(watchcache.DeregisteredError("by hand", reason="EXTENSION_DEREGISTERED"))
        for read in (waiting, mirror.wait_synced("secrets")):
            with pytest.raises(MirrorClosedError, match="by hand"):
                await read
        with pytest.raises(MirrorClosedError) as caught:
            mirror.list("pods")
        assert caught.value.reason == "EXTENSION_DEREGISTERED"
        assert isinstance(mirror.failure, watchcache.DeregisteredError)
