"""The two servers of the contract: a real kube-apiserver, and the dev cluster.

Every test of this folder runs against both. The tests are written from what the real server does;
where the dev cluster differs, it is wrong. Each server is started once and shared, so tests keep
to names of their own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.contract.api import Api, Endpoint, unique
from tests.contract.objects import version_of
from tests.contract.rights import Robot
from tests.controlplane.server import ControlPlane
from watchcache_devcluster import DevCluster

_START_LIMIT_SECONDS = 30.0


@pytest.fixture(
    params=[pytest.param("real", marks=pytest.mark.controlplane), pytest.param("devcluster")]
)
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    """Give each server in turn."""
    chosen: Endpoint = request.getfixturevalue(f"{request.param}_endpoint")
    return chosen


@pytest.fixture(scope="session")
def real_endpoint(control_plane: ControlPlane) -> Endpoint:
    """Give the real server."""

    def expire_history() -> None:
        # The server keeps a window of its own over a compaction; a new process has none.
        control_plane.compact()
        control_plane.restart()

    return Endpoint.of(
        control_plane,
        control_plane.kubeconfig(),
        name="real",
        expire_history=expire_history,
        run_controllers=lambda: control_plane.run_controllers("namespace-controller"),
    )


@pytest.fixture(scope="session")
def devcluster_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """Give a dev cluster that runs on an event loop of its own."""
    server = _DevClusterThread()
    server.start()
    try:
        yield server.endpoint(tmp_path_factory.mktemp("devcluster") / "kubeconfig")
    finally:
        server.stop()


@pytest.fixture
async def api(endpoint: Endpoint) -> AsyncIterator[Api]:
    """Give a client of the server under test, as its administrator."""
    async with aiohttp.ClientSession() as session:
        yield Api(endpoint, session)


@pytest.fixture
async def namespace(api: Api) -> str:
    """Give the name of a namespace that is this test's own."""
    name = unique("contract")
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture
def configmaps(namespace: str) -> str:
    """Give the path of the ConfigMaps of the test's namespace."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.fixture
async def seven(api: Api, configmaps: str) -> list[int]:
    """Make c0 to c6, numbered and labelled even or odd; return the version of each."""
    versions = []
    for number in range(7):
        labels = {"n": str(number), "parity": "odd" if number % 2 else "even"}
        made = await api.create(configmaps, {"metadata": {"name": f"c{number}", "labels": labels}})
        versions.append(version_of(made))
    return versions


@pytest.fixture
async def robot(api: Api, namespace: str) -> Robot:
    """Give a ServiceAccount of the test's namespace."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(path, {"metadata": {"name": "robot"}})
    made = await api.create(f"{path}/robot/token", {"spec": {}})
    return Robot(namespace, made["status"]["token"])


class _DevClusterThread:
    """A dev cluster in a thread, as apart from the tests' event loops as a real server is."""

    def __init__(self) -> None:
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._cluster: DevCluster

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(_START_LIMIT_SECONDS), "the dev cluster did not start"
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_START_LIMIT_SECONDS)
        assert not self._thread.is_alive(), "the dev cluster did not stop"

    def endpoint(self, kubeconfig: Path) -> Endpoint:
        self._cluster.write_kubeconfig(kubeconfig)
        return Endpoint.of(
            self._cluster, kubeconfig, name="devcluster", expire_history=self._expire_history
        )

    def _expire_history(self) -> None:
        async def compact() -> None:
            self._cluster.compact()

        asyncio.run_coroutine_threadsafe(compact(), self._loop).result(_START_LIMIT_SECONDS)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            async with DevCluster(port=0) as self._cluster:
                self._started.set()
                await self._stop.wait()
        except BaseException as failure:
            self._failure = failure
            raise
        finally:
            self._started.set()
