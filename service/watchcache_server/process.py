"""The process that serves: its log, its allocator, its event loop, and the signals that end it."""

from __future__ import annotations

import asyncio
import atexit
import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, Final

import structlog

from watchcache_server.app import App, serve
from watchcache_server.event_loop import EventLoop
from watchcache_server.memory import give_back, tune
from watchcache_server.observability.logs import configure
from watchcache_server.settings import Settings
from watchcache_server.settings_reading import unknown_variables

__all__ = ["run"]

_INTERRUPTED: Final = 130
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM, then drain; a second signal ends the process at once.

    If something hangs while it stops, the process says where and ends all the same.

    Raises SettingsError, ClusterConfigError or UnknownClusterError when it cannot start.
    """
    configure(settings, sys.stderr)
    _warn_of_variables(os.environ)
    tune()

    def end_in_time() -> None:
        # It needs neither the event loop nor the interpreter, one of which may be what hangs.
        seconds = settings.drain_seconds + settings.closing_seconds
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.stderr)

    try:
        with asyncio.Runner(loop_factory=EventLoop) as runner:
            runner.run(_serve_until_signalled(settings, end_in_time))
            _outlive_the_loop(runner.get_loop())
    finally:
        faulthandler.cancel_dump_traceback_later()


async def _serve_until_signalled(
    settings: Settings, when_signalled: Callable[[], None] = lambda: None
) -> None:
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
        when_signalled()

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_report_loop_error)
    for each in _SIGNALS:
        loop.add_signal_handler(each, stop, each.name)
    try:
        await serve(settings, ready=_announce)
    except asyncio.CancelledError:
        if not signals:
            raise
    log.info("stopped")


def _outlive_the_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Have a second signal end the process at once until it ends by itself.

    The handlers of the loop go with it, and Python's go while the interpreter ends; a signal that
    came then would kill the process, which looks like a crash.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    for each in _SIGNALS:
        loop.remove_signal_handler(each)
        signal.signal(each, lambda *_: os._exit(_INTERRUPTED))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    # All threads have ended by then.
    atexit.register(_ignore_signals)


def _ignore_signals() -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)


def _warn_of_variables(environment: Mapping[str, str]) -> None:
    """Log which variables of the environment were perhaps meant for a setting."""
    for variable, near in unknown_variables(environment).items():
        structlog.get_logger("watchcache_server").warning(
            "ignored a variable of the environment: there is no such setting",
            variable=variable,
            near=near,
        )


def _report_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what the event loop cannot tell anybody else."""
    error = context.get("exception")
    if isinstance(error, RuntimeError) and "the handler is closed" in str(error):
        # uvloop goes on with TLS for a moment on a connection that was cut here while it was made.
        return
    loop.default_exception_handler(context)


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
