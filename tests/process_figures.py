"""What the kernel says of a process: memory, threads, descriptors."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["descriptors_of", "memory_of", "sockets_of", "threads_of"]


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def threads_of(pid: int) -> int:
    """Count the threads of a process."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def sockets_of(pid: int) -> int:
    """Count the open sockets of a process."""
    return sum(target.startswith("socket:") for target in _targets(pid))


def descriptors_of(pid: int) -> int:
    """Count the open descriptors of a process, sockets included."""
    return len(_targets(pid))


def _targets(pid: int) -> list[str]:
    targets = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            targets.append(str(link.readlink()))
        except FileNotFoundError:
            continue
    return targets
