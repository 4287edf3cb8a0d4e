"""What is seen of a server that stops, freezes, or comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.controlplane.server import ControlPlane
from watchcache_server.clusters.cluster import Cluster, ClusterOptions
from watchcache_server.clusters.loading import ConnectionConfig
from watchcache_server.kubernetes.errors import (
    BodyIdleError,
    ConnectionRefusedByServerError,
    ConnectTimedOutError,
    ResponseTimedOutError,
)
from watchcache_server.kubernetes.requests import get_request, watch_request
from watchcache_server.kubernetes.served import Served
from watchcache_server.kubernetes.tls import TlsMaterial
from watchcache_server.kubernetes.transport import Limits, Response

LIMITS = Limits(connect_seconds=5.0, response_seconds=5.0, idle_seconds=2.0)


@pytest.fixture
async def cluster(own_control_plane: ControlPlane) -> AsyncIterator[Cluster]:
    """Give a server of the test's own as a cluster, with short limits."""
    config = ConnectionConfig(
        url=own_control_plane.url,
        tls=TlsMaterial(ca_file=own_control_plane.ca_file),
        token=own_control_plane.admin_token,
    )
    cluster = Cluster("dev", config, options=ClusterOptions(limits=LIMITS))
    yield cluster
    await cluster.close()


async def read_on(stream: Response) -> None:
    """Read until the stream ends."""
    while await stream.read_chunk():
        pass


@pytest.mark.controlplane
@pytest.mark.timeout(120)
async def test_a_frozen_and_a_stopped_server_are_noticed_and_found_again(
    own_control_plane: ControlPlane, cluster: Cluster
) -> None:
    """Frozen: silence, then timeouts. Stopped: refusal. Back: everything as before."""
    assert (await cluster.probe()).is_reachable
    watch = watch_request("/api/v1/namespaces", timeout_seconds=60, resource_version="0")
    async with await cluster.own.open(watch) as stream:
        await stream.read_chunk()
        own_control_plane.pause()
        with pytest.raises(BodyIdleError):
            await read_on(stream)
    # The kernel still takes connections for it, which get no further.
    with pytest.raises((ConnectTimedOutError, ResponseTimedOutError)):
        await cluster.own.call(get_request("/version"))
    assert not cluster.status().is_reachable
    own_control_plane.resume()
    assert (await cluster.probe()).is_reachable

    await asyncio.to_thread(own_control_plane.kill)
    with pytest.raises(ConnectionRefusedByServerError):
        await cluster.own.call(get_request("/version"))
    await asyncio.to_thread(own_control_plane.start_apiserver)
    assert (await cluster.probe()).version.startswith("v1.")
    assert isinstance(await cluster.discovery.resolve("apps", "", "Deployment"), Served)
