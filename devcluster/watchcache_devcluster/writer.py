"""Creating and updating objects, with the rules that guard them.

`Writer` checks names, versions, uids and finalizers, fills in what the server fills in, and leaves
a write that changes nothing uncommitted. Patches become updates in `patching`; deletions are in
`deletion`; who may write at all is the business of `rbac`.
"""

from __future__ import annotations

import secrets
import uuid
from typing import Any

from watchcache_devcluster import errors
from watchcache_devcluster.commits import Commits
from watchcache_devcluster.definitions import CRD_TABLE
from watchcache_devcluster.errors import ApiError, field_invalid
from watchcache_devcluster.intake import to_storage_form
from watchcache_devcluster.options import WriteOptions
from watchcache_devcluster.resources import Resource
from watchcache_devcluster.storage import Record, Table
from watchcache_devcluster.strategies import apply_defaults

__all__ = ["Writer"]

Tree = dict[str, Any]

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
_OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


class Writer:
    """Creates and updates."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    # Creating

    def create(
        self, resource: Resource, namespace: str, body: Any, options: WriteOptions
    ) -> Record:
        """Create an object; its name may be made from `generateName`.

        Raises:
            ApiError: 400, 403, 404, 409 or 422, by what is wrong with it.
        """
        tree = to_storage_form(resource, body, options)
        metadata = tree["metadata"]
        if metadata.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        place(resource, namespace, metadata)
        table = self._commits.table(resource)
        name = metadata.get("name") or _generate_name(resource, table, namespace, metadata)
        metadata["name"] = name
        self._require_namespace(resource, namespace, name)
        for field in (*_SERVER_OWNED, "generation", "managedFields", "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self._commits.now()
        if resource.has_generation:
            metadata["generation"] = 1
        if resource.has_status:
            tree.pop("status", None)
        apply_defaults(resource, tree)
        self._commits.validate(resource, tree, None)
        if table.get((namespace, name)) is not None:
            raise errors.already_exists(resource.group, resource.plural, name)
        self._commits.own(resource, {"metadata": {}}, tree, options)
        return self._commits.commit(resource, (namespace, name), tree, options)

    def _require_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if resource.is_custom:
            self._require_definition(resource, name)
        if not resource.namespaced:
            return
        found = self._commits.storage.table("namespaces").get(("", namespace))
        if found is None:
            raise errors.not_found("", "namespaces", namespace)
        if b'"deletionTimestamp":' not in found.rest:
            return
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        why = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        raise errors.forbidden(resource.group, resource.plural, name, why, [cause])

    def _require_definition(self, resource: Resource, name: str) -> None:
        found = self._commits.storage.table(CRD_TABLE).get(("", resource.table))
        if found is not None and b'"deletionTimestamp":' in found.rest:
            why = "create not allowed while custom resource definition is terminating"
            raise errors.forbidden(resource.group, resource.plural, name, why)

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
        """Replace an object (or its status); also say whether that created it.

        Raises:
            ApiError: 400, 404, 409 or 422, by what is wrong with it.
        """
        tree = to_storage_form(resource, body, options)
        check_named(resource, namespace, name, tree["metadata"])
        current = self._commits.table(resource).get((namespace, name))
        if current is None:
            if resource.table in _CREATE_ON_UPDATE and not tree["metadata"].get("uid"):
                return self.create(resource, namespace, body, options), True
            raise errors.not_found(resource.group, resource.plural, name)
        _check_version(resource, current, tree["metadata"])
        return self.replace(resource, current, tree, options, subresource), False

    def replace(
        self,
        resource: Resource,
        current: Record,
        tree: Tree,
        options: WriteOptions,
        subresource: str = "",
        *,
        is_apply: bool = False,
    ) -> Record:
        """Make `tree` the next version of an object; identity and version are checked already.

        Raises:
            ApiError: 422 for what may not change, or is not valid.
        """
        old = current.decode()
        before = old["metadata"]
        tree = _limited(resource, old, tree, subresource)
        after = tree["metadata"]
        for field in (*_SERVER_OWNED, "generation"):
            after.pop(field, None)
            if field in before:
                after[field] = before[field]
        if not is_apply:
            is_reset = after.pop("managedFields", None) in ([], [{}])
            if not is_reset and "managedFields" in before:
                after["managedFields"] = before["managedFields"]
        _check_finalizers(resource, current.name, before, after)
        apply_defaults(resource, tree)
        self._commits.validate(resource, tree, old)
        if _is_same(old, tree, is_apply=is_apply):
            return current
        if resource.has_generation and _has_new_intent(resource, old, tree):
            after["generation"] = before.get("generation", 0) + 1
        if not is_apply:
            self._commits.own(resource, old, tree, options, subresource)
        if _is_finished(resource, after, tree) and not options.dry_run:
            deleted = self._commits.storage.delete(self._commits.table(resource), current.key)
            return deleted if deleted is not None else current
        return self._commits.commit(resource, current.key, tree, options)


def place(resource: Resource, namespace: str, metadata: Tree) -> None:
    """Set an object's namespace to the one of the request.

    Raises:
        ApiError: 400 if the object names another one.
    """
    stated = metadata.get("namespace", "")
    if stated and stated != namespace:
        raise errors.bad_request(_OTHER_NAMESPACE)
    if resource.namespaced:
        metadata["namespace"] = namespace


def check_identity(resource: Resource, namespace: str, name: str, metadata: Tree) -> None:
    """Check that an object is the one that the request's path names.

    Raises:
        ApiError: 400 if it names another one.
    """
    stated = metadata.setdefault("name", name)
    if stated != name:
        raise errors.bad_request(
            f"the name of the object ({stated}) does not match the name on the URL ({name})"
        )
    place(resource, namespace, metadata)


def check_named(resource: Resource, namespace: str, name: str, metadata: Tree) -> None:
    """Check as `check_identity` does, and that the object names itself at all.

    Raises:
        ApiError: 400.
    """
    if not metadata.get("name"):
        raise errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be"
            " provided"
        )
    check_identity(resource, namespace, name, metadata)


def _generate_name(resource: Resource, table: Table, namespace: str, metadata: Tree) -> str:
    base = metadata.get("generateName")
    if not base:
        rule = "name or generateName is required"
        cause = field_invalid("metadata.name", rule, reason="FieldValueRequired")
        raise errors.invalid(resource.group, resource.kind, "", [cause])
    while True:
        suffix = "".join(secrets.choice(_ALPHABET) for _ in range(5))
        name = f"{base[:58]}{suffix}"
        if table.get((namespace, name)) is None:
            return name


def _check_version(resource: Resource, current: Record, stated: Tree) -> None:
    """Check the resourceVersion and uid that an update is based on."""
    version, uid = stated.get("resourceVersion", ""), stated.get("uid")
    group, name = resource.group, current.name
    if version and not (version.isascii() and version.isdigit()):
        raise ApiError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if not version.strip("0") and resource.is_custom:
        rule = "must be specified for an update"
        cause = field_invalid("metadata.resourceVersion", rule, value="0")
        raise errors.invalid(group, resource.plural, name, [cause])
    known = current.decode()["metadata"]["uid"]
    if uid and uid != known:
        prefix = f"/registry/{resource.group_resource}/{'/'.join(current.key).lstrip('/')}"
        raise errors.conflict(
            group,
            resource.plural,
            name,
            f"StorageError: invalid object, Code: 4, Key: {prefix}, ResourceVersion: 0,"
            f" AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object"
            f" meta: {known}",
        )
    check_stale(resource, current, version)


def check_stale(resource: Resource, current: Record, version: str) -> None:
    """Refuse a write that was based on an older version; an empty version is no claim.

    Raises:
        ApiError: 409.
    """
    if version.strip("0") and version != str(current.resource_version):
        raise errors.conflict(
            resource.group,
            resource.plural,
            current.name,
            "the object has been modified; please apply your changes to the latest version and try"
            " again",
        )


def _limited(resource: Resource, old: Tree, tree: Tree, subresource: str) -> Tree:
    """Return `tree` with everything taken from `old` that this kind of write may not change."""
    if subresource == "status":
        return _status_write(resource, old, tree)
    if resource.has_status:
        tree.pop("status", None)
        if "status" in old:
            tree["status"] = old["status"]
    if resource.table == "namespaces" and subresource != "finalize":
        tree["spec"] = {**tree.get("spec", {}), "finalizers": old["spec"].get("finalizers")}
    return tree


def _status_write(resource: Resource, old: Tree, tree: Tree) -> Tree:
    metadata, asked = dict(old["metadata"]), tree["metadata"]
    if not resource.is_custom:
        changeable = ["annotations", "finalizers"]
        if resource.group != "apps":
            changeable.append("labels")
        for field in changeable:
            metadata.pop(field, None)
            if field in asked:
                metadata[field] = asked[field]
    if "managedFields" in asked:
        metadata["managedFields"] = asked["managedFields"]
    kept = {key: value for key, value in old.items() if key not in {"metadata", "status"}}
    merged = {"metadata": metadata, **kept}
    if "status" in tree:
        merged["status"] = tree["status"]
    return merged


def _check_finalizers(resource: Resource, name: str, before: Tree, after: Tree) -> None:
    if not before.get("deletionTimestamp"):
        return
    known = before.get("finalizers") or []
    added = [item for item in after.get("finalizers") or [] if item not in known]
    if added:
        quoted = ", ".join(f'"{item}"' for item in added)
        rule = (
            "no new finalizers can be added if the object is being deleted, found new finalizers"
            f" []string{{{quoted}}}"
        )
        cause = field_invalid("metadata.finalizers", rule, reason="FieldValueForbidden")
        raise errors.invalid(resource.group, resource.kind, name, [cause])


def _essence(tree: Tree) -> Tree:
    """Return an object without what changes with every write, and without what is empty."""
    metadata = {
        key: value
        for key, value in tree["metadata"].items()
        if value not in (None, {}, []) and key not in {"managedFields", "resourceVersion"}
    }
    return {**tree, "metadata": metadata}


def _owners(tree: Tree) -> list[Tree]:
    entries = tree["metadata"].get("managedFields") or []
    timeless = [{k: v for k, v in entry.items() if k != "time"} for entry in entries]
    return sorted(timeless, key=lambda entry: (str(entry["manager"]), str(entry["operation"])))


def _is_same(old: Tree, new: Tree, *, is_apply: bool) -> bool:
    """Say whether a write would change nothing but who wrote it when."""
    return _essence(old) == _essence(new) and (not is_apply or _owners(old) == _owners(new))


def _has_new_intent(resource: Resource, old: Tree, new: Tree) -> bool:
    ignored = {"metadata"}
    if resource.has_status or not resource.is_custom:
        ignored.add("status")
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
