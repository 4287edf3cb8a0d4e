"""Builds the real control plane from its Go modules.

`python -m tests.controlplane.build` builds etcd, kube-apiserver, kubectl and
kube-controller-manager into the cache and prints the folder of the programs; `ensure_binaries`
does the same for the fixtures. It leaves starting the programs to `tests.controlplane.server`.
"""

from __future__ import annotations

from tests.controlplane.build.cache import (
    AssetsError,
    Binaries,
    BuildCache,
    cache_root,
    ensure_binaries,
)
from tests.controlplane.build.compiler import CompileError
from tests.controlplane.build.golang import GoError
from tests.controlplane.build.recipe import Program, Recipe, RecipeError, version_key

__all__ = [
    "AssetsError",
    "Binaries",
    "BuildCache",
    "CompileError",
    "GoError",
    "Program",
    "Recipe",
    "RecipeError",
    "cache_root",
    "ensure_binaries",
    "version_key",
]
