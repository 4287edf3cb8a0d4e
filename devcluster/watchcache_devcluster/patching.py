"""PATCH: the four media types, and how each becomes an update.

`Patcher` applies a patch to the object as its version shows it, checks that the outcome is still
that object, and hands it to `Writer.replace`. Applying to an object that does not exist creates it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from watchcache_devcluster import errors
from watchcache_devcluster.apply import apply_patch
from watchcache_devcluster.commits import Commits
from watchcache_devcluster.errors import ApiError, field_invalid
from watchcache_devcluster.intake import to_storage_form, with_type
from watchcache_devcluster.options import WriteOptions
from watchcache_devcluster.patches import json_patch, merge_patch, strategic_merge_patch
from watchcache_devcluster.resources import Resource
from watchcache_devcluster.storage import Record
from watchcache_devcluster.writer import Writer, check_identity, check_stale

__all__ = [
    "APPLY_PATCH",
    "JSON_PATCH",
    "MERGE_PATCH",
    "PATCH_TYPES",
    "STRATEGIC_PATCH",
    "Patcher",
]

Tree = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


class Patcher:
    """Patches objects."""

    def __init__(self, commits: Commits, writer: Writer) -> None:
        self._commits = commits
        self._writer = writer

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        patch_type: str,
        options: WriteOptions,
        subresource: str = "",
    ) -> tuple[Record, bool]:
        """Patch an object (or its status); also say whether that created it.

        Raises:
            ApiError: 400, 404, 409, 415 or 422, by what is wrong with it.
        """
        accepted = [type_ for type_ in PATCH_TYPES if type_ != STRATEGIC_PATCH]
        if not resource.is_custom:
            accepted = list(PATCH_TYPES)
        if patch_type not in accepted:
            raise errors.unsupported_media_type(accepted)
        if patch_type == APPLY_PATCH:
            return self._apply(resource, namespace, name, patch, options, subresource)
        current = self._commits.require(resource, namespace, name)
        shown = with_type(resource, current.decode())
        if patch_type == JSON_PATCH:
            patched = json_patch(shown, patch)
        elif not isinstance(patch, dict):
            raise errors.bad_request(
                "error decoding patch: json: cannot unmarshal it into Go value of type"
                " map[string]interface {}"
            )
        elif patch_type == STRATEGIC_PATCH:
            patched = strategic_merge_patch(shown, patch)
        else:
            patched = merge_patch(shown, patch)
        tree = to_storage_form(resource, patched, options, is_patched=True)
        metadata = tree["metadata"]
        check_identity(resource, namespace, name, metadata)
        uid = shown["metadata"]["uid"]
        if metadata.get("uid", uid) != uid:
            cause = field_invalid(
                "metadata.uid", "field is immutable", value=f'"{metadata["uid"]}"'
            )
            raise errors.invalid(resource.group, resource.kind, name, [cause])
        check_stale(resource, current, metadata.get("resourceVersion", ""))
        return self._writer.replace(resource, current, tree, options, subresource), False

    def _apply(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        options: WriteOptions,
        subresource: str,
    ) -> tuple[Record, bool]:
        applied = self._read_applied(resource, namespace, name, patch, options)
        key = (namespace, name)
        current = self._commits.table(resource).get(key)
        writer = self._commits.writer_entry(resource, options, subresource, "Apply")
        is_custom = resource.is_custom
        if current is None:
            if subresource or applied["metadata"].get("uid"):
                raise errors.not_found(resource.group, resource.plural, name)
            trial = replace(options, dry_run=True)
            made = self._writer.create(resource, namespace, patch, trial).decode()
            made["metadata"]["managedFields"] = []
            tree = apply_patch(made, applied, writer, force=True, is_custom=is_custom)
            return self._commits.commit(resource, key, tree, options), True
        check_stale(resource, current, applied["metadata"].get("resourceVersion", ""))
        tree = apply_patch(
            current.decode(), applied, writer, force=options.force, is_custom=is_custom
        )
        record = self._writer.replace(resource, current, tree, options, subresource, is_apply=True)
        return record, False

    def _read_applied(
        self, resource: Resource, namespace: str, name: str, patch: Any, options: WriteOptions
    ) -> Tree:
        if not isinstance(patch, dict):
            raise errors.bad_request(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot"
                " unmarshal it into Go value of type map[string]interface {}"
            )
        api_version, kind = patch.get("apiVersion", ""), patch.get("kind", "")
        if (api_version, kind) != (resource.api_version, resource.kind):
            stated = api_version if "/" in api_version else f"/{api_version}"
            raise errors.bad_request(f"invalid object type: {stated}, Kind={kind}")
        metadata = patch.get("metadata")
        if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
            raise errors.bad_request("metadata.managedFields must be nil")
        try:
            applied = to_storage_form(resource, patch, options)
        except ApiError as error:
            if "json: cannot unmarshal" not in error.message:
                raise
            raise ApiError(
                500,
                "",
                f"failed to create typed patch object ({namespace}/{name}; {api_version},"
                f" Kind={kind}): {error.message}",
            ) from error
        check_identity(resource, namespace, name, applied["metadata"])
        return applied
