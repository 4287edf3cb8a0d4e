"""A subscriber that reads nothing is ended, goes on later, and holds up nobody."""

from __future__ import annotations

import grpc
import pytest

import watchcache
from tests.chaos.proxy import Proxy
from tests.chaos.receiver import held_by
from tests.contract.api import Api, Endpoint, eventually
from tests.e2e.acting import configmap, grant, until
from tests.e2e.hearing import Hearing, running_here
from tests.e2e.recording import Recorder
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache.v1alpha1 import watch_cache_service_pb2_grpc as pb_grpc

# More than the windows of a stream and of the sockets hold: those of the client are 2 MiB.
_OBJECTS = 40
_OBJECT_BYTES = 400_000


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "is_shared",
    [pytest.param(False, id="own connection"), pytest.param(True, id="same connection")],
)
async def test_a_reader_that_takes_nothing_is_ended_and_goes_on(
    api: Api,
    endpoint: Endpoint,
    namespace: str,
    account: str,
    recorder: Recorder,
    is_shared: bool,
) -> None:
    """It gets RESOURCE_EXHAUSTED with the setting's name, and resumes with all that it missed.

    Another subscriber, on the same connection or on one of its own, has everything before that.
    """
    await grant(api, namespace, account, "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    hearing = Hearing()
    async with (
        running_here(hearing, endpoint, stalled_write_seconds=1.5) as app,
        watchcache.connect(app.addresses[0]) as slow_wc,
        watchcache.connect(app.addresses[0]) as other_wc,
    ):
        ext = await slow_wc.register(
            f"{namespace}/shop",
            service_account=account,
            watch=["configmaps"],
            namespaces=[namespace],
            wait="20s",
        )
        slow = ext.watch()
        await until(slow, watchcache.Synced)
        other = await (slow_wc if is_shared else other_wc).extension(f"{namespace}/shop")
        async with other.mirror() as mirror:
            await mirror.wait_synced("configmaps", timeout="20s")
            for number in range(_OBJECTS):
                await api.create(path, configmap(f"c{number:02}", blob="x" * _OBJECT_BYTES))

            async def has_all() -> bool:
                return len(mirror.snapshot()) == _OBJECTS

            await eventually(has_all, "the other subscriber has everything")

            async def is_stalled() -> bool:
                return bool(hearing.all("stream_stalled"))

            await eventually(is_stalled, "the service has ended the stream that nobody reads")
            broken = (await until(slow, watchcache.Disconnected))[-1]
            assert isinstance(broken, watchcache.Disconnected)
            assert isinstance(broken.error, watchcache.ResourceExhaustedError)
            assert broken.error.metadata["setting"] == "stalled_write_seconds"
            assert "read faster" in str(broken.error)
            await until(slow, watchcache.Synced)
            expected = held_by(mirror)
        await slow.aclose()
    assert len(recorder.histories) == 2
    for history in recorder.histories:
        history.finish(expected)
        assert history.checker.reset_count == 0
    assert [history.checker.resumed_count for history in recorder.histories] == [1, 0]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "is_cut",
    [pytest.param(False, id="ends its stream"), pytest.param(True, id="loses its connection")],
)
async def test_a_reader_that_leaves_with_a_message_on_its_way_is_no_fault(
    api: Api, endpoint: Endpoint, namespace: str, account: str, is_cut: bool
) -> None:
    """Its stream is CANCELLED; nothing is logged or counted as a fault of the service."""
    await grant(api, namespace, account, "", "configmaps")
    for number in range(_OBJECTS):
        body = configmap(f"c{number:02}", blob="x" * _OBJECT_BYTES)
        await api.create(f"/api/v1/namespaces/{namespace}/configmaps", body)
    hearing = Hearing()

    def ends() -> list[str]:
        return [code for method, _, code, _ in hearing.all("rpc_handled") if method == "Watch"]

    async with (
        running_here(hearing, endpoint, stalled_write_seconds=1) as app,
        watchcache.connect(app.addresses[0]) as wc,
    ):
        port = int(app.addresses[0].rpartition(":")[2])
        await wc.register(
            f"{namespace}/shop",
            service_account=account,
            watch=["configmaps"],
            namespaces=[namespace],
            wait="20s",
        )
        async with Proxy("127.0.0.1", port) as network:
            channel = grpc.aio.insecure_channel(network.address)
            call = pb_grpc.WatchCacheServiceStub(channel).Watch(
                pb.WatchRequest(namespace=namespace, name="shop")
            )

            async def is_stalled() -> bool:
                return bool(hearing.all("stream_stalled"))

            await eventually(is_stalled, "a message has been on its way for a second")
            if is_cut:
                network.cut()
            call.cancel()

            async def has_ended() -> bool:
                return bool(ends())

            await eventually(has_ended, "the service has noticed")
            await channel.close()
    assert ends() == ["CANCELLED"]
    assert not hearing.all("rpc_failed")
