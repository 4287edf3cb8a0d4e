"""The demo: what it shows, how it checks itself, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.console import Console

import watchcache
from tools import demo, demo_story
from watchcache_devcluster import ApiError, DevCluster

ROOT = Path(__file__).resolve().parents[2]
_LIMIT_SECONDS = 60.0


def _environment(**more: str) -> dict[str, str]:
    """Return an environment in which the demo is found from any folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WATCHCACHE_")}
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**kept, "PYTHONPATH": str(ROOT), "PATH": programs, **more}


async def _demo(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it without a terminal, in a folder."""
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "tools.demo"],
        cwd=folder,
        env=_environment(**environment),
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
    )


def _is_empty(folder: Path) -> bool:
    return not list(folder.iterdir())


class Terminal:
    """The demo on a terminal, and what that shows."""

    def __init__(self, process: asyncio.subprocess.Process, side: int) -> None:
        self.process = process
        self._side = side
        self.shown = ""

    async def read_until(self, text: str) -> None:
        """Read until something is shown."""
        try:
            async with asyncio.timeout(_LIMIT_SECONDS / 2):
                while text not in self.shown:
                    read = await asyncio.to_thread(os.read, self._side, 4096)
                    self.shown += re.sub(r"\x1b\[[0-9;]*m", "", read.decode())
        except TimeoutError:
            raise AssertionError(f"{text!r} is not shown:\n{self.shown}") from None


@asynccontextmanager
async def _on_terminal(folder: Path) -> AsyncIterator[Terminal]:
    side, far_side = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tools.demo"),
        cwd=folder,
        env=_environment(TERM="xterm-256color"),
        stdin=far_side,
        stdout=far_side,
        stderr=far_side,
    )
    try:
        yield Terminal(process, side)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(far_side)
        os.close(side)


@pytest.mark.timeout(120)
async def test_without_a_terminal_it_tells_its_story_once_and_checks_it(tmp_path: Path) -> None:
    """Snapshot, forbidden kind, changes, a break that loses nothing; then 0, with nothing left."""
    ended = await _demo(tmp_path)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    story = re.compile(
        r"dev cluster .*\nregistered .*\nFORBIDDEN .*secrets.*\nSNAPSHOT +3 objects.*"
        r"\nLIVE\n  ~ deployments.apps demo/web .*  ! .*broke off.*  = going on .*"
        r"\nall of it was seen: the demo passed\n",
        re.DOTALL,
    )
    assert story.fullmatch(ended.stdout), ended.stdout
    assert _is_empty(tmp_path)


async def test_a_second_one_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    """It says where the first one is, and touches none of its files."""
    (tmp_path / ".demo").mkdir()
    kubeconfig = tmp_path / ".demo/kubeconfig"
    kubeconfig.write_text("of the first one")
    with (tmp_path / ".demo/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = await _demo(tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith("demo failed: another one runs here")
    assert str(tmp_path / ".demo") in line
    assert kubeconfig.read_text() == "of the first one"


async def test_what_a_killed_one_left_is_no_hindrance(tmp_path: Path) -> None:
    """A folder that nobody holds is taken over; here the service then ends, which is told."""
    (tmp_path / ".demo").mkdir()
    (tmp_path / ".demo/lock").touch()
    (tmp_path / ".demo/service.log").write_text("old")
    ended = await _demo(tmp_path, WATCHCACHE_MAX_EXTENSIONS="none")
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert line.startswith("demo failed: the service ended with 2: error: ")
    assert _is_empty(tmp_path)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(watchcache.UnavailableError("gone"), "gone", id="of the watch"),
        pytest.param(demo.DemoError("not seen"), "not seen", id="of the story"),
    ],
)
def test_an_error_in_a_group_of_tasks_is_told_as_itself(
    error: Exception,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever reads it learns what happened in one line."""

    async def fail(*_: object, **__: object) -> None:
        raise ExceptionGroup("of tasks", [ExceptionGroup("of tasks", [error])])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "run", fail)
    assert demo.main() == 1
    assert capsys.readouterr().err == f"demo failed: {told}\n"


async def test_a_deployment_that_somebody_deletes_comes_back(devcluster: DevCluster) -> None:
    """The demo goes on making changes, whatever is tried."""
    await devcluster.load(demo_story.MANIFESTS)
    await devcluster.delete("deployments.apps", "web", "demo")
    story = demo_story.Story(Console(quiet=True), devcluster, "", "", is_endless=True)
    living = asyncio.create_task(story._live_on())
    found = None
    async with asyncio.timeout(_LIMIT_SECONDS):
        while found is None:
            await asyncio.sleep(0.1)
            with contextlib.suppress(ApiError):
                found = await devcluster.get("deployments.apps", "web", "demo")
    living.cancel()
    assert found["metadata"]["labels"]["tier"] == "silver"


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "kill"])
@pytest.mark.timeout(120)
async def test_on_a_terminal_a_fault_is_shown_and_the_end_removes_everything(
    end: signal.Signals, tmp_path: Path
) -> None:
    """What it says to try works, and what comes of it is seen."""
    async with _on_terminal(tmp_path) as terminal:
        await terminal.read_until("removes everything.")
        assert "watchcache-devcluster fault reset" in terminal.shown
        kubeconfig = str(tmp_path / ".demo/kubeconfig")
        fault = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "watchcache_devcluster.cli", "fault", "reset"),
            env=_environment(KUBECONFIG=kubeconfig),
            stdout=asyncio.subprocess.DEVNULL,
        )
        assert await fault.wait() == 0
        await terminal.read_until("broke off")
        await terminal.read_until("nothing is lost")
        terminal.process.send_signal(end)
        await terminal.read_until("removed")
        assert await terminal.process.wait() == 0
    assert _is_empty(tmp_path)
