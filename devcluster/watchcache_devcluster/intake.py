"""What happens to a body between the wire and the rules: shape checks and the storage form.

A body becomes a tree in storage form: without `apiVersion` and `kind`, in the version that is kept,
with the fields that its kind knows and no others. Every mistake is an `ApiError` that says what a
Go server would say.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from watchcache_devcluster import errors
from watchcache_devcluster.builtin_types import WrongType, conform, message, message_of
from watchcache_devcluster.errors import ApiError, bad_request, field_invalid
from watchcache_devcluster.options import WriteOptions
from watchcache_devcluster.resources import Resource
from watchcache_devcluster.validation import prune

__all__ = ["to_storage_form", "with_type"]

Tree = dict[str, Any]
_NO_OPTIONS = WriteOptions(field_validation="Ignore")


def _check_type(resource: Resource, body: Any) -> Tree:
    """Return `body` if it is an object of this resource's type."""
    if not isinstance(body, dict):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get"
            " version/kind; json parse error: json: cannot unmarshal it into Go value of type"
            " struct"
        )
    api_version = body.get("apiVersion") or (None if resource.is_custom else resource.api_version)
    kind = body.get("kind") or (None if resource.is_custom else resource.kind)
    if kind is None or api_version is None:
        missing = "Kind" if kind is None else "apiVersion"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object"
            f" '{missing}' is missing in '{json.dumps(body)}'"
        )
    if (api_version, kind) == (resource.api_version, resource.kind):
        return body
    if not resource.is_custom:
        raise _unhandled(
            resource, str(kind), f'no kind "{kind}" is registered for version "{api_version}"'
        )
    if api_version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    name = str((body.get("metadata") or {}).get("name", ""))
    cause = field_invalid("kind", f"must be {resource.kind}", value=f'"{kind}"')
    raise errors.invalid(resource.group, str(kind), name, [cause])


def _unhandled(resource: Resource, kind: str, why: str) -> ApiError:
    return bad_request(
        f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}'
    )


def _metadata(body: Tree, unknown: list[str]) -> Tree:
    """Return a copy of the metadata of a body, with the types of its fields checked."""
    metadata = body.get("metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise WrongType(metadata, "ObjectMeta.metadata", "v1.ObjectMeta")
    found: list[str] = []
    read = conform(message("meta.ObjectMeta"), metadata, found)
    unknown += [f"metadata.{path}" for path in found]
    return read


def to_storage_form(
    resource: Resource,
    body: Any,
    options: WriteOptions = _NO_OPTIONS,
    *,
    is_patched: bool = False,
) -> Tree:
    """Check a body and return a copy of it in storage form.

    Raises:
        ApiError: 400 for what cannot be read (422 where a patch led to it).
    """
    body = _check_type(resource, body)
    unknown: list[str] = []
    try:
        tree = _read(resource, body, unknown)
    except WrongType as error:
        raise _unreadable(resource, body, str(error), is_patched=is_patched) from error
    complaints = [f'unknown field "{path}"' for path in unknown]
    complaints += [f'duplicate field "{path}"' for path in options.duplicates]
    if complaints and options.field_validation == "Strict":
        why = f"strict decoding error: {', '.join(complaints)}"
        raise _unreadable(resource, body, why, is_patched=is_patched)
    if options.field_validation == "Warn":
        options.warnings.extend(complaints)
    return resource.to_storage(tree) if resource.to_storage is not None else tree


def _read(resource: Resource, body: Tree, unknown: list[str]) -> Tree:
    shape = None
    if not resource.is_custom:
        shape = message_of(resource.group, resource.version, resource.kind)
    if shape is not None:
        tree = conform(shape, body, unknown)
        tree.setdefault("metadata", {})
        return tree
    metadata = _metadata(body, unknown)
    tree = {
        key: copy.deepcopy(value)
        for key, value in body.items()
        if key not in {"apiVersion", "kind", "metadata"}
    }
    unknown += prune(resource.schema, tree)
    return {"metadata": metadata, **tree}


def _unreadable(resource: Resource, body: Tree, why: str, *, is_patched: bool) -> ApiError:
    if not is_patched:
        return _unhandled(resource, resource.kind, why)
    cause = field_invalid("patch", why, value=f'"{body.get("kind")}"')
    return errors.invalid("", "", "", [cause])


def with_type(resource: Resource, tree: Tree) -> Tree:
    """Return a tree in storage form as an object of this resource, type included."""
    if resource.from_storage is not None:
        tree = resource.from_storage(tree)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **tree}
