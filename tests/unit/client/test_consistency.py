"""Reads and watches say how fresh they have to be, and leave the service the time for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

import watchcache
from tests.unit.client.fake_service import (
    UNAVAILABLE,
    FakeService,
    bookmark,
    event,
    serving,
    started,
    synced,
)
from tests.unit.client.waiting import LIMIT_SECONDS
from watchcache import Backoff, Extension, InvalidArgumentError
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

_QUICK = Backoff(0.001, 0.01)
_CONSISTENT = service_pb2.ReadConsistency(consistent=True)

OPTIONS: dict[str, tuple[dict[str, Any], service_pb2.ReadConsistency]] = {
    "nothing": ({}, service_pb2.ReadConsistency()),
    "a version": (
        {"min_resource_version": "15"},
        service_pb2.ReadConsistency(min_resource_version="15"),
    ),
    "no version": ({"min_resource_version": ""}, service_pb2.ReadConsistency()),
    "the newest": ({"consistent": True}, _CONSISTENT),
    "any": ({"consistent": False}, service_pb2.ReadConsistency()),
    "the newest, soon": (
        {"consistent": True, "wait": "2.5s"},
        service_pb2.ReadConsistency(consistent=True, wait=Duration(seconds=2, nanos=500_000_000)),
    ),
    "a version, if it is there": (
        {"min_resource_version": "15", "wait": 0},
        service_pb2.ReadConsistency(min_resource_version="15", wait=Duration()),
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
async def test_a_request_says_how_fresh(
    service: FakeService, extension: Extension, name: str
) -> None:
    """Get, list and watch alike; and nothing where nothing is asked for."""
    options, expected = OPTIONS[name]
    await extension.get("pods", "team-a/a", **options)
    _ = [item async for item in extension.list("pods", **options)]
    service.scripts = [[started(), synced()]]
    async with asyncio.timeout(LIMIT_SECONDS), extension.watch(**options) as watch:
        await anext(watch)
    (get,) = service.of_type(service_pb2.GetObjectRequest)
    (listed,) = service.of_type(service_pb2.ListObjectsRequest)
    assert get.consistency == listed.consistency == service.watches[0].consistency == expected
    is_asked = expected != service_pb2.ReadConsistency()
    assert get.HasField("consistency") is is_asked
    assert service.watches[0].HasField("consistency") is is_asked


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "both": ({"min_resource_version": "15", "consistent": True}, "not both"),
    "a wait for nothing": ({"wait": "5s"}, "nothing to wait for"),
    "a negative wait": ({"consistent": True, "wait": -1}, "wait"),
    "no duration": ({"consistent": True, "wait": "soon"}, "wait"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_makes_no_sense_is_refused_here(extension: Extension, name: str) -> None:
    """Before anything is sent."""
    options, told = WRONG[name]
    with pytest.raises(InvalidArgumentError, match=told):
        await extension.get("pods", "team-a/a", **options)
    with pytest.raises(InvalidArgumentError, match=told):
        extension.list("pods", **options)
    with pytest.raises(InvalidArgumentError, match=told):
        extension.mirror(**options)


async def test_a_misspelt_option_is_refused(extension: Extension) -> None:
    """It would read what is old."""
    wrong: dict[str, Any] = {"consistant": True}
    with pytest.raises(TypeError, match="consistent"):
        await extension.get("pods", "team-a/a", **wrong)


async def test_only_the_first_page_asks(service: FakeService, extension: Extension) -> None:
    """The others come later anyway."""
    service.answers["ListObjects"] = [
        service_pb2.ListObjectsResponse(objects=[event("ADDED", "a").object], next_page_token="p"),
        service_pb2.ListObjectsResponse(),
    ]
    _ = [item async for item in extension.list("pods", consistent=True)]
    first, second = service.of_type(service_pb2.ListObjectsRequest)
    assert first.consistency == _CONSISTENT
    assert not second.HasField("consistency")


async def test_a_watch_asks_until_it_is_synced(service: FakeService, extension: Extension) -> None:
    """A stream that goes on from there is not older; one that broke off before has to ask again."""
    service.scripts = [
        [started(), UNAVAILABLE],
        [started(), synced(b"t0"), UNAVAILABLE],
        [started("RESUMED"), bookmark(b"t1")],
    ]
    async with (
        asyncio.timeout(LIMIT_SECONDS),
        extension.watch(consistent=True, backoff=_QUICK) as watch,
    ):
        async for message in watch:
            if isinstance(message, watchcache.Bookmark):
                break
    asked = [request.HasField("consistency") for request in service.watches]
    assert asked == [True, True, False]


async def test_a_stream_may_be_silent_while_it_becomes_fresh(
    service: FakeService, extension: Extension
) -> None:
    """Before its first message, and no longer than it may wait."""

    async def pause() -> None:
        await asyncio.sleep(0.3)

    service.scripts = [[pause, started(), synced()]]
    async with (
        asyncio.timeout(LIMIT_SECONDS),
        extension.watch(
            consistent=True, wait="5s", bookmark_interval="0.05s", patience="0.05s"
        ) as watch,
    ):
        assert isinstance(await anext(watch), watchcache.Started)


@pytest.mark.parametrize(
    ("options", "extra"),
    [({}, 0.0), ({"consistent": True}, 5.0), ({"min_resource_version": "1", "wait": "50s"}, 50.0)],
)
async def test_a_call_has_the_time_to_wait_beside_its_own(
    options: dict[str, Any], extra: float
) -> None:
    """The limit of a call is for what it does otherwise."""
    async with (
        serving(FakeService()) as service,
        watchcache.connect(service.address, timeout="20s") as connection,
    ):
        ext = await connection.extension("team-a/shop")
        await ext.get("pods", "team-a/a", **options)
        assert extra + 10 < service.seconds_left <= extra + 20.1
        _ = [item async for item in ext.list("pods", **options)]
        assert extra + 10 < service.seconds_left <= extra + 20.1
