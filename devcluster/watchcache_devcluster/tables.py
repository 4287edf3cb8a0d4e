"""What kubectl prints: the columns of each kind and the cells of a row.

Built-in kinds have a few columns each, close to what a real server shows; custom kinds show what
their `additionalPrinterColumns` say, and every other kind its name and age.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from watchcache_devcluster.resources import Resource

__all__ = ["Column", "Columns", "age", "columns_of", "custom_column", "row_of"]

Tree = dict[str, Any]
Cell = Callable[[Tree, float], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it is called and how its cell is found in an object."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> Tree:
        """Return the `TableColumnDefinition`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


Columns = tuple[Column, ...]


def at(tree: Any, path: str, default: Any = None) -> Any:
    """Return what a dotted path leads to, or `default` where it leads nowhere."""
    value = tree
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return default if value is None else value


def age(stamp: Any, now: float) -> str:
    """Return how long ago a timestamp was, as kubectl shows it."""
    if not isinstance(stamp, str):
        return "<unknown>"
    then = datetime.fromisoformat(stamp).astimezone(UTC).timestamp()
    seconds = max(int(now - then), 0)
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        rest = seconds % 60
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        rest = minutes % 60
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    return f"{days}d" if days < 730 else f"{days // 365}y"


def _path(name: str, path: str, default: Any = "", type_: str = "string") -> Column:
    return Column(name, lambda tree, _: at(tree, path, default), type_)


def _count(name: str, path: str) -> Column:
    return Column(name, lambda tree, _: at(tree, path, 0), "integer")


_NAME = Column("Name", lambda tree, _: at(tree, "metadata.name", ""), format="name")
_AGE = Column("Age", lambda tree, now: age(at(tree, "metadata.creationTimestamp"), now))


def _pod_ready(tree: Tree, _: float) -> str:
    statuses = at(tree, "status.containerStatuses", [])
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len(at(tree, 'spec.containers', []))}"


def _pod_status(tree: Tree, _: float) -> str:
    if at(tree, "metadata.deletionTimestamp"):
        return "Terminating"
    for status in at(tree, "status.containerStatuses", []):
        for state in ("waiting", "terminated"):
            reason = at(status, f"state.{state}.reason")
            if reason:
                return str(reason)
    return str(at(tree, "status.reason") or at(tree, "status.phase", ""))


def _pod_restarts(tree: Tree, _: float) -> str:
    statuses = at(tree, "status.containerStatuses", [])
    return str(sum(status.get("restartCount", 0) for status in statuses))


def _ready_of(ready: str, wanted: str) -> Cell:
    return lambda tree, _: f"{at(tree, ready, 0)}/{at(tree, wanted, 0)}"


def _data_count(tree: Tree, _: float) -> int:
    return len(tree.get("data") or {}) + len(tree.get("binaryData") or {})


def _service_ports(tree: Tree, _: float) -> str:
    ports = []
    for port in at(tree, "spec.ports", []):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(ports) or "<none>"


def _node_status(tree: Tree, _: float) -> str:
    for condition in at(tree, "status.conditions", []):
        if condition.get("type") == "Ready":
            ready = "Ready" if condition.get("status") == "True" else "NotReady"
            unschedulable = at(tree, "spec.unschedulable", False)
            return f"{ready},SchedulingDisabled" if unschedulable else ready
    return "Unknown"


def _event_object(tree: Tree, _: float) -> str:
    about = tree.get("involvedObject") or tree.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_age(tree: Tree, now: float) -> str:
    stamp = tree.get("lastTimestamp") or at(tree, "metadata.creationTimestamp")
    return age(stamp, now)


def _role_ref(tree: Tree, _: float) -> str:
    return f"{at(tree, 'roleRef.kind', '')}/{at(tree, 'roleRef.name', '')}"


def _hosts(tree: Tree, _: float) -> str:
    hosts = [rule.get("host") or "*" for rule in at(tree, "spec.rules", [])]
    return ",".join(hosts) or "*"


def _ingress_ports(tree: Tree, _: float) -> str:
    return "80, 443" if at(tree, "spec.tls") else "80"


def _completions(tree: Tree, _: float) -> str:
    return f"{at(tree, 'status.succeeded', 0)}/{at(tree, 'spec.completions', 1)}"


_BUILTIN: dict[str, Columns] = {
    "pods": (
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        _AGE,
        Column("IP", lambda tree, _: at(tree, "status.podIP", "<none>"), priority=1),
        Column("Node", lambda tree, _: at(tree, "spec.nodeName", "<none>"), priority=1),
    ),
    "deployments.apps": (
        Column("Ready", _ready_of("status.readyReplicas", "spec.replicas")),
        _count("Up-to-date", "status.updatedReplicas"),
        _count("Available", "status.availableReplicas"),
        _AGE,
    ),
    "replicasets.apps": (
        _count("Desired", "spec.replicas"),
        _count("Current", "status.replicas"),
        _count("Ready", "status.readyReplicas"),
        _AGE,
    ),
    "statefulsets.apps": (
        Column("Ready", _ready_of("status.readyReplicas", "spec.replicas")),
        _AGE,
    ),
    "daemonsets.apps": (
        _count("Desired", "status.desiredNumberScheduled"),
        _count("Current", "status.currentNumberScheduled"),
        _count("Ready", "status.numberReady"),
        _AGE,
    ),
    "jobs.batch": (Column("Completions", _completions), _AGE),
    "cronjobs.batch": (
        _path("Schedule", "spec.schedule"),
        Column("Suspend", lambda tree, _: str(at(tree, "spec.suspend", False))),
        _AGE,
    ),
    "configmaps": (Column("Data", _data_count, "integer"), _AGE),
    "secrets": (_path("Type", "type"), Column("Data", _data_count, "integer"), _AGE),
    "services": (
        _path("Type", "spec.type"),
        _path("Cluster-IP", "spec.clusterIP", "<none>"),
        Column("Port(s)", _service_ports),
        _AGE,
    ),
    "namespaces": (_path("Status", "status.phase"), _AGE),
    "nodes": (
        Column("Status", _node_status),
        _AGE,
        _path("Version", "status.nodeInfo.kubeletVersion"),
    ),
    "events": (
        _path("Type", "type"),
        _path("Reason", "reason"),
        Column("Object", _event_object),
        Column("Message", lambda tree, _: tree.get("message") or tree.get("note") or ""),
    ),
    "customresourcedefinitions.apiextensions.k8s.io": (
        Column("Created At", lambda tree, _: at(tree, "metadata.creationTimestamp", "")),
    ),
    "rolebindings.rbac.authorization.k8s.io": (Column("Role", _role_ref), _AGE),
    "clusterrolebindings.rbac.authorization.k8s.io": (Column("Role", _role_ref), _AGE),
    "ingresses.networking.k8s.io": (
        _path("Class", "spec.ingressClassName", "<none>"),
        Column("Hosts", _hosts),
        Column("Ports", _ingress_ports),
        _AGE,
    ),
    "leases.coordination.k8s.io": (_path("Holder", "spec.holderIdentity"), _AGE),
    "horizontalpodautoscalers.autoscaling": (
        Column(
            "Reference",
            lambda tree, _: (
                f"{at(tree, 'spec.scaleTargetRef.kind', '')}/"
                f"{at(tree, 'spec.scaleTargetRef.name', '')}"
            ),
        ),
        _count("MinPods", "spec.minReplicas"),
        _count("MaxPods", "spec.maxReplicas"),
        _count("Replicas", "status.currentReplicas"),
        _AGE,
    ),
    "persistentvolumeclaims": (
        _path("Status", "status.phase"),
        _path("Volume", "spec.volumeName"),
        _AGE,
    ),
    "persistentvolumes": (
        _path("Capacity", "spec.capacity.storage"),
        _path("Status", "status.phase"),
        _AGE,
    ),
}

_STEP = re.compile(r"""\.?([^.\[\]]+)|\[(\d+)\]|\[['"]([^'"]+)['"]\]""")


def custom_column(column: Tree) -> Column:
    """Turn one of a CRD's `additionalPrinterColumns` into a column."""
    path = str(column.get("jsonPath", "")).strip("{}")
    is_date = column.get("type") == "date"
    steps = [
        int(match[2]) if match[2] is not None else (match[1] or match[3]).replace("\\", "")
        for match in _STEP.finditer(path.replace("\\.", "\0"))
    ]
    steps = [step.replace("\0", ".") if isinstance(step, str) else step for step in steps]

    def cell(tree: Tree, now: float) -> Any:
        value: Any = tree
        for step in steps:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return age(value, now) if is_date and value is not None else value

    return Column(
        str(column.get("name", "")),
        cell,
        str(column.get("type", "string")),
        str(column.get("format", "")),
        str(column.get("description", "")),
        int(column.get("priority", 0)),
    )


def columns_of(resource: Resource) -> Columns:
    """Return the columns of a kind, the name first."""
    if resource.is_custom:
        return (_NAME, *(resource.columns or (_AGE,)))
    if resource.table == "events":
        first = Column("Last Seen", _event_age)
        return (first, *_BUILTIN["events"], Column("Name", _NAME.cell, format="name", priority=1))
    return (_NAME, *_BUILTIN.get(resource.table, (_AGE,)))


def row_of(columns: Columns, tree: Tree, now: float) -> list[Any]:
    """Return the cells of one object."""
    return [column.cell(tree, now) for column in columns]
