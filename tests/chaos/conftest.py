"""The fixtures of the end-to-end tests, and networks between the programs that a test can break."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.chaos.proxy import Proxy, kubeconfig_through
from tests.contract.api import Endpoint
from tests.contract.conftest import (  # noqa: F401 (fixtures)
    api,
    devcluster_endpoint,
    endpoint,
    namespace,
    real_endpoint,
)
from tests.e2e.conftest import (  # noqa: F401 (fixtures)
    account,
    recorder,
    service,
    service_of,
    wc,
)
from tests.e2e.service import ServiceProcess


@pytest.fixture
def chance() -> random.Random:
    """Give the source of all chance; CHAOS_SEED=... repeats a failed test."""
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"CHAOS_SEED={seed}")  # noqa: T201 (pytest shows it where the test fails)
    return random.Random(seed)


@pytest.fixture
async def upstream(endpoint: Endpoint) -> AsyncIterator[Proxy]:  # noqa: F811
    """Give the network between a service and its API server."""
    server = urlsplit(endpoint.url)
    async with Proxy(str(server.hostname), int(server.port or 0)) as proxy:
        yield proxy


@pytest.fixture
def service_settings() -> dict[str, Any]:
    """Give the settings of `far_service`; a test has them its own way by a fixture of its own."""
    return {}


@pytest.fixture
async def far_service(
    endpoint: Endpoint,  # noqa: F811
    upstream: Proxy,
    service_settings: dict[str, Any],
    tmp_path: Path,
) -> AsyncIterator[ServiceProcess]:
    """Give a service of the test's own that reaches its API server through that network only."""
    kubeconfig = kubeconfig_through(upstream, endpoint.kubeconfig, tmp_path / "kubeconfig")
    process = ServiceProcess([f"hub={kubeconfig}"], tmp_path / "service.log", **service_settings)
    await asyncio.to_thread(process.start)
    yield process
    if process.process is not None:
        await asyncio.to_thread(process.stop)


@pytest.fixture
async def downstream(far_service: ServiceProcess) -> AsyncIterator[Proxy]:
    """Give the network between that service and its clients."""
    async with Proxy("127.0.0.1", far_service.port) as proxy:
        yield proxy
