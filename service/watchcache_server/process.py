"""The process that serves: its log, its allocator, its event loop, and the signals that end it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from importlib.metadata import version
from typing import Final

import structlog
import uvloop

from watchcache_server.app import App, serve
from watchcache_server.memory import give_back, tune
from watchcache_server.observability.logs import configure
from watchcache_server.settings import Settings

__all__ = ["run"]

_INTERRUPTED: Final = 130


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM, then drain; a second signal ends the process at once.

    Raises SettingsError, ClusterConfigError or UnknownClusterError when it cannot start.
    """
    configure(settings, sys.stderr)
    tune()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_until_signalled(settings))


async def _serve_until_signalled(settings: Settings) -> None:
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    log = structlog.get_logger("watchcache_server")
    signals: list[str] = []

    def stop(name: str) -> None:
        signals.append(name)
        if len(signals) > 1:
            os._exit(_INTERRUPTED)
        log.info("draining; a second signal ends it at once", signal=name)
        task.cancel()

    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop, each.name)
    try:
        await serve(settings, ready=_announce)
    except asyncio.CancelledError:
        if not signals:
            raise
    log.info("stopped")


def _announce(running: App) -> None:
    # Loading code and configuration leaves tens of megabytes behind that serving may never need.
    give_back()
    clusters = running.clusters
    structlog.get_logger("watchcache_server").info(
        "serving",
        version=version("watchcache-server"),
        grpc=running.addresses,
        http=running.http.address if running.http else "",
        clusters=[f"{status.name} {status.server}" for status in clusters.statuses()],
        default_cluster=clusters.default,
        identity=running.settings.identity,
    )
