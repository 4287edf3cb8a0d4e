"""A service beside an API server, with a client: against a real server and the dev cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

import watchcache
from tests.contract.api import Api, Endpoint
from tests.contract.conftest import (  # noqa: F401 (fixtures)
    api,
    devcluster_endpoint,
    endpoint,
    namespace,
    real_endpoint,
)
from tests.e2e.recording import Recorder
from tests.e2e.service import ServiceProcess

ServiceOf = Callable[[Endpoint], ServiceProcess]


@pytest.fixture(scope="session")
def service_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceOf]:
    """Give the service of an API server: one for each, whose default cluster it is, named hub."""
    running: dict[str, ServiceProcess] = {}

    def get(server: Endpoint) -> ServiceProcess:
        if server.name not in running:
            process = ServiceProcess(
                [f"hub={server.kubeconfig}"], tmp_path_factory.mktemp("service") / "service.log"
            )
            process.start()
            running[server.name] = process
        return running[server.name]

    yield get
    for process in running.values():
        process.stop()


@pytest.fixture(autouse=True)
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """Record every watch of the test, and have each history judged by the contract."""
    recorder = Recorder()
    monkeypatch.setattr("watchcache.extension.Watch", recorder.watch_type)
    yield recorder
    recorder.assert_clean()


@pytest.fixture
def service(endpoint: Endpoint, service_of: ServiceOf) -> ServiceProcess:  # noqa: F811
    """Give a running service, shared by all tests that do not stop it."""
    return service_of(endpoint)


@pytest.fixture
async def wc(service: ServiceProcess) -> AsyncIterator[watchcache.Connection]:
    """Give a client of the service."""
    async with watchcache.connect(service.address) as connection:
        yield connection


@pytest.fixture
async def account(api: Api, namespace: str) -> str:  # noqa: F811
    """Give the name of a ServiceAccount of the test's namespace that may do nothing yet."""
    name = "shop"
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(path, {"metadata": {"name": name}})
    return name
