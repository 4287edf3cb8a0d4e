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
    - resource: pods
      namespaceSelector: tier=gold
      indexPaths: [spec.nodeName]

What `status -o json` or `-o yaml` writes of one extension is read as well, for its spec.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.json_format import ParseDict, ParseError

from watchcache.errors import InvalidArgumentError
from watchcache.spec import Resource
from watchcache.states import PROJECTIONS
from watchcache.v1alpha1 import extension_pb2

__all__ = ["SpecFileError", "read_content", "read_spec"]

_SPEC = {
    "name": "name",
    "serviceAccount": "service_account",
    "clusters": "clusters",
    "namespaces": "namespaces",
    "namespaceSelector": "namespace_selector",
    "projection": "projection",
    "indexPaths": "index_paths",
    "ttl": "ttl",
    "watch": "watch",
    "content": "content",
    "onlyTheseObjects": "only_these_objects",
}
_RESOURCE = {
    "resource": "name",
    "namespaces": "namespaces",
    "namespaceSelector": "namespace_selector",
    "labelSelector": "label_selector",
    "fieldSelector": "field_selector",
    "projection": "projection",
    "indexPaths": "index_paths",
}
_LISTS = {"clusters", "indexPaths", "namespaces", "watch"}
_FLAGS = {"onlyTheseObjects"}
_SPANS = {"ttl"}


# Besides its own errors the parser raises what its constructors do of a date such as 2030-13-01, of
# !!bool x and of !!timestamp x.
_UNREADABLE = (
    *(yaml.YAMLError, RecursionError, ValueError),
    *(LookupError, AttributeError, TypeError),
)


class SpecFileError(InvalidArgumentError):
    """A spec file cannot be used: wrong use of the command, found before anything is sent."""


def read_spec(path: str) -> dict[str, Any]:
    """Return the parameters of `register` that a file holds; "-" is the input.

    Raises SpecFileError that names the file, the field and the rule.
    """
    try:
        document = yaml.safe_load(read_content(path))
    except _UNREADABLE as error:
        raise SpecFileError.of(path, f"it is no YAML: {error}") from error
    if isinstance(document, dict) and isinstance(document.get("spec"), dict):
        return _registered_spec(document, path)
    spec = _renamed(document, _SPEC, field=path)
    if "watch" in spec:
        spec["watch"] = [
            _entry(entry, field=f"{path}: watch[{index}]")
            for index, entry in enumerate(spec["watch"])
        ]
    return spec


def read_content(path: str) -> bytes:
    """Return what a file holds; "-" is the input. Raises SpecFileError."""
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise SpecFileError.of(path, f"it cannot be read: {error.strerror}") from error


def _registered_spec(document: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the spec of an extension as the service tells of it."""
    try:
        told = ParseDict(document, extension_pb2.Extension())
    except ParseError as error:
        raise SpecFileError.of(
            path, f"it has a spec, but is not what `status -o json` writes: {error}"
        ) from error
    spec = told.spec
    values: dict[str, Any] = {
        "name": f"{told.namespace}/{told.name}",
        "service_account": spec.service_account,
        "clusters": list(spec.clusters),
    }
    if spec.HasField("ttl"):
        values["ttl"] = spec.ttl.ToTimedelta()
    if spec.HasField("content"):
        values["content"] = spec.content.manifests
        values["only_these_objects"] = spec.content.only_these_objects
        values["projection"] = PROJECTIONS.get(spec.content.projection)
        values["index_paths"] = list(spec.content.index_paths)
    else:
        values["watch"] = [_registered_entry(item) for item in spec.resources.items]
    return values


def _registered_entry(item: extension_pb2.ResourceWatch) -> Resource:
    return Resource(
        ".".join(filter(None, (item.resource or item.kind, item.version, item.group))),
        tuple(item.namespaces),
        namespace_selector=item.namespace_selector,
        label_selector=item.label_selector,
        field_selector=item.field_selector,
        projection=PROJECTIONS.get(item.projection),
        index_paths=tuple(item.index_paths),
    )


def _entry(entry: object, *, field: str) -> str | Resource:
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, dict):
        raise SpecFileError.of(
            field,
            f"{_shown(entry)} is no resource; write a name such as deployments.apps, "
            f"or a mapping with {', '.join(_RESOURCE)}",
        )
    values = _renamed(entry, _RESOURCE, field=field)
    if "name" not in values:
        raise SpecFileError.of(field, "resource is missing; it names what to watch")
    return Resource(**values)


def _renamed(document: object, names: Mapping[str, str], *, field: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise SpecFileError.of(field, f"it has to be a mapping with {', '.join(names)}")
    for key, value in document.items():
        if key not in names:
            raise SpecFileError.of(
                field, f"{key!r} has no meaning here; known are {', '.join(names)}"
            )
        _check_type(key, value, field=field)
    return {names[key]: value for key, value in document.items()}


def _check_type(key: str, value: object, *, field: str) -> None:
    if key in _FLAGS:
        if not isinstance(value, bool):
            raise SpecFileError.of(
                field, f"{key} has to be true or false, not {_shown(value)}; write one of them"
            )
    elif key in _SPANS:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise SpecFileError.of(
                field,
                f"{key} has to be a length of time, not {_shown(value)}; "
                'write it like "30s", "2m" or "1h30m"',
            )
    elif key not in _LISTS:
        _check_text(key, value, field=field)
    elif not isinstance(value, list):
        raise SpecFileError.of(
            field, f"{key} has to be a list, not {_shown(value)}; write {key}: [...]"
        )
    elif key != "watch":
        for index, name in enumerate(value):
            _check_text(f"{key}[{index}]", name, field=field)


def _check_text(key: str, value: object, *, field: str) -> None:
    if isinstance(value, str):
        return
    mend = "write one plain value" if isinstance(value, list | dict) else "put it in quotes"
    if value is None:
        mend = "write a value or leave the field out"
    raise SpecFileError.of(field, f"{key} has to be text, not {_shown(value)}; {mend}")


def _shown(value: object) -> str:
    """Return what the file says in the words of YAML, without the inside of what is large."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, bytes):
        return "binary data"
    if value is None:
        return "nothing"
    return str(value).lower() if isinstance(value, bool) else str(value)
