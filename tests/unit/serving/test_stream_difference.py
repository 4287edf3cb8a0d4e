"""Rules of a stream whose reader has said what it holds."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.items import item
from tests.unit.serving.watched import Reader, Watched, change, delete
from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Clock
from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.held import Known, object_id, version_id
from watchcache_server.informer.resume import ResumeToken
from watchcache_server.kubernetes.freshness import Question
from watchcache_server.model.errors import KnownNotFoundError, ServiceDrainingError
from watchcache_server.model.states import SourceState

pytestmark = pytest.mark.looptime

ADDED, DELETED = event_pb2.EVENT_TYPE_ADDED, event_pb2.EVENT_TYPE_DELETED
LEFT = event_pb2.EVENT_TYPE_LEFT
PER_SECOND = Duration(seconds=1)


@pytest.fixture
async def world() -> AsyncIterator[Watched]:
    """Give an extension that is watched."""
    world = Watched()
    now = asyncio.get_running_loop().time
    world.extension.clock = Clock(now=now, wall=now)
    yield world
    await world.close()


async def upload(
    world: Watched,
    held: dict[str, str],
    namespace: str = "team-a",
    more: Mapping[str, dict[str, str]] | None = None,
) -> bytes:
    """Say that these versions of objects are held, and `more` by namespace; return the handle."""

    def group_of(namespace: str, held: dict[str, str]) -> pb.KnownObjects:
        records = b"".join(
            object_id(f"uid-{name}") + version_id(version) for name, version in held.items()
        )
        return pb.KnownObjects(
            cluster="hub",
            resource="pods",
            namespace=namespace,
            version="v1",
            projection=extension_pb2.PROJECTION_FULL,
            objects=records,
        )

    async def sent() -> AsyncIterator[pb.UploadKnownRequest]:
        parts = {namespace: held} | dict(more or {})
        groups = [group_of(*part) for part in parts.items() if part[1]]
        yield pb.UploadKnownRequest(namespace="team-a", name="shop", groups=groups)

    return (await world.watching.uploads.take(sent())).handle


async def differing(
    world: Watched, held: dict[str, str], namespace: str = "team-a", **request: Any
) -> Reader:
    """Watch as one who holds this."""
    handle = await upload(world, held, namespace)
    return world.watch(known=handle, bookmark_interval=PER_SECOND, **request)


def gone(reader: Reader) -> list[tuple[int, list[bytes]]]:
    """Return type and ids of what was said to be gone."""
    return [
        (each.type, sorted(each.ids[at : at + 16] for at in range(0, len(each.ids), 16)))
        for each in reader.of("known_gone")
    ]


def ids(*names: str) -> list[bytes]:
    """Return the ids of objects."""
    return sorted(object_id(f"uid-{name}") for name in names)


async def asked_of(informer: Informer) -> Question:
    """Return what the API server is asked for this informer, once it is."""
    while not informer.freshness.waiting_count:  # noqa: ASYNC110 - who begins to wait sets no event
        await asyncio.sleep(0.01)
    question = informer.freshness.take(1)
    assert question is not None
    return question


async def test_only_what_differs_is_sent(world: Watched) -> None:
    """What is held as it is stays unsaid; what is gone is named before Synced and its token."""
    informer = world.live("same", "new")
    change(informer, "changed", "12")
    reader = await differing(world, {"same": "1", "changed": "11", "x": "1", "y": "2"})
    synced = await reader.until("synced")
    assert reader.kinds == ["started", "source_status", "batch", "known_gone", "synced"]
    assert reader.messages[0].started.mode == pb.START_MODE_DIFFERENCE
    assert reader.events == [(ADDED, "changed"), (ADDED, "new")]
    (batch,) = reader.of("batch")
    assert (batch.coalesced, batch.resume_token) == (True, b"")
    assert gone(reader) == [(DELETED, ids("x", "y"))]
    token = ResumeToken.decode(synced.resume_token)
    assert token.revision == world.extension.store.revision
    change(informer, "later", "13")
    after = await reader.until("batch", 2)
    assert not after.coalesced, "from then on it is a stream like any other"
    assert after.resume_token
    assert world.watching.cached_bytes > 0


async def test_where_nothing_differs_nothing_is_sent(world: Watched) -> None:
    """But Synced with its token."""
    world.live("a", "b")
    reader = await differing(world, {"a": "1", "b": "1"})
    assert (await reader.until("synced")).resume_token
    assert reader.kinds == ["started", "source_status", "synced"]


async def test_who_holds_nothing_is_sent_everything(world: Watched) -> None:
    """Still as a difference."""
    world.live("a")
    reader = await differing(world, {})
    await reader.until("synced")
    assert reader.kinds == ["started", "source_status", "batch", "synced"]
    assert reader.events == [(ADDED, "a")]


async def test_what_is_newer_than_the_informer_is_asked_about(world: Watched) -> None:
    """The informer is behind, or the storage was set back: only the API server can tell."""
    informer = world.live("a")
    reader = await differing(world, {"a": "1", "lost": "900", "made": "901"})
    await reader.until("synced")
    question = await asked_of(informer)
    assert gone(reader) == []
    change(informer, "made", "902")
    informer.freshness.confirm(question)
    await reader.until("known_gone")
    assert gone(reader) == [(DELETED, ids("lost"))]
    assert reader.events == [(ADDED, "made")]
    assert (await reader.until("bookmark", len(reader.of("bookmark")) + 1)).resume_token


async def test_what_was_held_is_let_go_once_all_was_told(world: Watched) -> None:
    """The stream may live for weeks."""

    def held() -> set[int]:
        gc.collect()
        return {id(each) for each in gc.get_objects() if isinstance(each, Known)}

    before = held()
    world.live("a")
    reader = await differing(world, {"a": "1", "x": "1"})
    assert held() - before
    await reader.until("synced")
    await reader.until("bookmark")
    assert not held() - before


async def test_one_that_does_not_answer_holds_up_no_other(world: Watched) -> None:
    """Nor is one asked that cannot hold what is left."""
    away = world.live("a", namespace="team-a")
    answering = world.live(namespace="team-b")
    other = world.live(namespace="team-c")
    handle = await upload(world, {"a": "1", "x": "900"}, more={"team-b": {"lost": "900"}})
    reader = world.watch(known=handle, bookmark_interval=PER_SECOND)
    await reader.until("synced")
    await asked_of(away)
    answering.freshness.confirm(await asked_of(answering))
    await reader.until("known_gone")
    assert gone(reader) == [(DELETED, ids("lost"))]
    assert not other.freshness.waiting_count


async def test_what_cannot_be_asked_about_is_not_called_gone(world: Watched) -> None:
    """The right to list is missing: the position has to get there."""
    informer = world.live("a")
    reader = await differing(world, {"a": "1", "lost": "900"})
    await reader.until("synced")
    question = await asked_of(informer)
    informer.freshness.refuse(question, "may not list")
    await reader.until("bookmark", 2)
    assert gone(reader) == []
    informer.advance("900")
    await reader.until("known_gone")
    assert gone(reader) == [(DELETED, ids("lost"))]


async def test_changes_during_the_difference_are_not_lost(world: Watched) -> None:
    """An end comes as an event, and is not said twice."""
    informer = world.live("a", "b")
    reader = Reader(patience=1)
    handle = await upload(world, {"a": "1", "b": "1", "x": "1"})
    world.watch(reader, known=handle)
    await reader.until_stuck()
    delete(informer, "a", "11")
    change(informer, "c", "12")
    reader.go_on()
    await reader.until("synced")
    assert (DELETED, "a") in reader.events
    assert (ADDED, "c") in reader.events
    assert gone(reader) == [(DELETED, ids("x"))]


async def test_what_does_not_pass_the_filter_has_left(world: Watched) -> None:
    """It is there, so it is named with its name and not called gone."""
    world.live("a")
    reader = await differing(world, {"a": "1"}, filter=pb.Filter(label_selector="app=web"))
    await reader.until("synced")
    ((kind, name),) = reader.events
    assert (kind, name) == (LEFT, "a")
    assert gone(reader) == []


async def test_what_is_out_of_the_filter_is_never_called_deleted(world: Watched) -> None:
    """An informer out of view holds it, for all that the stream knows."""
    world.live("a")
    world.live("b", namespace="team-b")
    reader = await differing(world, {"b": "1"}, "team-b", filter=pb.Filter(namespaces=["team-a"]))
    await reader.until("synced")
    assert gone(reader) == [(LEFT, ids("b"))]


async def test_there_is_no_token_while_it_is_open_what_became_of_something(
    world: Watched,
) -> None:
    """Synced and bookmarks come without; once the informer is loaded they have one."""
    informer = world.live("a")
    failed = world.informer(namespace="team-b")
    failed.set_state(SourceState.UNREACHABLE, "CONNECTION_FAILED", "refused")
    reader = await differing(world, {"b": "1", "gone": "1"}, "team-b")
    assert (await reader.until("synced")).resume_token == b""
    assert (await reader.until("bookmark")).resume_token == b""
    change(informer, "c", "11")
    assert (await reader.until("batch", 2)).resume_token == b""
    assert gone(reader) == []
    failed.stage([item("b", namespace="team-b", uid="uid-b", version="2")])
    failed.commit(0.0, "20")
    failed.set_state(SourceState.LIVE, "SYNCED", "")
    await reader.until("known_gone")
    assert gone(reader) == [(DELETED, ids("gone"))]
    count = len(reader.of("bookmark"))
    bookmark = await reader.until("bookmark", count + 1)
    assert bookmark.resume_token
    assert reader.events[-1] == (ADDED, "b")
    assert len(reader.of("synced")) == 1
    assert ResumeToken.decode(bookmark.resume_token).revision == world.extension.store.revision


async def test_what_was_found_late_as_it_is_held_is_not_sent(world: Watched) -> None:
    """And gives the stream its token, though nothing was said."""
    failed = world.informer()
    failed.set_state(SourceState.UNREACHABLE, "CONNECTION_FAILED", "refused")
    reader = await differing(world, {"a": "1"})
    await reader.until("synced")
    failed.stage([item("a", uid="uid-a", version="1")])
    failed.commit(0.0, "20")
    failed.set_state(SourceState.LIVE, "SYNCED", "")
    await reader.until("source_status", 2)
    count = len(reader.of("bookmark"))
    assert (await reader.until("bookmark", count + 1)).resume_token
    assert (reader.events, gone(reader)) == ([], [])


async def test_a_drain_in_a_difference_has_no_token(world: Watched) -> None:
    """Whoever reads uploads again."""
    world.informer().set_state(SourceState.UNREACHABLE, "CONNECTION_FAILED", "refused")
    reader = await differing(world, {"a": "1"})
    await reader.until("synced")
    world.drain()
    assert isinstance(await world.error(), ServiceDrainingError)
    assert reader.of("draining")[0].resume_token == b""


@pytest.mark.parametrize("fails", [False, True])
async def test_a_difference_that_the_history_loses_begins_anew(world: Watched, fails: bool) -> None:
    """Or ends, if the reader wants no snapshot; nothing that is held counts after that."""
    informer = world.live("a")
    reader = Reader(patience=1)
    handle = await upload(world, {"a": "1", "x": "1"})
    world.watch(reader, known=handle, fail_on_reset=fails)
    await reader.until_stuck()
    for number in range(1200):
        change(informer, "gone", str(20 + 2 * number))
        delete(informer, "gone", str(21 + 2 * number))
    reader.go_on()
    if fails:
        assert (await world.error()).reason == "RESUME_LOST"  # type: ignore[attr-defined]
        assert reader.of("reset") == []
        return
    assert (await reader.until("synced")).resume_token
    assert [each.reason for each in reader.of("reset")] == [pb.RESET_REASON_HISTORY_EXPIRED]
    assert reader.events == [(ADDED, "a")]
    assert gone(reader) == []


async def test_a_handle_is_good_for_one_stream(world: Watched) -> None:
    """The next one is told to upload again; it does not count."""
    world.live("a")
    handle = await upload(world, {"a": "1"})
    await world.watch(known=handle).until("synced")
    world.watch(known=handle)
    assert isinstance(await world.error(), KnownNotFoundError)
    assert world.watching.stream_count == 1
    assert world.watching.uploads.object_count == 0
