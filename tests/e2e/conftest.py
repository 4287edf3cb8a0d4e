"""A service beside an API server, with a client: against a real server and the dev cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

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
from tests.e2e.service import ServiceProcess


@pytest.fixture
async def service(endpoint: Endpoint, tmp_path: Path) -> AsyncIterator[ServiceProcess]:  # noqa: F811
    """Give a running service whose default cluster is the server under test, named hub."""
    process = ServiceProcess(
        [f"hub={endpoint.kubeconfig}"], tmp_path / "service.log", default_cluster="hub"
    )
    async with process:
        yield process


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
