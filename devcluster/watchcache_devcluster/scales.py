"""The `scale` subresource: a workload seen as nothing but a number of replicas."""

from __future__ import annotations

from typing import Any

from watchcache_devcluster import errors
from watchcache_devcluster.intake import to_storage_form
from watchcache_devcluster.resources import Resource
from watchcache_devcluster.writer import check_named

__all__ = ["replicas_of", "scale_of"]

Tree = dict[str, Any]
_SCALE = Resource("autoscaling", "v1", "scales", "Scale", namespaced=True)


def scale_of(tree: Tree) -> Tree:
    """Return the autoscaling/v1 Scale of an object in storage form."""
    metadata, spec, status = tree["metadata"], tree.get("spec") or {}, tree.get("status") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    selector = (spec.get("selector") or {}).get("matchLabels") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": spec.get("replicas", 0)},
        "status": {
            "replicas": status.get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in sorted(selector.items())),
        },
    }


def replicas_of(namespace: str, name: str, body: Any) -> tuple[int, str]:
    """Return the replicas that a Scale asks for, and the version it was based on, if it says.

    Raises:
        ApiError: 400 for a body that is no Scale of this object, 422 for a number below zero.
    """
    scale = to_storage_form(_SCALE, body)
    check_named(_SCALE, namespace, name, scale["metadata"])
    replicas: int = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        rule = "must be greater than or equal to 0"
        cause = errors.field_invalid("spec.replicas", rule, value=str(replicas))
        raise errors.invalid("autoscaling", "Scale", name, [cause])
    return replicas, str(scale["metadata"].get("resourceVersion") or "")
