"""The age of connections, and the ends of the streams on them."""

from __future__ import annotations

import asyncio
import math

import pytest

from tests.unit.serving.test_listing import SHOP, listed
from tests.unit.serving.watched import Reader, Watched, change
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Clock
from watchcache_server.model.errors import ConnectionAgedError, SettingsError
from watchcache_server.serving.aging import Aging, connection_options
from watchcache_server.settings import Settings

pytestmark = pytest.mark.looptime


def test_a_stream_ends_after_its_connection_was_told_to_go() -> None:
    """That is at 1.1 of the age at the latest; the ends are spread over a quarter of it."""
    ends = [Aging(1000, lambda chance=chance: chance).end_of(5.0) for chance in (0.0, 0.5, 0.999)]
    assert ends == pytest.approx([1105, 1230, 1354.75])


def test_the_connection_outlives_its_last_stream() -> None:
    """One opened as late as a connection takes calls still ends by itself."""
    options = dict(connection_options(1000))
    last = 1.1 * options["grpc.max_connection_age_ms"] + 1350 * 1000
    first_cut = 0.9 * options["grpc.max_connection_age_ms"]
    assert last < first_cut + options["grpc.max_connection_age_grace_ms"]


def test_no_age_is_no_limit() -> None:
    """GRPC is told nothing, and no stream ends."""
    assert connection_options(0) == []
    assert Aging(0, lambda: 0.0).end_of(7.0) == math.inf


def test_an_age_below_a_second_is_refused() -> None:
    """Streams would do nothing but move."""
    with pytest.raises(SettingsError, match="max_connection_age_seconds"):
        Settings(max_connection_age_seconds=0.5)


def watched(**settings: float) -> Watched:
    """Return an extension whose clock is that of the loop."""
    world = Watched(**settings)
    now = asyncio.get_running_loop().time
    world.extension.clock = Clock(now=now, wall=now)
    return world


async def test_an_old_stream_says_where_to_go_on_and_ends() -> None:
    """At its moment, also in the middle of a long rest; what came before it was sent."""
    world = watched(max_connection_age_seconds=100)
    informer = world.live("a")
    reader = world.watch(bookmark_interval={"seconds": 300})
    await reader.until("synced")
    began = world.extension.clock.now()
    await asyncio.sleep(109.0)
    change(informer, "a", "77")
    assert isinstance(await world.error(), ConnectionAgedError)
    assert 109.9 <= world.extension.clock.now() - began <= 135.1
    assert reader.kinds[-2:] == ["batch", "draining"]
    token = reader.of("draining")[0].resume_token
    resumed = world.watch(resume_token=token)
    await resumed.until("synced")
    assert resumed.of("started")[0].mode == pb.START_MODE_RESUMED
    assert not resumed.of("batch")
    await world.close()


async def test_a_snapshot_is_not_broken_off() -> None:
    """Without a token the reader would begin anew; the stream ends once there is one."""
    world = watched(max_connection_age_seconds=10, stalled_write_seconds=600)
    world.live(*(f"p{number}" for number in range(1200)))
    reader = Reader(patience=2)
    world.watch(reader)
    await reader.until_stuck()
    await asyncio.sleep(100.0)
    reader.go_on()
    assert isinstance(await world.error(), ConnectionAgedError)
    assert reader.kinds[-2:] == ["synced", "draining"]
    assert len(reader.events) == 1200
    assert reader.of("draining")[0].resume_token


async def test_nor_are_the_first_objects_of_an_informer() -> None:
    """Who was told of some of them has no token of that yet, and may have none at all."""
    world = watched(max_connection_age_seconds=10, stalled_write_seconds=600)
    world.live("a")
    reader = world.watch()
    await reader.until("synced")
    reader.hold(after=2)
    world.live(*(f"p{number}" for number in range(1200)), namespace="team-b")
    await reader.until("batch", 2)
    await reader.until_stuck()
    await asyncio.sleep(100.0)
    reader.go_on()
    assert isinstance(await world.error(), ConnectionAgedError)
    assert len(reader.events) == 1201
    assert reader.of("draining")[0].resume_token


async def test_a_stream_of_extensions_ends_as_well() -> None:
    """At its moment, also in the middle of a rest."""
    async with listed(max_connection_age_seconds=100) as made:
        await made.register(SHOP)
        reader = made.watch()
        await reader.until("synced")
        assert isinstance(await made.error(), ConnectionAgedError)
        assert len(reader.of("synced")) in (4, 5), "the first, and a sign of life in each 30 s"
