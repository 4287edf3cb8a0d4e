"""Every write to the cluster: create, update, patch, delete, with the rules that guard them.

`Writer` turns a request into at most one commit: it checks names, versions, uids and finalizers,
fills in what the server fills in, moves the ownership of fields, and leaves a write that changes
nothing uncommitted. Dry runs go the whole way but the commit. Deleting what belongs to a deleted
object or namespace is left to `controllers`; who may write at all, to `rbac`.
"""

from __future__ import annotations

import copy
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from . import errors
from .apply import apply_patch
from .definitions import CRD_TABLE, definition_causes, mark_terminating
from .errors import ApiError, field_invalid
from .fieldsets import leaves, record_update
from .intake import to_storage_form, with_type
from .patches import json_patch, merge_patch, strategic_merge_patch
from .resources import Catalog, Resource
from .storage import Key, Record, Storage, Table, encode_rest
from .strategies import apply_defaults, field_values, name_causes, object_causes
from .validation import immutable_causes, schema_causes

__all__ = ["APPLY_PATCH", "JSON_PATCH", "MERGE_PATCH", "STRATEGIC_PATCH", "WriteOptions", "Writer"]

Tree = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_CREATE_ON_UPDATE = frozenset(
    {
        "clusterrolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "endpoints",
        "events",
        "leases.coordination.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io",
    }
)
_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write request carries besides its object."""

    manager: str = "unknown"
    dry_run: bool = False
    force: bool = False


class Writer:
    """The only way to change an object."""

    def __init__(
        self, storage: Storage, catalog: Catalog, clock: Callable[[], float] = time.time
    ) -> None:
        self._storage = storage
        self._catalog = catalog
        self.clock = clock

    def now(self) -> str:
        """Return the time as objects carry it."""
        return timestamp(self.clock())

    # Creating

    def create(
        self, resource: Resource, namespace: str, body: Any, options: WriteOptions
    ) -> Record:
        """Create an object; its name may be made from `generateName`."""
        tree = to_storage_form(resource, body)
        metadata = tree["metadata"]
        if metadata.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        self._place(resource, namespace, metadata)
        table = self._storage.table(resource.table)
        name = metadata.get("name") or self._generate_name(resource, table, namespace, metadata)
        metadata["name"] = name
        self._require_namespace(resource, namespace, name)
        metadata.pop("managedFields", None)
        for field in (*_SERVER_OWNED, "generation", "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self.now()
        if resource.has_generation:
            metadata["generation"] = 1
        if resource.has_status:
            tree.pop("status", None)
        apply_defaults(resource, tree)
        self._validate(resource, tree, None)
        key = (namespace, name)
        if table.get(key) is not None:
            raise errors.already_exists(resource.group, resource.plural, name)
        self._own(resource, {"metadata": {}}, tree, options, "", "Update")
        return self._commit(resource, table, key, tree, options)

    def _place(self, resource: Resource, namespace: str, metadata: Tree) -> None:
        stated = metadata.get("namespace", "")
        if resource.namespaced:
            if stated and stated != namespace:
                raise errors.bad_request(
                    "the namespace of the provided object does not match the namespace sent on"
                    " the request"
                )
            metadata["namespace"] = namespace
        elif stated:
            raise errors.bad_request(
                "namespace may not be set on a cluster-scoped object"
                if not namespace
                else "the namespace of the provided object does not match the namespace sent on"
                " the request"
            )
        else:
            metadata.pop("namespace", None)

    def _generate_name(
        self, resource: Resource, table: Table, namespace: str, metadata: Tree
    ) -> str:
        base = metadata.get("generateName")
        if not base:
            raise errors.invalid(
                resource.group,
                resource.kind,
                "",
                [
                    field_invalid(
                        "metadata.name",
                        "name or generateName is required",
                        reason="FieldValueRequired",
                    )
                ],
            )
        while True:
            suffix = "".join(secrets.choice(_ALPHABET) for _ in range(5))
            name = f"{base[:58]}{suffix}"
            if table.get((namespace, name)) is None:
                return name

    def _require_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        found = self._storage.table("namespaces").get(("", namespace))
        if found is None:
            raise errors.not_found("", "namespaces", namespace)
        if found.decode()["metadata"].get("deletionTimestamp"):
            refusal = errors.forbidden(
                resource.group,
                resource.plural,
                name,
                f"unable to create new content in namespace {namespace} because it is being"
                " terminated",
            )
            refusal.details["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise refusal

    # Updating

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Any,
        options: WriteOptions,
        subresource: str = "",
    ) -> tuple[Record, bool]:
        """Replace an object (or its status); also say whether that created it."""
        tree = to_storage_form(resource, body)
        self._check_identity(resource, namespace, name, tree["metadata"])
        table = self._storage.table(resource.table)
        current = table.get((namespace, name))
        if current is None:
            if resource.table in _CREATE_ON_UPDATE and not tree["metadata"].get("uid"):
                return self.create(resource, namespace, body, options), True
            raise errors.not_found(resource.group, resource.plural, name)
        return self._replace(resource, current, tree, options, subresource, "Update"), False

    def _check_identity(
        self, resource: Resource, namespace: str, name: str, metadata: Tree
    ) -> None:
        stated = metadata.setdefault("name", name)
        if stated != name:
            raise errors.bad_request(
                f"the name of the object ({stated}) does not match the name on the URL ({name})"
            )
        self._place(resource, namespace, metadata)

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
        """Patch an object (or its status); also say whether that created it."""
        table = self._storage.table(resource.table)
        current = table.get((namespace, name))
        if patch_type == APPLY_PATCH:
            return self._apply(resource, namespace, name, patch, options, subresource)
        if current is None:
            raise errors.not_found(resource.group, resource.plural, name)
        shown = with_type(resource, current.decode())
        match patch_type:
            case _ if patch_type == JSON_PATCH:
                patched = json_patch(shown, patch)
            case _ if not isinstance(patch, dict):
                raise errors.bad_request("error decoding patch: the patch must be an object")
            case _ if patch_type == STRATEGIC_PATCH and not resource.is_custom:
                patched = strategic_merge_patch(shown, patch)
            case _ if patch_type == MERGE_PATCH:
                patched = merge_patch(shown, patch)
            case _:
                accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
                if not resource.is_custom:
                    accepted.append(STRATEGIC_PATCH)
                raise errors.unsupported_media_type(accepted)
        tree = to_storage_form(resource, patched)
        self._check_identity(resource, namespace, name, tree["metadata"])
        return self._replace(resource, current, tree, options, subresource, "Update"), False

    def _apply(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        options: WriteOptions,
        subresource: str,
    ) -> tuple[Record, bool]:
        applied = to_storage_form(resource, patch)
        self._check_identity(resource, namespace, name, applied["metadata"])
        if applied["metadata"].get("managedFields"):
            raise errors.bad_request("metadata.managedFields must be nil")
        table = self._storage.table(resource.table)
        current = table.get((namespace, name))
        writer = self._writer(resource, options, subresource, "Apply")
        if current is None:
            if subresource or applied["metadata"].get("uid"):
                raise errors.not_found(resource.group, resource.plural, name)
            created = self.create(resource, namespace, patch, _dry(options)).decode()
            created["metadata"]["managedFields"] = []
            tree = apply_patch(created, applied, writer, force=True, is_custom=resource.is_custom)
            return self._commit(resource, table, (namespace, name), tree, options), True
        live = current.decode()
        tree = apply_patch(live, applied, writer, force=options.force, is_custom=resource.is_custom)
        tree["metadata"].setdefault("resourceVersion", live["metadata"]["resourceVersion"])
        return self._replace(resource, current, tree, options, subresource, "Apply"), False

    def _replace(
        self,
        resource: Resource,
        current: Record,
        tree: Tree,
        options: WriteOptions,
        subresource: str,
        operation: str,
    ) -> Record:
        old = current.decode()
        before, after = old["metadata"], tree["metadata"]
        self._check_version(resource, current, before, after)
        if subresource == "status":
            tree = self._status_write(resource, old, tree)
            after = tree["metadata"]
        elif resource.has_status:
            tree.pop("status", None)
            if "status" in old:
                tree["status"] = old["status"]
        if resource.table == "namespaces" and subresource != "finalize":
            tree["spec"] = {**tree.get("spec", {}), "finalizers": old["spec"].get("finalizers")}
        for field in (*_SERVER_OWNED, "generation"):
            after.pop(field, None)
            if field in before:
                after[field] = before[field]
        if operation == "Update":
            is_reset = after.pop("managedFields", None) in ([], [{}])
            if not is_reset and "managedFields" in before:
                after["managedFields"] = copy.deepcopy(before["managedFields"])
        self._check_finalizers(resource, current.name, before, after)
        apply_defaults(resource, tree)
        self._validate(resource, tree, old)
        table = self._storage.table(resource.table)
        if _is_same(old, tree, operation):
            return current
        if resource.has_generation and _has_new_intent(resource, old, tree):
            after["generation"] = before.get("generation", 0) + 1
        if operation == "Update":
            self._own(resource, old, tree, options, subresource, operation)
        if _is_finished(resource, after, tree) and not options.dry_run:
            deleted = self._storage.delete(table, current.key)
            return deleted if deleted is not None else current
        return self._commit(resource, table, current.key, tree, options)

    def _check_version(
        self, resource: Resource, current: Record, before: Tree, after: Tree
    ) -> None:
        stated = after.get("resourceVersion", "")
        group, plural, name = resource.group, resource.plural, current.name
        if stated and not stated.isdigit():
            raise errors.invalid(
                group,
                resource.kind,
                name,
                [
                    field_invalid(
                        "metadata.resourceVersion",
                        "must be an unsigned integer",
                        value=f'"{stated}"',
                    )
                ],
            )
        if after.get("uid") and after["uid"] != before["uid"]:
            raise errors.conflict(
                group,
                plural,
                name,
                f"Precondition failed: UID in precondition: {after['uid']}, UID in object meta:"
                f" {before['uid']}",
            )
        if not stated and resource.is_custom:
            raise errors.invalid(
                group,
                resource.kind,
                name,
                [
                    field_invalid(
                        "metadata.resourceVersion",
                        "must be specified for an update",
                        value="0x0",
                    )
                ],
            )
        if stated and stated != before["resourceVersion"]:
            raise errors.conflict(
                group,
                plural,
                name,
                "the object has been modified; please apply your changes to the latest version"
                " and try again",
            )

    def _status_write(self, resource: Resource, old: Tree, tree: Tree) -> Tree:
        merged = {key: value for key, value in old.items() if key != "status"}
        if "status" in tree:
            merged["status"] = tree["status"]
        metadata = dict(old["metadata"])
        if not resource.is_custom:
            for field in ("annotations", "finalizers"):
                metadata.pop(field, None)
                if field in tree["metadata"]:
                    metadata[field] = tree["metadata"][field]
            if resource.group != "apps" and "labels" in tree["metadata"]:
                metadata["labels"] = tree["metadata"]["labels"]
        if "managedFields" in tree["metadata"]:
            metadata["managedFields"] = tree["metadata"]["managedFields"]
        return {"metadata": metadata, **{k: v for k, v in merged.items() if k != "metadata"}}

    def _check_finalizers(self, resource: Resource, name: str, before: Tree, after: Tree) -> None:
        if not before.get("deletionTimestamp"):
            return
        known = before.get("finalizers") or []
        added = [item for item in after.get("finalizers") or [] if item not in known]
        if added:
            quoted = ", ".join(f'"{item}"' for item in added)
            raise errors.invalid(
                resource.group,
                resource.kind,
                name,
                [
                    field_invalid(
                        "metadata.finalizers",
                        "no new finalizers can be added if the object is being deleted, found"
                        f" new finalizers []string{{{quoted}}}",
                        reason="FieldValueForbidden",
                    )
                ],
            )

    # Deleting

    def delete(
        self, resource: Resource, namespace: str, name: str, body: Any, options: WriteOptions
    ) -> tuple[Record, bool]:
        """Delete an object, or mark it and wait for its finalizers; say whether it is gone."""
        wish = body if isinstance(body, dict) else {}
        table = self._storage.table(resource.table)
        current = table.get((namespace, name))
        if current is None:
            raise errors.not_found(resource.group, resource.plural, name)
        tree = current.decode()
        metadata = tree["metadata"]
        self._check_preconditions(resource, name, metadata, wish.get("preconditions") or {})
        if resource.table == "namespaces" and name in {"default", "kube-public", "kube-system"}:
            raise errors.forbidden("", "namespaces", name, "this namespace may not be deleted")
        finalizers = self._with_policy(metadata.get("finalizers") or [], wish)
        grace = self._grace_seconds(resource, tree, wish)
        holds_content = resource.table in {"namespaces", CRD_TABLE}
        if not finalizers and not grace and not holds_content:
            if options.dry_run:
                return current, True
            deleted = self._storage.delete(table, current.key)
            return (deleted if deleted is not None else current), True
        is_marked = bool(metadata.get("deletionTimestamp"))
        if is_marked and grace >= metadata.get("deletionGracePeriodSeconds", 0):
            return current, False
        marked = copy.deepcopy(tree)
        if finalizers:
            marked["metadata"]["finalizers"] = finalizers
        marked["metadata"]["deletionTimestamp"] = (
            metadata["deletionTimestamp"] if is_marked else timestamp(self.clock() + grace)
        )
        marked["metadata"]["deletionGracePeriodSeconds"] = grace
        if resource.has_generation and not is_marked:
            marked["metadata"]["generation"] = metadata.get("generation", 0) + 1
        if resource.table == "namespaces":
            marked.setdefault("status", {})["phase"] = "Terminating"
        if resource.table == CRD_TABLE:
            mark_terminating(marked, self.now())
        return self._commit(resource, table, current.key, marked, options), False

    def _check_preconditions(
        self, resource: Resource, name: str, metadata: Tree, preconditions: Tree
    ) -> None:
        for field, title, label in (
            ("uid", "UID", "UID"),
            ("resourceVersion", "ResourceVersion", "ResourceVersion"),
        ):
            stated = preconditions.get(field)
            if stated and stated != metadata[field]:
                raise errors.conflict(
                    resource.group,
                    resource.plural,
                    name,
                    f"Precondition failed: {title} in precondition: {stated}, {label} in object"
                    f" meta: {metadata[field]}",
                )

    def _with_policy(self, finalizers: list[str], wish: Tree) -> list[str]:
        policy = wish.get("propagationPolicy")
        if policy is None and wish.get("orphanDependents") is True:
            policy = "Orphan"
        kept = [item for item in finalizers if item not in {"orphan", "foregroundDeletion"}]
        match policy:
            case "Orphan":
                return [*kept, "orphan"]
            case "Foreground":
                return [*kept, "foregroundDeletion"]
            case "Background":
                return kept
            case None:
                return finalizers
        raise errors.invalid_options(
            "DeleteOptions",
            [
                field_invalid(
                    "propagationPolicy",
                    'supported values: "Background", "Foreground", "Orphan"',
                    value=f'"{policy}"',
                    reason="FieldValueNotSupported",
                )
            ],
        )

    def _grace_seconds(self, resource: Resource, tree: Tree, wish: Tree) -> int:
        if resource.table != "pods":
            return 0
        spec, status = tree.get("spec") or {}, tree.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in {"Failed", "Succeeded"}:
            return 0
        stated = wish.get("gracePeriodSeconds")
        if stated is None:
            stated = spec.get("terminationGracePeriodSeconds", 30)
        return max(int(stated), 0)

    # Shared by all writes

    def remove(self, table: Table, key: Key) -> None:
        """Delete at once, whatever the finalizers; for controllers that have finished."""
        self._storage.delete(table, key)

    def _validate(self, resource: Resource, tree: Tree, old: Tree | None) -> None:
        name = tree["metadata"]["name"]
        causes = [] if old is not None else name_causes(resource, name)
        causes += object_causes(tree)
        causes += schema_causes(resource, tree)
        if resource.table == CRD_TABLE:
            causes += definition_causes(tree)
        causes += immutable_causes(resource, old, tree)
        if causes:
            raise errors.invalid(resource.group, resource.kind, name, causes)

    def _writer(
        self, resource: Resource, options: WriteOptions, subresource: str, operation: str
    ) -> Tree:
        return {
            "manager": options.manager,
            "operation": operation,
            "apiVersion": resource.api_version,
            "time": self.now(),
            "subresource": subresource,
        }

    def _own(
        self,
        resource: Resource,
        old: Tree,
        tree: Tree,
        options: WriteOptions,
        subresource: str,
        operation: str,
    ) -> None:
        entries = record_update(
            tree["metadata"].get("managedFields") or [],
            self._writer(resource, options, subresource, operation),
            leaves(old, is_custom=resource.is_custom),
            leaves(tree, is_custom=resource.is_custom),
        )
        if entries:
            tree["metadata"]["managedFields"] = entries

    def _commit(
        self, resource: Resource, table: Table, key: Key, tree: Tree, options: WriteOptions
    ) -> Record:
        fields = field_values(self._stored_as(resource), tree)
        if not options.dry_run:
            return self._storage.put(table, key, tree, fields)
        labels = tree["metadata"].get("labels") or {}
        head = table.get(key)
        if head is None:
            tree["metadata"].pop("resourceVersion", None)
        version = head.resource_version if head is not None else 0
        return Record(key, version, encode_rest(tree), labels, fields, None)

    def _stored_as(self, resource: Resource) -> Resource:
        if resource.to_storage is None:
            return resource
        for other in self._catalog.of_table(resource.table):
            if other.to_storage is None:
                return other
        return resource


def timestamp(seconds: float) -> str:
    """Format a time in whole seconds, as `metav1.Time` does."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _dry(options: WriteOptions) -> WriteOptions:
    return WriteOptions(options.manager, True, options.force)


def _is_same(old: Tree, new: Tree, operation: str) -> bool:
    """Say whether a write would change nothing but who wrote it when."""

    def essence(tree: Tree) -> Tree:
        metadata = {
            key: value
            for key, value in tree["metadata"].items()
            if value not in (None, {}, []) and key not in {"managedFields", "resourceVersion"}
        }
        return {**tree, "metadata": metadata}

    if essence(old) != essence(new):
        return False
    if operation != "Apply":
        return True

    def owners(tree: Tree) -> list[Tree]:
        entries = tree["metadata"].get("managedFields") or []
        timeless = [{k: v for k, v in entry.items() if k != "time"} for entry in entries]
        return sorted(timeless, key=lambda entry: str(entry.get("manager")))

    return owners(old) == owners(new)


def _has_new_intent(resource: Resource, old: Tree, new: Tree) -> bool:
    ignored = (
        {"metadata", "status"} if resource.has_status or not resource.is_custom else {"metadata"}
    )
    return {k: v for k, v in old.items() if k not in ignored} != {
        k: v for k, v in new.items() if k not in ignored
    }


def _is_finished(resource: Resource, metadata: Tree, tree: Tree) -> bool:
    """Say whether nothing keeps an object that is being deleted."""
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if resource.table == "namespaces":
        return not (tree.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")
