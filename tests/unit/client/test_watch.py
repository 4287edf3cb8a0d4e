"""A watch goes on by itself, where it was, against a service that breaks in each possible way."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest

import watchcache
from tests.unit.client.fake_service import (
    CONNECTION_AGED,
    DEREGISTERED,
    NOT_FOUND,
    UNAVAILABLE,
    End,
    FakeService,
    batch,
    bookmark,
    draining,
    event,
    reset,
    serving,
    source,
    started,
    synced,
)
from tests.unit.client.waiting import LIMIT_SECONDS, eventually
from watchcache import Backoff, Batch, Disconnected, Event, Extension, Started, Watch
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

_QUICK = Backoff(0.001, 0.01)


def _watch(extension: Extension, **options: Any) -> Watch[dict[str, Any]]:
    return extension.watch(backoff=_QUICK, **options)


async def _take(watch: Watch[Any], count: int) -> list[Any]:
    async with asyncio.timeout(LIMIT_SECONDS):
        return [await anext(watch) for _ in range(count)]


async def _events(watch: Watch[Any], count: int) -> list[Event[Any]]:
    events: list[Event[Any]] = []
    while len(events) < count:
        (message,) = await _take(watch, 1)
        if isinstance(message, Batch):
            events += message
    return events


def _names(messages: list[Any]) -> list[str]:
    return [type(message).__name__ for message in messages]


async def test_the_request_says_what_was_asked_for(
    service: FakeService, extension: Extension
) -> None:
    """Filter, view, token and interval reach the service as they were given."""
    service.scripts = [[started()]]
    async with extension.watch(
        resources=["deployments.apps"],
        namespaces=["team-a"],
        clusters=["hub"],
        label_selector="app=web",
        view="metadata",
        bookmark_interval="10s",
        resume_token=b"t9",
    ) as watch:
        await _take(watch, 1)
    request = service_pb2.WatchRequest(
        namespace="team-a",
        name="shop",
        view="VIEW_METADATA",  # type: ignore[arg-type]
        resume_token=b"t9",
        bookmark_interval={"seconds": 10},
    )
    request.filter.resources.add(group="apps", resource="deployments")
    request.filter.namespaces.append("team-a")
    request.filter.clusters.append("hub")
    request.filter.label_selector = "app=web"
    assert service.watches == [request]


async def test_messages_come_in_order(service: FakeService, extension: Extension) -> None:
    """A stream is yielded as it came, and events in the order of their batch."""
    service.scripts = [
        [
            started(),
            source(),
            batch(event("ADDED", "a", rv=1), event("ADDED", "b", rv=2)),
            synced(),
            batch(event("MODIFIED", "a", rv=3), event("DELETED", "b", rv=4), token=b"t1"),
            bookmark(b"t2"),
        ]
    ]
    async with _watch(extension) as watch:
        messages = await _take(watch, 6)
        assert watch.resume_token == b"t2"
    assert _names(messages) == ["Started", "SourceChanged", "Batch", "Synced", "Batch", "Bookmark"]
    told = [(e.type, e.key.name, e.resource_version) for m in (messages[2], messages[4]) for e in m]
    assert told == [
        ("ADDED", "a", "1"),
        ("ADDED", "b", "2"),
        ("MODIFIED", "a", "3"),
        ("DELETED", "b", "4"),
    ]


async def test_deleted_and_left_are_told_apart(service: FakeService, extension: Extension) -> None:
    """Only DELETED says that an object is gone; LEFT says why it is not seen."""
    deleted, left = event("DELETED", "a", rv=3), event("LEFT", "b", rv=4, left="RIGHTS_REVOKED")
    deleted.final_state_unknown = True
    service.scripts = [[started("RESUMED"), batch(deleted, left, token=b"t1")]]
    async with _watch(extension) as watch:
        (first, second) = await _events(watch, 2)
    assert (first.type, first.left_reason, first.final_state_unknown) == ("DELETED", None, True)
    assert (second.type, second.left_reason) == ("LEFT", "RIGHTS_REVOKED")
    assert "LEFT (RIGHTS_REVOKED) pods hub/team-a/b rv 4" in repr(second)


async def test_objects_are_decoded_when_they_are_asked_for(
    service: FakeService, extension: Extension
) -> None:
    """Plain dicts unless another decoder is named; nothing is decoded that nobody looks at."""
    decoded: list[bytes] = []

    def decode(body: bytes) -> str:
        decoded.append(body)
        return str(json.loads(body)["n"])

    only_key, metadata = event("ADDED", "c"), event("ADDED", "d")
    only_key.object.ClearField("json")
    metadata.object.metadata_json = b'{"n": 4}'
    script = [
        started(),
        batch(
            event("ADDED", "a", body=b'{"n": 1}'),
            event("ADDED", "b", body=b"no JSON"),
            only_key,
            metadata,
        ),
    ]
    service.scripts = [script, script]
    async with extension.watch(decode=decode) as watch:
        a, _, key, meta = await _events(watch, 4)
        assert (a.object, a.object, meta.object) == ("1", "1", "4")
        assert decoded == [b'{"n": 1}', b'{"n": 4}']
        with pytest.raises(watchcache.InvalidArgumentError, match="only keys"):
            _ = key.object
    async with extension.watch() as plain:
        assert (await _events(plain, 1))[0].object == {"n": 1}


@pytest.mark.parametrize("end", [UNAVAILABLE, End()], ids=["error", "end of stream"])
async def test_a_broken_stream_goes_on_after_what_was_applied(
    service: FakeService, extension: Extension, end: Any
) -> None:
    """The new stream is asked for with the newest token; the break is told."""
    service.scripts = [
        [started(), batch(event("ADDED", "a")), synced(b"t0"), bookmark(b"t1"), end],
        [started("RESUMED"), batch(event("MODIFIED", "a", rv=2), token=b"t2"), end],
        [started("RESUMED")],
    ]
    async with _watch(extension) as watch:
        messages = await _take(watch, 9)
    assert _names(messages)[4:] == ["Disconnected", "Started", "Batch", "Disconnected", "Started"]
    assert isinstance(messages[4].error, watchcache.UnavailableError)
    assert [request.resume_token for request in service.watches] == [b"", b"t1", b"t2"]


async def test_a_message_that_was_not_taken_is_not_skipped(
    service: FakeService, extension: Extension
) -> None:
    """A consumer that is cancelled while it waits loses nothing: the next stream resumes."""
    service.scripts = [
        [started("RESUMED"), batch(event("ADDED", "a"), token=b"t1")],
        [started("RESUMED"), batch(event("ADDED", "b", rv=2), token=b"t2")],
    ]
    async with _watch(extension) as watch:
        await _take(watch, 2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(watch)
        messages = await _take(watch, 2)
    assert _names(messages) == ["Started", "Batch"]
    assert [request.resume_token for request in service.watches] == [b"", b"t1"]


async def test_a_snapshot_that_breaks_off_begins_anew(
    service: FakeService, extension: Extension
) -> None:
    """There is no token in the middle of a snapshot, and an older one no longer counts."""
    service.scripts = [
        [started("RESUMED"), reset(), batch(event("ADDED", "a")), draining(b""), UNAVAILABLE],
        [started(), batch(event("ADDED", "a"), event("ADDED", "b")), synced(b"t1")],
    ]
    async with _watch(extension, resume_token=b"old") as watch:
        messages = await _take(watch, 7)
    assert _names(messages)[:4] == ["Started", "Reset", "Batch", "Disconnected"]
    assert messages[1].reason == "HISTORY_EXPIRED"
    assert [request.resume_token for request in service.watches] == [b"old", b""]


async def test_draining_hands_over_the_token(service: FakeService, extension: Extension) -> None:
    """A service that leaves says where to go on; the consumer sees only the break."""
    service.scripts = [
        [started(), synced(b"t0"), draining(b"t1"), UNAVAILABLE],
        [started("RESUMED")],
    ]
    async with _watch(extension) as watch:
        messages = await _take(watch, 4)
    assert _names(messages) == ["Started", "Synced", "Disconnected", "Started"]
    assert service.watches[1].resume_token == b"t1"


async def test_a_silent_stream_is_left(service: FakeService, extension: Extension) -> None:
    """A peer that has vanished sends no bookmark; after the limit the watch goes elsewhere."""
    service.scripts = [
        [started(interval=0.02), synced(b"t0")],
        [started("RESUMED", interval=30)],
    ]
    async with _watch(extension, patience=0.05) as watch:
        messages = await _take(watch, 4)
        assert _names(messages) == ["Started", "Synced", "Disconnected", "Started"]
        assert messages[2].error.reason == "STREAM_SILENT"
        await eventually(lambda: service.streams_open == 1)
    assert service.watches[1].resume_token == b"t0"


async def test_bookmarks_keep_a_quiet_stream(service: FakeService, extension: Extension) -> None:
    """As long as the service says something in time, silence about objects is no failure."""

    async def pause() -> None:
        await asyncio.sleep(0.1)

    steps = [step for n in range(5) for step in (pause, bookmark(b"t%d" % n))]
    service.scripts = [[started(interval=0.2), synced(b"t"), *steps]]
    async with _watch(extension, patience=0.1) as watch:
        messages = await _take(watch, 7)
    assert _names(messages) == ["Started", "Synced", *["Bookmark"] * 5]


async def test_a_lost_extension_is_registered_again(
    service: FakeService, extension: Extension
) -> None:
    """After a restart the service knows nothing; the watch tells it the spec and goes on."""
    service.scripts = [
        [started(), synced(b"t0"), UNAVAILABLE],
        [NOT_FOUND],
        [started("RESUMED"), reset("EPOCH_CHANGED"), batch(event("ADDED", "a")), synced(b"u0")],
    ]
    async with _watch(extension) as watch:
        messages = await _take(watch, 8)
    assert _names(messages)[2:5] == ["Disconnected", "Disconnected", "Started"]
    first, again = service.of_type(service_pb2.RegisterRequest)
    assert first == again
    assert service.watches[2].resume_token == b"t0"


async def test_registering_again_does_not_wait_for_informers(
    service: FakeService, connection: watchcache.Connection
) -> None:
    """The stream itself tells how the informers are doing."""
    service.scripts = [[NOT_FOUND], [started()]]
    extension = await connection.register("team-a/shop", watch=["pods"], wait="5s", ttl="1m")
    async with _watch(extension) as watch:
        await _take(watch, 2)
    first, again = service.of_type(service_pb2.RegisterRequest)
    assert first.HasField("wait")
    assert not again.HasField("wait")
    assert first.spec == again.spec


async def test_a_failing_registration_is_tried_again(
    service: FakeService, extension: Extension
) -> None:
    """A service that is not ready for Register yet is waited for like any other."""
    refused = [UNAVAILABLE] * 4
    service.answers["Register"] = list(refused)
    service.scripts = [[NOT_FOUND], [NOT_FOUND], [started()]]
    async with _watch(extension) as watch:
        messages = await _take(watch, 4)
    assert _names(messages) == ["Disconnected", "Disconnected", "Disconnected", "Started"]
    assert isinstance(messages[1].error, watchcache.UnavailableError)


async def test_a_deregistered_extension_ends_the_watch(
    service: FakeService, extension: Extension
) -> None:
    """Somebody decided that, so the client does not undo it."""
    service.scripts = [[started(), DEREGISTERED]]
    async with _watch(extension) as watch:
        await _take(watch, 1)
        with pytest.raises(watchcache.DeregisteredError):
            await _take(watch, 1)
    assert len(service.of_type(service_pb2.RegisterRequest)) == 1


async def test_an_extension_of_somebody_else_is_not_registered(
    service: FakeService, connection: watchcache.Connection
) -> None:
    """Its spec is not known here."""
    service.extension.namespace, service.extension.name = "team-a", "shop"
    service.scripts = [[NOT_FOUND]]
    extension = await connection.extension("team-a/shop")
    async with _watch(extension) as watch:
        with pytest.raises(watchcache.NotFoundError):
            await _take(watch, 1)
    with pytest.raises(watchcache.InvalidArgumentError, match="not registered by this client"):
        await extension.renew()


async def test_a_service_that_is_down_is_waited_for() -> None:
    """The watch tells of each attempt and goes on when the service is there again."""
    first = FakeService(scripts=[[started(), synced(b"t0")]])
    second = FakeService(scripts=[[started("RESUMED")]])
    async with contextlib.AsyncExitStack() as stack:
        stop = await stack.enter_async_context(contextlib.AsyncExitStack())
        await stop.enter_async_context(serving(first))
        connection = await stack.enter_async_context(watchcache.connect(first.address))
        extension = await connection.register("team-a/shop", watch=["pods"])
        watch = await stack.enter_async_context(_watch(extension))
        await _take(watch, 2)
        await stop.aclose()
        messages = await _take(watch, 2)
        assert _names(messages) == ["Disconnected", "Disconnected"]
        await stack.enter_async_context(serving(second, first.address))
        while not isinstance(messages[-1], Started):
            messages += await _take(watch, 1)
        assert set(_names(messages[:-1])) == {"Disconnected"}
    assert second.watches[0].resume_token == b"t0"


async def test_a_connection_that_is_back_ends_the_wait() -> None:
    """Waits grow long in an outage; when the service is there, only the first one is left."""
    first = FakeService(scripts=[[started(), synced(b"t0")]])
    second = FakeService(scripts=[[started("RESUMED")]])
    draws = iter([1.0, 0.0])
    # The wait after the first failure is the longest that a test may take, or none.
    backoff = Backoff(3600, 3600, draw=lambda: next(draws))
    async with contextlib.AsyncExitStack() as stack:
        stop = await stack.enter_async_context(contextlib.AsyncExitStack())
        await stop.enter_async_context(serving(first))
        connection = await stack.enter_async_context(watchcache.connect(first.address))
        extension = await connection.register("team-a/shop", watch=["pods"])
        watch = await stack.enter_async_context(extension.watch(backoff=backoff))
        await _take(watch, 2)
        await stop.aclose()
        (broken,) = await _take(watch, 1)
        assert broken.retry_seconds == 3600
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.6)
        await stack.enter_async_context(serving(second, first.address))
        async with asyncio.timeout(LIMIT_SECONDS):
            assert isinstance(await waiting, Started)


async def test_closing_ends_the_iteration(service: FakeService, extension: Extension) -> None:
    """Also for a task that waits in it, for a message or for the next attempt."""
    service.scripts = [[started()]]
    for is_waiting_for_retry in (False, True):
        backoff = Backoff(60, 60, floor=1) if is_waiting_for_retry else _QUICK
        watch = extension.watch(backoff=backoff)
        received: list[Any] = []

        async def consume(watch: Watch[Any] = watch, received: list[Any] = received) -> None:
            async for message in watch:
                received += [message]

        async with asyncio.timeout(LIMIT_SECONDS), asyncio.TaskGroup() as group:
            group.create_task(consume())
            await eventually(lambda received=received: received)
            await asyncio.sleep(0.01)
            await watch.aclose()
        assert isinstance(received[0], Disconnected) is is_waiting_for_retry
        with pytest.raises(StopAsyncIteration):
            await anext(watch)


async def test_leaving_the_context_ends_the_call(
    service: FakeService, extension: Extension
) -> None:
    """The service sees at once that nobody listens."""
    service.scripts = [[started()]]
    async with _watch(extension) as watch:
        await _take(watch, 1)
        assert service.streams_open == 1
    await eventually(lambda: not service.streams_open)


async def test_a_slow_consumer_buffers_nothing_of_its_own(
    service: FakeService, extension: Extension
) -> None:
    """Messages are read one by one as the consumer asks; the transport's window holds the rest."""
    body = b'{"x": "%s"}' % (b"y" * 1_000_000)
    sent = 0

    async def count() -> None:
        nonlocal sent
        sent += 1

    steps = [s for n in range(40) for s in (batch(event("ADDED", f"p{n}", body=body)), count)]
    service.scripts = [[started(), *steps]]
    async with _watch(extension) as watch:
        await _take(watch, 1)
        await asyncio.sleep(0.3)
        assert sent < 20
        assert _names(await _take(watch, 40)) == ["Batch"] * 40


async def test_a_move_to_another_connection_is_not_told(
    service: FakeService, extension: Extension
) -> None:
    """The stream goes on where it was; nobody hears of a break, and nothing is waited for."""
    service.scripts = [
        [started(), batch(event("ADDED", "a")), synced(b"t1"), draining(b"t2"), CONNECTION_AGED],
        [started("RESUMED"), batch(event("MODIFIED", "a", rv=2), token=b"t3")],
    ]
    async with extension.watch(backoff=Backoff(600.0, 600.0)) as watch:
        messages = await _take(watch, 5)
    assert _names(messages) == ["Started", "Batch", "Synced", "Started", "Batch"]
    assert [request.resume_token for request in service.watches] == [b"", b"t2"]
