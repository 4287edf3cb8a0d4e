"""Registered and deregistered many times over, the service is back where it was."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

import watchcache
from tests.contract.api import Api, Endpoint, eventually
from tests.e2e.acting import configmap, grant
from tests.e2e.hearing import Hearing, running_here
from tests.e2e.service import ServiceProcess
from tests.process_figures import memory_of, sockets_of

_OBJECTS = 20
_ROUNDS = 500
# Allocator and collector take so many rounds to reach their level; then they move around it.
_WARM_UP = 300
_WINDOW = 100
_GROWTH_BYTES_A_ROUND = 10 * 1024


async def series_of(service: ServiceProcess) -> set[str]:
    """Return the series that name an extension."""
    url = f"http://127.0.0.1:{service.http_port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        lines = (await response.text()).splitlines()
    return {line.rpartition(" ")[0] for line in lines if "extension=" in line}


class Churn:
    """A client that registers an extension, reads its objects and deregisters it, over and over."""

    def __init__(self, wc: watchcache.Connection, namespace: str, account: str) -> None:
        self._wc = wc
        self._namespace = namespace
        self._account = account
        self._number = 0

    async def play(self, rounds: int, pid: int = 0) -> int:
        """Play so many rounds; return the least memory that the process had meanwhile."""
        memory = []
        for _ in range(rounds):
            await self._play_one()
            if pid:
                memory.append(memory_of(pid))
        return min(memory, default=0)

    async def _play_one(self) -> None:
        self._number += 1
        ext = await self._wc.register(
            f"{self._namespace}/round-{self._number % 7}",
            service_account=self._account,
            watch=["configmaps", "secrets", "nonsense.example"],
            namespaces=[self._namespace],
            wait="10s",
        )
        async with ext.mirror() as objects:
            await objects.wait_synced("configmaps", timeout="10s")
            assert len(objects.list("configmaps")) >= _OBJECTS
        assert await ext.deregister()


@pytest.fixture
async def filled(api: Api, namespace: str, account: str) -> str:
    """Give a ServiceAccount that may read, and something to read."""
    await grant(api, namespace, account, "", "configmaps", "secrets")
    for number in range(_OBJECTS):
        body = configmap(f"c{number}", blob="x" * 2000)
        await api.create(f"/api/v1/namespaces/{namespace}/configmaps", body)
    return account


@pytest.mark.timeout(300)
async def test_five_hundred_rounds_leave_nothing_behind(
    endpoint: Endpoint, namespace: str, filled: str, tmp_path: Path
) -> None:
    """Sockets, series and memory are where they were after 500 times Register, Watch, Deregister.

    The collector of the service looks at what has lived long once in about a thousand rounds, and
    up to then memory grows by two to three megabytes; over 4,000 rounds it is level. So its least
    within a window is compared with its least within an earlier one, and ten kilobytes a round are
    allowed: half of what a leaked stream costs, and a tenth of a leaked informer. What the
    collector leaves is counted below, object by object.
    """
    service = ServiceProcess([f"hub={endpoint.kubeconfig}"], tmp_path / "service.log")
    await asyncio.to_thread(service.start)
    try:
        async with watchcache.connect(service.address) as wc:
            churn = Churn(wc, namespace, filled)
            await churn.play(_WARM_UP)
            memory = await churn.play(_WINDOW, service.pid)
            sockets = sockets_of(service.pid)
            await churn.play(_ROUNDS - _WINDOW)
            grown = await churn.play(_WINDOW, service.pid) - memory
            assert sockets_of(service.pid) <= sockets + 2
            assert not await series_of(service)
            assert grown < _ROUNDS * _GROWTH_BYTES_A_ROUND, f"grew by {grown} bytes"
            assert [each async for each in wc.extensions()] == []
    finally:
        await asyncio.to_thread(service.stop)


def parts_of_the_service() -> Counter[str]:
    """Count what is alive of the service, by type."""
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
    return Counter(name for name in names if name.startswith("watchcache_server."))


def names_of_tasks() -> Counter[str]:
    """Count the tasks of this event loop, by what they run."""
    return Counter(getattr(t.get_coro(), "__qualname__", "") for t in asyncio.all_tasks())


@pytest.mark.timeout(120)
async def test_rounds_leave_no_task_and_no_object(
    endpoint: Endpoint, namespace: str, filled: str
) -> None:
    """Every task and every object of the service's own that a round made is gone after it."""
    async with (
        running_here(Hearing(), endpoint) as app,
        watchcache.connect(app.addresses[0]) as wc,
    ):
        churn = Churn(wc, namespace, filled)
        # Seven names in turn: what is remembered of each is remembered from now on.
        tasks = names_of_tasks()
        await churn.play(8)

        async def are_tasks_gone() -> bool:
            return not names_of_tasks() - tasks

        await eventually(are_tasks_gone, "the tasks of eight rounds have ended")
        parts = parts_of_the_service()
        await churn.play(21)
        await eventually(are_tasks_gone, "the tasks of more rounds have ended")
        assert parts_of_the_service() - parts == Counter()
