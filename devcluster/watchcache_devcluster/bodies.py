"""Reading the bodies of requests: objects, patches and delete options, in each media type.

JSON, YAML and, for objects, Kubernetes protobuf. What cannot be read is an `ApiError` in the words
of the real server, which differ by what was expected.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import yaml

from watchcache_devcluster import errors
from watchcache_devcluster.builtin_types import WrongType, conform, message
from watchcache_devcluster.errors import bad_request
from watchcache_devcluster.patching import APPLY_PATCH, PATCH_TYPES
from watchcache_devcluster.protobuf import ProtobufError, decode_object

__all__ = ["duplicate_fields", "read_delete_options", "read_object", "read_patch"]

Tree = dict[str, Any]
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_READABLE = ("application/json", "application/yaml", _PROTOBUF)


def read_object(data: bytes, media_type: str, kind: str) -> Any:
    """Decode the body of a create or update.

    Raises:
        ApiError: 415 for a media type that is not understood, 400 for a body that cannot be read.
    """
    prefix = f"the object provided is unrecognized (must be of type {kind}): "
    return _decode(data, media_type, prefix)


def _decode(data: bytes, media_type: str, prefix: str) -> Any:
    if media_type and media_type not in {*_READABLE, "*/*"}:
        raise errors.unsupported_media_type(_READABLE)
    if not data.strip():
        raise bad_request(
            f"{prefix}couldn't get version/kind; json parse error: unexpected end of JSON input"
            " (<empty>)"
        )
    try:
        if media_type == _PROTOBUF:
            return decode_object(data)
        if media_type == "application/yaml":
            return _yaml(data)
        return msgspec.json.decode(data)
    except ProtobufError as error:
        raise bad_request(f"{prefix}{error}") from error
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_request(
            f"{prefix}couldn't get version/kind; json parse error: {error}"
        ) from error


def _yaml(data: bytes) -> Any:
    try:
        return yaml.safe_load(data)
    except (RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        # What its constructors of tagged scalars raise, such as that of !!timestamp x.
        raise yaml.YAMLError(str(error)) from error


def read_patch(data: bytes, media_type: str) -> Any:
    """Decode the body of a patch.

    Raises:
        ApiError: 415 for a media type that is no patch, 400 for a body that cannot be read.
    """
    if media_type not in PATCH_TYPES:
        raise errors.unsupported_media_type(PATCH_TYPES)
    try:
        if media_type == APPLY_PATCH and not data.lstrip().startswith(b"{"):
            return _yaml(data)
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding patch: {error}") from error


def read_delete_options(data: bytes, media_type: str) -> Tree:
    """Decode the optional body of a delete.

    Raises:
        ApiError: 415 or 400 as for objects, 400 for anything but DeleteOptions.
    """
    if not data.strip():
        return {}
    body = _decode(data, media_type, "")
    if not isinstance(body, dict) or body.get("kind", "DeleteOptions") != "DeleteOptions":
        kind = body.get("kind") if isinstance(body, dict) else type(body).__name__
        raise bad_request(f'no kind "{kind}" is registered for DeleteOptions')
    try:
        return conform(message("meta.DeleteOptions"), body, [])
    except WrongType as error:
        raise bad_request(str(error)) from error


def duplicate_fields(data: bytes) -> tuple[str, ...]:
    """Return the keys that a JSON body gives more than once, by their names."""
    found: list[str] = []

    def check(pairs: list[tuple[str, Any]]) -> Tree:
        tree: Tree = {}
        for key, value in pairs:
            if key in tree:
                found.append(key)
            tree[key] = value
        return tree

    try:
        json.loads(data, object_pairs_hook=check)
    except ValueError:
        return ()
    return tuple(found)
