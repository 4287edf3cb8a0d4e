"""The service is stopped and started again, as an upgrade does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import watchcache
from tests.chaos.receiver import held_by
from tests.contract.api import Api, Endpoint, eventually
from tests.e2e.acting import configmap, grant
from tests.e2e.recording import Recorder
from tests.e2e.service import ServiceProcess
from tests.history_records import Key
from watchcache.errors import from_rpc_error
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache.v1alpha1 import watch_cache_service_pb2_grpc as pb_grpc

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
async def process(endpoint: Endpoint, tmp_path: Path) -> AsyncIterator[ServiceProcess]:
    """Give a running service that the test may stop."""
    process = ServiceProcess([f"hub={endpoint.kubeconfig}"], tmp_path / "service.log")
    await asyncio.to_thread(process.start)
    yield process
    if process.process is not None:
        await asyncio.to_thread(process.stop)


async def register(wc: watchcache.Connection, namespace: str, account: str) -> watchcache.Extension:
    """Register an extension of the ConfigMaps of a namespace."""
    return await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=["configmaps"],
        namespaces=[namespace],
        wait="20s",
    )


class LastWords:
    """What a raw stream of gRPC says before its end."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.last: Any = None
        self.error: grpc.aio.AioRpcError | None = None

    async def read(self, call: Any) -> LastWords:
        """Read to the end."""
        try:
            async for message in call:
                self.last = message
                if getattr(message, "status", None) or message.HasField("synced"):
                    self.begun.set()
        except grpc.aio.AioRpcError as error:
            self.error = error
        return self


@pytest.mark.timeout(120)
async def test_a_stop_is_announced(
    process: ServiceProcess, api: Api, namespace: str, account: str
) -> None:
    """SIGTERM turns health to NOT_SERVING; each stream says Draining, with a token, and ends."""
    await grant(api, namespace, account, "", "configmaps")
    async with (
        watchcache.connect(process.address) as wc,
        grpc.aio.insecure_channel(process.address) as channel,
    ):
        await register(wc, namespace, account)
        watches: Any = pb_grpc.WatchCacheServiceStub(channel)
        checks: Any = health_pb2_grpc.HealthStub(channel)
        health, words = LastWords(), LastWords()
        async with asyncio.TaskGroup() as group:
            group.create_task(health.read(checks.Watch(health_pb2.HealthCheckRequest())))
            request = pb.WatchRequest(namespace=namespace, name="shop")
            group.create_task(words.read(watches.Watch(request)))
            async with asyncio.timeout(20):
                await health.begun.wait()
                await words.begun.wait()
            assert health.last.status == _SERVING
            assert await asyncio.to_thread(process.stop) == 0
        assert health.last.status == _NOT_SERVING
        assert words.last.draining.resume_token
        assert words.error is not None
        assert words.error.code() is grpc.StatusCode.UNAVAILABLE
        failure = from_rpc_error(words.error, address=process.address)
        assert failure.reason == "DRAINING"
        assert failure.retry_delay_seconds == 1


@pytest.mark.timeout(150)
async def test_a_mirror_survives_a_restart(
    process: ServiceProcess, api: Api, namespace: str, account: str, recorder: Recorder
) -> None:
    """It stays readable until it is too old, registers its extension again, and goes on.

    The restarted service knows nothing of the extension, and the token is of another epoch; what
    was missed is told all the same, the deletion too.
    """
    await grant(api, namespace, account, "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await api.create(path, configmap("stays"))
    await api.create(path, configmap("goes"))
    async with watchcache.connect(process.address) as wc:
        ext = await register(wc, namespace, account)
        uid = ext.status.uid
        backoff = watchcache.Backoff("0.1s", "1s")
        async with ext.mirror(max_age="3s", backoff=backoff) as mirror:
            await mirror.wait_synced("configmaps", timeout="20s")
            await asyncio.to_thread(process.stop)
            await api.delete(f"{path}/goes")
            await api.create(path, configmap("comes"))
            assert {key.name for _, key in mirror.snapshot()} == {"stays", "goes"}

            async def is_stale() -> bool:
                return mirror.is_stale

            await eventually(is_stale, "the mirror is too old")
            with pytest.raises(watchcache.StaleError, match=r"cannot reach|going away|draining"):
                mirror.list("configmaps")
            assert {key.name for _, key in mirror.snapshot()} == {"stays", "goes"}

            await asyncio.to_thread(process.start)
            expected = await content(api, namespace)

            async def is_current() -> bool:
                return not mirror.is_stale and held_by(mirror) == expected

            await eventually(is_current, "the mirror is current again")
            assert {key.name for key in mirror.keys("configmaps")} == {"comes", "stays"}
        assert (await ext.refresh()).uid != uid
    (history,) = recorder.histories
    history.finish(expected)
    assert history.checker.reset_count == 0
    assert history.checker.resumed_count > 0


async def content(api: Api, namespace: str) -> dict[Key, tuple[str, str]]:
    """Return uid and resourceVersion of the ConfigMaps of a namespace."""
    listed = await api.get(f"/api/v1/namespaces/{namespace}/configmaps")
    return {
        Key("hub", "", "configmaps", namespace, item["metadata"]["name"]): (
            item["metadata"]["uid"],
            item["metadata"]["resourceVersion"],
        )
        for item in listed["items"]
    }
