"""Kinds that are served in two shapes: how one becomes the other.

HorizontalPodAutoscalers are kept as autoscaling/v2 and events as core/v1; the other version of each
is made on the way out and undone on the way in. Each function takes a tree without `apiVersion` and
`kind`, leaves it alone and returns a new one.
"""

from __future__ import annotations

from typing import Any

__all__ = ["event_from_core", "event_to_core", "hpa_v1_to_v2", "hpa_v2_to_v1"]

Tree = dict[str, Any]

_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE_NAMES = {new: old for old, new in _EVENT_NAMES.items()}


def event_from_core(tree: Tree) -> Tree:
    """Turn a core/v1 Event into an events.k8s.io/v1 one."""
    return {_EVENT_NAMES.get(key, key): value for key, value in tree.items()}


def event_to_core(tree: Tree) -> Tree:
    """Turn an events.k8s.io/v1 Event into a core/v1 one."""
    return {_CORE_NAMES.get(key, key): value for key, value in tree.items()}


def hpa_v2_to_v1(tree: Tree) -> Tree:
    """Turn an autoscaling/v2 HorizontalPodAutoscaler into a v1 one.

    Metrics other than the CPU utilization do not fit into v1 and are left out, where the real
    server would put them into an annotation.
    """
    spec = {key: value for key, value in tree.get("spec", {}).items() if key != "metrics"}
    spec.pop("behavior", None)
    for metric in tree.get("spec", {}).get("metrics", []):
        utilization = _cpu(metric).get("target", {}).get("averageUtilization")
        if utilization is not None:
            spec["targetCPUUtilizationPercentage"] = utilization
    status = dict(tree.get("status", {}))
    for metric in status.pop("currentMetrics", None) or []:
        utilization = _cpu(metric).get("current", {}).get("averageUtilization")
        if utilization is not None:
            status["currentCPUUtilizationPercentage"] = utilization
    status.pop("conditions", None)
    status.setdefault("currentReplicas", 0)
    status.setdefault("desiredReplicas", 0)
    return {"metadata": tree["metadata"], "spec": spec, "status": status}


def hpa_v1_to_v2(tree: Tree) -> Tree:
    """Turn an autoscaling/v1 HorizontalPodAutoscaler into a v2 one."""
    spec = dict(tree.get("spec", {}))
    utilization = spec.pop("targetCPUUtilizationPercentage", None)
    if utilization is not None:
        target = {"type": "Utilization", "averageUtilization": utilization}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    converted = {"metadata": tree["metadata"], "spec": spec}
    if "status" in tree:
        status = dict(tree["status"])
        current = status.pop("currentCPUUtilizationPercentage", None)
        if current is not None:
            resource = {"name": "cpu", "current": {"averageUtilization": current}}
            status["currentMetrics"] = [{"type": "Resource", "resource": resource}]
        converted["status"] = status
    return converted


def _cpu(metric: Tree) -> Tree:
    resource: Tree = metric.get("resource") or {}
    is_cpu = metric.get("type") == "Resource" and resource.get("name") == "cpu"
    return resource if is_cpu else {}
