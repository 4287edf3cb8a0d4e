"""Rules of who may open a Watch stream, and where it begins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.unit.serving.watched import Reader, Watched, change
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.resume import ResumeToken, extension_digest
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    ServiceDrainingError,
)
from watchcache_server.model.specs import ExtensionKey

pytestmark = pytest.mark.looptime


@pytest.fixture
async def world() -> AsyncIterator[Watched]:
    """Give an extension that is watched."""
    world = Watched()
    yield world
    await world.close()


async def test_an_extension_that_is_not_registered_cannot_be_watched(world: Watched) -> None:
    """Nothing is counted of it."""
    request = pb.WatchRequest(namespace="team-a", name="nothing")
    with pytest.raises(ExtensionNotFoundError):
        await world.watching.serve(request, Reader())
    assert world.watching.stream_count == 0


BAD_REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": "Shop"}, "name"),
    "selector": ({"filter": pb.Filter(label_selector="((")}, "filter.label_selector"),
    "view": ({"view": 99}, "view"),
    "interval": ({"bookmark_interval": Duration(seconds=-1)}, "bookmark_interval"),
    "token": ({"resume_token": b"x"}, "resume_token"),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
async def test_a_bad_request_is_refused_before_it_counts(world: Watched, name: str) -> None:
    """The field is named."""
    fields, field = BAD_REQUESTS[name]
    request = pb.WatchRequest(**({"namespace": "team-a", "name": "shop"} | fields))
    with pytest.raises(InvalidRequestError) as caught:
        await world.watching.serve(request, Reader())
    assert [each.field for each in caught.value.violations] == [field]
    assert world.extension.subscription_count == 0


async def test_streams_are_counted_while_they_are_open(world: Watched) -> None:
    """However they end."""
    world.live("a")
    reader = world.watch()
    world.watch()
    await reader.until("synced")
    assert (world.watching.stream_count, world.extension.subscription_count) == (2, 2)
    await world.close()
    assert (world.watching.stream_count, world.extension.subscription_count) == (0, 0)


LIMITS = {
    "of all": ({"max_subscriptions": 1}, "max_subscriptions"),
    "of one extension": (
        {"max_subscriptions_per_extension": 1},
        "max_subscriptions_per_extension",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
async def test_no_more_streams_than_the_limit(name: str) -> None:
    """The setting is named; one that ends makes room."""
    settings, setting = LIMITS[name]
    world = Watched(**settings)
    reader = world.watch()
    await reader.until("synced")
    world.watch()
    error = await world.error()
    assert isinstance(error, LimitExceededError)
    assert error.setting == setting
    assert setting in error.description
    assert error.retry_seconds is not None
    assert 5 <= error.retry_seconds <= 10
    await world.close()
    reader = world.watch()
    await reader.until("synced")
    await world.close()


@pytest.mark.parametrize("limit", ["max_subscriptions", "max_subscriptions_per_extension"])
async def test_streams_that_have_stalled_take_room_until_they_end(limit: str) -> None:
    """Nobody can have more than the limit by reading from none."""
    world = Watched(**{limit: 1}, stalled_write_seconds=5)
    reader = Reader(patience=0)
    world.watch(reader)
    await asyncio.sleep(6.0)
    assert world.watching.stream_count == 0
    world.watch()
    assert isinstance(await world.error(), LimitExceededError)
    reader.go_on()
    await world.error(0)
    await world.watch().until("synced")
    await world.close()


async def test_no_stream_begins_while_the_service_shuts_down(world: Watched) -> None:
    """Another replica may serve it."""
    world.drain()
    world.watch()
    assert isinstance(await world.error(), ServiceDrainingError)


def token(world: Watched, **changes: Any) -> bytes:
    """Return a token for everything as of now, but for what is given."""
    store = world.extension.store
    whole = ResumeToken(
        extension_digest(world.extension.key), store.epoch, EVERYTHING.digest, store.revision
    )
    return whole._replace(**changes).encode()


WRONG_TOKENS: dict[str, tuple[dict[str, Any], str]] = {
    "another extension": (
        {"extension": extension_digest(ExtensionKey("team-a", "cart"))},
        "another extension",
    ),
    "another filter": ({"filter": Filter(namespaces=("x",)).digest}, "another filter"),
    "the future": ({"revision": 10_000}, "made up"),
}


@pytest.mark.parametrize("name", WRONG_TOKENS)
async def test_a_token_of_something_else_is_refused(world: Watched, name: str) -> None:
    """And it is said of what."""
    world.live("a")
    changes, words = WRONG_TOKENS[name]
    world.watch(resume_token=token(world, **changes))
    error = await world.error()
    assert isinstance(error, InvalidRequestError)
    assert error.reason == "RESUME_TOKEN_INVALID"
    assert words in str(error)


async def test_a_token_that_was_altered_is_refused(world: Watched) -> None:
    """Whatever was changed in it."""
    world.live("a")
    good = token(world)
    for altered in (good[:-1], good + b"x", good[:5] + bytes([good[5] ^ 1]) + good[6:]):
        world.watch(resume_token=altered)
        error = await world.error()
        assert isinstance(error, InvalidRequestError)
        assert "is no resume token" in str(error)


async def test_a_token_of_another_epoch_begins_anew(world: Watched) -> None:
    """The extension was made anew, or the service restarted: what was held may be anything."""
    world.live("a")
    reader = world.watch(resume_token=token(world, epoch=b"8 bytes!"))
    await reader.until("synced")
    assert reader.messages[0].started.mode == pb.START_MODE_SNAPSHOT
    assert [each.reason for each in reader.of("reset")] == [pb.RESET_REASON_EPOCH_CHANGED]


async def test_messages_are_shared_and_bounded(world: Watched) -> None:
    """What one stream was sent is kept for others, and dropped with the extension's objects."""
    informer = world.live("a")
    first, second = world.watch(), world.watch()
    await first.until("synced")
    await second.until("synced")
    change(informer, "b", "11")
    await first.until("batch", 2)
    await second.until("batch", 2)
    assert first.of("batch") == second.of("batch")
    assert 0 < world.watching.cached_bytes < 2000
    world.watching.forget(world.extension)
    assert world.watching.cached_bytes == 0
