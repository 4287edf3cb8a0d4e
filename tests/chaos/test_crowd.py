"""A crowd of subscribers comes at one moment, as it does after a restart."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from tests.contract.api import Api
from tests.e2e.acting import configmap, grant
from tests.e2e.service import ServiceProcess
from watchcache.v1alpha1 import extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache.v1alpha1 import watch_cache_service_pb2_grpc as pb_grpc

_CROWD = 2000
_CONNECTIONS = 4
_LIMIT_SECONDS = 60.0


@pytest.mark.timeout(120)
async def test_a_crowd_is_served_to_the_last(
    api: Api, namespace: str, account: str, service: ServiceProcess
) -> None:
    """Two thousand streams opened at once all begin, and all are told all; none is refused."""
    await grant(api, namespace, account, "", "configmaps")
    await api.create(f"/api/v1/namespaces/{namespace}/configmaps", configmap("a"))
    named: dict[str, Any] = {"namespace": namespace, "name": "crowd"}
    item = extension_pb2.ResourceWatch(resource="configmaps", namespaces=[namespace])
    spec = extension_pb2.ExtensionSpec(
        service_account=account, resources=extension_pb2.ResourceWatchSet(items=[item])
    )
    channels = [
        grpc.aio.insecure_channel(service.address, options=[("grpc.use_local_subchannel_pool", 1)])
        for _ in range(_CONNECTIONS)
    ]
    stubs = [pb_grpc.WatchCacheServiceStub(channel) for channel in channels]

    async def subscribe(number: int) -> str:
        """Read up to Synced; say how it ended."""
        call = stubs[number % _CONNECTIONS].Watch(pb.WatchRequest(**named))
        try:
            async for message in call:
                if message.HasField("synced"):
                    return "synced"
        except grpc.aio.AioRpcError as error:
            return str(error.code())
        return "ended"

    try:
        await stubs[0].Register(pb.RegisterRequest(**named, spec=spec))
        async with asyncio.timeout(_LIMIT_SECONDS):
            ends = await asyncio.gather(*(subscribe(number) for number in range(_CROWD)))
        assert {end: ends.count(end) for end in ends} == {"synced": _CROWD}
        await stubs[0].Deregister(pb.DeregisterRequest(**named))
    finally:
        for channel in channels:
            await channel.close()
