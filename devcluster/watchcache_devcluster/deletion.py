"""Deleting: at once, or marked and held by finalizers, a grace period or contents.

What happens to a marked object afterwards is the business of `controllers` and of whoever owns its
finalizers.
"""

from __future__ import annotations

import copy
from typing import Any

from watchcache_devcluster import errors
from watchcache_devcluster.commits import Commits, timestamp
from watchcache_devcluster.definitions import CRD_TABLE, mark_terminating
from watchcache_devcluster.errors import field_invalid
from watchcache_devcluster.options import WriteOptions
from watchcache_devcluster.resources import Resource
from watchcache_devcluster.storage import Record, encode_rest

__all__ = ["Deleter"]

Tree = dict[str, Any]
_PROTECTED = frozenset({"default", "kube-public", "kube-system"})
_GRACEFUL_ALWAYS_STAMPED = frozenset({"pods"})


class Deleter:
    """Deletes objects, or marks them as being deleted."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    def delete(
        self, resource: Resource, namespace: str, name: str, wish: Tree, options: WriteOptions
    ) -> tuple[Record, bool]:
        """Delete an object by DeleteOptions; return its last version and whether it is gone.

        Raises:
            ApiError: 403 for a protected namespace, 404, 409 for a precondition that does not hold,
                422 for a policy that does not exist.
        """
        current = self._commits.require(resource, namespace, name)
        tree = current.decode()
        metadata = tree["metadata"]
        _check_preconditions(resource, name, metadata, wish.get("preconditions") or {})
        if resource.table == "namespaces" and name in _PROTECTED:
            raise errors.forbidden("", "namespaces", name, "this namespace may not be deleted")
        finalizers = _with_policy(metadata.get("finalizers") or [], wish)
        grace = _grace_seconds(resource, tree, wish)
        if not finalizers and not grace and resource.table not in {"namespaces", CRD_TABLE}:
            return self._remove(resource, current, options), True
        is_marked = bool(metadata.get("deletionTimestamp"))
        if is_marked and grace >= metadata.get("deletionGracePeriodSeconds", 0):
            return current, False
        marked = copy.deepcopy(tree)
        if finalizers:
            marked["metadata"]["finalizers"] = finalizers
        self._mark(resource, marked, grace, is_marked=is_marked)
        return self._commits.commit(resource, current.key, marked, options), False

    def _mark(self, resource: Resource, marked: Tree, grace: int, *, is_marked: bool) -> None:
        metadata = marked["metadata"]
        if not is_marked:
            metadata["deletionTimestamp"] = timestamp(self._commits.clock() + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if resource.has_generation and not is_marked:
            metadata["generation"] = metadata.get("generation", 0) + 1
        if resource.table == "namespaces":
            marked.setdefault("status", {})["phase"] = "Terminating"
        if resource.table == CRD_TABLE:
            mark_terminating(marked, self._commits.now())

    def _remove(self, resource: Resource, current: Record, options: WriteOptions) -> Record:
        """Remove an object that nothing holds; return it as the answer shows it."""
        last = current
        if not options.dry_run:
            deleted = self._commits.storage.delete(self._commits.table(resource), current.key)
            assert deleted is not None
            last = deleted
        if resource.table not in _GRACEFUL_ALWAYS_STAMPED:
            return last
        shown = last.decode()
        shown["metadata"]["deletionTimestamp"] = self._commits.now()
        shown["metadata"]["deletionGracePeriodSeconds"] = 0
        return Record(
            last.key,
            last.resource_version,
            encode_rest(shown),
            last.labels,
            last.fields,
            None,
        )


def _check_preconditions(
    resource: Resource, name: str, metadata: Tree, preconditions: Tree
) -> None:
    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        stated = preconditions.get(field)
        if stated and stated != metadata[field]:
            raise errors.conflict(
                resource.group,
                resource.kind,
                name,
                f"the {label} in the precondition ({stated}) does not match the {label} in record"
                f" ({metadata[field]}). The object might have been deleted and then recreated"
                if field == "uid"
                else f"the {label} in the precondition ({stated}) does not match the {label} in"
                f" record ({metadata[field]}). The object might have been modified",
            )


def _with_policy(finalizers: list[str], wish: Tree) -> list[str]:
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
    cause = field_invalid(
        "propagationPolicy",
        'supported values: "Foreground", "Background", "Orphan", "nil"',
        value=f'"{policy}"',
        reason="FieldValueNotSupported",
    )
    raise errors.invalid_options("DeleteOptions", [cause])


def _grace_seconds(resource: Resource, tree: Tree, wish: Tree) -> int:
    """Return how long a pod that a node runs is given; everything else goes at once."""
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    is_running = bool(spec.get("nodeName")) and status.get("phase") not in {"Failed", "Succeeded"}
    if resource.table != "pods" or not is_running:
        return 0
    stated = wish.get("gracePeriodSeconds")
    if stated is None:
        stated = spec.get("terminationGracePeriodSeconds", 30)
    return max(int(stated), 0)
