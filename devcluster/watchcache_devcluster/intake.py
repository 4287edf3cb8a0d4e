"""What happens to a body between the wire and the rules: shape checks and the storage form.

A body becomes a tree in storage form: without `apiVersion` and `kind`, in the version that is kept.
Every mistake of shape is an `ApiError` 400 that names the field.
"""

from __future__ import annotations

import copy
import re
from typing import Any

from .errors import bad_request
from .resources import Resource
from .validation import prune

__all__ = ["check_metadata", "check_type", "to_storage_form", "with_type"]

Tree = dict[str, Any]
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\Z")


def check_type(resource: Resource, body: Any) -> Tree:
    """Return `body` if it is an object of this resource's type."""
    if not isinstance(body, dict):
        raise bad_request(
            "the object provided is unrecognized: the body must be a JSON object with apiVersion"
            " and kind"
        )
    api_version = body.get("apiVersion") or (None if resource.is_custom else resource.api_version)
    kind = body.get("kind") or (None if resource.is_custom else resource.kind)
    if kind is None:
        raise bad_request("Object 'Kind' is missing in the body")
    if api_version is None:
        raise bad_request("Object 'apiVersion' is missing in the body")
    if api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    if kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}:'
            " no kind match"
        )
    return body


def check_metadata(body: Tree) -> Tree:
    """Return the metadata of a body, with the types of its fields checked."""
    metadata = body.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise _wrong_type("metadata", metadata, "an object")
    for field in ("name", "generateName", "namespace", "uid", "resourceVersion"):
        if not isinstance(metadata.get(field, ""), str | None):
            raise _wrong_type(f"metadata.{field}", metadata[field], "a string")
    for field in ("labels", "annotations"):
        values = metadata.get(field) or {}
        if not isinstance(values, dict):
            raise _wrong_type(f"metadata.{field}", values, "a map of strings")
        for key, value in values.items():
            if not isinstance(value, str):
                raise _wrong_type(f"metadata.{field}.{key}", value, "a string")
    for field in ("finalizers", "ownerReferences"):
        if not isinstance(metadata.get(field) or [], list):
            raise _wrong_type(f"metadata.{field}", metadata[field], "a list")
    for reference in metadata.get("ownerReferences") or []:
        if not isinstance(reference, dict):
            raise _wrong_type("metadata.ownerReferences", reference, "an object")
    stamp = metadata.get("creationTimestamp")
    if stamp is not None and not _TIMESTAMP.match(str(stamp)):
        raise _wrong_type("metadata.creationTimestamp", stamp, "an RFC 3339 time")
    return metadata


def _wrong_type(field: str, value: Any, expected: str) -> Exception:
    return bad_request(
        f"unable to decode the object: {field} must be {expected}, not {type(value).__name__}"
    )


def to_storage_form(resource: Resource, body: Any) -> Tree:
    """Check a body and return a copy of it in storage form."""
    check_type(resource, body)
    metadata = check_metadata(body)
    tree = {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}
    tree["metadata"] = {key: value for key, value in metadata.items() if value is not None}
    tree = copy.deepcopy(tree)
    for field in ("spec", "status"):
        if not resource.is_custom and not isinstance(tree.get(field, {}), dict | None):
            raise _wrong_type(field, tree[field], "an object")
        if field in tree and tree[field] is None:
            del tree[field]
    prune(resource.schema, tree)
    return resource.to_storage(tree) if resource.to_storage is not None else tree


def with_type(resource: Resource, tree: Tree) -> Tree:
    """Return a tree in storage form as an object of this resource, type included."""
    if resource.from_storage is not None:
        tree = resource.from_storage(tree)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **tree}
