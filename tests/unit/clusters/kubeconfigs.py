"""Kubeconfigs for tests: one good context, changed as a test says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def document(
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    context: str = "dev",
    **changes: Any,
) -> dict[str, Any]:
    """Return a kubeconfig with one context; None in `changes` removes a field of the top level."""
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://127.0.0.1:6443", **(cluster or {})}}
        ],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
        **changes,
    }
    return {name: value for name, value in config.items() if value is not None}


def write(path: Path, config: Any) -> Path:
    """Write a kubeconfig."""
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    return path
