"""The demo: a dev cluster, the service and a client, in one terminal.

make demo

On a terminal it goes on until Ctrl-C, and tells what to try from another one. Without a terminal
the same story runs once, checks itself, and ends with 0 or 1. What it writes lies in .demo/ and is
removed at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

import watchcache
from watchcache_devcluster import ApiError, DevCluster

FOLDER: Final = Path(".demo")
DEVCLUSTER_PORT: Final = 6443
SERVICE_PORT: Final = 7443
HTTP_PORT: Final = 8080
TOKEN_SECONDS: Final = 600
LIMIT_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
LIFE_SECONDS: Final = 4.0

MANIFESTS: Final = """
apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: shop, namespace: demo}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: shop-reads, namespace: demo}
rules:
- {apiGroups: [apps], resources: [deployments], verbs: [list, watch]}
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: shop-reads, namespace: demo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: shop-reads}
subjects: [{kind: ServiceAccount, name: shop, namespace: demo}]
---
apiVersion: v1
kind: Secret
metadata: {name: shop-password, namespace: demo}
stringData: {password: not-for-you}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: demo, labels: {app: web, tier: silver}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "registry.example/web:1"}]}
"""

SIGNS: Final = {
    watchcache.EventType.ADDED: "[green]+[/]",
    watchcache.EventType.MODIFIED: "[yellow]~[/]",
    watchcache.EventType.DELETED: "[red]-[/]",
    watchcache.EventType.LEFT: "[magenta]<[/]",
}


class DemoError(Exception):
    """The story did not go as it should."""


def pod(name: str) -> dict[str, Any]:
    """Make a pod of the demo's deployment."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "demo", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
    }


def choose_port(wanted: int) -> int:
    """Return the wanted port if it is free, else another one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return int(probe.getsockname()[1])
    raise DemoError("no port is free on 127.0.0.1")


@asynccontextmanager
async def service(kubeconfig: Path, port: int, http_port: int) -> AsyncIterator[None]:
    """Run the service as a program of its own; its log is .demo/service.log."""
    log = FOLDER / "service.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "watchcache_server.cli", "serve"),
            *("--kubeconfig", str(kubeconfig)),
            *("--listen", f"127.0.0.1:{port}"),
            *("--http-listen", f"127.0.0.1:{http_port}"),
            *("--token-lifetime-seconds", str(TOKEN_SECONDS)),
            stdout=output,
            stderr=output,
        )
        try:
            await wait_until_listening(port, process, log)
            yield
            if process.returncode is not None:
                raise DemoError(f"the service ended with {process.returncode}; see {log}")
        finally:
            await end(process)


async def wait_until_listening(port: int, process: asyncio.subprocess.Process, log: Path) -> None:
    """Return once the service takes connections."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline and process.returncode is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return
    raise DemoError(f"the service does not listen on port {port}; see {log}")


async def end(process: asyncio.subprocess.Process) -> None:
    """Ask a program to stop, and insist when it does not."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


class Demo:
    """The story, told to a console."""

    def __init__(self, console: Console, cluster: DevCluster, *, is_endless: bool) -> None:
        self._console = console
        self._cluster = cluster
        self._is_endless = is_endless
        self._written: dict[str, float] = {}
        self._seen: set[tuple[watchcache.EventType, str]] = set()
        self._told_to_try = False

    async def tell(self, wc: watchcache.Connection, port: int, http_port: int) -> None:
        """Register, watch, and let things happen."""
        say = self._console.print
        ext = await wc.register(
            "demo/shop",
            service_account="shop",
            watch=["deployments.apps", "pods", "secrets"],
            namespaces=["demo"],
            ttl="10m",
            wait="10s",
        )
        status = await ext.refresh()
        credential = status.credentials[0]
        say(
            f"[bold]registered[/]   {ext}, serviceaccount shop; token {TOKEN_SECONDS // 60}m, "
            f"rotates in {_minutes(credential.refresh_time)}m"
        )
        for source in ext.not_live:
            say(f"[red]{source.state:<13}[/]{escape(source.message)}")
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            life = group.create_task(self._live_on())
            try:
                async for message in ext.watch():
                    await self._take(message, started, port, http_port)
                    if not self._is_endless and self._is_complete:
                        return
            finally:
                life.cancel()

    async def _take(self, message: object, started: float, port: int, http_port: int) -> None:
        say = self._console.print
        match message:
            case watchcache.Batch(events=events, is_snapshot=is_snapshot):
                if is_snapshot:
                    taken = (time.perf_counter() - started) * 1000
                    say(f"[bold]SNAPSHOT[/]     {len(events)} objects in {taken:.0f} ms")
                for event in events:
                    say(self._line(event, is_snapshot=is_snapshot), highlight=False)
            case watchcache.Synced():
                say("[bold]LIVE[/]")
                self._say_what_to_try(port, http_port)
            case watchcache.Disconnected(error=error, retry_seconds=retry):
                say(f"[dim]disconnected: {escape(str(error))}; again in {retry:.1f} s[/]")
            case watchcache.Started(mode=watchcache.StartMode.RESUMED):
                say("[dim]resumed where it was[/]")

    def _line(self, event: Any, *, is_snapshot: bool) -> str:
        key = event.key
        name = f"{key.namespace}/{key.name}"
        text = f"  {SIGNS[event.type]} {event.resource:<17}{escape(name):<17}"
        self._seen.add((event.type, key.name))
        written = self._written.pop(f"{key.name}@{event.resource_version}", None)
        if event.type in (watchcache.EventType.DELETED, watchcache.EventType.LEFT):
            text += f" {event.type}"
        else:
            text += f" rv {event.resource_version:<6}"
        if written is not None and not is_snapshot:
            text += f" [dim]{(time.perf_counter() - written) * 1000:.1f} ms[/]"
        return text

    @property
    def _is_complete(self) -> bool:
        kinds = watchcache.EventType
        return {
            (kinds.ADDED, "web-9c"),
            (kinds.MODIFIED, "web"),
            (kinds.DELETED, "web-7f"),
        } <= self._seen

    def _say_what_to_try(self, port: int, http_port: int) -> None:
        if not self._is_endless or self._told_to_try:
            return
        self._told_to_try = True
        address = "" if port == SERVICE_PORT else f" WATCHCACHE_ADDRESS=127.0.0.1:{port}"
        lines = [
            "[bold]Try[/], in another terminal here:",
            f"     export KUBECONFIG=$PWD/{FOLDER}/kubeconfig PATH=$PWD/.venv/bin:$PATH{address}",
            "     kubectl -n demo label --overwrite deploy/web tier=gold  [dim]# appears here[/]",
            "     watchcache status demo/shop           [dim]# secrets forbidden on purpose[/]",
            "     watchcache-devcluster fault reset     [dim]# cuts all streams, loses nothing[/]",
            f"     curl -s http://127.0.0.1:{http_port}/metrics | grep watchcache_",
            "[bold]Ctrl-C[/] removes everything.",
        ]
        self._console.print("\n".join(lines), highlight=False)

    async def _live_on(self) -> None:
        """Let things happen in the cluster."""
        await asyncio.sleep(1.0)
        cluster = self._cluster
        for round_number in itertools.count(1):
            # Whoever tries things may have deleted what this changes; then only they make news.
            with contextlib.suppress(ApiError):
                await self._change(cluster, round_number)
            await asyncio.sleep(self._pause)

    async def _change(self, cluster: DevCluster, round_number: int) -> None:
        label = {"metadata": {"labels": {"round": str(round_number)}}}
        changed = await cluster.patch("deployments.apps", "web", label, "demo")
        self._note(changed)
        if round_number == 1:
            await asyncio.sleep(self._pause)
            await cluster.delete("pods", "web-7f", "demo", gracePeriodSeconds=0)
            self._note(await cluster.create("pods", pod("web-9c")))

    @property
    def _pause(self) -> float:
        return LIFE_SECONDS if self._is_endless else 0.05

    def _note(self, written: dict[str, Any]) -> None:
        metadata = written["metadata"]
        self._written[f"{metadata['name']}@{metadata['resourceVersion']}"] = time.perf_counter()


def _minutes(moment: datetime | None) -> int:
    if moment is None:
        raise DemoError("the service has no token of the ServiceAccount")
    return round((moment.timestamp() - time.time()) / 60)


async def run(console: Console, *, is_endless: bool) -> None:
    """Start everything, tell the story, and remove everything."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    port, http_port = choose_port(SERVICE_PORT), choose_port(HTTP_PORT)
    async with DevCluster(port=choose_port(DEVCLUSTER_PORT), name="demo") as cluster:
        kubeconfig = cluster.write_kubeconfig(FOLDER / "kubeconfig")
        await cluster.load(MANIFESTS)
        for name in ("web-7f", "web-8d"):
            await cluster.create("pods", pod(name))
        address = f"127.0.0.1:{port}"
        console.print(
            f"[bold]dev cluster[/]  {cluster.url} (simulated)    [bold]watchcache[/] {address}",
            highlight=False,
        )
        async with (
            service(kubeconfig, port, http_port),
            watchcache.connect(address) as wc,
        ):
            story = Demo(console, cluster, is_endless=is_endless).tell(wc, port, http_port)
            if is_endless:
                await story
            else:
                async with asyncio.timeout(LIMIT_SECONDS):
                    await story


def main() -> int:
    """Run the demo; return its exit code."""
    # gRPC's core would write lines of its own between those of the story.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    is_endless = sys.stdout.isatty() and not os.environ.get("WATCHCACHE_DEMO_ONCE")
    console = Console(soft_wrap=True)
    try:
        asyncio.run(run(console, is_endless=is_endless))
    except KeyboardInterrupt:
        console.print("\nremoved")
        return 0
    except (DemoError, watchcache.WatchCacheError, TimeoutError) as error:
        reason = str(error) or f"the story did not end within {LIMIT_SECONDS:g} s"
        Console(stderr=True).print(f"[red]demo failed:[/] {escape(reason)}")
        return 1
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    if not is_endless:
        console.print("all of it was seen: the demo passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
