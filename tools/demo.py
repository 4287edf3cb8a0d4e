"""The demo: a dev cluster, the service and a client, in one terminal.

make demo

On a terminal it goes on until Ctrl-C, and tells what to try from another one. Without a terminal
the same story runs once, checks itself, and ends with 0 or 1. What it writes lies in .demo/ and is
removed at the end; one demo at a time runs in a folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

import watchcache
from tests.controlplane.build import BuildCache, cache_root
from tests.controlplane.build.recipe import default_recipes
from tools.demo_story import MANIFESTS, PODS, TOKEN_SECONDS, DemoError, Story, pod
from watchcache_devcluster import DevCluster

FOLDER: Final = Path(".demo")
DEVCLUSTER_PORT: Final = 6443
SERVICE_PORT: Final = 7443
HTTP_PORT: Final = 8080
LIMIT_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
FAILURES: Final = (DemoError, watchcache.WatchCacheError, OSError)


@contextlib.contextmanager
def own_folder() -> Iterator[None]:
    """Have an empty .demo/ for as long as this goes on, and remove it.

    Raises:
        DemoError: when another demo has it. The lock belongs to the kernel: a dead one has nothing.
    """
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(
                f"another one runs here and keeps its files in {FOLDER.resolve()}. End it with "
                "Ctrl-C first, or start this one in another checkout"
            ) from None
        for left in FOLDER.iterdir():
            if left.name != "lock":
                left.unlink()
        try:
            yield
        finally:
            shutil.rmtree(FOLDER, ignore_errors=True)


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
        except (*FAILURES, ExceptionGroup):
            # Whatever the story stumbled over, this is why.
            require_running(process, log)
            raise
        finally:
            await end(process)


def require_running(process: asyncio.subprocess.Process, log: Path) -> None:
    """Say so when the service has ended."""
    if process.returncode is not None:
        told = log.read_text(errors="replace").strip().splitlines() or ["it wrote nothing"]
        raise DemoError(f"the service ended with {process.returncode}: {told[-1]}")


async def wait_until_listening(port: int, process: asyncio.subprocess.Process, log: Path) -> None:
    """Return once the service takes connections."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        require_running(process, log)
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return
    raise DemoError(f"the service does not listen on port {port} after {LIMIT_SECONDS:g} s")


async def end(process: asyncio.subprocess.Process) -> None:
    """Ask a program to stop, and insist when it does not."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


def hints(port: int, http_port: int) -> str:
    """Return what to try from another terminal; only kubectl is not of this checkout."""
    paths = "$PWD/.venv/bin"
    kubectl = "[dim]# appears here[/]"
    if shutil.which("kubectl") is None:
        built = BuildCache(cache_root(), default_recipes()).find()
        if built is not None:
            paths += f":{built.folder}"
        else:
            kubectl = "[dim]# appears here; no kubectl? `make controlplane` builds one[/]"
    address = "" if port == SERVICE_PORT else f" WATCHCACHE_ADDRESS=127.0.0.1:{port}"
    lines = [
        "[bold]Try[/], in another terminal here:",
        f"     export KUBECONFIG=$PWD/{FOLDER}/kubeconfig PATH={paths}:$PATH{address}",
        "     watchcache status demo/shop           [dim]# secrets forbidden on purpose[/]",
        "     watchcache-devcluster fault reset     [dim]# cuts all streams, loses nothing[/]",
        f"     kubectl -n demo label --overwrite deploy/web tier=gold  {kubectl}",
        f"     curl -s http://127.0.0.1:{http_port}/metrics | grep watchcache_",
        "[bold]Ctrl-C[/] removes everything.",
    ]
    return "\n".join(lines)


async def run(console: Console, *, is_endless: bool) -> None:
    """Start everything, and tell the story."""
    port, http_port = choose_port(SERVICE_PORT), choose_port(HTTP_PORT)
    async with DevCluster(port=choose_port(DEVCLUSTER_PORT), name="demo") as cluster:
        kubeconfig = cluster.write_kubeconfig(FOLDER / "kubeconfig")
        await cluster.load(MANIFESTS)
        for name in PODS:
            await cluster.create("pods", pod(name))
        address = f"127.0.0.1:{port}"
        console.print(
            f"[bold]dev cluster[/]  {cluster.url} (simulated)    [bold]watchcache[/] {address}",
            highlight=False,
        )
        metrics = f"http://127.0.0.1:{http_port}/metrics"
        story = Story(console, cluster, metrics, hints(port, http_port), is_endless=is_endless)
        async with (
            service(kubeconfig, port, http_port),
            watchcache.connect(address) as wc,
        ):
            try:
                async with asyncio.timeout(None if is_endless else LIMIT_SECONDS):
                    await story.tell(wc)
            except TimeoutError:
                missing = "; ".join(story.missing)
                raise DemoError(f"not seen within {LIMIT_SECONDS:g} s: {missing}") from None


def cause_of(error: BaseException) -> BaseException:
    """Return what happened, without the groups of tasks that it happened in."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def main() -> int:
    """Run the demo; return its exit code."""
    # gRPC's core would write lines of its own between those of the story.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    is_endless = sys.stdout.isatty() and not os.environ.get("WATCHCACHE_DEMO_ONCE")
    console = Console(soft_wrap=True)
    try:
        with own_folder():
            asyncio.run(run(console, is_endless=is_endless))
    except KeyboardInterrupt:
        console.print("\nremoved")
        return 0
    except (*FAILURES, ExceptionGroup) as error:
        cause = cause_of(error)
        if not isinstance(cause, FAILURES):
            raise
        Console(stderr=True, soft_wrap=True).print(f"[red]demo failed:[/] {escape(str(cause))}")
        return 1
    if not is_endless:
        console.print("all of it was seen: the demo passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
