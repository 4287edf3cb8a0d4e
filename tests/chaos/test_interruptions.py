"""Connections break at random while objects change: nothing is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import watchcache
from tests.chaos.interruptions import cut_clients, holds
from tests.chaos.proxy import Proxy
from tests.chaos.receiver import Receiver, held_by
from tests.chaos.world import World
from tests.contract.api import Api, eventually
from tests.e2e.acting import grant
from tests.e2e.recording import History, Recorder
from tests.history_records import Batch

# Changes, seconds, and how many changes the service remembers.
_LONG = (5000, 20.0, 16_384)
_FORGETFUL = (1500, 8.0, 48)
# After each failure an informer waits twice as long, so it is cut off at these shares of the
# changes only; clients are cut off all the time.
_UPSTREAM_CUTS = (0.1, 0.3, 0.55, 0.8)
_BACKOFF = watchcache.Backoff("0.05s", "0.5s")


@pytest.fixture
def service_settings(plan: tuple[int, float, int]) -> dict[str, Any]:
    """Give the settings of the service: how many changes it remembers."""
    return {"history_changes": plan[2]}


async def cut_informers(network: Proxy, world: World, changes: int, chance: random.Random) -> None:
    """Reset the informers' connections a few times in the course of the changes."""
    for share in _UPSTREAM_CUTS:
        due = changes * (share + chance.uniform(0.0, 0.1))
        while world.written < due:  # noqa: ASYNC110 - the world sets no event
            await asyncio.sleep(0.01)
        network.cut()


async def be_killed(receiver: Receiver, address: str, name: str, chance: random.Random) -> None:
    """Have a client that lives for a moment, again and again, until cancelled."""
    while True:
        async with watchcache.connect(address) as wc:
            try:
                async with asyncio.timeout(chance.uniform(0.05, 1.5)):
                    ext = await wc.extension(name)
                    await receiver.follow(ext, bookmark_interval="1s", backoff=_BACKOFF)
            except (TimeoutError, watchcache.UnavailableError, watchcache.DeadlineExceededError):
                continue


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "plan", [pytest.param(_LONG, id="long"), pytest.param(_FORGETFUL, id="forgetful")]
)
async def test_random_cuts_lose_double_and_disorder_nothing(
    plan: tuple[int, float, int],
    api: Api,
    namespace: str,
    account: str,
    upstream: Proxy,
    downstream: Proxy,
    recorder: Recorder,
    chance: random.Random,
) -> None:
    """Through 5,000 changes and random cuts of all connections, every subscriber gets it right.

    Two mirrors, one of them with a label filter, and a client that is killed and begins anew from
    its last token end up with exactly what the API server holds, by histories that the checker
    accepts. The API server keeps its history all the time, so that nothing is passed over either.
    A service that forgets more than it keeps lets them catch up, and the end is the same.
    """
    changes, seconds, history_changes = plan
    is_forgetful = history_changes < changes
    await grant(api, namespace, account, "", "configmaps")
    world = World(api, namespace, chance.randrange(1 << 32))
    receiver = Receiver()
    async with (
        watchcache.connect(downstream.address) as first,
        watchcache.connect(downstream.address) as second,
    ):
        ext = await first.register(
            f"{namespace}/shop",
            service_account=account,
            watch=["configmaps"],
            namespaces=[namespace],
            wait="20s",
        )
        again = await second.extension(f"{namespace}/shop")
        async with (
            ext.mirror(bookmark_interval="1s", backoff=_BACKOFF) as whole,
            again.mirror(
                bookmark_interval="1s", backoff=_BACKOFF, label_selector="tier=gold"
            ) as gold,
            asyncio.TaskGroup() as group,
        ):
            life = group.create_task(
                be_killed(receiver, downstream.address, f"{namespace}/shop", chance)
            )
            cuts = [
                group.create_task(cut_clients(downstream, chance)),
                group.create_task(cut_informers(upstream, world, changes, chance)),
            ]
            await world.change(changes, seconds=seconds)
            for task in cuts:
                task.cancel()
            downstream.open()
            everything, golden = await world.content(), await world.content(tier="gold")
            await eventually(holds(lambda: held_by(whole), everything), "the mirror holds all")
            await eventually(holds(lambda: held_by(gold), golden), "the other holds its part")
            await eventually(holds(lambda: receiver.held, everything), "the killed one holds all")
            life.cancel()
    assert receiver.lives > 5
    # A client that was killed before it had any token began a history that nothing follows.
    followed = [history for history in recorder.histories if history.token]
    assert len(followed) == 3
    for history in followed:
        expected = golden if history.label_selector else everything
        history.finish(expected, deleted_uids=world.deleted_uids)
        checker = history.checker
        assert checker.resumed_count > 5
        assert checker.reset_count == 0
        assert (checker.coalesced_count > 0) == is_forgetful
    if not is_forgetful:
        assert world.versions <= told(recorder.histories[0]), "a state was passed over"


def told(history: History) -> set[tuple[str, str]]:
    """Return uid and resourceVersion of every state that a subscriber was told of."""
    return {
        (change.uid, change.resource_version)
        for record in history.records
        if isinstance(record, Batch)
        for change in record.changes
    }
