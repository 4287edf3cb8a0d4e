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
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.markup import escape

import watchcache
from tests.controlplane.build import BuildCache, cache_root
from tests.controlplane.build.recipe import default_recipes
from tools.demo_story import MANIFESTS, PODS, TOKEN_SECONDS, DemoError, Story, pod
from watchcache_devcluster import DevCluster

FOLDER: Final = Path(".demo")
DEVCLUSTER_PORT: Final = 6443
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


class Serving(NamedTuple):
    """Where the service says that it listens."""

    address: str
    http_address: str


USUAL: Final = Serving("127.0.0.1:7443", "127.0.0.1:8080")
FREE: Final = Serving("127.0.0.1:0", "127.0.0.1:0")


@asynccontextmanager
async def dev_cluster() -> AsyncIterator[DevCluster]:
    """Run a dev cluster on its usual port, or on a free one where that is taken."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            cluster = await stack.enter_async_context(DevCluster(port=DEVCLUSTER_PORT, name="demo"))
        except OSError:
            cluster = await stack.enter_async_context(DevCluster(name="demo"))
        yield cluster


@asynccontextmanager
async def service(kubeconfig: Path) -> AsyncIterator[Serving]:
    """Run the service as a program of its own, on its usual ports or on free ones.

    Its log is .demo/service.log.
    """
    log = FOLDER / "service.log"
    process = await start(kubeconfig, log, *USUAL)
    try:
        serving = await wait_until_serving(process, log)
        if serving is None:
            process = await start(kubeconfig, log, *FREE)
            serving = await wait_until_serving(process, log)
        if serving is None:
            raise ended(process, log)
        try:
            yield serving
        except (*FAILURES, ExceptionGroup):
            if process.returncode is None:
                raise
            # Whatever the story stumbled over, this is why.
            raise ended(process, log) from None
    finally:
        await end(process)


async def start(
    kubeconfig: Path, log: Path, address: str, http_address: str
) -> asyncio.subprocess.Process:
    """Start the service."""
    with log.open("wb") as output:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "watchcache_server.cli", "serve"),
            *("--kubeconfig", str(kubeconfig)),
            *("--listen", address, "--http-listen", http_address),
            *("--token-lifetime-seconds", str(TOKEN_SECONDS), "--log-format", "json"),
            stdout=output,
            stderr=output,
        )


async def wait_until_serving(process: asyncio.subprocess.Process, log: Path) -> Serving | None:
    """Return where it serves, as its own log tells; None when it has ended."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        if process.returncode is not None:
            return None
        serving = told_in(log)
        if serving is not None:
            return serving
        await asyncio.sleep(0.02)
    raise DemoError(f"the service does not serve after {LIMIT_SECONDS:g} s")


def told_in(log: Path) -> Serving | None:
    """Return where the service serves, if its log tells already."""
    for line in log.read_text(errors="replace").splitlines(keepends=True):
        if line.startswith("{") and line.endswith("\n"):
            said = json.loads(line)
            if said["msg"] == "serving":
                return Serving(said["grpc"][0], said["http"])
    return None


def ended(process: asyncio.subprocess.Process, log: Path) -> DemoError:
    """Return the error that the service has ended, with its last words."""
    told = log.read_text(errors="replace").strip().splitlines() or ["it wrote nothing"]
    return DemoError(f"the service ended with {process.returncode}: {told[-1]}")


async def end(process: asyncio.subprocess.Process) -> None:
    """Ask a program to stop, and insist when it does not."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


def hints(serving: Serving) -> str:
    """Return what to try from another terminal; only kubectl is not of this checkout."""
    paths = "$PWD/.venv/bin"
    needs = []
    if shutil.which("kubectl") is None:
        built = BuildCache(cache_root(), default_recipes()).find()
        if built is not None:
            paths += f":{built.folder}"
        else:
            build = "     export PATH=$(make -s controlplane | tail -1):$PATH"
            needs = [f"{build}  [dim]# builds a kubectl, in minutes[/]"]
    usual = serving.address == USUAL.address
    address = "" if usual else f" WATCHCACHE_ADDRESS={serving.address}"
    lines = [
        "[bold]Try[/], in another terminal here:",
        f"     export KUBECONFIG=$PWD/{FOLDER}/kubeconfig PATH={paths}:$PATH{address}",
        "     watchcache status demo/shop           [dim]# secrets forbidden on purpose[/]",
        "     watchcache-devcluster fault reset     [dim]# cuts all streams, loses nothing[/]",
        *needs,
        "     kubectl -n demo label --overwrite deploy/web tier=gold  [dim]# appears here[/]",
        f"     curl -s http://{serving.http_address}/metrics | grep watchcache_",
        "[bold]Ctrl-C[/] removes everything.",
    ]
    return "\n".join(lines)


async def run(console: Console, *, is_endless: bool) -> None:
    """Start everything, and tell the story."""
    told = asyncio.current_task()
    assert told is not None
    # Ended like that, it leaves as little behind as after Ctrl-C.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.cancel)
    async with dev_cluster() as cluster:
        kubeconfig = cluster.write_kubeconfig(FOLDER / "kubeconfig")
        await cluster.load(MANIFESTS)
        for name in PODS:
            await cluster.create("pods", pod(name))
        async with service(kubeconfig) as serving, watchcache.connect(serving.address) as wc:
            console.print(
                f"[bold]dev cluster[/]  {cluster.url} (simulated)    "
                f"[bold]watchcache[/] {serving.address}",
                highlight=False,
            )
            metrics = f"http://{serving.http_address}/metrics"
            story = Story(console, cluster, metrics, hints(serving), is_endless=is_endless)
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
    except (KeyboardInterrupt, asyncio.CancelledError):
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
