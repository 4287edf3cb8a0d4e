"""Server-side apply: merge what a manager declares, drop what it no longer declares.

`apply_patch` is a function of the live object and the applied configuration; it neither reads nor
writes storage. Conflicts with other managers raise the same 409 as kube-apiserver, unless forced.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.fieldsets import (
    SET_FIELDS,
    Path,
    Tree,
    from_fields_v1,
    item_key,
    leaves,
    merge_keys,
    record_apply,
)

__all__ = ["apply_patch"]


def apply_patch(live: Tree, applied: Tree, writer: Tree, *, force: bool, is_custom: bool) -> Tree:
    """Return `live` after `writer` applied this configuration.

    Raises:
        ApiError: 409 naming the managers and fields that disagree, unless `force`.
    """
    metadata = live["metadata"]
    entries: list[Tree] = metadata.get("managedFields") or []
    wanted = {
        path: value
        for path, value in leaves(applied, is_custom=is_custom).items()
        if path[-1] != "." or path[-2].startswith("k:")
    }
    present = leaves(live, is_custom=is_custom)
    others = [entry for entry in entries if not _is_own(entry, writer)]
    contested = {
        path for path, value in wanted.items() if path in present and present[path] != value
    }
    _refuse_conflicts(others, contested, force=force)

    merged: Tree = _merge("", copy.deepcopy(live), applied, is_custom)
    owned_before: set[Path] = set()
    for entry in entries:
        if _is_own(entry, writer):
            owned_before |= from_fields_v1(entry.get("fieldsV1", {}))
    owned_elsewhere: set[Path] = set()
    for entry in others:
        owned_elsewhere |= from_fields_v1(entry.get("fieldsV1", {}))
    for path in sorted(owned_before - wanted.keys() - owned_elsewhere, key=len, reverse=True):
        _drop(merged, path, owned_elsewhere | wanted.keys())

    kept = []
    for entry in others:
        paths = from_fields_v1(entry.get("fieldsV1", {})) - contested
        if paths:
            kept.append(entry)
    merged["metadata"]["managedFields"] = record_apply(kept, writer, set(wanted))
    return merged


def _is_own(entry: Tree, writer: Tree) -> bool:
    return entry.get("manager") == writer["manager"] and entry.get("operation") == "Apply"


def _refuse_conflicts(others: list[Tree], contested: set[Path], *, force: bool) -> None:
    if force:
        return
    causes = []
    lines = []
    for entry in others:
        owned = from_fields_v1(entry.get("fieldsV1", {})) & contested
        by = f'conflict with "{entry.get("manager")}"'
        if entry.get("subresource"):
            by += f' with subresource "{entry["subresource"]}"'
        if entry.get("operation") == "Update":
            by += f" using {entry.get('apiVersion')}"
        for path in sorted(owned):
            field = _dotted(path)
            causes.append({"reason": "FieldManagerConflict", "message": by, "field": field})
            lines.append(f"{by}: {field}")
    if not causes:
        return
    count = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    separator = "\n" if len(causes) > 1 else " "
    text = "\n".join(f"- {line}" for line in lines) if len(causes) > 1 else lines[0]
    raise ApiError(
        409,
        "Conflict",
        f"Apply failed with {count}:{separator}{text}",
        details={"causes": causes},
    )


def _dotted(path: Path) -> str:
    text = ""
    for part in path:
        if part.startswith("f:"):
            text += f".{part[2:]}"
        elif part.startswith("k:"):
            pairs = part[3:-1].replace('":', "=").replace('"', "", part.count('"'))
            text += f"[{pairs}]"
    return text


def _merge(field: str, live: Any, applied: Any, is_custom: bool) -> Any:
    if isinstance(applied, dict) and isinstance(live, dict):
        merged = dict(live)
        for key, value in applied.items():
            if value is not None:
                merged[key] = _merge(key, live.get(key), value, is_custom)
        return merged
    if isinstance(applied, list) and isinstance(live, list):
        if field in SET_FIELDS:
            return [*live, *(item for item in applied if item not in live)]
        keys = merge_keys(field, [*applied, *live], is_custom=is_custom)
        if keys:
            merged_items = {item_key(item, keys): item for item in live}
            for item in applied:
                name = item_key(item, keys)
                merged_items[name] = _merge("", merged_items.get(name, {}), item, is_custom)
            return list(merged_items.values())
    return copy.deepcopy(applied)


def _drop(tree: Tree, path: Path, kept: set[Path]) -> None:
    """Remove the leaf at `path`, with every parent that this leaves empty and unowned."""
    if path[-1] == ".":
        return
    parents: list[tuple[Any, Any]] = []
    value: Any = tree
    for part in path:
        step = _step(value, part)
        if step is None:
            return
        parents.append((value, step))
        value = value[step]
    container, step = parents.pop()
    del container[step]
    while parents and len(path) > 1:
        path = path[:-1]
        container, step = parents.pop()
        inner = container[step]
        is_key_only = path[-1].startswith("k:") and not any(
            other[: len(path)] == path for other in kept
        )
        if path == ("f:metadata",) or (inner and not is_key_only):
            return
        del container[step]


def _step(value: Any, part: str) -> Any:
    if part.startswith("f:") and isinstance(value, dict):
        return part[2:] if part[2:] in value else None
    if isinstance(value, list):
        for index, item in enumerate(value):
            if part.startswith("v:") and part == f'v:"{item}"':
                return index
            if part.startswith("k:") and isinstance(item, dict):
                keys = tuple(_keys_of(part))
                if item_key(item, keys) == part:
                    return index
    return None


def _keys_of(part: str) -> list[str]:
    names: dict[str, Any] = json.loads(part[2:])
    return list(names)
