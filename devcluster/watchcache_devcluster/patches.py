"""The three patch formats that change a tree: JSON patch, merge patch, strategic merge patch.

Each function returns a new tree and leaves its arguments alone. Server-side apply is not a patch of
a tree but of an object with owners; it is in `apply`.
"""

from __future__ import annotations

import copy
from typing import Any

from watchcache_devcluster.errors import ApiError, bad_request
from watchcache_devcluster.fieldsets import SET_FIELDS, Tree, item_key, merge_keys

__all__ = ["json_patch", "merge_patch", "strategic_merge_patch"]


def _rejected() -> ApiError:
    message = "the server rejected our request due to an error in our request"
    return ApiError(422, "Invalid", message, details={})


def json_patch(tree: Tree, operations: Any) -> Tree:
    """Apply a JSON patch (RFC 6902).

    Raises:
        ApiError: 400 if it is not a JSON patch, 422 if one of its operations does not fit.
    """
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal it into Go value of type"
            " []handlers.jsonPatchOp"
        )
    root: Any = copy.deepcopy(tree)
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request("error decoding patch: an operation is an object")
        if not isinstance(operation.get("path"), str):
            raise _rejected()
        root = _json_operation(root, operation)
    if not isinstance(root, dict):
        raise _rejected()
    return root


def _json_operation(root: Any, operation: Tree) -> Any:
    path = _pointer(operation["path"])
    match operation.get("op"):
        case "add":
            return _add(root, path, copy.deepcopy(operation.get("value")))
        case "replace":  # like the real server, of a missing key too
            return _set(root, path, copy.deepcopy(operation.get("value")))
        case "remove":
            return _remove(root, path)
        case "test":
            if _read(root, path) != operation.get("value"):
                raise _rejected()
            return root
        case "copy" | "move" as kind:
            source = _pointer(operation.get("from", ""))
            value = copy.deepcopy(_read(root, source))
            if kind == "move":
                root = _remove(root, source)
            return _add(root, path, value)
    raise _rejected()


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise _rejected()
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(parent: list[Any], part: str) -> int:
    if not part.isdigit() or int(part) >= len(parent):
        raise _rejected()
    return int(part)


def _read(root: Any, path: list[str]) -> Any:
    value = root
    for part in path:
        if isinstance(value, list):
            value = value[_index(value, part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            raise _rejected()
    return value


def _add(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _read(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        if last == "-":
            parent.append(value)
        elif last.isdigit() and int(last) <= len(parent):
            parent.insert(int(last), value)
        else:
            raise _rejected()
        return root
    return _set(root, path, value)


def _set(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _read(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent[_index(parent, last)] = value
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise _rejected()
    return root


def _remove(root: Any, path: list[str]) -> Any:
    _read(root, path)
    if not path:
        raise _rejected()
    parent, last = _read(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        del parent[_index(parent, last)]
    else:
        del parent[last]
    return root


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_merge_patch(target: Tree, patch: Tree) -> Tree:
    """Apply a strategic merge patch with the merge keys of the built-in kinds.

    Understands `$patch`, `$retainKeys`, `$setElementOrder` and `$deleteFromPrimitiveList`.
    """
    directive = patch.get("$patch")
    if directive == "delete":
        return {}
    if directive == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    merged = dict(target)
    retained = patch.get("$retainKeys")
    if isinstance(retained, list):
        merged = {key: value for key, value in merged.items() if key in retained}
    for key, value in patch.items():
        if key in {"$patch", "$retainKeys"} or key.startswith("$setElementOrder/"):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            merged[field] = [item for item in merged.get(field) or [] if item not in value]
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            inner = merged.get(key)
            merged[key] = strategic_merge_patch(inner if isinstance(inner, dict) else {}, value)
        elif isinstance(value, list):
            order = patch.get(f"$setElementOrder/{key}")
            merged[key] = _merge_list(key, merged.get(key) or [], value, order)
        else:
            merged[key] = value
    return merged


def _merge_list(field: str, target: list[Any], patch: list[Any], order: Any) -> list[Any]:
    if field in SET_FIELDS:
        return [*target, *(item for item in patch if item not in target)]
    keys = merge_keys(field, [*target, *patch], is_custom=False)[:1]
    if not keys:
        return copy.deepcopy(patch)
    if any(item.get("$patch") == "replace" for item in patch):
        return [copy.deepcopy(item) for item in patch if "$patch" not in item]
    merged = {item_key(item, keys): item for item in target}
    for item in patch:
        name = item_key(item, keys)
        if item.get("$patch") == "delete":
            merged.pop(name, None)
        else:
            merged[name] = strategic_merge_patch(merged.get(name, {}), item)
    if isinstance(order, list):
        wanted = [name for name in (item_key(item, keys) for item in order) if name in merged]
        return [merged.pop(name) for name in wanted] + list(merged.values())
    return list(merged.values())
