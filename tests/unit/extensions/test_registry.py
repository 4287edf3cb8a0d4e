"""Rules of Register and Deregister, and of what ends an extension without being asked to."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.extensions.world import KEY, pods, running, settle, spec_of, sync
from tests.unit.kubernetes.informer_double import REFUSED
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.kubernetes.errors import TokenRequestForbiddenError
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    ServiceAccountGoneError,
    ServiceDrainingError,
)
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.model.states import ExtensionState, LeftReason, SourceState

pytestmark = pytest.mark.looptime

OTHER = ExtensionKey("team-b", "shop")


# Register


async def test_a_new_extension_is_created() -> None:
    """It is there at once; its informers follow."""
    async with running() as world:
        registered = await world.register(pods("team-a"))
        assert registered.outcome == "created"
        extension = registered.extension
        assert world.registry.get(KEY) is extension
        assert list(world.registry) == [extension]
        assert (extension.generation, extension.registered_spec) == (1, "as written")
        assert extension.state is ExtensionState.SYNCING
        assert not extension.is_settled, "nobody is told that it is ready before it has begun"
        assert world.reporter.of("extension_registered") == [[KEY, "created", 1]]


async def test_the_same_spec_changes_nothing() -> None:
    """Not even the order of a write counts."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        informers = dict(extension.informers)
        version = extension.status_version
        again = await world.register(pods("team-a"))
        assert (again.outcome, again.extension) == ("unchanged", extension)
        await settle()
        assert extension.informers == informers
        assert (extension.generation, extension.status_version) == (1, version)
        assert world.hub.api.is_quiet


async def test_a_changed_spec_grows_the_generation() -> None:
    """Also when it changes nothing that is watched."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        informers = dict(extension.informers)
        changed = await world.register(pods("team-a"), ttl=60.0)
        assert (changed.outcome, changed.extension) == ("updated", extension)
        assert extension.generation == 2
        assert extension.informers == informers
        assert extension.expires_in == 60.0


async def test_extensions_are_listed_in_order() -> None:
    """By namespace and name, of all namespaces or one."""
    async with running() as world:
        for key in (OTHER, KEY, ExtensionKey("team-a", "cart")):
            await world.register(key=key)
        assert [str(each.key) for each in world.registry.extensions()] == [
            "team-a/cart",
            "team-a/shop",
            "team-b/shop",
        ]
        assert [each.key for each in world.registry.extensions("team-b")] == [OTHER]


async def test_an_extension_that_is_not_registered_is_said_to_be_none() -> None:
    """By its name, with what to do."""
    async with running() as world:
        with pytest.raises(ExtensionNotFoundError, match="call Register first"):
            world.registry.get(KEY)


async def test_the_kubeconfig_of_a_single_user_needs_no_service_account() -> None:
    """Its informers read as the cluster's own identity."""
    async with running() as world:
        extension = (await world.register(pods(), account="")).extension
        await sync(await world.hub.own.asked())
        await settle()
        assert extension.state is ExtensionState.LIVE
        assert world.registry.credentials_of(extension) == {}


# What Register refuses


async def test_a_cluster_that_nobody_knows_is_refused() -> None:
    """Before anything is asked of it."""
    async with running("hub", "edge") as world:
        with pytest.raises(InvalidRequestError, match="known are edge, hub") as caught:
            await world.register(pods(), clusters=("mars", "venus"))
        assert "'mars' or 'venus'" in str(caught.value)
        assert caught.value.reason == "UNKNOWN_CLUSTER"
        assert not list(world.registry)


async def test_no_more_extensions_than_the_limit() -> None:
    """Those that are there can still change."""
    async with running(max_extensions=1) as world:
        await world.register()
        with pytest.raises(LimitExceededError) as caught:
            await world.register(key=OTHER)
        assert caught.value.setting == "max_extensions"
        assert (await world.register(ttl=5.0)).outcome == "updated"


TOO_LARGE = {
    "resources": (spec_of(*(pods(label_selector=f"a={n}") for n in range(11))), 11),
    "namespaces": (spec_of(pods(*(f"n{n}" for n in range(11)))), 11),
    "clusters": (spec_of(pods("a", "b", "c", "d"), clusters=("hub", "edge", "far")), 12),
}


@pytest.mark.parametrize("name", TOO_LARGE)
async def test_no_more_informers_than_the_limit(name: str) -> None:
    """Whatever makes them many; the number is named."""
    spec, count = TOO_LARGE[name]
    async with running("hub", "edge", "far", max_sources=10) as world:
        with pytest.raises(LimitExceededError, match=f"{count} informers") as caught:
            await world.registry.register(KEY, spec, None)
        assert caught.value.setting == "max_sources"
        assert not list(world.registry)


async def test_selectors_count_for_each_informer() -> None:
    """Answers repeat them, and a spec of a few kilobytes must not make them of many megabytes."""
    names = tuple(f"n{number}" for number in range(20))
    long = pods(*names, label_selector="a=" + "b" * 60)
    async with running("hub", max_spec_bytes=1240) as world:
        extension = (await world.register(long)).extension
        assert len(extension.informers) == 20
    async with running("hub", max_spec_bytes=1239) as world:
        with pytest.raises(InvalidRequestError, match="20 informers, 1240 bytes in all") as caught:
            await world.register(long)
        assert caught.value.reason == "SPEC_TOO_LARGE"
        assert "raise the setting max_spec_bytes" in str(caught.value)
        assert not list(world.registry)


async def test_a_spec_is_measured_before_it_is_multiplied_out() -> None:
    """Hundreds of thousands of combinations take no time."""
    names = tuple(f"n{number}" for number in range(30_000))
    async with running("hub", "edge") as world:
        with pytest.raises(LimitExceededError, match="60000 informers"):
            await world.register(pods(*names), clusters=("edge", "hub"))


async def test_nothing_is_registered_while_the_service_shuts_down() -> None:
    """Nor before it runs, or after."""
    async with running() as world:
        world.registry.drain()
        assert world.registry.is_draining
        with pytest.raises(ServiceDrainingError):
            await world.register()
    with pytest.raises(ServiceDrainingError):
        await world.register()


# ServiceAccounts


async def test_a_service_account_that_does_not_exist_is_refused() -> None:
    """Where, and what to do, is said; nothing is registered and nothing held."""
    async with running() as world:
        world.account.vanish("hub")
        with pytest.raises(ServiceAccountGoneError, match="team-a/shop does not exist in cluster"):
            await world.register(pods())
        assert not list(world.registry)
        assert world.account.holders == 0


async def test_one_cluster_that_knows_the_service_account_is_enough() -> None:
    """Partial success is success."""
    async with running("hub", "edge") as world:
        edge = world.clusters.get("edge").account()
        edge.vanish("edge")
        await world.register(pods(), clusters=("edge", "hub"))
        world.account.vanish("hub")
        await world.registry.deregister(KEY)
        with pytest.raises(ServiceAccountGoneError, match="edge, hub"):
            await world.register(pods(), clusters=("edge", "hub"))


ACCEPTED = {
    "out of reach": REFUSED,
    "no right to ask": TokenRequestForbiddenError("hub", "team-a", "shop", "forbidden"),
}


@pytest.mark.parametrize("name", ACCEPTED)
async def test_whatever_else_keeps_a_token_away_is_told_by_the_informers(name: str) -> None:
    """It may pass, so it is no reason to refuse."""
    async with running() as world:
        world.account.error = ACCEPTED[name]
        extension = (await world.register(pods())).extension
        async with asyncio.timeout(30.0):
            while not extension.is_settled:
                await extension.pulse.wait()
        assert extension.state is ExtensionState.FAILED


async def test_clusters_that_do_not_answer_hold_register_up_once_and_briefly() -> None:
    """All are asked at the same time."""
    async with running("hub", "edge", "far", account_check_seconds=2.0) as world:
        for name in world.clusters.names:
            world.clusters.get(name).account().delay_seconds = 3600.0
        began = asyncio.get_running_loop().time()
        await world.register(pods(), clusters=("edge", "far", "hub"))
        assert asyncio.get_running_loop().time() - began == pytest.approx(2.0)


async def test_informers_that_do_not_end_hold_deregister_up_for_a_while() -> None:
    """The extension is gone at once; its tasks are waited for, as long as the setting says."""
    async with running(deregister_seconds=3.0) as world:
        extension = await world.live(pods())
        running_informers = world.registry._running[extension]
        stubborn = asyncio.create_task(asyncio.sleep(3600.0))
        end = running_informers.end
        running_informers.end = lambda: [*end(), stubborn]  # type: ignore[method-assign]
        began = asyncio.get_running_loop().time()
        assert await world.registry.deregister(extension.key)
        assert asyncio.get_running_loop().time() - began == pytest.approx(3.0)
        assert not list(world.registry)
        stubborn.cancel()


async def test_the_token_that_was_asked_for_is_the_one_that_is_used() -> None:
    """What Register holds meanwhile, the informers hold afterwards."""
    async with running() as world:
        holders: list[int] = []
        change = world.registry._upsert

        def upsert(*arguments: object) -> object:
            holders.append(world.account.holders)
            return change(*arguments)  # type: ignore[arg-type]

        world.registry._upsert = upsert  # type: ignore[method-assign,assignment]
        await world.register(pods())
        assert holders == [1], "it is not let go of in between"
        assert world.account.holders == 1


async def test_a_service_account_that_is_in_use_is_not_asked_for_again() -> None:
    """A changed spec under the same account waits for nothing."""
    async with running() as world:
        await world.live(pods("team-a"))
        world.account.delay_seconds = 3600.0
        began = asyncio.get_running_loop().time()
        await world.register(pods("team-b"))
        assert asyncio.get_running_loop().time() == began


async def test_another_service_account_takes_nothing_over() -> None:
    """What one account may read, another may not: all begins anew, hand-overs included."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        await world.register(pods())
        assert len(extension.retiring) == 1, "its successor has not synced yet"
        await world.register(pods(), account="cart")
        assert not extension.retiring
        assert world.account.holders == 0
        assert world.hub.account("cart").holders == 1
        changes = list(extension.store.history.since(0))
        assert [change.left_reason for change in changes if change.entry is not None] == [
            LeftReason.SCOPE
        ]


async def test_a_service_account_gone_from_its_cluster_ends_the_extension() -> None:
    """Everything is freed, and everybody told why."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        world.account.vanish("hub")
        async with asyncio.timeout(120.0):
            while not extension.ended:
                await extension.pulse.wait()
        assert extension.ended == "SERVICE_ACCOUNT_GONE"
        assert not list(world.registry)
        assert world.account.holders == 0
        assert world.reporter.of("extension_ended") == [[KEY, "SERVICE_ACCOUNT_GONE"]]
        await settle()
        assert not world.left_running()
        last = [each[0] for each in world.reporter.heard][-1]
        assert last == "extension_ended", "nothing is told of it afterwards"


async def test_a_service_account_must_be_gone_from_all_clusters_at_once() -> None:
    """One that came back on the first before it went from the second is there."""
    async with running("hub", "edge") as world:
        extension = (await world.register(pods("team-a"), clusters=("edge", "hub"))).extension
        hub, edge = world.account, world.clusters.get("edge").account()
        await settle()
        edge.vanish("edge")
        world.registry.service_account_missing(extension)
        assert not extension.ended
        edge.error = None
        hub.vanish("hub")
        world.registry.service_account_missing(extension)
        assert not extension.ended
        edge.vanish("edge")
        world.registry.service_account_missing(extension)
        assert extension.ended == "SERVICE_ACCOUNT_GONE"
        world.registry.service_account_missing(extension)


# Deregister


async def test_deregister_frees_everything_and_waits_for_it() -> None:
    """Tasks, access, objects; and whoever shares its messages is told."""
    async with running() as world:
        extension = await world.live(pods("team-a", "team-b"))
        assert world.left_running()
        assert await world.registry.deregister(KEY)
        assert not world.left_running()
        assert world.account.holders == 0
        assert extension.ended == "DEREGISTERED"
        assert extension.store.object_count == 0
        assert world.dropped == [extension]
        assert world.registry.credentials_of(extension) == {}
        assert world.registry.ended[KEY] == "DEREGISTERED"


async def test_deregister_twice_is_no_error() -> None:
    """The second time there is nothing."""
    async with running() as world:
        await world.register()
        assert await world.registry.deregister(KEY)
        assert not await world.registry.deregister(KEY)


async def test_deregister_ends_a_hand_over_too() -> None:
    """Nothing of the extension is left running."""
    async with running() as world:
        await world.live(pods("team-a"))
        await world.register(pods())
        await world.registry.deregister(KEY)
        assert not world.left_running()
        assert world.account.holders == 0


async def test_an_extension_registered_again_is_another_one() -> None:
    """With a uid and an epoch of its own, and no word of its end left."""
    async with running() as world:
        first = await world.live(pods("team-a"))
        await world.registry.deregister(KEY)
        second = (await world.register(pods("team-a"))).extension
        assert second.uid != first.uid
        assert second.store.epoch != first.store.epoch
        assert KEY not in world.registry.ended


async def test_only_the_latest_ends_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of what is gone does not grow."""
    monkeypatch.setattr("watchcache_server.extensions.registry._ENDED_KEPT", 3)
    async with running() as world:
        for number in range(5):
            key = ExtensionKey("team-a", f"shop-{number}")
            await world.register(key=key)
            await world.registry.deregister(key)
        assert [key.name for key in world.registry.ended] == ["shop-2", "shop-3", "shop-4"]


async def test_the_end_of_the_registry_lets_go_of_all_access() -> None:
    """Extensions are not deregistered by a shutdown, but nothing of theirs runs on."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        account = world.account
    assert account.holders == 0
    assert not world.left_running()
    assert not extension.ended


# Time to live


async def wait_for_end(registry: ExtensionRegistry) -> float:
    """Return how long it takes until the extension is gone."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(3600.0):
        while list(registry):
            await registry.pulse.wait()
    return loop.time() - began


async def test_an_extension_that_nobody_uses_ends_with_its_ttl() -> None:
    """And says why."""
    async with running() as world:
        extension = await world.live(pods("team-a"), ttl=60.0)
        assert 59.0 < await wait_for_end(world.registry) < 61.0
        assert extension.ended == "TTL_EXPIRED"
        assert world.account.holders == 0


async def test_register_renews_the_ttl() -> None:
    """The same spec is enough."""
    async with running() as world:
        await world.register(ttl=60.0)
        await asyncio.sleep(50.0)
        await world.register(ttl=60.0)
        assert 59.0 < await wait_for_end(world.registry) < 61.0


async def test_a_watch_keeps_an_extension_alive() -> None:
    """The ttl runs from the end of the last one."""
    async with running() as world:
        extension = (await world.register(ttl=60.0)).extension
        extension.subscribed()
        extension.subscribed()
        await asyncio.sleep(600.0)
        world.registry.unsubscribed(extension)
        await asyncio.sleep(600.0)
        assert not extension.ended
        world.registry.unsubscribed(extension)
        assert 59.0 < await wait_for_end(world.registry) < 61.0


async def test_whoever_waits_for_an_extension_keeps_it_alive() -> None:
    """A Register that waits longer than the ttl is not cut short by it."""
    async with running() as world:
        extension = (await world.register(ttl=1.0)).extension
        with world.registry.in_use(extension):
            await asyncio.sleep(30.0)
        assert not extension.ended
        assert await wait_for_end(world.registry) <= 1.1


async def test_a_changed_ttl_counts_at_once() -> None:
    """One that is dropped frees nothing; one that is given does."""
    async with running() as world:
        await world.register(ttl=10.0)
        await world.register()
        await asyncio.sleep(100.0)
        await world.register(ttl=10.0)
        assert 9.0 < await wait_for_end(world.registry) < 11.0


# What extensions tell


async def test_every_change_of_state_is_news() -> None:
    """The registry's version grows, and the extension bears it."""
    async with running() as world:
        extension = (await world.register(pods("team-a"))).extension
        before = world.registry.version
        waiter = asyncio.create_task(world.registry.pulse.wait())
        await sync(await world.hub.api.asked())
        assert await waiter
        assert extension.registry_version == world.registry.version > before


async def test_draining_wakes_everybody() -> None:
    """Whoever waits for news of an extension or of all."""
    async with running() as world:
        extension = (await world.register()).extension
        waiters = [
            asyncio.create_task(pulse.wait()) for pulse in (extension.pulse, world.registry.pulse)
        ]
        await settle()
        world.registry.drain()
        assert all(await asyncio.gather(*waiters))


async def test_a_right_that_is_lost_drops_what_is_shared() -> None:
    """Messages that hold such objects are sent to nobody any more."""
    async with running(forbidden_grace_seconds=0) as world:
        extension = (await world.register(pods("team-a"))).extension
        watch = await sync(await world.hub.api.asked())
        watch.end()
        async with asyncio.timeout(120.0):
            while not world.dropped:
                (await world.hub.api.asked()).refuse(403, "Forbidden")
        assert world.dropped == [extension]
        assert extension.store.object_count == 0
        (informer,) = extension.informers.values()
        assert informer.status.state is SourceState.FORBIDDEN
