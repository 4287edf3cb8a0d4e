"""Finds or fetches the real `prometheus` and `promtool` that check what the service exposes.

Those on PATH are used as they are. Elsewhere Debian's package is unpacked into the cache outside
the checkout, without installing it; that needs apt and dpkg-deb, and root only to refresh the
package lists of a machine that has none yet. `python -m tools.prometheus` prints their folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.controlplane.build import cache_root

__all__ = ["PrometheusError", "ensure_prometheus", "main"]

PROGRAMS: Final = ("prometheus", "promtool")
_LIMIT_SECONDS: Final = 300


class PrometheusError(Exception):
    """The programs are neither on PATH nor could be fetched."""


def ensure_prometheus() -> Path:
    """Return the folder that holds `prometheus` and `promtool`.

    Raises:
        PrometheusError: when they are not there and the package could not be fetched.
    """
    on_path = shutil.which("prometheus")
    if on_path is not None and _is_complete(Path(on_path).parent):
        return Path(on_path).parent
    folder = cache_root() / "prometheus"
    programs = folder / "usr" / "bin"
    folder.parent.mkdir(parents=True, exist_ok=True)
    # The lock belongs to the kernel: another test process waits, and a dead one holds nothing.
    with folder.with_name("prometheus.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_complete(programs):
            _fetch(folder)
    return programs


def _is_complete(folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in PROGRAMS)


def _fetch(folder: Path) -> None:
    """Unpack the package beside `folder` and put it there under its final name when it is whole."""
    partial = Path(tempfile.mkdtemp(prefix=".partial-prometheus-", dir=folder.parent))
    try:
        try:
            _run("apt-get", "download", "prometheus", cwd=partial)
        except PrometheusError:
            # A machine that was never asked for a package has no lists to find it in.
            _run("apt-get", "update", cwd=partial)
            _run("apt-get", "download", "prometheus", cwd=partial)
        archive = next(partial.glob("prometheus_*.deb"))
        _run("dpkg-deb", "--extract", str(archive), str(partial / "unpacked"), cwd=partial)
        if not _is_complete(partial / "unpacked/usr/bin"):
            raise PrometheusError(f"{archive.name} does not hold {' and '.join(PROGRAMS)}")
        shutil.rmtree(folder, ignore_errors=True)
        (partial / "unpacked").rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run(*command: str, cwd: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PrometheusError(_advice(f"{' '.join(command[:2])}: {error}")) from error
    if done.returncode:
        raise PrometheusError(_advice(f"{' '.join(command[:2])}: {done.stderr.strip()}"))


def _advice(cause: str) -> str:
    return (
        f"{cause}. The tests of the metrics need the programs prometheus and promtool: "
        "put both on PATH, or run where Debian's package can be downloaded."
    )


def main() -> int:
    """Print the folder that holds the programs."""
    print(ensure_prometheus())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
