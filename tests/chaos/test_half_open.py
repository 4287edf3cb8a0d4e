"""Connections that stay open though nothing passes any more, on both sides of the service."""

from __future__ import annotations

from typing import Any

import pytest

import watchcache
from tests.chaos.proxy import Proxy
from tests.contract.api import Api, eventually
from tests.e2e.acting import configmap, grant, next_events, until, wait_live, wait_state
from tests.e2e.recording import Recorder
from tests.e2e.service import ServiceProcess
from watchcache import SourceState

# Shorter than any test's limit; the default would be 30 s and more.
_KEEPALIVE = "10s"


@pytest.fixture
def service_settings() -> dict[str, Any]:
    """Have the service give up on a silent API server soon."""
    return {"watch_timeout_seconds": 5, "connect_seconds": 1, "response_seconds": 2}


async def register(wc: watchcache.Connection, namespace: str, account: str) -> watchcache.Extension:
    """Register an extension of the ConfigMaps of a namespace."""
    return await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=["configmaps"],
        namespaces=[namespace],
        wait="20s",
    )


@pytest.mark.timeout(150)
async def test_a_client_notices_a_service_that_has_fallen_silent(
    api: Api, namespace: str, account: str, downstream: Proxy, recorder: Recorder
) -> None:
    """Without a bookmark in its time a watch says so, and goes on over another connection.

    What was changed meanwhile arrives; a mirror of that client grows old and stays readable.
    """
    await grant(api, namespace, account, "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await api.create(path, configmap("before"))
    async with watchcache.connect(downstream.address, keepalive=_KEEPALIVE) as wc:
        ext = await register(wc, namespace, account)
        stream = ext.watch(bookmark_interval="1s", patience="0.5s")
        await until(stream, watchcache.Synced)
        async with ext.mirror(max_age="3s", patience="0.5s") as mirror:
            await mirror.wait_synced("configmaps", timeout="20s")
            downstream.freeze()
            await api.create(path, configmap("meanwhile"))

            broken = (await until(stream, watchcache.Disconnected, seconds=60))[-1]
            assert isinstance(broken, watchcache.Disconnected)
            assert broken.error.reason == "STREAM_SILENT"
            assert len(mirror.snapshot()) == 1

            async def is_refused() -> bool:
                try:
                    mirror.list("configmaps")
                except watchcache.StaleError as error:
                    return "said nothing" in str(error) or "cannot reach" in str(error)
                return False

            await eventually(is_refused, "the mirror says that it is too old, and why")
            started = (await until(stream, watchcache.Started, seconds=60))[-1]
            assert isinstance(started, watchcache.Started)
            assert started.mode is watchcache.StartMode.RESUMED
            (event,) = await next_events(stream, 1)
            assert event.key.name == "meanwhile"

            async def is_current() -> bool:
                return not mirror.is_stale and len(mirror.list("configmaps")) == 2

            await eventually(is_current, "the mirror is current again")
        await stream.aclose()
    expected = dict(recorder.histories[0].checker.held)
    assert len(expected) == 2
    for history in recorder.histories:
        history.finish(expected)


@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    "new_ones",
    [pytest.param(False, id="connections"), pytest.param(True, id="server")],
)
async def test_the_service_notices_an_api_server_that_has_fallen_silent(
    api: Api,
    namespace: str,
    account: str,
    upstream: Proxy,
    far_service: ServiceProcess,
    new_ones: bool,
) -> None:
    """A watch that is silent beyond its life is given up and opened again.

    While the whole server is silent, the objects are STALE and stay readable, with the reason.
    """
    await grant(api, namespace, account, "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    await api.create(path, configmap("before"))
    async with watchcache.connect(far_service.address) as wc:
        ext = await register(wc, namespace, account)
        stream = ext.watch()
        await until(stream, watchcache.Synced)
        upstream.freeze(new_ones=new_ones)
        await api.create(path, configmap("meanwhile"))
        if new_ones:
            stale = await wait_state(ext, SourceState.STALE)
            assert stale.reason
            assert "configmaps" in stale.message
            assert "hub" in stale.message
            assert [item.key.name async for item in ext.list("configmaps")] == ["before"]
            upstream.thaw()
        (event,) = await next_events(stream, 1, seconds=90)
        assert event.key.name == "meanwhile"
        await wait_live(ext, "configmaps")
        await stream.aclose()
