"""Fixtures: each server in turn, as the contract tests have it, as a cluster of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contract.api import Api, Endpoint
from tests.contract.conftest import (
    api,
    devcluster_endpoint,
    endpoint,
    namespace,
    real_endpoint,
)
from tests.contract.rights import Robot
from tests.unit.kubernetes.clock import Clock, Recorder
from watchcache_server.clusters.cluster import Cluster
from watchcache_server.clusters.kubeconfig import read_context
from watchcache_server.clusters.loading import load_context

__all__ = [
    "account",
    "api",
    "clock",
    "cluster",
    "devcluster_endpoint",
    "endpoint",
    "namespace",
    "real_endpoint",
    "recorder",
]


@pytest.fixture
def clock() -> Clock:
    """Give the time by which our side measures lives and ages."""
    return Clock()


@pytest.fixture
def recorder() -> Recorder:
    """Give a reporter that remembers."""
    return Recorder()


@pytest.fixture
async def cluster(endpoint: Endpoint, clock: Clock, recorder: Recorder) -> AsyncIterator[Cluster]:
    """Give the server under test as a cluster of ours, from its administrator's kubeconfig."""
    config = await load_context(read_context(endpoint.kubeconfig))
    cluster = Cluster("dev", config, clock=clock, reporter=recorder)
    yield cluster
    await cluster.close()


@pytest.fixture
async def account(api: Api, namespace: str) -> Robot:
    """Give a ServiceAccount without rights; its token is ours to ask for."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(path, {"metadata": {"name": "robot"}})
    return Robot(namespace, token="")
