"""One server program as a child process that never outlives the process that started it.

It promises: output goes to a log file; `stop` returns when the process is gone; a parent that
dies without stopping its children, even by SIGKILL, takes them along. It leaves readiness to its
user.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

__all__ = ["ServerProcess"]

_STOP_GRACE_SECONDS = 10.0


class ServerProcess:
    """A child process, started once, with its log and its guard."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        """Start `command`, appending what it prints to the file `log`."""
        self.log = log
        self._lock = threading.Lock()
        self._log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            # A process group of its own keeps the terminal's Ctrl-C from it: its owner stops it, in
            # order. Not a session, among which Linux shares out the processor as if each were one
            # process: what is measured beside it would wait for it ten times as long.
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        self._guard = _start_guard(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def output(self) -> str:
        """Return what this process has printed so far."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    def pause(self) -> None:
        """Stop the process's clock (SIGSTOP): its connections stay open and nothing answers."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self, grace_seconds: float = _STOP_GRACE_SECONDS) -> None:
        """End the process: SIGTERM, then SIGKILL after `grace_seconds`; return when it is gone."""
        with self._lock:
            if self.is_running:
                self._process.send_signal(signal.SIGCONT)
                self._process.terminate()
                try:
                    self._process.wait(grace_seconds)
                except subprocess.TimeoutExpired:
                    self._process.kill()
            self._finish()

    def kill(self) -> None:
        """End the process by SIGKILL; return when it is gone."""
        with self._lock:
            if self.is_running:
                self._process.kill()
            self._finish()

    def _finish(self) -> None:
        # The guard first: once the process is reaped, its number may be another's.
        self._guard.kill()
        self._guard.communicate()
        self._process.wait()


def _start_guard(pid: int) -> subprocess.Popen[bytes]:
    """Start a shell that kills `pid` when our end of a pipe closes, which is when we die.

    The kernel's parent-death signal would be simpler, but it fires when the starting *thread* ends.
    """
    script = f"read -r never; kill -KILL {pid} 2>/dev/null"
    return subprocess.Popen(
        ["/bin/sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
