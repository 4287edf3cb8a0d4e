"""What built-in kinds demand: the fields without which a real server refuses an object.

One function per kind returns causes of a 422. Only the rules that people break while they write a
controller or its tests are here; the rest of each schema's validation is left to a real server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from watchcache_devcluster.errors import Cause, field_invalid
from watchcache_devcluster.resources import Resource

__all__ = ["requirement_causes"]

Tree = dict[str, Any]


def _required(field: str, message: str = "") -> Cause:
    return field_invalid(field, message, reason="FieldValueRequired")


def _pod_spec(spec: Tree, path: str) -> list[Cause]:
    containers = spec.get("containers") or []
    if not containers:
        return [_required(f"{path}.containers")]
    causes = []
    names: set[str] = set()
    for index, container in enumerate(containers):
        name = container.get("name")
        if not name:
            causes.append(_required(f"{path}.containers[{index}].name"))
        elif name in names:
            where = f"{path}.containers[{index}].name"
            causes.append(field_invalid(where, "", value=f'"{name}"', reason="FieldValueDuplicate"))
        names.add(str(name))
        if not container.get("image") and path != "spec":
            causes.append(_required(f"{path}.containers[{index}].image"))
    return causes


def _workload(tree: Tree) -> list[Cause]:
    spec = tree.get("spec") or {}
    causes = []
    selector = spec.get("selector")
    if selector is None:
        causes.append(_required("spec.selector"))
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    wanted = (selector or {}).get("matchLabels") or {}
    if selector is None or any((labels or {}).get(key) != value for key, value in wanted.items()):
        shown = "null" if labels is None else str(labels).replace("'", '"')
        rule = "`selector` does not match template `labels`"
        causes.append(field_invalid("spec.template.metadata.labels", rule, value=shown))
    return causes + _pod_spec(template.get("spec") or {}, "spec.template.spec")


def _job_template(spec: Tree, path: str) -> list[Cause]:
    pod = (spec.get("template") or {}).get("spec") or {}
    causes = _pod_spec(pod, f"{path}.template.spec")
    if pod.get("restartPolicy") not in {"Never", "OnFailure"}:
        rule = 'valid values: "OnFailure", "Never"'
        causes.append(_required(f"{path}.template.spec.restartPolicy", rule))
    return causes


def _job(tree: Tree) -> list[Cause]:
    return _job_template(tree.get("spec") or {}, "spec")


def _cron_job(tree: Tree) -> list[Cause]:
    spec = tree.get("spec") or {}
    causes = [] if spec.get("schedule") else [_required("spec.schedule")]
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    return causes + _job_template(inner, "spec.jobTemplate.spec")


def _pod(tree: Tree) -> list[Cause]:
    return _pod_spec(tree.get("spec") or {}, "spec")


def _service(tree: Tree) -> list[Cause]:
    spec = tree.get("spec") or {}
    needs_ports = spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None"
    return [_required("spec.ports")] if needs_ports and not spec.get("ports") else []


def _binding(tree: Tree) -> list[Cause]:
    reference = tree.get("roleRef") or {}
    kind, causes = reference.get("kind", ""), []
    kinds = ("Role", "ClusterRole") if tree["metadata"].get("namespace") else ("ClusterRole",)
    if kind not in kinds:
        listed = ", ".join(f'"{choice}"' for choice in kinds)
        causes.append(
            field_invalid(
                "roleRef.kind",
                f"supported values: {listed}",
                value=f'"{kind}"',
                reason="FieldValueNotSupported",
            )
        )
    if not reference.get("name"):
        causes.append(_required("roleRef.name"))
    return causes


def _ingress(tree: Tree) -> list[Cause]:
    spec = tree.get("spec") or {}
    if spec.get("rules") or "defaultBackend" in spec:
        return []
    rule = "either `defaultBackend` or `rules` must be specified"
    return [field_invalid("spec", rule, value="null")]


def _autoscaler(tree: Tree) -> list[Cause]:
    spec = tree.get("spec") or {}
    target, causes = spec.get("scaleTargetRef") or {}, []
    if not spec.get("maxReplicas"):
        causes.append(_required("spec.maxReplicas", "must be set and greater than 0"))
    causes += [
        _required(f"spec.scaleTargetRef.{field}")
        for field in ("kind", "name")
        if not target.get(field)
    ]
    return causes


def _claim(tree: Tree) -> list[Cause]:
    spec, causes = tree.get("spec") or {}, []
    if not spec.get("accessModes"):
        causes.append(_required("spec.accessModes", "at least 1 access mode is required"))
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        causes.append(_required("spec.resources[storage]"))
    return causes


_RULES: dict[str, Callable[[Tree], list[Cause]]] = {
    "clusterrolebindings.rbac.authorization.k8s.io": _binding,
    "cronjobs.batch": _cron_job,
    "daemonsets.apps": _workload,
    "deployments.apps": _workload,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "ingresses.networking.k8s.io": _ingress,
    "jobs.batch": _job,
    "persistentvolumeclaims": _claim,
    "pods": _pod,
    "replicasets.apps": _workload,
    "rolebindings.rbac.authorization.k8s.io": _binding,
    "services": _service,
    "statefulsets.apps": _workload,
}


def requirement_causes(resource: Resource, tree: Tree) -> list[Cause]:
    """Return what an object of a built-in kind lacks."""
    rule = None if resource.is_custom else _RULES.get(resource.table)
    return [] if rule is None else rule(tree)
