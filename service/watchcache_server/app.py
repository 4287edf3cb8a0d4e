"""Wires the parts of the service, and alone knows in which order they start and stop.

await serve(settings)           # until cancelled, with metrics and logs; what the command does

async with running(settings, reporter=reporter, access_reporter=access_reporter) as app:
    app.addresses               # what gRPC listens on, ports chosen
    ...
# drained and closed
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from watchcache_server.clusters.cluster import Cluster, ClusterOptions
from watchcache_server.clusters.registry import ClusterRegistry, open_clusters
from watchcache_server.extensions.extension import Clock
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.kubernetes.discovery import DiscoveryLimits
from watchcache_server.kubernetes.reporting import AccessReporter
from watchcache_server.kubernetes.transport import Limits
from watchcache_server.memory import tidy_forever
from watchcache_server.observability.log_reporter import LogReporter
from watchcache_server.observability.metrics import Metrics
from watchcache_server.observability.reporter import Reporters
from watchcache_server.observability.reporting import Reporter
from watchcache_server.serving.collector import ServiceCollector
from watchcache_server.serving.http import HttpServer
from watchcache_server.serving.readiness import Readiness
from watchcache_server.serving.server import GrpcServer, check_address
from watchcache_server.serving.service import WatchCacheService
from watchcache_server.settings import Settings

__all__ = ["App", "cluster_options", "running", "serve"]

# So long connections without calls may take to hear that the service goes.
_GOODBYE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class App:
    """The running service."""

    settings: Settings
    clusters: ClusterRegistry
    registry: ExtensionRegistry
    service: WatchCacheService
    server: GrpcServer
    http: HttpServer | None

    @property
    def addresses(self) -> list[str]:
        """What gRPC listens on."""
        return self.server.addresses


async def serve(settings: Settings, *, ready: Callable[[App], None] | None = None) -> None:
    """Serve with metrics and logs until cancelled, then drain; call `ready` once it serves.

    Raises SettingsError, ClusterConfigError or UnknownClusterError when it cannot start.
    """
    metrics = CollectorRegistry()
    reporter = Reporters(Metrics(metrics), LogReporter())
    async with running(
        settings, reporter=reporter, access_reporter=reporter, metrics=metrics
    ) as app:
        if ready is not None:
            ready(app)
        await asyncio.Event().wait()


@asynccontextmanager
async def running(
    settings: Settings,
    *,
    reporter: Reporter,
    access_reporter: AccessReporter,
    metrics: CollectorRegistry | None = None,
) -> AsyncIterator[App]:
    """Start the service; drain and stop it at the end. Without `metrics` it serves no HTTP.

    Raises SettingsError, ClusterConfigError or UnknownClusterError when it cannot start.
    """
    for address in settings.listen:
        check_address(address)
    clusters = await open_clusters(
        settings.kubeconfig,
        default=settings.default_cluster,
        options=cluster_options(settings),
        reporter=access_reporter,
    )
    try:
        clock = Clock(now=time.monotonic, wall=time.time)
        registry = ExtensionRegistry(
            clusters=clusters,
            settings=settings,
            clock=clock,
            jitter=random.random,
            reporter=reporter,
        )
        service = WatchCacheService(
            registry=registry,
            clusters=clusters,
            settings=settings,
            reporter=reporter,
            clock=clock,
        )
        server = GrpcServer(service, settings)
        http = None
        if metrics is not None and settings.http_listen:
            collector = ServiceCollector(
                registry,
                clusters,
                service.watching,
                service.listing,
                max_pairs=settings.max_metric_pairs,
                clock=clock,
            )
            metrics.register(collector)
            http = HttpServer(
                settings.http_listen,
                metrics=metrics,
                gather=collector.gather,
                readiness=Readiness(
                    clusters,
                    is_serving=lambda: server.is_serving,
                    is_draining=lambda: registry.is_draining,
                    contact_seconds=settings.ready_contact_seconds,
                ),
            )
        async with _lifetime(App(settings, clusters, registry, service, server, http)) as app:
            yield app
    finally:
        await clusters.close()


def cluster_options(settings: Settings) -> ClusterOptions:
    """Return what the settings say of all clusters."""
    return ClusterOptions(
        limits=Limits(
            connect_seconds=settings.connect_seconds, response_seconds=settings.response_seconds
        ),
        token_lifetime_seconds=settings.token_lifetime_seconds,
        token_request_seconds=settings.token_request_seconds,
        discovery=DiscoveryLimits(
            answer_seconds=settings.discovery_seconds,
            document_bytes=settings.max_discovery_bytes,
            max_age_seconds=settings.discovery_max_age_seconds,
        ),
        recheck_seconds=settings.credentials_recheck_seconds,
        plugin_seconds=settings.plugin_seconds,
    )


@asynccontextmanager
async def _lifetime(app: App) -> AsyncIterator[App]:
    """Start everything in order, and stop it in the other. HTTP comes first and goes last."""
    with _single_errors(), closing(app.service):
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[None]] = []
            try:
                await _start(app, group, tasks)
                yield app
            finally:
                await _stop(app, tasks)


@contextmanager
def _single_errors() -> Iterator[None]:
    """Tell whoever uses it what happened, not that it happened in groups of tasks."""
    try:
        yield
    except BaseExceptionGroup as group_error:
        error: BaseException = group_error
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


async def _start(app: App, group: asyncio.TaskGroup, tasks: list[asyncio.Task[None]]) -> None:
    """Start everything in order; add the tasks that are to be cancelled at the end."""
    started = asyncio.Event()
    tasks.append(group.create_task(app.registry.run(started)))
    if app.http is not None:
        await app.http.start()
    await started.wait()
    await app.server.start()
    tasks.append(group.create_task(tidy_forever(lambda: app.service.running_count)))
    # Only now: a service that cannot listen has no connections to break off.
    for name in app.clusters.names:
        probing = _probe_forever(app.clusters.get(name), app.settings.cluster_probe_seconds)
        tasks.append(group.create_task(probing))


async def _stop(app: App, tasks: list[asyncio.Task[None]]) -> None:
    await _drain(app)
    if app.http is not None:
        await app.http.stop()
    for task in tasks:
        task.cancel()


async def _probe_forever(cluster: Cluster, seconds: float) -> None:
    """Ask a cluster for its version now and then, so that what is said of it is not old.

    Each has a task of its own: one that does not answer makes no other one look old.
    """
    while True:
        await cluster.probe()
        await asyncio.sleep(seconds)


async def _drain(app: App) -> None:
    """Let every stream say where to resume and every call answer, then stop."""
    await app.server.not_serving()
    app.registry.drain()
    await app.service.wait_idle(app.settings.drain_seconds)
    # Cut off at once, each connection would be told of an error, which gRPC writes on the standard
    # error of whoever is at its other end.
    await app.server.stop(min(_GOODBYE_SECONDS, app.settings.drain_seconds))
