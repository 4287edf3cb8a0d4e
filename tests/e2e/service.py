"""The service as a program of its own, as in production: started, killed and restarted."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

__all__ = ["ServiceProcess", "free_port"]

_LIMIT_SECONDS = 60.0
_POLL_SECONDS = 0.05


def _flags_of(settings: Mapping[str, object]) -> list[str]:
    return [
        part
        for name, value in settings.items()
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServiceProcess:
    """One service on a port of its own, which it keeps over restarts. Its methods block."""

    #: The module that is run.
    module = "watchcache_server.cli"

    def __init__(self, kubeconfigs: list[str], log: Path, **settings: object) -> None:
        self.port = free_port()
        self.http_port = free_port()
        self.log = log
        self._flags = [
            *("--listen", f"127.0.0.1:{self.port}"),
            *("--http-listen", f"127.0.0.1:{self.http_port}"),
            *("--log-format", "json"),
        ]
        for kubeconfig in kubeconfigs:
            self._flags += ["--kubeconfig", kubeconfig]
        self._flags += _flags_of(settings)
        #: Further settings, from the next start on.
        self.more_settings: dict[str, object] = {}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id."""
        assert self.process is not None, "the service does not run"
        return self.process.pid

    def start(self) -> None:
        """Start it and wait until it serves."""
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    self.module,
                    "serve",
                    *self._flags,
                    *_flags_of(self.more_settings),
                ],
                stdout=output,
                stderr=output,
            )
        try:
            self._wait_until_serving(self.process)
        except AssertionError:
            self.kill()
            raise

    def _wait_until_serving(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _LIMIT_SECONDS
        while not self._is_serving():
            assert process.poll() is None, f"the service ended\n{self.told()}"
            assert time.monotonic() < deadline, f"the service did not start\n{self.told()}"
            time.sleep(_POLL_SECONDS)

    def _is_serving(self) -> bool:
        with grpc.insecure_channel(self.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            try:
                answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=1)
            except grpc.RpcError:
                return False
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def told(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-4000:]

    def stop(self) -> int:
        """Ask it to stop; return its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a word."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        process, self.process = self.process, None
        assert process is not None, "the service does not run"
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, how)
        try:
            return process.wait(_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is not None:
            self.stop()
