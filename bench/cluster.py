"""The API server that is measured against, filled with the corpus.

    async with held(pod_count) as cluster: ...        # a control plane of its own
    cluster = Cluster.of(path)                        # one that runs already

Filling takes minutes. `python -m bench.cluster PATH` fills one, writes its kubeconfig to PATH and
holds it until interrupted; `python -m bench --kubeconfig PATH` then measures against it as often as
wanted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import aiohttp

from bench.corpus import ACCOUNT, NAMESPACE, fixtures, pod_requests
from tests.controlplane.server import ControlPlane

__all__ = ["Cluster", "fill", "held"]

# More at once do not make the API server faster.
_PARALLEL: Final = 32
_JSON: Final = {"Content-Type": "application/json"}


class ClusterError(Exception):
    """The API server did not do as asked."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """How to reach the API server, as its administrator."""

    kubeconfig: Path
    url: str
    ca_file: Path
    token: str

    @classmethod
    def of(cls, kubeconfig: Path) -> Self:
        """Read a kubeconfig that a `ControlPlane` wrote."""
        config = json.loads(kubeconfig.read_text(encoding="utf-8"))
        cluster = config["clusters"][0]["cluster"]
        return cls(
            kubeconfig=kubeconfig,
            url=cluster["server"],
            ca_file=Path(cluster["certificate-authority"]),
            token=config["users"][0]["user"]["token"],
        )

    def session(self) -> aiohttp.ClientSession:
        """Return a session of the administrator; its connections are not limited."""
        trust = ssl.create_default_context(cafile=self.ca_file)
        return aiohttp.ClientSession(
            base_url=self.url,
            connector=aiohttp.TCPConnector(ssl=trust, limit=0),
            headers={"Authorization": f"Bearer {self.token}"},
        )

    async def reader_token(self) -> str:
        """Return a token of the ServiceAccount that the extensions use."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
        async with self.session() as session:
            answer = await _send(session, "POST", path, b'{"spec":{"expirationSeconds":7200}}')
        token: str = answer["status"]["token"]
        return token

    async def version(self) -> str:
        """Return the version of the API server."""
        async with self.session() as session, session.get("/version") as response:
            return str((await response.json())["gitVersion"])

    async def pod_count(self) -> int:
        """Return how many pods there are."""
        async with self.session() as session, session.get("/api/v1/pods?limit=1") as response:
            page = await response.json()
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


@asynccontextmanager
async def held(pod_count: int) -> AsyncIterator[Cluster]:
    """Start a control plane, fill it, and stop it at the end."""
    async with ControlPlane() as control_plane:
        cluster = Cluster.of(control_plane.kubeconfig())
        started = time.monotonic()
        await fill(cluster, pod_count)
        print(f"created {pod_count} pods in {time.monotonic() - started:.0f} s", flush=True)
        yield cluster


async def fill(cluster: Cluster, pod_count: int) -> None:
    """Create the corpus."""
    async with cluster.session() as session:
        for path, body in fixtures():
            await _send(session, "POST", path, body)
        numbers = iter(range(pod_count))

        async def create() -> None:
            for number in numbers:
                pod = pod_requests(number)
                path = f"/api/v1/namespaces/{pod.namespace}/pods"
                manager = "fieldManager=kube-controller-manager"
                await _send(session, "POST", f"{path}?{manager}", pod.create)
                status = f"{path}/{pod.name}/status?fieldManager=kubelet"
                await _send(session, "PUT", status, pod.update_status)

        async with asyncio.TaskGroup() as group:
            for _ in range(_PARALLEL):
                group.create_task(create())


async def _send(session: aiohttp.ClientSession, method: str, path: str, body: bytes) -> Any:
    async with session.request(method, path, data=body, headers=_JSON) as response:
        answer = await response.read()
        if response.status not in (200, 201):
            raise ClusterError(f"{method} {path}: {response.status} {answer[:500].decode()}")
    return json.loads(answer)


async def _hold(path: Path, pod_count: int) -> None:
    async with held(pod_count) as cluster:
        await asyncio.to_thread(shutil.copyfile, cluster.kubeconfig, path)
        print(f"ready: python -m bench --kubeconfig {path}", flush=True)
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await stop.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description="Hold a cluster.")
    parser.add_argument("path", type=Path, help="where its kubeconfig is written")
    parser.add_argument("--pods", type=int, default=20_000, help="how many pods it has")
    arguments = parser.parse_args()
    asyncio.run(_hold(arguments.path, arguments.pods))
