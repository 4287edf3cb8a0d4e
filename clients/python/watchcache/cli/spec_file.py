"""Reads the spec of an extension from a YAML or JSON file, for `watchcache register -f`.

The file holds the parameters of `Connection.register`, written as Kubernetes writes names:

    name: team-a/shop
    serviceAccount: shop
    ttl: 10m
    watch:
    - deployments.apps
    - resource: configmaps
      namespaces: [team-a]
      labelSelector: app=shop
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from watchcache.errors import InvalidArgumentError
from watchcache.spec import Resource

__all__ = ["read_content", "read_spec"]

_SPEC = {
    "name": "name",
    "serviceAccount": "service_account",
    "clusters": "clusters",
    "namespaces": "namespaces",
    "projection": "projection",
    "ttl": "ttl",
    "watch": "watch",
    "content": "content",
    "onlyTheseObjects": "only_these_objects",
}
_RESOURCE = {
    "resource": "name",
    "namespaces": "namespaces",
    "labelSelector": "label_selector",
    "fieldSelector": "field_selector",
    "projection": "projection",
}
_LISTS = {"clusters", "namespaces", "watch"}


def read_spec(path: str) -> dict[str, Any]:
    """Return the parameters of `register` that a file holds; "-" is the input.

    Raises InvalidArgumentError that names the file, the field and the rule.
    """
    try:
        document = yaml.safe_load(read_content(path))
    except yaml.YAMLError as error:
        raise InvalidArgumentError.of(path, f"it is no YAML: {error}") from error
    spec = _renamed(document, _SPEC, field=path)
    if "watch" in spec:
        spec["watch"] = [
            _entry(entry, field=f"{path}: watch[{index}]")
            for index, entry in enumerate(spec["watch"])
        ]
    return spec


def read_content(path: str) -> bytes:
    """Return what a file holds; "-" is the input. Raises InvalidArgumentError."""
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgumentError.of(path, f"it cannot be read: {error.strerror}") from error


def _entry(entry: object, *, field: str) -> str | Resource:
    if isinstance(entry, str):
        return entry
    values = _renamed(entry, _RESOURCE, field=field)
    if "name" not in values:
        raise InvalidArgumentError.of(field, "resource is missing; it names what to watch")
    return Resource(**values)


def _renamed(document: object, names: Mapping[str, str], *, field: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise InvalidArgumentError.of(field, f"it has to be a mapping with {', '.join(names)}")
    for key, value in document.items():
        if key not in names:
            raise InvalidArgumentError.of(
                field, f"{key!r} has no meaning here; known are {', '.join(names)}"
            )
        if key in _LISTS and not isinstance(value, list):
            raise InvalidArgumentError.of(field, f"{key} has to be a list")
        if key not in _LISTS and not isinstance(value, str | int | float):
            raise InvalidArgumentError.of(field, f"{key} has to be a plain value")
    return {names[key]: value for key, value in document.items()}
