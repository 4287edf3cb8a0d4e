"""Wires the parts of the service, and alone knows in which order they start and stop.

async with running(settings, reporter=reporter, access_reporter=access_reporter) as app:
    app.addresses           # what gRPC listens on, ports chosen
    ...
# drained and closed
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from watchcache_server.clusters.cluster import ClusterOptions
from watchcache_server.clusters.registry import ClusterRegistry, open_clusters
from watchcache_server.extensions.extension import Clock
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.kubernetes.reporting import AccessReporter
from watchcache_server.kubernetes.transport import Limits
from watchcache_server.observability.reporting import Reporter
from watchcache_server.serving.server import GrpcServer, check_address
from watchcache_server.serving.service import WatchCacheService
from watchcache_server.settings import Settings

__all__ = ["App", "running"]

_PROBE_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class App:
    """The running service."""

    settings: Settings
    clusters: ClusterRegistry
    registry: ExtensionRegistry
    service: WatchCacheService
    server: GrpcServer

    @property
    def addresses(self) -> list[str]:
        """What gRPC listens on."""
        return self.server.addresses


@asynccontextmanager
async def running(
    settings: Settings, *, reporter: Reporter, access_reporter: AccessReporter
) -> AsyncIterator[App]:
    """Start the service; drain and stop it at the end.

    Raises SettingsError or ClusterConfigError when it cannot start.
    """
    for address in settings.listen:
        check_address(address)
    clusters = await open_clusters(
        settings.kubeconfig,
        default=settings.default_cluster,
        options=ClusterOptions(
            limits=Limits(
                connect_seconds=settings.connect_seconds,
                response_seconds=settings.response_seconds,
            ),
            token_lifetime_seconds=settings.token_lifetime_seconds,
        ),
        reporter=access_reporter,
    )
    registry = ExtensionRegistry(
        clusters=clusters,
        settings=settings,
        clock=Clock(now=time.monotonic, wall=time.time),
        jitter=random.random,
        reporter=reporter,
    )
    service = WatchCacheService(
        registry=registry,
        clusters=clusters,
        settings=settings,
        reporter=reporter,
        wall_clock=time.time,
    )
    server = GrpcServer(service, settings)
    app = App(settings, clusters, registry, service, server)
    try:
        async with asyncio.TaskGroup() as group:
            started = asyncio.Event()
            tasks = [
                group.create_task(registry.run(started)),
                group.create_task(_probe_forever(clusters)),
            ]
            try:
                await started.wait()
                await server.start()
                yield app
            finally:
                await _drain(app)
                for task in tasks:
                    task.cancel()
    finally:
        await clusters.close()


async def _probe_forever(clusters: ClusterRegistry) -> None:
    """Ask each cluster for its version now and then, so that what is said of it is not old."""
    while True:
        await clusters.probe()
        await asyncio.sleep(_PROBE_SECONDS)


async def _drain(app: App) -> None:
    """Let every stream say where to resume, then stop."""
    await app.server.not_serving()
    app.registry.drain()
    await app.service.watching.wait_idle(app.settings.drain_seconds)
    await app.server.stop(0)
