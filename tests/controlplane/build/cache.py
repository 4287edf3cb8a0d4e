"""The cache of built control planes: outside the checkout, one folder for each version key.

It promises that a folder under its final name is complete: a build happens in a folder of another
name, which is renamed when it is done, and one lock file for each key lets one process build
while others wait for it. The lock belongs to the kernel, so a process that dies frees it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.build.compiler import compile_recipe
from tests.controlplane.build.golang import find_go
from tests.controlplane.build.recipe import PROGRAMS, Recipe, default_recipes, version_key

__all__ = ["AssetsError", "Binaries", "BuildCache", "cache_root", "ensure_binaries"]

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
CACHE_VARIABLE = "WATCHCACHE_CACHE"

_NEEDED_ASSETS = ("etcd", "kube-apiserver", "kubectl")


class AssetsError(Exception):
    """The folder named by KUBEBUILDER_ASSETS does not hold the programs it must."""


@dataclass(frozen=True)
class Binaries:
    """Where the programs of one control plane are."""

    folder: Path

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    @property
    def kube_apiserver(self) -> Path:
        return self.folder / "kube-apiserver"

    @property
    def kubectl(self) -> Path:
        return self.folder / "kubectl"

    @property
    def kube_controller_manager(self) -> Path:
        """Return its path; a folder of KUBEBUILDER_ASSETS need not have it."""
        return self.folder / "kube-controller-manager"


def cache_root() -> Path:
    """Return the cache's folder: $WATCHCACHE_CACHE, else the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "watchcache"


def ensure_binaries(say: Callable[[str], None]) -> Binaries:
    """Return the control plane's programs: those of KUBEBUILDER_ASSETS, or the cache's.

    What the cache lacks is built.

    Raises:
        AssetsError: when KUBEBUILDER_ASSETS is set and lacks a program.
        GoError, CompileError: when a build is needed and fails.
    """
    assets = os.environ.get(ASSETS_VARIABLE)
    if assets:
        return _given_assets(Path(assets).expanduser().absolute())
    return BuildCache(cache_root(), default_recipes()).ensure(say)


def _given_assets(folder: Path) -> Binaries:
    missing = [name for name in _NEEDED_ASSETS if not os.access(folder / name, os.X_OK)]
    if missing:
        raise AssetsError(
            f"{ASSETS_VARIABLE}={folder} must hold the executables {', '.join(_NEEDED_ASSETS)}; "
            f"missing: {', '.join(missing)}. Add them, or unset it to have them built."
        )
    return Binaries(folder)


class BuildCache:
    """The builds of some recipes under one root folder."""

    def __init__(
        self,
        root: Path,
        recipes: tuple[Recipe, ...],
        *,
        programs: tuple[str, ...] = PROGRAMS,
        build: Callable[[Path, tuple[Recipe, ...], Path, Callable[[str], None]], None]
        | None = None,
    ) -> None:
        """Make a cache; `build(root, recipes, folder, say)` puts every program into `folder`."""
        self._root = root
        self._recipes = recipes
        self._programs = programs
        self._build = build or _build_with_go

    @property
    def folder(self) -> Path:
        """Return the folder of this version key, whether or not it is built."""
        return self._root / "controlplane" / version_key(self._recipes)

    def find(self) -> Binaries | None:
        """Return the programs if they are built, without building or waiting."""
        complete = all(os.access(self.folder / "bin" / name, os.X_OK) for name in self._programs)
        return Binaries(self.folder / "bin") if complete else None

    def ensure(self, say: Callable[[str], None]) -> Binaries:
        """Return the programs; build them if need be, or wait for the process that does."""
        found = self.find()
        if found is not None:
            return found
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder.with_name(f"{self.folder.name}.lock"), say):
            return self.find() or self._build_and_publish(say)

    def _build_and_publish(self, say: Callable[[str], None]) -> Binaries:
        # Under the lock no one else builds this key, so what an interrupted build left can go.
        prefix = f".partial-{self.folder.name}-"
        for left in self.folder.parent.glob(f"{prefix}*"):
            shutil.rmtree(left)
        partial = Path(tempfile.mkdtemp(prefix=prefix, dir=self.folder.parent))
        try:
            (partial / "bin").mkdir()
            self._build(self._root, self._recipes, partial / "bin", say)
            self._require_programs(partial / "bin")
            shutil.rmtree(self.folder, ignore_errors=True)
            partial.chmod(0o755)
            partial.rename(self.folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return Binaries(self.folder / "bin")

    def _require_programs(self, folder: Path) -> None:
        missing = [name for name in self._programs if not os.access(folder / name, os.X_OK)]
        if missing:
            raise AssetsError(
                f"the build must give {', '.join(self._programs)}; missing: {missing}"
            )


def _build_with_go(
    root: Path, recipes: tuple[Recipe, ...], output: Path, say: Callable[[str], None]
) -> None:
    go = find_go(root, say)
    for recipe in recipes:
        compile_recipe(go, recipe, output, say)


@contextlib.contextmanager
def _locked(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is building the control plane; waiting for {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
