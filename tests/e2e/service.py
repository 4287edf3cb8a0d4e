"""The service as a program of its own, as in production: started, killed and restarted."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

__all__ = ["ServiceProcess"]

_START_SECONDS = 30.0


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServiceProcess:
    """One service on a port of its own, which it keeps over restarts."""

    def __init__(self, kubeconfigs: list[str], log: Path, **settings: object) -> None:
        self.port = free_port()
        self.http_port = free_port()
        self.log = log
        self._flags = [
            "--listen",
            f"127.0.0.1:{self.port}",
            "--http-listen",
            f"127.0.0.1:{self.http_port}",
            "--log-format",
            "json",
        ]
        for kubeconfig in kubeconfigs:
            self._flags += ["--kubeconfig", kubeconfig]
        for name, value in settings.items():
            self._flags += [f"--{name.replace('_', '-')}", str(value)]
        self.process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id."""
        assert self.process is not None, "the service does not run"
        return self.process.pid

    async def start(self) -> None:
        """Start it and wait until it serves."""
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "watchcache_server.cli",
                "serve",
                *self._flags,
                stdout=output,
                stderr=output,
            )
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await self._is_serving():
                    assert self.process.returncode is None, self._told()
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            raise AssertionError(f"the service did not start\n{self._told()}") from error

    async def _is_serving(self) -> bool:
        async with grpc.aio.insecure_channel(self.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            try:
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=1)
            except grpc.aio.AioRpcError:
                return False
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def _told(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    async def stop(self) -> int:
        """Ask it to stop; return its exit code."""
        return await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End it without a word."""
        await self._end(signal.SIGKILL)

    async def _end(self, how: signal.Signals) -> int:
        process, self.process = self.process, None
        assert process is not None, "the service does not run"
        if process.returncode is None:
            process.send_signal(how)
        async with asyncio.timeout(_START_SECONDS):
            return await process.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is not None:
            await self.stop()
