"""Rules of the serving process: what ends it, and how."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
import uvloop
from structlog.testing import capture_logs

from tests.unit.serving.registered import Clusters
from watchcache_server import process
from watchcache_server.model.errors import SettingsError
from watchcache_server.settings import Settings

Ready = Callable[[Any], None]


class Fake:
    """Takes the place of the service: serves until cancelled, then drains as long as it is told."""

    def __init__(self, *, drain: Callable[[], Awaitable[object]] | None = None) -> None:
        self.serving = asyncio.Event()
        self.drained = False
        self._drain = drain

    async def __call__(self, settings: Settings, *, ready: Ready) -> None:
        clusters = Clusters(hub=1.0)
        http = SimpleNamespace(address="127.0.0.1:8080") if settings.http_listen else None
        ready(
            SimpleNamespace(
                settings=settings,
                addresses=["127.0.0.1:7443"],
                http=http,
                clusters=SimpleNamespace(statuses=clusters.statuses, default="hub"),
            )
        )
        self.serving.set()
        try:
            await asyncio.Event().wait()
        finally:
            if self._drain is not None:
                await self._drain()
            self.drained = True


async def start(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, settings: Settings | None = None
) -> asyncio.Task[None]:
    """Start to serve."""
    monkeypatch.setattr(process, "serve", fake)
    task = asyncio.create_task(process._serve_until_signalled(settings or Settings()))
    await fake.serving.wait()
    return task


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
async def test_a_signal_drains_and_ends_in_good_order(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C and what Kubernetes sends do the same."""
    fake = Fake()
    with capture_logs() as lines:
        task = await start(fake, monkeypatch)
        os.kill(os.getpid(), number)
        await task
    assert fake.drained
    assert [line["event"] for line in lines][1:] == [
        "draining; a second signal ends it at once",
        "stopped",
    ]
    assert lines[1]["signal"] == number.name


async def test_a_second_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain that takes too long for somebody is theirs to end."""
    is_draining, ended = asyncio.Event(), asyncio.Event()
    codes: list[int] = []

    async def drain() -> None:
        is_draining.set()
        await ended.wait()

    def leave(code: int) -> None:
        codes.append(code)
        ended.set()

    task = await start(Fake(drain=drain), monkeypatch)
    monkeypatch.setattr(os, "_exit", leave)
    os.kill(os.getpid(), signal.SIGINT)
    await is_draining.wait()
    assert codes == []
    os.kill(os.getpid(), signal.SIGINT)
    await task
    assert codes == [130]


async def test_a_cancellation_that_nobody_signalled_is_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only a signal is an end in good order."""
    task = await start(Fake(), monkeypatch)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("http_listen", "shown"),
    [
        pytest.param("127.0.0.1:0", "127.0.0.1:8080", id="with HTTP"),
        pytest.param("", "", id="none"),
    ],
)
async def test_the_first_line_says_where_it_listens_and_what_it_reads(
    http_listen: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses, clusters and identity."""
    with capture_logs() as lines:
        task = await start(Fake(), monkeypatch, Settings(http_listen=http_listen))
        os.kill(os.getpid(), signal.SIGTERM)
        await task
    first = lines[0]
    assert first["event"] == "serving"
    assert first["grpc"] == ["127.0.0.1:7443"]
    assert first["http"] == shown
    assert first["clusters"] == ["hub https://hub.example:6443"]
    assert (first["default_cluster"], first["identity"]) == ("hub", "service-account")


def test_it_runs_on_uvloop_with_log_and_allocator_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this order; what the start raises comes out as it is."""
    done: list[str] = []

    async def fail(settings: Settings, *, ready: Ready) -> None:
        is_uvloop = isinstance(asyncio.get_running_loop(), uvloop.Loop)
        done.append("uvloop" if is_uvloop else "another")
        raise SettingsError("a port is in use")

    monkeypatch.setattr(process, "configure", lambda settings, stream: done.append("log"))
    monkeypatch.setattr(process, "tune", lambda: done.append("allocator"))
    monkeypatch.setattr(process, "serve", fail)
    with pytest.raises(SettingsError, match="in use"):
        process.run(Settings())
    assert done == ["log", "allocator", "uvloop"]
    structlog.reset_defaults()


def test_a_variable_that_is_no_setting_is_warned_of() -> None:
    """The service starts all the same; the line names what may have been meant."""
    with capture_logs() as lines:
        process._warn_of_variables({"WATCHCACHE_MAX_EXTENSION": "3", "HOME": "/"})
    [line] = lines
    assert line["log_level"] == "warning"
    assert line["variable"] == "WATCHCACHE_MAX_EXTENSION"
    assert "WATCHCACHE_MAX_EXTENSIONS" in line["near"]


class _Logged(logging.Handler):
    """Keeps the messages of a logger."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


async def test_a_connection_that_was_cut_here_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the event loop reports all is logged but the echo of our own cuts."""
    logged = _Logged()
    monkeypatch.setattr(logging.getLogger("asyncio"), "handlers", [logged])
    task = await start(Fake(), monkeypatch)
    loop = asyncio.get_running_loop()
    message = "Fatal error on SSL protocol"
    cut = RuntimeError(
        "unable to perform operation on <TCPTransport closed=True>; the handler is closed"
    )
    for error in (cut, RuntimeError("something else"), ValueError("the handler is closed")):
        loop.call_exception_handler({"message": message, "exception": error})
    os.kill(os.getpid(), signal.SIGTERM)
    await task
    assert logged.messages == [message, message]


HANGING = """
import asyncio, os, signal, time
from watchcache_server import process
from watchcache_server.settings import Settings

async def serve(settings, *, ready):
    os.kill(os.getpid(), signal.SIGTERM)
    try:
        await asyncio.Event().wait()
    finally:
        {hang}

process.serve = serve
process.run(Settings(drain_seconds=0, closing_seconds=0.2))
"""


@pytest.mark.parametrize(
    "hang",
    [
        pytest.param("await asyncio.Event().wait()", id="a wait"),
        pytest.param("time.sleep(60)", id="a call"),
        pytest.param(
            "asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)", id="a thread"
        ),
    ],
)
def test_what_hangs_does_not_keep_it_from_ending(hang: str) -> None:
    """The process says where its threads are, and ends with 1."""
    ended = subprocess.run(
        [sys.executable, "-c", HANGING.format(hang=hang)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 1
    assert "Timeout (0:00:00.200000)!" in ended.stderr
    assert "most recent call first" in ended.stderr


ENDING = """
import asyncio, builtins, os, signal, sys
from watchcache_server import process
from watchcache_server.settings import Settings

async def serve(settings, *, ready):
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()

class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.{number}):
        kill(pid, number)

process.serve = serve
process.run(Settings())
{then}
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    ("then", "code"),
    [
        pytest.param("os.kill(os.getpid(), signal.{number})", 130, id="after the loop"),
        pytest.param("builtins.late = Late()", 0, id="in the last moments of the interpreter"),
    ],
)
def test_a_second_signal_that_comes_late_kills_nothing(number: str, then: str, code: int) -> None:
    """The process ends at once, or by itself in a moment: never by the signal, as a crash would."""
    ended = subprocess.run(
        [sys.executable, "-c", ENDING.format(number=number, then=then.format(number=number))],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
