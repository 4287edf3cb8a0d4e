"""A crowd of subscribers comes back after a restart; one that is too large waits for room."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import watchcache
from tests.contract.api import Api, eventually
from tests.e2e.acting import configmap, grant
from tests.e2e.service import ServiceProcess
from watchcache import Batch, Disconnected, EventType, Reset, Synced

# CROWD=5000 is what one extension may have; CI has two cores and a minute.
_CROWD = int(os.environ.get("CROWD") or 1000)
_CONNECTIONS = 5
_SECONDS = 100
_PLACES = 20
_GUESTS = 60


class Subscriber:
    """What one reader holds, and how its streams went."""

    def __init__(self, watch: watchcache.Watch[Any]) -> None:
        self._watch = watch
        self.held: dict[str, str] = {}
        self.synced_count = 0
        self.reset_count = 0
        self.breaks: list[Disconnected] = []

    async def run(self) -> None:
        """Follow until cancelled."""
        async with self._watch as messages:
            async for message in messages:
                if isinstance(message, Batch):
                    self._apply(message)
                elif isinstance(message, Synced):
                    self.synced_count += 1
                elif isinstance(message, Reset):
                    self.reset_count += 1
                elif isinstance(message, Disconnected):
                    self.breaks.append(message)

    def _apply(self, batch: Batch[Any]) -> None:
        for event in batch:
            if event.type in (EventType.DELETED, EventType.LEFT):
                self.held.pop(event.key.name, None)
            else:
                self.held[event.key.name] = event.resource_version


@asynccontextmanager
async def _subscribed(
    service: ServiceProcess, namespace: str, account: str, count: int
) -> AsyncIterator[tuple[list[Subscriber], list[asyncio.Task[None]]]]:
    """Open so many streams at one moment, over a few connections."""
    async with AsyncExitStack() as stack:
        extensions = []
        for _ in range(_CONNECTIONS):
            wc = await stack.enter_async_context(watchcache.connect(service.address))
            ext = await wc.register(
                f"{namespace}/shop",
                service_account=account,
                watch=["configmaps"],
                namespaces=[namespace],
            )
            extensions.append(ext)
        subscribers = [
            Subscriber(extensions[number % _CONNECTIONS].watch()) for number in range(count)
        ]
        tasks = [asyncio.create_task(each.run()) for each in subscribers]
        try:
            yield subscribers, tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@pytest.mark.timeout(300)
async def test_a_crowd_comes_back_after_a_restart(
    far_service: ServiceProcess, api: Api, namespace: str, account: str
) -> None:
    """All of them, to the present, deletions included, and without beginning anew."""
    await grant(api, namespace, account, "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("stays", "goes"):
        await api.create(path, configmap(name))
    async with _subscribed(far_service, namespace, account, _CROWD) as (subscribers, tasks):

        async def all_synced() -> bool:
            return all(each.synced_count for each in subscribers)

        await eventually(all_synced, "all are synced", seconds=_SECONDS)
        await asyncio.to_thread(far_service.stop)
        await api.delete(f"{path}/goes")
        await api.create(path, configmap("comes"))
        await asyncio.to_thread(far_service.start)
        listed = await api.get(path)
        expected = {
            each["metadata"]["name"]: each["metadata"]["resourceVersion"]
            for each in listed["items"]
        }
        assert "goes" not in expected

        async def all_current() -> bool:
            return all(each.held == expected for each in subscribers)

        await eventually(all_current, "all are at the present", seconds=_SECONDS)
        assert not any(task.done() for task in tasks)
    assert sum(each.reset_count for each in subscribers) == 0


class TestTooMany:
    """More come than there is room for."""

    @pytest.fixture
    def service_settings(self) -> dict[str, Any]:
        """Leave room for some."""
        return {"max_subscriptions_per_extension": _PLACES}

    @pytest.mark.timeout(120)
    async def test_those_beyond_the_limit_wait_until_there_is_room(
        self, far_service: ServiceProcess, api: Api, namespace: str, account: str
    ) -> None:
        """They are told which limit it is and how long to wait, not all the same, and obey."""
        await grant(api, namespace, account, "", "configmaps")
        async with _subscribed(far_service, namespace, account, _GUESTS) as (subscribers, tasks):

            async def all_answered() -> bool:
                return all(each.synced_count or each.breaks for each in subscribers)

            await eventually(all_answered, "all are served or refused")
            refused = [each for each in subscribers if each.breaks]
            assert len(refused) == _GUESTS - _PLACES
            waits = set()
            for subscriber in refused:
                error = subscriber.breaks[0].error
                assert isinstance(error, watchcache.ResourceExhaustedError)
                assert error.metadata["setting"] == "max_subscriptions_per_extension"
                assert error.retry_delay_seconds is not None
                assert subscriber.breaks[0].retry_seconds >= error.retry_delay_seconds >= 5
                waits.add(subscriber.breaks[0].retry_seconds)
            assert len(waits) == len(refused)
            for subscriber, task in zip(subscribers, tasks, strict=True):
                if subscriber not in refused:
                    task.cancel()

            async def some_came() -> bool:
                return sum(each.synced_count for each in refused) == _PLACES

            await eventually(some_came, "the places that became free are taken")
