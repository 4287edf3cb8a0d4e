"""An API server restarts: the informers of all extensions come back, but not at one moment."""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Callable
from typing import Any

import pytest

import watchcache
from tests.chaos.proxy import Proxy
from tests.contract.api import Api, Endpoint, eventually
from tests.e2e.acting import configmap, grant
from tests.e2e.service import ServiceProcess
from watchcache import ExtensionState

_EXTENSIONS = 120
_A_SECOND = 20
# What comes beside the informers' own requests, and what a busy machine pushes together.
_SLACK = 20
_SECONDS = 60


@pytest.fixture
def service_settings() -> dict[str, Any]:
    """Set a pace that is slow enough to be seen."""
    return {"informer_requests_per_second": _A_SECOND}


async def _states(wc: watchcache.Connection, namespace: str) -> list[ExtensionState]:
    return [status.state async for status in wc.extensions(namespace)]


def _most_in_a_second(moments: list[float]) -> int:
    return max(
        bisect.bisect_left(moments, moment + 1.0) - place for place, moment in enumerate(moments)
    )


@pytest.mark.timeout(240)
@pytest.mark.parametrize("how", ["cut", "away", "history lost"])
async def test_informers_come_back_at_a_pace(
    far_service: ServiceProcess,
    upstream: Proxy,
    endpoint: Endpoint,
    api: Api,
    namespace: str,
    account: str,
    how: str,
) -> None:
    """All watches end at one moment: they are opened again a few a second, and all are LIVE again.

    Also where the server refuses connections for a while, and where all have to list again.
    """
    await grant(api, namespace, account, "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await api.create(path, configmap("a"))
    async with watchcache.connect(far_service.address) as wc:
        for number in range(_EXTENSIONS):
            await wc.register(
                f"{namespace}/shop-{number}",
                service_account=account,
                watch=["configmaps"],
                namespaces=[namespace],
            )

        async def all_live() -> bool:
            states = await _states(wc, namespace)
            return states == [ExtensionState.LIVE] * _EXTENSIONS

        await eventually(all_live, "all are live", seconds=_SECONDS)
        ext = await wc.extension(f"{namespace}/shop-{_EXTENSIONS - 1}")
        # Watches that end by themselves meanwhile would be counted too.
        before = len(upstream.taken)
        assert upstream.cut() >= _EXTENSIONS
        if how != "cut":
            upstream.shut()
            if how == "history lost":
                await api.delete(f"{path}/a")
                await api.create(path, configmap("b"))
                await asyncio.to_thread(endpoint.expire_history)
            else:
                await asyncio.sleep(3.0)
            upstream.open()
        await api.create(path, configmap("c"))
        await eventually(_is_told(ext, "c"), "the last extension is told", seconds=_SECONDS)

        async def all_told() -> bool:
            taken = len(upstream.taken) - before
            return taken >= _EXTENSIONS and await all_live()

        await eventually(all_told, "all are live again", seconds=_SECONDS)
    assert _most_in_a_second(upstream.taken[before:]) <= _A_SECOND * 1.25 + _SLACK
    # Where nobody waits for a turn, the same would come within a second.
    assert _EXTENSIONS > 2 * (_A_SECOND * 1.25 + _SLACK)


def _is_told(ext: watchcache.Extension, name: str) -> Callable[[], Any]:
    async def is_told() -> bool:
        return await ext.get("configmaps", f"{ext.namespace}/{name}") is not None

    return is_told
