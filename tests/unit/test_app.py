"""How the parts of the service start and stop together."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from watchcache.v1alpha1.extension_pb2 import ExtensionSpec
from watchcache_server.app import App, cluster_options, running, serve
from watchcache_server.clusters.cluster import ClusterOptions
from watchcache_server.clusters.errors import KubeconfigMissingError, UnknownClusterError
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.kubernetes.reporting import SILENT
from watchcache_server.model.errors import SettingsError
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.observability.reporter import Reporters
from watchcache_server.settings import Settings

_LIMIT_SECONDS = 20.0
_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: hub
contexts: [{name: hub, context: {cluster: hub, user: hub}}]
clusters: [{name: hub, cluster: {server: "http://127.0.0.1:%d"}}]
users: [{name: hub, user: {token: secret}}]
"""


def free_port() -> int:
    """Return a port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """Give settings of a service whose one cluster is down."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(_KUBECONFIG % free_port())
    return {
        "kubeconfig": (str(kubeconfig),),
        "listen": ("127.0.0.1:0",),
        "http_listen": "127.0.0.1:0",
    }


def run(settings: dict[str, Any]) -> Any:
    """Run the service without metrics."""
    return running(Settings(**settings), reporter=Reporters(), access_reporter=SILENT)


async def health(address: str) -> Any:
    """Return what the service says of its health."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=_LIMIT_SECONDS)
        return answer.status


async def test_a_cluster_that_is_down_is_no_reason_not_to_start(settings: dict[str, Any]) -> None:
    """It serves, and stops serving with its end."""
    async with run(settings) as app:
        assert await health(app.addresses[0]) == health_pb2.HealthCheckResponse.SERVING
        assert app.http is None, "there is nothing to show without metrics"
        address = app.addresses[0]
    with pytest.raises(grpc.aio.AioRpcError):
        await health(address)


async def test_the_command_serves_metrics_and_drains_when_it_is_cancelled(
    settings: dict[str, Any],
) -> None:
    """Whoever waits for it is told once it serves."""
    ready: asyncio.Future[App] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(Settings(**settings), ready=ready.set_result))
    app = await asyncio.wait_for(ready, _LIMIT_SECONDS)
    assert app.http is not None
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://{app.http.address}/metrics") as answer:
            assert "watchcache_extensions" in await answer.text()
        async with session.get(f"http://{app.http.address}/healthz") as answer:
            assert answer.status == 200
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert app.registry.is_draining
    assert not app.server.is_serving


def test_every_option_of_a_cluster_is_a_setting() -> None:
    """None of them is out of an operator's reach."""
    settings = Settings(
        connect_seconds=1,
        response_seconds=2,
        token_lifetime_seconds=601,
        token_request_seconds=3,
        discovery_seconds=4,
        max_discovery_bytes=2**20,
        discovery_max_age_seconds=11,
        credentials_recheck_seconds=6,
        plugin_seconds=7,
    )
    found, usual = cluster_options(settings), ClusterOptions()
    assert [found.limits.connect_seconds, found.limits.response_seconds] == [1, 2]
    assert [found.token_lifetime_seconds, found.token_request_seconds] == [601, 3]
    assert [found.recheck_seconds, found.plugin_seconds] == [6, 7]
    assert dataclasses.astuple(found.discovery) == (4, 2**20, 11)
    for each in dataclasses.fields(ClusterOptions):
        assert getattr(found, each.name) != getattr(usual, each.name), each.name


def test_what_is_usual_for_a_cluster_is_what_the_settings_say() -> None:
    """A figure stands in one place for whoever runs the service; the other is no other figure."""
    found, usual = cluster_options(Settings()), ClusterOptions()
    assert dataclasses.replace(found, limits=usual.limits) == usual


async def test_it_can_serve_without_anybody_waiting_for_it(settings: dict[str, Any]) -> None:
    """And without HTTP."""
    task = asyncio.create_task(serve(Settings(**(settings | {"http_listen": ""}))))
    done, _ = await asyncio.wait([task], timeout=0.5)
    assert not done
    task.cancel()
    await asyncio.wait([task])


CANNOT_START: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "an address for everybody": ({"listen": ("0.0.0.0:0",)}, SettingsError),
    "no kubeconfig": ({"kubeconfig": ("/nowhere",)}, KubeconfigMissingError),
    "no such cluster": ({"default_cluster": "mars"}, UnknownClusterError),
    "no certificate": ({"tls_certificate": "/nowhere", "tls_key": "/nowhere"}, SettingsError),
}


@pytest.mark.parametrize("name", CANNOT_START)
async def test_what_keeps_it_from_starting_is_raised_as_itself(
    settings: dict[str, Any], name: str
) -> None:
    """Not as a group of errors, and nothing is left running."""
    wrong, error = CANNOT_START[name]
    before = asyncio.all_tasks()
    with pytest.raises(error):
        async with run(settings | wrong):
            raise AssertionError("it has started")
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("what", ["gRPC", "HTTP"])
async def test_a_port_in_use_is_told_by_its_address(settings: dict[str, Any], what: str) -> None:
    """Whichever of the two it is."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        wrong: dict[str, Any] = (
            {"listen": (address,)} if what == "gRPC" else {"http_listen": address}
        )
        with pytest.raises(SettingsError, match=address):
            await serve(Settings(**(settings | wrong)))


async def test_what_happens_inside_is_raised_as_itself(settings: dict[str, Any]) -> None:
    """After everything was stopped."""
    with pytest.raises(ValueError, match="of the user"):
        async with run(settings) as app:
            raise ValueError("of the user")
    assert app.registry.is_draining


async def test_the_thread_that_reads_specs_ends_with_the_service(settings: dict[str, Any]) -> None:
    """It belongs to the service, and takes nothing more."""
    async with run(settings) as app:
        read = app.service._specs.read
        await read(ExtensionKey("team-a", "shop"), ExtensionSpec(service_account="shop"))
    with pytest.raises(RuntimeError, match="shutdown"):
        await read(ExtensionKey("team-a", "shop"), ExtensionSpec(service_account="shop"))


async def test_a_fault_of_a_part_ends_the_service(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not go on without one."""
    is_up = asyncio.Event()

    async def fail(_: ExtensionRegistry) -> None:
        await is_up.wait()
        raise RuntimeError("a fault")

    async def live() -> None:
        async with run(settings):
            is_up.set()
            await asyncio.sleep(_LIMIT_SECONDS)

    monkeypatch.setattr(ExtensionRegistry, "_reap_forever", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        await live()
