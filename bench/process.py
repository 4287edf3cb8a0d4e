"""Processes under measurement: what they hold, and what they said.

Linux only: memory is read from /proc, and counts what is resident, shared pages included, since
that is what the machine has to provide.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

__all__ = ["Memory", "Worker", "worker"]


class WorkerError(Exception):
    """A process ended before it had said what it was to say."""


class Memory:
    """The resident memory of one process."""

    def __init__(self, pid: int) -> None:
        self.folder = Path("/proc") / str(pid)

    @property
    def now_bytes(self) -> int:
        """Resident now."""
        return self._field("VmRSS")

    @property
    def peak_bytes(self) -> int:
        """The most that was resident since `forget_peak`."""
        return self._field("VmHWM")

    def forget_peak(self) -> None:
        """Let the peak begin anew."""
        (self.folder / "clear_refs").write_text("5")

    def cpu_seconds(self) -> float:
        """Return the processor time used so far."""
        values = (self.folder / "stat").read_text().rpartition(")")[2].split()
        return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")

    def _field(self, name: str) -> int:
        for line in (self.folder / "status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise WorkerError(f"no {name} in /proc; is this Linux?")


class Worker:
    """A process of the benchmark that says what it has to say as lines of JSON."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self._name = name
        self._process = process
        self.memory = Memory(process.pid)

    async def hear(self) -> Any:
        """Return the next line. Raises WorkerError when the process ends instead."""
        assert self._process.stdout is not None, "started with a pipe"
        line = await self._process.stdout.readline()
        if not line:
            code = await self._process.wait()
            raise WorkerError(f"{self._name} ended with code {code}; its errors are above")
        return json.loads(line)

    def tell(self, word: str) -> None:
        """Send a line to its standard input."""
        assert self._process.stdin is not None, "started with a pipe"
        self._process.stdin.write(word.encode() + b"\n")


@asynccontextmanager
async def worker(module: str, task: dict[str, Any]) -> AsyncIterator[Worker]:
    """Run `python -m module` with a task, as JSON, for an argument; end it at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        json.dumps(task),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=64 * 1024 * 1024,
    )
    try:
        yield Worker(module, process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
