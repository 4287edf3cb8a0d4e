"""Reads that are to be fresh, over a network that breaks: they are, or say that they are not."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import watchcache
from tests.chaos.proxy import Proxy
from tests.contract.api import Api
from tests.e2e.acting import configmap, grant
from tests.e2e.service import ServiceProcess

_ROUNDS = 12
_WRITES = 10


async def register(wc: watchcache.Connection, namespace: str, account: str) -> watchcache.Extension:
    """Register an extension of the ConfigMaps of a namespace."""
    return await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=["configmaps"],
        namespaces=[namespace],
        wait="20s",
    )


@pytest.mark.timeout(120)
async def test_a_read_finds_out_that_a_watch_has_died_in_silence(
    api: Api, namespace: str, account: str, upstream: Proxy, far_service: ServiceProcess
) -> None:
    """Its connection stays open and brings nothing; the API server says what it should have.

    What has not changed is proven at once; what has is brought by another watch, long before the
    silence of the first one would be noticed.
    """
    await grant(api, namespace, account, "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await api.create(path, configmap("before"))
    async with watchcache.connect(far_service.address) as wc:
        ext = await register(wc, namespace, account)
        upstream.freeze()
        made = await api.create(path, configmap("meanwhile"))
        name = f"{namespace}/meanwhile"
        clock = asyncio.get_running_loop().time
        began = clock()
        before = await ext.get("configmaps", f"{namespace}/before", consistent=True, wait="20s")
        assert before is not None
        assert await ext.get("configmaps", name) is None, "nobody has told of it yet"
        assert await ext.get("configmaps", name, consistent=True, wait="20s") is not None

        upstream.freeze()
        changed = await api.patch(f"{path}/meanwhile", {"data": {"k": "v"}})
        version = changed["metadata"]["resourceVersion"]
        assert int(version) > int(made["metadata"]["resourceVersion"])
        item = await ext.get("configmaps", name, min_resource_version=version, wait="20s")
        assert item is not None
        assert item.object["data"] == {"k": "v"}
        assert clock() - began < 15.0
        upstream.thaw()


@pytest.mark.timeout(150)
async def test_no_read_that_is_to_be_fresh_is_ever_older(
    api: Api,
    namespace: str,
    account: str,
    upstream: Proxy,
    far_service: ServiceProcess,
    chance: random.Random,
) -> None:
    """Whatever breaks between the service and its API server, and whenever."""
    await grant(api, namespace, account, "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await api.create(path, configmap("counter", count="0"))
    name = f"{namespace}/counter"
    answered = 0
    refused: list[str] = []

    async def read(ext: watchcache.Extension, count: int, **asked: Any) -> None:
        nonlocal answered
        try:
            item = await ext.get("configmaps", name, wait="10s", **asked)
        except watchcache.UnavailableError as error:
            refused.append(error.reason)
            return
        assert item is not None
        assert int(item.object["data"]["count"]) >= count
        answered += 1

    async with watchcache.connect(far_service.address) as wc:
        ext = await register(wc, namespace, account)
        count = 0
        for _ in range(_ROUNDS):
            breaking = chance.choice((upstream.cut, upstream.freeze, lambda: None))
            at = chance.randrange(_WRITES)
            async with asyncio.TaskGroup() as group:
                for number in range(_WRITES):
                    if number == at:
                        breaking()
                    count += 1
                    written = await api.patch(f"{path}/counter", {"data": {"count": str(count)}})
                    version = written["metadata"]["resourceVersion"]
                    group.create_task(read(ext, count, min_resource_version=version))
                    group.create_task(read(ext, count, consistent=True))
            upstream.thaw()
    assert set(refused) <= {"NOT_FRESH_ENOUGH"}
    assert answered >= _ROUNDS * _WRITES, "most are answered, since new connections work"
