"""A watch whose reader holds something goes on by its token, or else by what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from tests.unit.client.fake_service import (
    NOT_FOUND,
    UNAVAILABLE,
    FakeService,
    Fault,
    batch,
    bookmark,
    event,
    started,
    synced,
)
from tests.unit.client.waiting import LIMIT_SECONDS
from watchcache import Backoff, Disconnected, Extension, InvalidArgumentError, Started, Watch
from watchcache.holdings import HeldObject, object_id
from watchcache.v1alpha1 import extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

RESUME_LOST = Fault(grpc.StatusCode.OUT_OF_RANGE, "RESUME_LOST")
KNOWN_NOT_FOUND = Fault(grpc.StatusCode.NOT_FOUND, "KNOWN_NOT_FOUND")
FIRST = HeldObject("pods", "hub", "team-a", "v1", extension_pb2.PROJECTION_FULL, "uid-a", "7")
SECOND = FIRST._replace(uid="uid-b")
QUICK = Backoff(0.001, 0.01)


@asynccontextmanager
async def watching(
    extension: Extension, held: Callable[[], Iterable[HeldObject]] | None, token: bytes = b""
) -> AsyncIterator[Watch[Any]]:
    """Watch as one who holds something."""
    async with extension.watch(backoff=QUICK, resume_token=token) as watch:
        watch.holdings = held
        yield watch


async def take(watch: Watch[Any], count: int) -> list[Any]:
    """Take so many messages."""
    async with asyncio.timeout(LIMIT_SECONDS):
        return [await anext(watch) for _ in range(count)]


def asked(service: FakeService) -> list[tuple[bytes, bytes, bool]]:
    """Return of each Watch by what it goes on."""
    return [(each.resume_token, each.known, each.fail_on_reset) for each in service.watches]


def uploaded(service: FakeService) -> list[bytes]:
    """Return the ids in each message of the uploads."""
    packed = [b"".join(group.objects for group in each.groups) for each in service.uploads]
    return [
        b"".join(each[start : start + 16] for start in range(0, len(each), 24)) for each in packed
    ]


NOTHING: dict[str, Callable[[], Iterable[HeldObject]] | None] = {
    "nobody to ask": None,
    "empty": lambda: (),
    "empty iterator": lambda: iter(()),
}


@pytest.mark.parametrize("name", NOTHING)
async def test_who_holds_nothing_takes_a_snapshot(
    service: FakeService, extension: Extension, name: str
) -> None:
    """Nothing is uploaded, and a Reset is welcome, also to one who has a token."""
    for token in (b"", b"t0"):
        service.scripts = [[started()]]
        async with watching(extension, NOTHING[name], token) as watch:
            await take(watch, 1)
    assert asked(service) == [(b"", b"", False), (b"t0", b"", False)]
    assert service.uploads == []


async def test_who_has_a_token_goes_on_by_it(service: FakeService, extension: Extension) -> None:
    """But rather says what it holds than begin anew."""
    service.scripts = [[started("RESUMED")]]
    async with watching(extension, lambda: [FIRST], b"t0") as watch:
        await take(watch, 1)
    assert asked(service) == [(b"t0", b"", True)]
    assert service.uploads == []


@pytest.mark.parametrize("kind", [list, iter], ids=["list", "iterator"])
async def test_who_has_no_token_says_what_it_holds(
    service: FakeService, extension: Extension, kind: Any
) -> None:
    """Each object once, in an upload that names the extension; its handle goes with the watch."""
    service.scripts = [[started("DIFFERENCE")]]
    async with watching(extension, lambda: kind([FIRST, SECOND])) as watch:
        await take(watch, 1)
    assert uploaded(service) == [object_id("uid-a") + object_id("uid-b")]
    assert [(each.namespace, each.name) for each in service.uploads] == [("team-a", "shop")]
    assert asked(service) == [(b"", b"handle-1", False)]


async def test_a_token_that_leads_no_further_is_followed_by_an_upload(
    service: FakeService, extension: Extension
) -> None:
    """At once; what is held is asked for then, since it may have changed."""
    held = [FIRST]
    script = [started("RESUMED"), batch(event("ADDED", "b"), token=b"t1"), UNAVAILABLE]
    service.scripts = [script, [RESUME_LOST], [started("DIFFERENCE"), synced(b"t2")]]
    async with watching(extension, lambda: iter(held), b"t0") as watch:
        await take(watch, 2)
        held.append(SECOND)
        broken, lost, start, _ = await take(watch, 4)
        assert watch.resume_token == b"t2"
    assert isinstance(broken, Disconnected)
    assert isinstance(lost, Disconnected)
    assert lost.retry_seconds == 0.0
    assert start.mode == "DIFFERENCE"
    assert asked(service) == [(b"t0", b"", True), (b"t1", b"", True), (b"", b"handle-1", False)]
    assert uploaded(service) == [object_id("uid-a") + object_id("uid-b")]
    assert len(service.of_type(service_pb2.RegisterRequest)) == 1


async def test_a_handle_is_used_once(service: FakeService, extension: Extension) -> None:
    """A stream that breaks before its token, or finds the handle expired, uploads again."""
    service.scripts = [
        [started("DIFFERENCE"), bookmark(b""), UNAVAILABLE],
        [KNOWN_NOT_FOUND],
        [started("DIFFERENCE"), synced(b"t1"), UNAVAILABLE],
        [started("RESUMED")],
    ]
    async with watching(extension, lambda: [FIRST]) as watch:
        await take(watch, 8)
    assert asked(service) == [
        (b"", b"handle-1", False),
        (b"", b"handle-2", False),
        (b"", b"handle-3", False),
        (b"t1", b"", True),
    ]
    assert len(service.of_type(service_pb2.RegisterRequest)) == 1


REFUSALS = {
    "too much": Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED"),
    "an older service": Fault(grpc.StatusCode.UNIMPLEMENTED, ""),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_an_upload_that_is_not_taken_is_done_without(
    service: FakeService, extension: Extension, name: str
) -> None:
    """Everything comes anew, at once and on the same attempt."""
    service.answers["UploadKnown"] = [REFUSALS[name]]
    service.scripts = [[started()]]
    async with watching(extension, lambda: [FIRST]) as watch:
        (first,) = await take(watch, 1)
    assert isinstance(first, Started)
    assert asked(service) == [(b"", b"", False)]
    assert len(service.uploads) == 1


async def test_an_upload_that_fails_is_made_again(
    service: FakeService, extension: Extension
) -> None:
    """The watch waits as after a broken stream, and registers what the service has lost."""
    service.answers["UploadKnown"] = [UNAVAILABLE, NOT_FOUND]
    service.scripts = [[started("DIFFERENCE")]]
    async with watching(extension, lambda: [FIRST]) as watch:
        messages = await take(watch, 3)
    assert [type(message) for message in messages] == [Disconnected, Disconnected, Started]
    assert asked(service) == [(b"", b"handle-3", False)]
    assert len(service.of_type(service_pb2.RegisterRequest)) == 2


async def test_an_upload_that_is_wrong_is_raised(
    service: FakeService, extension: Extension
) -> None:
    """To send it again would not mend it."""
    service.answers["UploadKnown"] = [Fault(grpc.StatusCode.INVALID_ARGUMENT, "INVALID")]
    async with watching(extension, lambda: [FIRST]) as watch:
        with pytest.raises(InvalidArgumentError):
            await take(watch, 1)
    assert service.watches == []
