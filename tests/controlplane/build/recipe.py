"""What the real control plane is built from: Go modules of our own, one folder each.

A recipe is a folder with a `go.mod` and `go.sum` and the programs built out of them. Versions are
read from the `go.mod` files, which are their only home. Nothing here touches the network or runs
a program; `cache` decides when to build and `compiler` does it.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PROGRAMS", "Program", "Recipe", "RecipeError", "default_recipes", "version_key"]

PROGRAMS = ("etcd", "kube-apiserver", "kubectl", "kube-controller-manager")
"""The names of the programs that a complete build holds."""

_FLAGS_REVISION = "1"
"""To be raised when the way of building changes without a change in a `go.mod`."""


class RecipeError(Exception):
    """A module folder cannot be read as a recipe."""


@dataclass(frozen=True)
class Program:
    """One executable: its file name and the Go package of its `main`."""

    name: str
    package: str


@dataclass(frozen=True)
class Recipe:
    """One Go module and the programs that are built out of it."""

    folder: Path
    required_module: str
    programs: tuple[Program, ...]
    is_kubernetes: bool = False

    @property
    def version(self) -> str:
        """Return the version of the required module, for example `v1.36.3`."""
        text = self._read("go.mod").decode()
        # Alone on its line or one of a block, but never the right-hand side of a `replace`.
        line = rf"^(?:require |\t){re.escape(self.required_module)} (v\S+)(?: //.*)?$"
        found = re.search(line, text, re.MULTILINE)
        if found is None:
            raise RecipeError(
                f"{self.folder / 'go.mod'} must require {self.required_module} by version"
            )
        return found[1]

    @property
    def link_flags(self) -> str:
        """Return the linker's flags; they tell Kubernetes its own version."""
        flags = ["-s", "-w"]
        if self.is_kubernetes:
            version = self.version
            major, minor = version.removeprefix("v").split(".")[:2]
            stamp = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
            for name, value in stamp.items():
                flags += ["-X", f"k8s.io/component-base/version.{name}={value}"]
        return " ".join(flags)

    def digest_input(self) -> bytes:
        """Return every byte that decides what the programs will be."""
        names = ",".join(f"{program.name}={program.package}" for program in self.programs)
        head = f"{names}\n{self.link_flags}\n".encode()
        return head + self._read("go.mod") + self._read("go.sum")

    def _read(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise RecipeError(f"{self.folder / name} is needed for the build: {error}") from error


def default_recipes() -> tuple[Recipe, ...]:
    """Return the recipes of the control plane that the tests use."""
    here = Path(__file__).resolve().parent
    return (
        Recipe(
            folder=here / "etcd",
            required_module="go.etcd.io/etcd/server/v3",
            programs=(Program("etcd", "go.etcd.io/etcd/server/v3"),),
        ),
        Recipe(
            folder=here / "kubernetes",
            required_module="k8s.io/kubernetes",
            programs=(
                Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
                Program("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
                Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
            ),
            is_kubernetes=True,
        ),
    )


def version_key(recipes: tuple[Recipe, ...]) -> str:
    """Return the name of a build: versions, platform, and a hash of all that went into it."""
    digest = hashlib.sha256(_FLAGS_REVISION.encode())
    for recipe in recipes:
        digest.update(recipe.digest_input())
    versions = "-".join(f"{recipe.folder.name}-{recipe.version}" for recipe in recipes)
    return f"{versions}-{sys.platform}-{platform.machine()}-{digest.hexdigest()[:12]}"
