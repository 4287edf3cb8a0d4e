"""The start of the gRPC server may be broken off at any moment."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from watchcache_server.serving.server import GrpcServer
from watchcache_server.serving.service import WatchCacheService
from watchcache_server.settings import Settings


class _NoMethods:
    """Stands in for the service: nothing is asked of it here."""

    def handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler("none", {})


@pytest.mark.parametrize("steps", range(5))
async def test_a_start_that_is_cancelled_can_be_stopped(steps: int) -> None:
    """A signal that comes while the server starts ends it like any other, and nothing fails."""
    failures: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    server = GrpcServer(cast("WatchCacheService", _NoMethods()), Settings(listen=("127.0.0.1:0",)))
    starting = asyncio.ensure_future(server.start())
    for _ in range(steps):
        await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait([starting])
    async with asyncio.timeout(10):
        await server.stop(0)
    del server, starting
    gc.collect()
    assert not failures


async def test_calls_beyond_the_streams_of_a_connection_wait_for_their_turn() -> None:
    """Nobody is refused by chance near the limit: each is served once another one has ended."""
    settings = Settings(listen=("127.0.0.1:0",), max_streams_per_connection=10)
    server = GrpcServer(cast("WatchCacheService", _NoMethods()), settings)
    await server.start()
    try:
        async with asyncio.timeout(60), grpc.aio.insecure_channel(server.addresses[0]) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            # Only once it has the server's settings does the client know the limit.
            await stub.Check(health_pb2.HealthCheckRequest())
            served = 0

            async def watch() -> None:
                nonlocal served
                call = stub.Watch(health_pb2.HealthCheckRequest())
                await call.read()
                served += 1
                call.cancel()

            await asyncio.gather(*(watch() for _ in range(300)))
            assert served == 300
    finally:
        await server.stop(0)
