"""What a write may not say: immutable fields of built-in kinds, and the schemas of custom ones.

Both functions return causes of a 422 and raise nothing. The schema check covers what people run
into while they write a controller (types, required, enums, bounds, patterns); CEL rules and formats
are left to a real server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from watchcache_devcluster.errors import Cause, field_invalid
from watchcache_devcluster.resources import Resource

__all__ = ["immutable_causes", "prune", "schema_causes"]

Tree = dict[str, Any]

_TYPE_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_IMMUTABLE: dict[str, tuple[str, ...]] = {
    "clusterrolebindings.rbac.authorization.k8s.io": ("roleRef",),
    "deployments.apps": ("spec.selector",),
    "replicasets.apps": ("spec.selector",),
    "daemonsets.apps": ("spec.selector",),
    "jobs.batch": ("spec.selector", "spec.completionMode"),
    "rolebindings.rbac.authorization.k8s.io": ("roleRef",),
    "secrets": ("type",),
}


def _at(tree: Tree, path: str) -> Any:
    value: Any = tree
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def immutable_causes(resource: Resource, old: Tree | None, new: Tree) -> list[Cause]:
    """Return the fields that an update changes although it must not."""
    if old is None or resource.is_custom:
        return []
    causes = []
    for path in _IMMUTABLE.get(resource.table, ()):
        value = _at(new, path)
        if _at(old, path) != value:
            rule = "cannot change roleRef" if path == "roleRef" else "field is immutable"
            causes.append(field_invalid(path, rule, value=json.dumps(value)))
    if resource.table in {"configmaps", "secrets"} and old.get("immutable") is True:
        for field in ("immutable", "data", "binaryData"):
            if old.get(field) != new.get(field):
                rule = "field is immutable when `immutable` is set"
                causes.append(field_invalid(field, rule, reason="FieldValueForbidden"))
    return causes


def schema_causes(resource: Resource, tree: Tree) -> list[Cause]:
    """Return what a custom object says that its schema does not allow."""
    if resource.schema is None:
        return []
    return list(_object_causes("", resource.schema, tree))


def _object_causes(path: str, schema: Tree, tree: Tree) -> Iterator[Cause]:
    for name, inner in (schema.get("properties") or {}).items():
        if not path and name in _TYPE_FIELDS:
            continue
        if name in tree:
            yield from _value_causes(f"{path}.{name}" if path else name, inner, tree[name])
    for name in schema.get("required") or []:
        if name not in tree and not (not path and name in _TYPE_FIELDS):
            where = f"{path}.{name}" if path else name
            yield field_invalid(where, "", reason="FieldValueRequired")
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        for name, value in tree.items():
            yield from _value_causes(f"{path}.{name}", extra, value)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "object": dict,
    "string": str,
}
_JSON_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}


def _value_causes(path: str, schema: Tree, value: Any) -> Iterator[Cause]:
    if value is None:
        if not schema.get("nullable"):
            kind = schema.get("type", "")
            rule = f'{path} in body must be of type {kind}: "null"'
            yield field_invalid(path, rule, value='"null"', reason="FieldValueTypeInvalid")
        return
    if schema.get("x-kubernetes-int-or-string") and isinstance(value, int | str):
        return
    expected = schema.get("type")
    wanted = _TYPES.get(str(expected))
    is_number_lookalike = isinstance(value, bool) and expected in {"integer", "number"}
    if wanted is not None and (not isinstance(value, wanted) or is_number_lookalike):
        found = _JSON_NAMES.get(type(value), "number")
        rule = f'{path} in body must be of type {expected}: "{found}"'
        yield field_invalid(path, rule, value=f'"{found}"', reason="FieldValueTypeInvalid")
        return
    yield from _bound_causes(path, schema, value)
    if isinstance(value, dict):
        yield from _object_causes(path, schema, value)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _value_causes(f"{path}[{index}]", schema["items"], item)


def _bound_causes(path: str, schema: Tree, value: Any) -> Iterator[Cause]:
    shown = json.dumps(value)
    choices = schema.get("enum")
    if choices and value not in choices:
        listed = ", ".join(json.dumps(choice) for choice in choices)
        yield field_invalid(
            path, f"supported values: {listed}", value=shown, reason="FieldValueNotSupported"
        )
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            rule = f"{path} in body should be greater than or equal to {schema['minimum']}"
            yield field_invalid(path, rule, value=shown)
        if "maximum" in schema and value > schema["maximum"]:
            rule = f"{path} in body should be less than or equal to {schema['maximum']}"
            yield field_invalid(path, rule, value=shown)
    if isinstance(value, str):
        if "pattern" in schema and re.search(schema["pattern"], value) is None:
            rule = f"{path} in body should match '{schema['pattern']}'"
            yield field_invalid(path, rule, value=shown)
        if "maxLength" in schema and len(value) > schema["maxLength"]:
            rule = f"may not be more than {schema['maxLength']} bytes"
            yield field_invalid(path, rule, value=shown)
        if "minLength" in schema and len(value) < schema["minLength"]:
            rule = f"{path} in body should be at least {schema['minLength']} chars long"
            yield field_invalid(path, rule, value=shown)
    if isinstance(value, list) and len(value) > schema.get("maxItems", len(value)):
        rule = f"must have at most {schema['maxItems']} items"
        yield field_invalid(path, rule, value=str(len(value)))


def prune(schema: Tree | None, tree: Tree, path: str = "") -> list[str]:
    """Remove what a structural schema does not name and fill in its defaults, in place.

    Returns the paths of what was removed.
    """
    if schema is None:
        return []
    properties: Tree = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    keeps_unknown = schema.get("x-kubernetes-preserve-unknown-fields") or extra
    is_object = not path or schema.get("x-kubernetes-embedded-resource")
    always = _TYPE_FIELDS if is_object else frozenset()
    for name, inner in properties.items():
        if name not in tree and "default" in inner and name not in always:
            tree[name] = json.loads(json.dumps(inner["default"]))
    unknown: list[str] = []
    for name in list(tree):
        where = f"{path}.{name}" if path else name
        inner = properties.get(name) or (extra if isinstance(extra, dict) else None)
        if name in always:
            continue
        if inner is not None:
            unknown += _prune_value(inner, tree[name], where)
        elif not keeps_unknown:
            del tree[name]
            unknown.append(where)
    return unknown


def _prune_value(schema: Tree, value: Any, path: str) -> list[str]:
    if isinstance(value, dict):
        return prune(schema, value, path)
    unknown: list[str] = []
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            unknown += _prune_value(schema["items"], item, f"{path}[{index}]")
    return unknown
