"""A spec that changes all the time, while objects change and connections break."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

import watchcache
from tests.chaos.interruptions import cut_clients, holds
from tests.chaos.proxy import Proxy
from tests.chaos.receiver import held_by
from tests.chaos.world import World
from tests.contract.api import Api, eventually
from tests.e2e.acting import grant_everywhere
from tests.e2e.recording import Recorder
from watchcache import Resource

_BACKOFF = watchcache.Backoff("0.05s", "0.5s")


async def change_specs(
    wc: watchcache.Connection,
    name: str,
    account: str,
    specs: list[list[Resource]],
    chance: random.Random,
) -> None:
    """Register one spec after the other, until cancelled."""
    while True:
        with contextlib.suppress(watchcache.UnavailableError, watchcache.DeadlineExceededError):
            await wc.register(name, service_account=account, watch=chance.choice(specs))
        await asyncio.sleep(chance.uniform(0.05, 0.5))


@pytest.mark.timeout(240)
async def test_a_changing_spec_loses_doubles_and_disorders_nothing(
    api: Api,
    namespace: str,
    account: str,
    downstream: Proxy,
    recorder: Recorder,
    chance: random.Random,
) -> None:
    """Scopes grow, shrink and overlap, and sources hand objects over; the end is what it should be.

    All the time nothing is called DELETED that is not gone, and no object is seen twice.
    """
    recorder.is_selected_upstream = True
    other = f"{namespace}-b"
    await api.create("/api/v1/namespaces", {"metadata": {"name": other}})
    await grant_everywhere(api, namespace, account, "configmaps")
    name = f"{namespace}/shop"
    both = [Resource("configmaps", namespaces=[namespace, other])]
    specs = [
        both,
        [Resource("configmaps", namespaces=[namespace])],
        [Resource("configmaps", namespaces=[other])],
        [Resource("configmaps", namespaces=[namespace, other], label_selector="tier=gold")],
        [Resource("configmaps", namespaces=[namespace, other], label_selector="tier")],
        [],
    ]
    worlds = [World(api, each, chance.randrange(1 << 32)) for each in (namespace, other)]
    async with (
        watchcache.connect(downstream.address, timeout="30s") as wc,
        watchcache.connect(downstream.address) as second,
    ):
        ext = await wc.register(name, service_account=account, watch=both, wait="20s")
        again = await second.extension(name)
        async with (
            ext.mirror(bookmark_interval="1s", backoff=_BACKOFF) as whole,
            again.mirror(
                bookmark_interval="1s", backoff=_BACKOFF, label_selector="tier=gold"
            ) as gold,
            asyncio.TaskGroup() as group,
        ):
            troubles = [
                group.create_task(change_specs(wc, name, account, specs, chance)),
                group.create_task(cut_clients(downstream, chance)),
            ]
            async with asyncio.TaskGroup() as changes:
                for world in worlds:
                    changes.create_task(world.change(1500, seconds=12.0))
            for task in troubles:
                task.cancel()
            downstream.open()
            await wc.register(name, service_account=account, watch=both, wait="20s")
            everything = await worlds[0].content() | await worlds[1].content()
            golden = await worlds[0].content(tier="gold") | await worlds[1].content(tier="gold")
            await eventually(holds(lambda: held_by(whole), everything), "the mirror holds all")
            await eventually(holds(lambda: held_by(gold), golden), "the other holds its part")
    deleted = worlds[0].deleted_uids | worlds[1].deleted_uids
    for history in recorder.histories:
        expected = golden if history.label_selector else everything
        history.finish(expected, deleted_uids=deleted)
