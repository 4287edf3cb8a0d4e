"""The service goes away and comes back, and its subscribers go on where they were."""

from __future__ import annotations

import asyncio
import random

import pytest

import watchcache
from tests.chaos.interruptions import holds
from tests.chaos.proxy import Proxy
from tests.chaos.receiver import held_by
from tests.chaos.world import World
from tests.contract.api import Api, Endpoint, eventually
from tests.e2e.acting import grant
from tests.e2e.recording import History, Recorder
from tests.e2e.service import ServiceProcess
from tests.history_records import Started

_BACKOFF = watchcache.Backoff("0.05s", "0.5s")
_RESTARTS = 5


async def restart(service: ServiceProcess, chance: random.Random) -> None:
    """End the service, with or without a word, and start it again."""
    await asyncio.to_thread(service.kill if chance.random() < 0.7 else service.stop)
    await asyncio.sleep(chance.uniform(0.0, 0.5))
    await asyncio.to_thread(service.start)


def starts(history: History) -> list[Started]:
    """Return how the streams of a subscriber began."""
    return [record for record in history.records if isinstance(record, Started)]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("is_compacted", [False, True], ids=["kept", "compacted"])
async def test_restarts_lose_double_and_reload_nothing(
    is_compacted: bool,
    api: Api,
    endpoint: Endpoint,
    namespace: str,
    account: str,
    far_service: ServiceProcess,
    downstream: Proxy,
    recorder: Recorder,
    chance: random.Random,
) -> None:
    """Mirrors are told what they missed while the service was away, deletions included.

    Where the API server remembers, from its history; where it does not, as the difference to what
    they say they hold. Either way there is one snapshot in the life of each, the first.
    """
    await grant(api, namespace, account, "", "configmaps")
    world = World(api, namespace, chance.randrange(1 << 32))
    await world.change(200)
    async with watchcache.connect(downstream.address, timeout="30s") as wc:
        ext = await wc.register(
            f"{namespace}/shop",
            service_account=account,
            watch=["configmaps"],
            namespaces=[namespace],
            wait="20s",
        )
        async with (
            ext.mirror(bookmark_interval="1s", backoff=_BACKOFF) as whole,
            ext.mirror(
                bookmark_interval="1s", backoff=_BACKOFF, label_selector="tier=gold"
            ) as gold,
        ):
            await whole.wait_synced("configmaps", timeout="20s")
            await gold.wait_synced("configmaps", timeout="20s")
            for _ in range(_RESTARTS):
                changing = asyncio.create_task(world.change(150, seconds=2.0))
                await asyncio.sleep(chance.uniform(0.0, 1.0))
                if is_compacted:
                    await asyncio.to_thread(far_service.kill)
                    await changing
                    await asyncio.to_thread(endpoint.expire_history)
                    await asyncio.to_thread(far_service.start)
                else:
                    await restart(far_service, chance)
                    await changing
                everything, golden = await world.content(), await world.content(tier="gold")
                await eventually(holds(lambda: held_by(whole), everything), "the mirror holds all")
                await eventually(holds(lambda: held_by(gold), golden), "the other holds its part")
    modes = {"resumed": 0, "difference": 0}
    for history in recorder.histories:
        expected = golden if history.label_selector else everything
        history.finish(expected, deleted_uids=world.deleted_uids)
        assert history.checker.reset_count == 0
        first, *others = starts(history)
        assert first == Started(is_resumed=False, extension_uid=first.extension_uid)
        assert all(each.is_resumed or each.is_difference for each in others)
        assert len(others) >= _RESTARTS
        modes["resumed"] += sum(each.is_resumed for each in others)
        modes["difference"] += sum(each.is_difference for each in others)
    assert modes["difference" if is_compacted else "resumed"] > 0
