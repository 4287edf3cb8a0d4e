"""The start of the gRPC server may be broken off at any moment."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, cast

import grpc
import pytest

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
