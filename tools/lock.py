"""Writes requirements/*.lock from the dependencies that the pyproject files declare.

A lock names one version and all hashes of each package, for every supported Python and platform,
and holds no address of a registry. Versions already locked stay unless `--upgrade` is given. The
run-time lock is resolved within the development lock, so that what is tested is what is shipped.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["main"]

ROOT: Final = Path(__file__).resolve().parent.parent
LOCKS: Final = Path("requirements")
OURS: Final = ("watchcache", "watchcache-devcluster", "watchcache-server")
DISTRIBUTIONS: Final = (
    "pyproject.toml",
    "clients/python/pyproject.toml",
    "devcluster/pyproject.toml",
)
# Each lock and what it is resolved from. The order matters: the first one constrains the next two.
SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "dev": (*DISTRIBUTIONS, "--all-extras", "--group", "dev"),
    "runtime": (*DISTRIBUTIONS[:1], "--constraint", "requirements/dev.lock"),
    "build": ("--group", "build", "--constraint", "requirements/dev.lock"),
    "proto": ("--group", "proto"),
    "go": ("--group", "go"),
}


def write_lock(name: str, options: list[str]) -> None:
    """Resolve one lock file and write it."""
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "--universal"),
        *("--python-version", "3.11", "--generate-hashes", "--no-emit-index-url"),
        *("--no-annotate", "--custom-compile-command", "make lock"),
        *(argument for ours in OURS for argument in ("--no-emit-package", ours)),
        *("--output-file", str(LOCKS / f"{name}.lock")),
        *SOURCES[name],
        *options,
    ]
    # uv repeats the file on its standard output, and says on the other what went wrong.
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """Write every lock; the arguments are passed on to uv."""
    for name in SOURCES:
        write_lock(name, sys.argv[1:])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
