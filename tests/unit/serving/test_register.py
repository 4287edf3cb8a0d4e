"""Rules of how long Register waits, and what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.unit.extensions.world import KEY, World, running, settle, sync
from watchcache.v1alpha1 import extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.model.errors import ExtensionNotFoundError, InvalidRequestError
from watchcache_server.serving.service import WatchCacheService
from watchcache_server.settings import Settings

pytestmark = pytest.mark.looptime


class Registering:
    """A service over clusters that a test answers for."""

    def __init__(self, world: World, **settings: Any) -> None:
        self.world = world
        self.service = WatchCacheService(
            registry=world.registry,
            clusters=world.clusters,
            settings=Settings(**settings),
            reporter=world.reporter,
            clock=world.clock,
        )

    async def register(self, *namespaces: str, wait: float | None = None, **spec: Any) -> Any:
        """Register an extension of the pods in these namespaces."""
        items = [extension_pb2.ResourceWatch(resource="pods", namespaces=namespaces)]
        request = pb.RegisterRequest(
            namespace="team-a",
            name="shop",
            spec=extension_pb2.ExtensionSpec(
                service_account="shop",
                resources=extension_pb2.ResourceWatchSet(items=items),
                **spec,
            ),
        )
        if wait is not None:
            request.wait.FromNanoseconds(int(wait * 1e9))
        return await self.service._register(request)

    async def registering(self, *namespaces: str, **more: Any) -> asyncio.Task[Any]:
        """Begin to register, and come back once informers have been started."""
        task = asyncio.create_task(self.register(*namespaces, **more))
        async with asyncio.timeout(60.0):
            while not list(self.world.registry):
                await self.world.registry.pulse.wait()
        await settle()
        return task


@asynccontextmanager
async def registering(**settings: Any) -> AsyncIterator[Registering]:
    """Give a service that extensions can be registered with."""
    async with running() as world:
        yield Registering(world, **settings)


def states(answer: Any) -> list[str]:
    """Return the states in an answer."""
    return [
        extension_pb2.SourceState.Name(each.state).removeprefix("SOURCE_STATE_")
        for each in answer.extension.sources
    ]


async def test_without_a_wait_it_answers_at_once() -> None:
    """With what there is to say."""
    async with registering() as made:
        answer = await made.register("team-a")
        assert answer.outcome == pb.REGISTER_OUTCOME_CREATED
        assert states(answer) in (["PENDING"], ["SYNCING"])


async def test_a_wait_lasts_until_every_informer_is_live_or_has_failed() -> None:
    """It does not end before they have even begun, nor with the first of them."""
    async with registering() as made:
        task = await made.registering("a", "b", wait=60.0)
        assert not task.done()
        exchanges = [await made.world.hub.api.asked() for _ in range(2)]
        await sync(exchanges[0])
        await asyncio.sleep(5.0)
        assert not task.done()
        exchanges[1].refuse(403)
        (await made.world.hub.api.asked()).refuse(403)
        answer = await task
        assert sorted(states(answer)) == ["FORBIDDEN", "LIVE"]


async def test_one_kind_that_is_put_off_for_ever_holds_no_other_up() -> None:
    """A CRD whose conversion webhook is down is answered 429; that counts as a failure after 15 s.

    It comes by itself once the webhook is there.
    """
    async with registering() as made:
        loop = asyncio.get_running_loop()
        api = made.world.hub.api
        task = await made.registering("a", "b", wait=3600.0)
        began = loop.time()
        first, second = await api.asked(), await api.asked()
        is_down = True
        await sync(first)

        async def put_off() -> None:
            exchange = second
            while is_down or exchange.request.path != second.request.path:
                if exchange.request.path == second.request.path:
                    exchange.refuse(429, "TooManyRequests", "storage is (re)initializing")
                else:
                    exchange.accept()
                exchange = await api.asked()
            await sync(exchange)

        server = asyncio.create_task(put_off())
        answer = await task
        assert sorted(states(answer)) == ["LIVE", "UNREACHABLE"]
        assert 14.0 < loop.time() - began < 40.0
        assert any(
            "storage is (re)initializing" in each.message for each in answer.extension.sources
        )
        is_down = False
        while states(await made.register("a", "b")) != ["LIVE", "LIVE"]:
            await made.world.registry.pulse.wait()
        await server


async def test_a_wait_ends_with_its_time() -> None:
    """And says how far it has come."""
    async with registering() as made:
        loop = asyncio.get_running_loop()
        task = await made.registering("a", wait=10.0)
        began = loop.time()
        assert states(await task) == ["SYNCING"]
        assert 9.0 < loop.time() - began <= 10.1


async def test_a_wait_for_what_is_settled_is_none() -> None:
    """The same spec again, with all that it asks for live."""
    async with registering() as made:
        task = await made.registering("a", wait=10.0)
        await sync(await made.world.hub.api.asked())
        await task
        began = asyncio.get_running_loop().time()
        answer = await made.register("a", wait=3600.0)
        assert answer.outcome == pb.REGISTER_OUTCOME_UNCHANGED
        assert states(answer) == ["LIVE"]
        assert asyncio.get_running_loop().time() - began < 1.0


async def test_a_wait_for_what_is_new_waits_for_it() -> None:
    """What was settled before says nothing of it."""
    async with registering() as made:
        task = await made.registering("a", wait=10.0)
        await sync(await made.world.hub.api.asked())
        await task
        again = asyncio.create_task(made.register("a", "b", wait=60.0))
        exchange = await made.world.hub.api.asked()
        assert not again.done()
        await sync(exchange)
        answer = await again
        assert answer.outcome == pb.REGISTER_OUTCOME_UPDATED
        assert states(answer) == ["LIVE", "LIVE"]


async def test_an_extension_that_ends_meanwhile_is_not_said_to_be_there() -> None:
    """The reason of its end is the answer."""
    async with registering() as made:
        task = await made.registering("a", wait=3600.0)
        await made.world.registry.deregister(KEY)
        with pytest.raises(ExtensionNotFoundError) as caught:
            await task
        assert caught.value.reason == "EXTENSION_DEREGISTERED"


async def test_a_ttl_does_not_run_while_its_register_waits() -> None:
    """Whoever waits for an extension uses it."""
    async with registering() as made:
        task = await made.registering("a", wait=30.0, ttl=Duration(seconds=1))
        assert states(await task) == ["SYNCING"]


async def test_a_service_that_shuts_down_keeps_nobody_waiting() -> None:
    """The answer is what there is."""
    async with registering() as made:
        task = await made.registering("a", wait=3600.0)
        began = asyncio.get_running_loop().time()
        made.world.registry.drain()
        assert states(await task) == ["SYNCING"]
        assert asyncio.get_running_loop().time() - began < 1.0


async def test_every_broken_field_of_a_request_is_told_at_once() -> None:
    """Its name, its wait and all of its spec; a cluster that nobody knows too."""
    async with running("hub", "edge") as world:
        items = [extension_pb2.ResourceWatch(resource="Not A Thing", namespaces=["UPPER"])]
        request = pb.RegisterRequest(
            namespace="Team",
            name="shop",
            wait=Duration(seconds=-1),
            spec=extension_pb2.ExtensionSpec(
                clusters=["hub", "mars"],
                ttl=Duration(seconds=-1),
                resources=extension_pb2.ResourceWatchSet(items=items),
            ),
        )
        with pytest.raises(InvalidRequestError) as caught:
            await Registering(world).service._register(request)
        assert [each.field for each in caught.value.violations] == [
            "namespace",
            "wait",
            "spec.service_account",
            "spec.ttl",
            "spec.resources.items[0].resource",
            "spec.resources.items[0].namespaces[0]",
            "spec.clusters[1]",
        ]
        assert caught.value.reason == "INVALID_REQUEST"


async def test_what_is_registered_can_be_asked_for() -> None:
    """As it was answered; and deregistered, once."""
    async with registering() as made:
        answer = await made.register("a")
        key = {"namespace": "team-a", "name": "shop"}
        found = await made.service._get_extension(pb.GetExtensionRequest(**key))
        assert found.extension.uid == answer.extension.uid
        first = await made.service._deregister(pb.DeregisterRequest(**key))
        second = await made.service._deregister(pb.DeregisterRequest(**key))
        assert (first.existed, second.existed) == (True, False)
        with pytest.raises(ExtensionNotFoundError):
            await made.service._get_extension(pb.GetExtensionRequest(**key))


@pytest.mark.parametrize("identity", ["service-account", "caller"])
async def test_a_register_without_a_spec_is_refused(identity: str) -> None:
    """A spec that was forgotten is no empty one, which would close every informer."""
    async with registering(identity=identity) as made:
        with pytest.raises(InvalidRequestError) as caught:
            await made.service._register(pb.RegisterRequest(namespace="team-a", name="shop"))
        [violation] = caught.value.violations
        assert violation.field == "spec"
        assert "required" in violation.description
        assert not list(made.world.registry)
