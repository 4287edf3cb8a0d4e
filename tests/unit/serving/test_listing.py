"""Rules of listing and watching the extensions themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.extensions.world import World, pods, running, settle, sync
from tests.unit.serving.watched import Reader
from watchcache.v1alpha1 import extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.model.errors import (
    InvalidRequestError,
    LimitExceededError,
    ServiceDrainingError,
)
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.serving.listing import ExtensionListing
from watchcache_server.settings import Settings

pytestmark = pytest.mark.looptime

SHOP, CART, OTHER = (
    ExtensionKey("team-a", "shop"),
    ExtensionKey("team-a", "cart-shop"),
    ExtensionKey("team-b", "shop"),
)


class Listed:
    """A registry, what lists it, and the streams that are open."""

    def __init__(self, world: World, **settings: Any) -> None:
        self.world = world
        self.registry = world.registry
        self.listing = ExtensionListing(
            world.registry,
            settings=Settings(**settings),
            reporter=world.reporter,
            clock=world.clock,
        )
        self.tasks: list[asyncio.Task[None]] = []

    async def register(self, *keys: ExtensionKey, size: int = 0) -> None:
        """Register extensions, with manifests of so many bytes."""
        for key in keys:
            spec = extension_pb2.ExtensionSpec(
                service_account="shop",
                content=extension_pb2.ContentWatchSet(manifests=b"x" * size),
            )
            registered = await self.world.register(key=key)
            registered.extension.registered_spec = spec

    async def page(self, **request: Any) -> pb.ListExtensionsResponse:
        """Return a page."""
        return await self.listing.list(pb.ListExtensionsRequest(**request))

    def watch(self, reader: Reader | None = None, **request: Any) -> Reader:
        """Open a stream."""
        reader = reader or Reader(pb.WatchExtensionsResponse)
        asked = pb.WatchExtensionsRequest(**request)
        self.tasks.append(asyncio.create_task(self.listing.watch(asked, reader)))
        return reader

    async def error(self) -> BaseException | None:
        """Return with what the stream that was opened last ends."""
        await asyncio.wait([self.tasks[-1]])
        return self.tasks[-1].exception()


@asynccontextmanager
async def listed(**settings: Any) -> AsyncIterator[Listed]:
    """Run a registry with a listing of it."""
    async with running(**settings) as world:
        made = Listed(world, **settings)
        try:
            yield made
        finally:
            for task in made.tasks:
                task.cancel()
            if made.tasks:
                await asyncio.wait(made.tasks)


def names(extensions: Any) -> list[str]:
    """Return the keys of extensions."""
    return [f"{each.namespace}/{each.name}" for each in extensions]


# Pages


async def test_extensions_are_listed_in_order_and_in_pages() -> None:
    """By namespace and name; a namespace narrows."""
    async with listed() as made:
        await made.register(OTHER, SHOP, CART)
        first = await made.page(page_size=2)
        assert names(first.extensions) == ["team-a/cart-shop", "team-a/shop"]
        second = await made.page(page_size=2, page_token=first.next_page_token)
        assert names(second.extensions) == ["team-b/shop"]
        assert not second.next_page_token
        assert names((await made.page(namespace="team-b")).extensions) == ["team-b/shop"]


async def test_what_comes_and_goes_between_pages_disturbs_nothing() -> None:
    """A page goes on behind the last name, whether that is still there or not."""
    async with listed() as made:
        await made.register(SHOP, CART, OTHER)
        first = await made.page(page_size=1)
        await made.registry.deregister(CART)
        second = await made.page(page_size=1, page_token=first.next_page_token)
        assert names(second.extensions) == ["team-a/shop"]


async def test_a_page_ends_near_a_megabyte() -> None:
    """A spec may be large; one always fits."""
    async with listed() as made:
        await made.register(SHOP, CART, size=700_000)
        await made.register(OTHER, size=1_500_000)
        pages, token = [], ""
        while not pages or token:
            page = await made.page(page_token=token)
            pages.append(names(page.extensions))
            token = page.next_page_token
        assert pages == [["team-a/cart-shop"], ["team-a/shop"], ["team-b/shop"]]


async def test_an_extension_that_ends_meanwhile_is_left_out() -> None:
    """It is not shown as one without informers."""
    async with listed() as made:
        await made.register(SHOP, CART, OTHER)
        listing = asyncio.create_task(made.page())
        await asyncio.sleep(0)
        made.registry._free(made.registry.get(SHOP), "TTL_EXPIRED")
        assert names((await listing).extensions) == ["team-a/cart-shop", "team-b/shop"]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "namespace": ({"namespace": "Team_A"}, "namespace"),
    "negative size": ({"page_size": -1}, "page_size"),
    "garbage": ({"page_token": "x"}, "page_token"),
    "no text": ({"page_token": "/////w=="}, "page_token"),
    "not ASCII": ({"page_token": "ä"}, "page_token"),
    "no key": ({"page_token": "YQ=="}, "page_token"),
    "no names": ({"page_token": "QS9i"}, "page_token"),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_question_is_refused_by_its_field(name: str) -> None:
    """The token too, if it is none of ours."""
    request, field = BAD[name]
    async with listed() as made:
        with pytest.raises(InvalidRequestError) as caught:
            await made.page(**request)
    assert [each.field for each in caught.value.violations] == [field]


# Streams


async def test_a_stream_begins_with_what_there_is() -> None:
    """And says when that was all."""
    async with listed() as made:
        await made.register(SHOP, CART, OTHER)
        reader = made.watch()
        synced = await reader.until("synced")
        assert names(reader.of("extension")) == [
            "team-a/cart-shop",
            "team-a/shop",
            "team-b/shop",
        ]
        assert synced.time.seconds == int(made.world.clock.wall())


SCOPES: dict[str, tuple[dict[str, str], list[str]]] = {
    "a namespace": ({"namespace": "team-a"}, ["team-a/cart-shop", "team-a/shop"]),
    "one": ({"namespace": "team-a", "name": "shop"}, ["team-a/shop"]),
    "none": ({"namespace": "team-c"}, []),
}


@pytest.mark.parametrize("name", SCOPES)
async def test_a_stream_tells_of_what_was_asked_for(name: str) -> None:
    """At the start and later."""
    request, expected = SCOPES[name]
    async with listed() as made:
        reader = made.watch(**request)
        await reader.until("synced")
        await made.register(OTHER, CART, SHOP)
        await asyncio.sleep(1.0)
        assert sorted(set(names(reader.of("extension")))) == expected


async def live(made: Listed) -> Extension:
    """Register shop and let it go live."""
    registered = await made.world.register(pods("team-a"))
    registered.extension.registered_spec = extension_pb2.ExtensionSpec()
    await sync(await made.world.hub.api.asked())
    await settle()
    return registered.extension


async def test_each_change_of_state_is_told() -> None:
    """Fast ones may be joined; the last one always comes, and others are not repeated."""
    async with listed() as made:
        await made.register(OTHER)
        reader = made.watch()
        await reader.until("synced")
        await live(made)
        await asyncio.sleep(1.0)
        told = reader.of("extension")
        assert names(told)[0] == "team-b/shop"
        assert set(names(told)[1:]) == {"team-a/shop"}
        assert told[-1].state == extension_pb2.EXTENSION_STATE_LIVE


ENDS = {"deregistered": "DEREGISTERED", "its account is gone": "SERVICE_ACCOUNT_GONE"}


@pytest.mark.parametrize("name", ENDS)
async def test_an_extension_that_ends_is_told_to_be_removed(name: str) -> None:
    """With the reason."""
    async with listed() as made:
        extension = await live(made)
        reader = made.watch()
        await reader.until("synced")
        if name == "deregistered":
            await made.registry.deregister(SHOP)
        else:
            made.world.account.vanish("hub")
            made.registry.service_account_missing(extension)
        removed = await reader.until("removed")
        assert (removed.namespace, removed.name, removed.reason) == (
            "team-a",
            "shop",
            ENDS[name],
        )


async def test_an_extension_that_ends_during_a_write_is_not_shown_as_empty() -> None:
    """It is told to be removed in the next round, and nothing else of it."""
    async with listed() as made:
        await made.register(CART, SHOP)
        reader = Reader(pb.WatchExtensionsResponse, patience=0)
        made.watch(reader)
        await reader.until_stuck()
        await made.registry.deregister(SHOP)
        reader.go_on()
        await reader.until("synced")
        assert names(reader.of("extension")) == ["team-a/cart-shop"]
        assert not reader.of("removed")


async def test_an_extension_that_was_made_anew_is_told_as_it_is_now() -> None:
    """By its uid it is another one."""
    async with listed() as made:
        await made.register(SHOP)
        reader = made.watch()
        await reader.until("synced")
        reader.hold()
        await made.registry.deregister(SHOP)
        await made.register(SHOP)
        await reader.until_stuck()
        reader.go_on()
        await asyncio.sleep(1.0)
        uids = [each.uid for each in reader.of("extension")]
        assert uids[-1] == made.registry.get(SHOP).uid
        assert len(set(uids)) == 2


async def test_a_change_during_a_write_is_not_missed() -> None:
    """The stream looks again before it waits."""
    async with listed() as made:
        await made.register(CART)
        reader = Reader(pb.WatchExtensionsResponse, patience=0)
        made.watch(reader)
        await reader.until_stuck()
        await made.register(SHOP)
        began = asyncio.get_running_loop().time()
        reader.go_on()
        await reader.until("extension", 2)
        assert asyncio.get_running_loop().time() - began < 1.0


async def test_silence_is_broken_by_a_sign_of_life() -> None:
    """Every half a minute."""
    async with listed() as made:
        reader = made.watch()
        await reader.until("synced")
        began = asyncio.get_running_loop().time()
        await reader.until("synced", 3)
        assert asyncio.get_running_loop().time() - began == pytest.approx(60.0, abs=0.1)


async def test_what_happens_elsewhere_does_not_keep_a_stream_silent() -> None:
    """The sign of life comes by what this stream has said, not by what the service does."""
    async with listed() as made:
        await made.register(OTHER)
        reader = made.watch(namespace="team-a")
        await reader.until("synced")
        began = asyncio.get_running_loop().time()
        for _ in range(65):
            await asyncio.sleep(1.0)
            made.registry.get(OTHER).status_changed()
        assert not reader.of("extension")
        assert len(reader.of("synced")) == 3
        assert asyncio.get_running_loop().time() - began == pytest.approx(65.0)


async def test_a_spec_is_sent_once_for_each_generation() -> None:
    """It may be large; a change of state says only what changed, and a new extension all again."""
    async with listed() as made:
        extension = await live(made)
        reader = made.watch()
        await reader.until("synced")
        extension.status_changed()
        await reader.until("extension", 2)
        extension.generation += 1
        extension.status_changed()
        await reader.until("extension", 3)
        extension.status_changed()
        await reader.until("extension", 4)
        await made.registry.deregister(SHOP)
        await made.register(SHOP)
        await reader.until("extension", 5)
        told = [(each.generation, each.HasField("spec")) for each in reader.of("extension")]
        assert told == [(1, True), (1, False), (2, True), (2, False), (1, True)]


async def test_changes_that_come_fast_are_joined() -> None:
    """An extension is told no more often than the setting says, and its last state is told."""
    async with listed(extension_watch_interval_seconds=1.0) as made:
        extension = await live(made)
        reader = made.watch()
        await reader.until("synced")
        for _ in range(100):
            await asyncio.sleep(0.05)
            extension.status_changed()
        extension.generation = 7
        extension.status_changed()
        await asyncio.sleep(2.0)
        told = reader.of("extension")
        assert told[-1].generation == 7
        assert len(told) <= 8


async def test_only_so_many_streams_may_be_open() -> None:
    """One that has stalled counts until its reader comes back; one that ended makes room."""
    async with listed(max_extension_watches=2) as made:
        stuck = Reader(pb.WatchExtensionsResponse, patience=0)
        made.watch(stuck)
        await stuck.until_stuck()
        await asyncio.sleep(61.0)
        assert made.world.reporter.of("stream_stalled") == [[None]]
        await made.watch().until("synced")
        assert made.listing.stream_count == 2
        made.watch()
        error = await made.error()
        assert isinstance(error, LimitExceededError)
        assert error.setting == "max_extension_watches"
        stuck.go_on()
        await asyncio.wait([made.tasks[0]])
        await made.watch().until("synced")
        assert made.listing.stream_count == 2


async def test_a_stream_ends_with_the_service() -> None:
    """At rest, and in the middle of a write."""
    async with listed() as made:
        await made.register(SHOP)
        resting = made.watch()
        await resting.until("synced")
        writing = Reader(pb.WatchExtensionsResponse, patience=0)
        made.watch(writing)
        await writing.until_stuck()
        made.registry.drain()
        writing.go_on()
        assert isinstance(await made.error(), ServiceDrainingError)
        await asyncio.wait([made.tasks[0]])
        assert isinstance(made.tasks[0].exception(), ServiceDrainingError)
        made.watch()
        assert isinstance(await made.error(), ServiceDrainingError), "and none is opened any more"


async def test_a_reader_that_takes_nothing_is_told_so() -> None:
    """It is no fault of the service."""
    async with listed() as made:
        reader = Reader(pb.WatchExtensionsResponse, patience=0)
        made.watch(reader)
        await reader.until_stuck()
        await asyncio.sleep(61.0)
        reader.go_on()
        error = await made.error()
        assert isinstance(error, LimitExceededError)
        assert error.setting == "stalled_write_seconds"


BAD_SCOPES: dict[str, tuple[dict[str, str], str]] = {
    "namespace": ({"namespace": "Team_A"}, "namespace"),
    "a name without a namespace": ({"name": "shop"}, "namespace"),
    "name": ({"namespace": "team-a", "name": "-shop"}, "name"),
}


@pytest.mark.parametrize("name", BAD_SCOPES)
async def test_a_bad_scope_is_refused_by_its_field(name: str) -> None:
    """Before anything is said."""
    request, field = BAD_SCOPES[name]
    async with listed() as made:
        made.watch(**request)
        error = await made.error()
    assert isinstance(error, InvalidRequestError)
    assert [each.field for each in error.violations] == [field]
