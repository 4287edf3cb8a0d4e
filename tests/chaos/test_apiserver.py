"""The API server goes away and comes back, with or without its history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

import watchcache
from tests.chaos.proxy import Proxy, kubeconfig_through
from tests.contract.api import Api, Endpoint, unique
from tests.controlplane.server import ControlPlane
from tests.e2e.acting import configmap, grant, until, wait_live, wait_state
from tests.e2e.service import ServiceProcess
from watchcache import EventType, SourceState


@pytest.fixture
async def own_api(own_control_plane: ControlPlane) -> AsyncIterator[Api]:
    """Give a client of a control plane that is this test's own."""
    endpoint = Endpoint.of(own_control_plane, own_control_plane.kubeconfig(), name="own")
    async with aiohttp.ClientSession() as session:
        yield Api(endpoint, session)


@pytest.fixture
async def network(own_control_plane: ControlPlane) -> AsyncIterator[Proxy]:
    """Give the network between the service and its API server."""
    server = urlsplit(own_control_plane.url)
    async with Proxy(str(server.hostname), int(server.port or 0)) as proxy:
        yield proxy


@pytest.fixture
async def far_service(
    own_control_plane: ControlPlane, network: Proxy, tmp_path: Path
) -> AsyncIterator[watchcache.Connection]:
    """Give a client of a service that reaches its API server through that network only."""
    kubeconfig = kubeconfig_through(
        network, own_control_plane.kubeconfig(), tmp_path / "kubeconfig"
    )
    service = ServiceProcess([f"hub={kubeconfig}"], tmp_path / "service.log")
    await asyncio.to_thread(service.start)
    try:
        async with watchcache.connect(service.address) as connection:
            yield connection
    finally:
        await asyncio.to_thread(service.stop)


def _events(messages: list[Any]) -> list[watchcache.Event[dict[str, Any]]]:
    return [
        event for message in messages if isinstance(message, watchcache.Batch) for event in message
    ]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("history", ["kept", "compacted"])
async def test_deletes_during_an_outage_arrive(
    own_control_plane: ControlPlane,
    own_api: Api,
    network: Proxy,
    far_service: watchcache.Connection,
    history: str,
) -> None:
    """After a restart the service recovers by itself, and what went meanwhile is DELETED.

    With its history the API server tells the deletions; with a compacted one a relist finds them.
    The objects stay readable all the time, marked STALE while the server is away.
    """
    namespace = unique("outage")
    await own_api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    await own_api.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "shop"}}
    )
    await grant(own_api, namespace, "shop", "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("stays", "goes", "recreated"):
        await own_api.create(path, configmap(name))
    ext = await far_service.register(
        f"{namespace}/shop",
        service_account="shop",
        watch=["configmaps"],
        namespaces=[namespace],
        wait="20s",
    )
    stream = ext.watch()
    opening = await until(stream, watchcache.Synced)
    uids = {event.key.name: event.uid for event in _events(opening)}

    network.shut()
    await own_api.delete(f"{path}/goes")
    await own_api.delete(f"{path}/recreated")
    again = await own_api.create(path, configmap("recreated"))
    if history == "compacted":
        await asyncio.to_thread(own_control_plane.compact)
    await asyncio.to_thread(own_control_plane.restart)
    stale = await wait_state(ext, SourceState.STALE)
    assert stale.object_count == 3
    readable = await ext.get("configmaps", f"{namespace}/goes")
    assert readable is not None
    assert readable.uid == uids["goes"]

    network.open()
    await wait_live(ext, "configmaps")
    seen: dict[str, list[tuple[EventType, str]]] = {}
    async with asyncio.timeout(30):
        while sum(map(len, seen.values())) < 3:
            for event in _events([await anext(stream)]):
                seen.setdefault(event.key.name, []).append((event.type, event.uid))
    assert seen == {
        "goes": [(EventType.DELETED, uids["goes"])],
        "recreated": [
            (EventType.DELETED, uids["recreated"]),
            (EventType.ADDED, again["metadata"]["uid"]),
        ],
    }
    await stream.aclose()
