"""Content: the watch set that manifests stand for.

Only apiVersion, kind, metadata.name and metadata.namespace of each object are read. Text is parsed
without resolving types or merge keys, so that no document can grow while it is read; what is shared
by an alias stays shared. Parsing a megabyte takes a tenth of a second: call this in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import yaml

from watchcache_server.model.errors import FieldViolation, InvalidRequestError
from watchcache_server.model.names import (
    dns_label_problem,
    dns_subdomain_problem,
    kind_problem,
    path_segment_problem,
)
from watchcache_server.model.specs import ResourceWatch
from watchcache_server.model.states import Projection

__all__ = ["watches_of"]

_FIELD = "spec.content.manifests"
_LIST_DEPTH = 4
_NESTING = 200
_SHOWN_VIOLATIONS = 20
# Some kinds allow these in names; a field selector would read them as its own.
_SELECTOR_SYNTAX = frozenset(",=\\")


class _ManifestError(Exception):
    """The text is no manifest."""


class _Allowance:
    """Counts down. A few aliases can stand for more objects, or empty Lists, than can be read."""

    def __init__(self, what: str, limit: int) -> None:
        self._what = what
        self._limit = self._left = limit

    def take_one(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _ManifestError(
                f"there are more than {self._limit} {self._what}; register fewer, or raise the "
                "setting max_manifest_documents"
            )


class _Reference(NamedTuple):
    group: str
    version: str
    kind: str
    namespace: str
    name: str


class _Loader(yaml.CBaseLoader):
    """Every scalar stays text, and a key may appear once."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in getattr(node, "value", ()):
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None:
                raise _ManifestError(f"line {_line(key_node)}: a key is not text")
            if key in seen:
                raise _ManifestError(f"line {_line(key_node)}: key {key!r} appears twice")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def watches_of(
    manifests: bytes,
    *,
    namespace: str,
    only_these_objects: bool,
    projection: Projection,
    max_documents: int,
    indexes: tuple[str, ...] = (),
) -> tuple[ResourceWatch, ...]:
    """Derive the watch set from manifests; `namespace` is for objects that name none.

    Raises InvalidRequestError naming each object that is wrong, up to a few.
    """
    references: set[_Reference] = set()
    violations: list[FieldViolation] = []
    objects = _Allowance("objects", max_documents)
    empties = _Allowance("Lists and empty documents", max_documents)
    try:
        for where, value in _objects(manifests, empties):
            objects.take_one()
            found = _reference(value, namespace)
            if isinstance(found, str):
                violations.append(FieldViolation(f"{_FIELD}[{where}]", found))
            else:
                references.add(found)
    except _ManifestError as error:
        raise InvalidRequestError.of(_FIELD, str(error), reason="INVALID_MANIFESTS") from error
    if violations:
        raise InvalidRequestError(violations[:_SHOWN_VIOLATIONS], reason="INVALID_MANIFESTS")
    if not references:
        raise InvalidRequestError.of(
            _FIELD,
            "there is no object in it; give at least one, or no watch set at all to close all "
            "informers",
            reason="INVALID_MANIFESTS",
        )
    return _watches(
        references, only_these_objects=only_these_objects, projection=projection, indexes=indexes
    )


def _objects(manifests: bytes, empties: _Allowance) -> Iterator[tuple[str, Any]]:
    """Yield the objects with their places, those in Lists included."""
    for place, document in _documents(manifests, empties):
        yield from _expanded(place, document, empties)


def _documents(manifests: bytes, empties: _Allowance) -> Iterator[tuple[str, Any]]:
    try:
        text = manifests.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _ManifestError(f"byte {error.start} is not UTF-8; give YAML or JSON text") from error
    if text.lstrip()[:1] in ("{", "["):
        try:
            parsed = json.loads(text, object_pairs_hook=_unique)
        except RecursionError as error:
            raise _ManifestError("it is nested too deeply") from error
        except ValueError:
            pass  # Flow-style YAML begins with a brace too.
        else:
            values = parsed if isinstance(parsed, list) else [parsed]
            for index, value in enumerate(values):
                yield str(index), value
            return
    try:
        _check_nesting(text)
        for index, document in enumerate(yaml.load_all(text, Loader=_Loader)):
            if document in ("", "null", "~"):
                empties.take_one()
            else:
                yield str(index), document
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise _ManifestError(f"{where}not YAML: {problem}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _ManifestError(f"key {key!r} appears twice in one object")
        found[key] = value
    return found


def _check_nesting(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CBaseLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _NESTING:
                raise _ManifestError(f"it is nested more than {_NESTING} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _expanded(
    place: str, value: Any, empties: _Allowance, depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield an object, or the items of a List."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List") or "items" not in value:
        yield place, value
        return
    empties.take_one()
    items = value["items"]
    if depth >= _LIST_DEPTH:
        raise _ManifestError(f"document {place}: Lists are nested more than {_LIST_DEPTH} deep")
    if items in (None, "", "null", "~"):
        return
    if not isinstance(items, list):
        raise _ManifestError(f"document {place}: items of a {kind} is not a list")
    for index, item in enumerate(items):
        yield from _expanded(f"{place}.items.{index}", item, empties, depth + 1)


def _reference(value: Any, default_namespace: str) -> _Reference | str:
    """Read what names the object; a text says what is wrong with it."""
    if not isinstance(value, dict):
        return "is not an object with apiVersion, kind and metadata"
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(api_version, str) or not api_version:
        return "has no apiVersion; add it, for example apiVersion: apps/v1"
    if not isinstance(kind, str) or not kind:
        return "has no kind; add it, for example kind: Deployment"
    problem = kind_problem(kind)
    if problem:
        return f"kind {problem}"
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not name:
        return f"{kind} has no metadata.name; add it (generateName is not enough)"
    if not name.isprintable():
        return f"{kind}: metadata.name {name!r} has characters that no name can have"
    problem = path_segment_problem(name)
    if problem:
        return f"{kind}: metadata.name {problem}"
    namespace = namespace if isinstance(namespace, str) and namespace else default_namespace
    problem = dns_label_problem(namespace)
    if problem:
        return f"{kind} {name}: metadata.namespace {problem}"
    group, slash, version = api_version.rpartition("/")
    if dns_label_problem(version) or (slash and dns_subdomain_problem(group)):
        return f"{kind} {name}: apiVersion {api_version!r} is neither VERSION nor GROUP/VERSION"
    return _Reference(group, version, kind, namespace, name)


def _watches(
    references: set[_Reference],
    *,
    only_these_objects: bool,
    projection: Projection,
    indexes: tuple[str, ...],
) -> tuple[ResourceWatch, ...]:
    by_scope: dict[tuple[str, str, str, str], list[str]] = {}
    for ref in references:
        by_scope.setdefault((ref.group, ref.version, ref.kind, ref.namespace), []).append(ref.name)
    watches = []
    for (group, version, kind, namespace), names in by_scope.items():
        is_single = only_these_objects and len(names) == 1 and not set(names[0]) & _SELECTOR_SYNTAX
        watches.append(
            ResourceWatch(
                group=group,
                version=version,
                resource="",
                kind=kind,
                namespaces=(namespace,),
                # One name is asked of the API server, so that a right limited to it suffices.
                field_selector=f"metadata.name={names[0]}" if is_single else "",
                projection=projection.value,
                names=tuple(sorted((namespace, name) for name in names))
                if only_these_objects and not is_single
                else (),
                is_scope_open=True,
                indexes=indexes,
            )
        )
    return tuple(sorted(watches))
