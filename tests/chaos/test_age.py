"""Connections reach their age, and the streams on them move to new ones."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

import watchcache
from tests.chaos.proxy import Proxy
from tests.chaos.receiver import held_by
from tests.chaos.world import World
from tests.contract.api import Api, eventually
from tests.e2e.acting import grant
from tests.e2e.recording import Recorder
from tests.history_records import Started
from watchcache import Disconnected, ExtensionsSynced

_SECONDS = 8.0
_CHANGES = 200


@pytest.fixture
def service_settings() -> dict[str, Any]:
    """Let connections age within the test."""
    return {"max_connection_age_seconds": 1}


@pytest.mark.timeout(120)
async def test_streams_move_to_new_connections_in_silence(
    downstream: Proxy,
    api: Api,
    namespace: str,
    account: str,
    chance: Any,
    recorder: Recorder,
) -> None:
    """Again and again, under changes: nothing is lost, nothing begins anew, nobody hears of it."""
    await grant(api, namespace, account, "", "configmaps")
    world = World(api, namespace, chance.randrange(1 << 32))
    async with watchcache.connect(downstream.address) as wc:
        ext = await wc.register(
            f"{namespace}/shop",
            service_account=account,
            watch=["configmaps"],
            namespaces=[namespace],
            wait="20s",
        )
        told: Counter[type[Any]] = Counter()

        async def follow(messages: AsyncIterator[Any]) -> None:
            async for message in messages:
                told[type(message)] += 1

        tasks = [
            asyncio.create_task(follow(ext.watch())),
            asyncio.create_task(follow(wc.watch_extensions(namespace=namespace))),
        ]
        async with ext.mirror() as mirror:
            await mirror.wait_synced("configmaps", timeout="20s")
            await world.change(_CHANGES, seconds=_SECONDS)
            expected = await world.content()

            async def is_current() -> bool:
                return held_by(mirror) == expected

            await eventually(is_current, "the mirror holds all")

            async def has_moved() -> bool:
                return told[ExtensionsSynced] > 2 and len(downstream.taken) > 2

            await eventually(has_moved, "streams and connections have moved")
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
    assert not told[Disconnected]
    assert len(recorder.histories) == 2
    for history in recorder.histories:
        assert history.checker.reset_count == 0
        first, *others = [each for each in history.records if isinstance(each, Started)]
        assert not first.is_resumed
        assert others
        assert all(each.is_resumed for each in others)
        assert len({each.extension_uid for each in others}) == 1
