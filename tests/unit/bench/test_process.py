"""Processes of the benchmark, and what is read of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bench.process import Memory, WorkerError, worker

_BLOCK_BYTES = 64 * 1024 * 1024


def test_memory_counts_what_is_resident() -> None:
    """What is written to counts; after it is given back it counts for the peak only."""
    memory = Memory(os.getpid())
    before = memory.now_bytes
    block = bytearray(os.urandom(1024)) * (_BLOCK_BYTES // 1024)
    assert memory.now_bytes - before > 0.9 * _BLOCK_BYTES
    del block
    assert memory.now_bytes - before < 0.1 * _BLOCK_BYTES
    assert memory.peak_bytes - before > 0.9 * _BLOCK_BYTES


def test_a_peak_begins_anew_when_it_is_forgotten() -> None:
    """What was held before does not count any more."""
    memory = Memory(os.getpid())
    block = bytearray(os.urandom(1024)) * (_BLOCK_BYTES // 1024)
    before = memory.peak_bytes
    del block
    memory.forget_peak()
    assert memory.peak_bytes < before - 0.8 * _BLOCK_BYTES


def test_processor_time_grows_with_work() -> None:
    """Time that is used is counted, to a hundredth of a second."""
    memory = Memory(os.getpid())
    before, started = memory.cpu_seconds(), time.process_time()
    while time.process_time() - started < 0.1:
        pass
    assert memory.cpu_seconds() - before >= 0.05


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module that says its task, then each line that it is told."""
    (tmp_path / "echoing.py").write_text(
        "import json, sys\n"
        "print(json.dumps(json.loads(sys.argv[1])), flush=True)\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps(line.strip()), flush=True)\n"
        "    if line.strip() == 'end':\n"
        "        sys.exit(3)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "echoing"


async def test_a_worker_is_given_its_task_and_heard_line_by_line(module: str) -> None:
    """What it prints are values, in order."""
    async with worker(module, {"name": "pods"}) as process:
        assert await process.hear() == {"name": "pods"}
        process.tell("take")
        assert await process.hear() == "take"


async def test_a_worker_that_ends_too_early_is_an_error(module: str) -> None:
    """Nobody waits for a process that is gone; the error says how it went."""
    async with worker(module, {}) as process:
        await process.hear()
        process.tell("end")
        await process.hear()
        with pytest.raises(WorkerError, match="ended with code 3"):
            await process.hear()


async def test_a_worker_is_gone_at_the_end(module: str) -> None:
    """Nothing that the benchmark starts outlives it."""
    async with worker(module, {}) as process:
        await process.hear()
        folder = process.memory.folder
        assert folder.exists()
    assert not folder.exists()
