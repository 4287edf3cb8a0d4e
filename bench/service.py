"""The service under measurement: its command, in a process of its own, and what is asked of it.

async with service(cluster) as served:
    seconds = await served.register("pods", watch_of("pods"))
    served.memory.now_bytes
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.duration_pb2 import Duration

from bench.cluster import Cluster
from bench.corpus import ACCOUNT, NAMESPACE
from bench.process import Memory
from tests.controlplane.credentials import Credentials
from watchcache.v1alpha1 import extension_pb2, watch_cache_service_pb2
from watchcache.v1alpha1.watch_cache_service_pb2_grpc import WatchCacheServiceStub

__all__ = ["Service", "ServiceError", "service", "watch_of"]

_WAIT_SECONDS: Final = 120
_START_SECONDS: Final = 60
# After so long everything that belongs to starting is over.
_SETTLE_SECONDS: Final = 1.0


class ServiceError(Exception):
    """The service did not do as asked."""


def watch_of(resource: str, namespaces: Iterable[str] = ()) -> extension_pb2.ResourceWatch:
    """Describe the watch of a resource of the core group; of all namespaces without any."""
    return extension_pb2.ResourceWatch(
        resource=resource, namespaces=namespaces, projection=extension_pb2.PROJECTION_FULL
    )


class Service:
    """The running service; `target` is what a subscriber has to be told to reach it."""

    def __init__(
        self,
        target: dict[str, Any],
        process: asyncio.subprocess.Process,
        channel: grpc.aio.Channel,
    ) -> None:
        self.target = target
        self.memory = Memory(process.pid)
        self._process = process
        self._stub: Any = WatchCacheServiceStub(channel)

    async def register(self, name: str, *watches: extension_pb2.ResourceWatch) -> float:
        """Register an extension and wait until it is LIVE; return the seconds that this took."""
        request = watch_cache_service_pb2.RegisterRequest(
            namespace=NAMESPACE,
            name=name,
            spec=extension_pb2.ExtensionSpec(
                service_account=ACCOUNT,
                resources=extension_pb2.ResourceWatchSet(items=watches),
            ),
            wait=Duration(seconds=_WAIT_SECONDS),
        )
        started = time.monotonic()
        extension = (await self._stub.Register(request)).extension
        seconds = time.monotonic() - started
        if extension.state != extension_pb2.EXTENSION_STATE_LIVE:
            raise ServiceError(f"extension {name} did not sync: {extension.sources}")
        return seconds

    async def deregister(self, name: str) -> None:
        """End an extension."""
        request = watch_cache_service_pb2.DeregisterRequest(namespace=NAMESPACE, name=name)
        await self._stub.Deregister(request)

    async def stop(self) -> None:
        """Ask the process to stop, and wait until it has."""
        self._process.terminate()
        await self._process.wait()

    async def source(self, name: str) -> extension_pb2.SourceStatus:
        """Return the status of an extension's first informer."""
        request = watch_cache_service_pb2.GetExtensionRequest(namespace=NAMESPACE, name=name)
        source: extension_pb2.SourceStatus = (
            await self._stub.GetExtension(request)
        ).extension.sources[0]
        return source


@asynccontextmanager
async def service(
    cluster: Cluster, *, has_tls: bool = False, settings: dict[str, str] | None = None
) -> AsyncIterator[Service]:
    """Start the service on a free port, with its default settings but for those given."""
    flags = {
        "listen": "127.0.0.1:0",
        "http-listen": "127.0.0.1:0",
        "kubeconfig": f"bench={cluster.kubeconfig}",
        "log-format": "json",
        **(settings or {}),
    }
    with tempfile.TemporaryDirectory() as folder:
        ca_file = ""
        if has_tls:
            made = Credentials(Path(folder))
            ca_file = str(made.ca_file)
            flags["tls-certificate"] = str(made.serving_certificate)
            flags["tls-key"] = str(made.serving_key)
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "watchcache_server.cli",
            "serve",
            *arguments,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_START_SECONDS):
                address = await _address(process)
            async with asyncio.TaskGroup() as group, _channel(address, ca_file) as channel:
                drain = group.create_task(_forget(process))
                await asyncio.sleep(_SETTLE_SECONDS)
                target = {"address": address, "ca_file": ca_file, "namespace": NAMESPACE}
                yield Service(target, process, channel)
                drain.cancel()
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


def _channel(address: str, ca_file: str) -> grpc.aio.Channel:
    if not ca_file:
        return grpc.aio.insecure_channel(address)
    trust = grpc.ssl_channel_credentials(Path(ca_file).read_bytes())
    return grpc.aio.secure_channel(address, trust)


async def _address(process: asyncio.subprocess.Process) -> str:
    """Read the log up to the line that says where gRPC is served."""
    assert process.stderr is not None, "started with a pipe"
    said = []
    async for line in process.stderr:
        said.append(line.decode(errors="replace"))
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry.get("msg") == "serving":
            address: str = entry["grpc"][0]
            return address
    raise ServiceError(f"the service did not start: {''.join(said)}")


async def _forget(process: asyncio.subprocess.Process) -> None:
    """Read on, so that the service never waits for its log to be read."""
    assert process.stderr is not None, "started with a pipe"
    async for _ in process.stderr:
        pass
