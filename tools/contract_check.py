"""Compares the contract with what depends on it: the last release, and the generated code.

A change that breaks clients of the last tag is named, and so is each generated file that
`make proto` would write otherwise. Without a tag, or outside a git checkout, there is no release to
compare with.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["breaking_changes", "main", "stale_files"]

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = Path("watchcache/v1alpha1")
GENERATED: Final = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def breaking_changes() -> str:
    """Return what breaks clients of the last tag, a line each; empty if nothing does."""
    tag = _git("describe", "--tags", "--abbrev=0", "--match", "v*")
    directory = _git("rev-parse", "--path-format=absolute", "--git-common-dir")
    if not tag or not directory or not _git("ls-tree", "--name-only", tag, "buf.yaml"):
        return ""
    buf = Path(sys.executable).with_name("buf")
    against = f"{directory}#format=git,tag={tag}"
    command = [str(buf), "breaking", "--against", against]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def stale_files() -> list[str]:
    """Return the generated files that differ from what the contract gives, by path."""
    checked_in = ROOT / "clients/python" / PACKAGE
    with tempfile.TemporaryDirectory() as folder:
        python = ROOT / ".venv-proto/bin/python"
        subprocess.run([python, ROOT / "tools/generate.py", "--out", folder], check=True)
        fresh = _contents(Path(folder) / PACKAGE)
    old = _contents(checked_in)
    return sorted(name for name in fresh.keys() | old.keys() if fresh.get(name) != old.get(name))


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for glob in GENERATED for path in folder.glob(glob)}


def _git(*arguments: str) -> str:
    """Return the output of a git command, or nothing if it fails: not every copy is a checkout."""
    if shutil.which("git") is None:
        return ""
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def main() -> int:
    """Print what is wrong and how to mend it; return 1 if anything is."""
    breaking = breaking_changes()
    if breaking:
        print(f"The contract breaks clients of the last release:\n{breaking}", file=sys.stderr)
    stale = stale_files()
    if stale:
        print(
            f"Generated code is not that of proto/: {', '.join(stale)}. Run `make proto`.",
            file=sys.stderr,
        )
    return 1 if breaking or stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
