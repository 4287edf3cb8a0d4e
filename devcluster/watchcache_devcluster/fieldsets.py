"""Who owns which field: `managedFields` as kube-apiserver keeps them.

A field set is a set of paths; a path is the sequence of FieldsV1 keys that leads to a leaf
(`f:name`, `k:{"name":"web"}`, `v:"finalizer"`, `.`). Every write moves ownership: what a writer
changed becomes its own, what vanished belongs to nobody. Which lists are associative is known for
the built-in kinds by the name of the field; the lists of custom resources are atomic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

__all__ = [
    "SET_FIELDS",
    "Path",
    "Tree",
    "from_fields_v1",
    "item_key",
    "leaves",
    "merge_keys",
    "record_apply",
    "record_update",
    "to_fields_v1",
]

_encode = msgspec.json.Encoder().encode

Tree = dict[str, Any]
Path = tuple[str, ...]

SET_FIELDS = frozenset({"finalizers"})
_METADATA_KEYS = {"ownerReferences": ("uid",)}
_MERGE_KEYS: dict[str, tuple[str, ...]] = {
    **_METADATA_KEYS,
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "podIPs": ("ip",),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_OWNED_MAPS = frozenset({"annotations", "data", "labels"})
_SYSTEM_METADATA = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


def merge_keys(field: str, items: Iterable[Any], *, is_custom: bool) -> tuple[str, ...]:
    """Return the keys that tell the items of an associative list apart; none if it is atomic."""
    first = next(iter(items), None)
    if not isinstance(first, Mapping):
        return ()
    if is_custom:
        return _METADATA_KEYS.get(field, ())
    if field == "ports":
        port = "containerPort" if "containerPort" in first else "port"
        return (port, "protocol")
    return _MERGE_KEYS.get(field, ())


def item_key(item: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """Return the FieldsV1 key of one item of an associative list."""
    values = {}
    for key in keys:
        value = item.get(key, "TCP" if key == "protocol" else None)
        if value is not None:
            values[key] = value
    return "k:" + _encode(values).decode()


def leaves(tree: Tree, *, is_custom: bool) -> dict[Path, Any]:
    """Return every path of an object that can be owned, with its value."""
    found: dict[Path, Any] = {}
    for key, value in tree.items():
        if key == "metadata":
            kept = {name: part for name, part in value.items() if name not in _SYSTEM_METADATA}
            for name, part in kept.items():
                _collect(("f:metadata", f"f:{name}"), name, part, is_custom, found)
        elif key not in {"apiVersion", "kind"}:
            _collect((f"f:{key}",), key, value, is_custom, found)
    return found


def _collect(path: Path, field: str, value: Any, is_custom: bool, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value:
        if field in _OWNED_MAPS:
            found[*path, "."] = True
        for name, part in value.items():
            _collect((*path, f"f:{name}"), name, part, is_custom, found)
        return
    if isinstance(value, list) and value:
        if field in SET_FIELDS:
            for item in value:
                found[*path, "v:" + _encode(item).decode()] = item
            return
        keys = merge_keys(field, value, is_custom=is_custom)
        if keys:
            for item in value:
                inner = (*path, item_key(item, keys))
                found[*inner, "."] = True
                for name, part in item.items():
                    _collect((*inner, f"f:{name}"), name, part, is_custom, found)
            return
    found[path] = value


def to_fields_v1(paths: Iterable[Path]) -> Tree:
    """Turn a set of paths into the nested form of FieldsV1."""
    fields: Tree = {}
    for path in sorted(paths):
        inner = fields
        for part in path:
            inner = inner.setdefault(part, {})
    return fields


def from_fields_v1(fields: Tree) -> set[Path]:
    """Turn FieldsV1 back into a set of paths."""
    return set(_walk(fields, ()))


def _walk(fields: Tree, path: Path) -> Iterator[Path]:
    if not fields and path:
        yield path
    for part, inner in fields.items():
        yield from _walk(inner, (*path, part))


def record_update(
    entries: list[Tree],
    writer: Tree,
    before: dict[Path, Any],
    after: dict[Path, Any],
) -> list[Tree]:
    """Return `managedFields` after a write that turned `before` into `after`.

    `writer` holds the manager, operation, apiVersion, time and, for a subresource, its name.
    """
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    removed = before.keys() - after.keys()
    if not changed and not removed:
        return entries
    updated = []
    is_known = False
    for entry in entries:
        is_own = _is_same_writer(entry, writer)
        is_known = is_known or is_own
        before_paths = from_fields_v1(entry.get("fieldsV1", {}))
        paths = (before_paths | changed) - removed if is_own else before_paths - changed - removed
        if paths == before_paths and not is_own:
            updated.append(entry)
        elif paths:
            stamp = writer["time"] if is_own else entry["time"]
            updated.append({**entry, "time": stamp, "fieldsV1": to_fields_v1(paths)})
    if not is_known and changed:
        updated.append(_entry(writer, changed))
    return updated


def record_apply(entries: list[Tree], writer: Tree, applied: set[Path]) -> list[Tree]:
    """Return `managedFields` after `writer` applied exactly these paths, by force or agreement."""
    updated = [entry for entry in entries if not _is_same_writer(entry, writer)]
    return [*updated, _entry(writer, applied)] if applied else updated


def _is_same_writer(entry: Tree, writer: Tree) -> bool:
    return all(
        (entry.get(key) or "") == (writer.get(key) or "")
        for key in ("manager", "operation", "apiVersion", "subresource")
    )


def _entry(writer: Tree, paths: Iterable[Path]) -> Tree:
    entry = {key: writer[key] for key in ("manager", "operation", "apiVersion", "time")}
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": to_fields_v1(paths)}
    if writer.get("subresource"):
        entry["subresource"] = writer["subresource"]
    return entry
