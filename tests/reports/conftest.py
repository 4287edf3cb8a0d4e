"""Fixtures: servers that answer as a test says, and both servers of the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contract.api import Endpoint
from tests.contract.conftest import (
    api,
    configmaps,
    devcluster_endpoint,
    endpoint,
    namespace,
    real_endpoint,
)
from tests.controlplane_access.conftest import account
from tests.unit.kubernetes.conftest import pki
from tests.unit.kubernetes.informer_world import world
from watchcache_server.clusters.cluster import Cluster
from watchcache_server.clusters.kubeconfig import read_context
from watchcache_server.clusters.loading import load_context

__all__ = [
    "account",
    "api",
    "configmaps",
    "devcluster_endpoint",
    "endpoint",
    "hub",
    "namespace",
    "pki",
    "real_endpoint",
    "world",
]


@pytest.fixture
async def hub(endpoint: Endpoint) -> AsyncIterator[Cluster]:
    """Give the server under test as a cluster of ours, from its administrator's kubeconfig."""
    cluster = Cluster("hub", await load_context(read_context(endpoint.kubeconfig)))
    yield cluster
    await cluster.close()
