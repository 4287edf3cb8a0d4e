"""What each built-in kind does to an object on its way in: defaults, names, immutable parts.

Only what a controller or kubectl can notice is here; full validation of every built-in schema is
left to a real server. Functions change the tree that they are given.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

from watchcache_devcluster.definitions import CRD_TABLE, default_definition
from watchcache_devcluster.errors import Cause, field_invalid
from watchcache_devcluster.resources import Resource
from watchcache_devcluster.selectors import is_label_value, is_qualified_name

__all__ = ["apply_defaults", "field_values", "name_causes", "object_causes"]

Tree = dict[str, Any]

_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\Z")
_DNS_SUBDOMAIN = re.compile(
    r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z"
)
_PATH_UNSAFE = re.compile(r"[/%]")

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
    " must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    " or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_STANDARD_FINALIZERS = frozenset({"foregroundDeletion", "kubernetes", "orphan"})
_LABEL_NAMED = {"namespaces", "services"}


def name_causes(resource: Resource, name: str) -> list[Cause]:
    """Return what is wrong with an object's name, if anything."""
    if resource.group == "rbac.authorization.k8s.io":
        if name in {".", ".."} or _PATH_UNSAFE.search(name):
            return [field_invalid("metadata.name", "may not contain '/' or '%'", value=f'"{name}"')]
        return []
    if resource.table in _LABEL_NAMED:
        is_valid, rule = len(name) <= 63 and bool(_DNS_LABEL.match(name)), _LABEL_RULE
    else:
        is_valid, rule = len(name) <= 253 and bool(_DNS_SUBDOMAIN.match(name)), _SUBDOMAIN_RULE
    return [] if is_valid else [field_invalid("metadata.name", rule, value=f'"{name}"')]


def object_causes(tree: Tree, *, is_custom: bool) -> list[Cause]:
    """Return what is wrong with an object's metadata besides its name, if anything."""
    causes: list[Cause] = []
    metadata = tree["metadata"]
    for field in ("labels", "annotations"):
        for key, value in (metadata.get(field) or {}).items():
            if not is_qualified_name(key.lower() if field == "annotations" else key):
                rule = _QUALIFIED_RULE
                causes.append(field_invalid(f"metadata.{field}", rule, value=f'"{key}"'))
            if field == "labels" and not is_label_value(value):
                causes.append(field_invalid("metadata.labels", _VALUE_RULE, value=f'"{value}"'))
    for index, finalizer in enumerate(metadata.get("finalizers") or []):
        if not is_qualified_name(finalizer):
            rule = _QUALIFIED_RULE
            causes.append(field_invalid("metadata.finalizers", rule, value=f'"{finalizer}"'))
        elif "/" not in finalizer and not is_custom and finalizer not in _STANDARD_FINALIZERS:
            rule = "name is neither a standard finalizer name nor is it fully qualified"
            where = f"metadata.finalizers[{index}]"
            causes.append(field_invalid(where, rule, value=f'"{finalizer}"'))
    for owner in metadata.get("ownerReferences") or []:
        for field, word in (("apiVersion", "version must"), ("kind", "must"), ("name", "must")):
            if not owner.get(field):
                rule, where = f"{word} not be empty", f"metadata.ownerReferences.{field}"
                causes.append(field_invalid(where, rule, value='""'))
        if not owner.get("uid"):
            where = "metadata.ownerReferences.uid"
            causes.append(field_invalid(where, "must not be empty", value='""'))
    return causes


def field_values(resource: Resource, tree: Tree) -> dict[str, str]:
    """Return the values of the field labels that this kind can be selected by."""
    return {label: _field_value(label, tree) for label in resource.selectable}


def _field_value(label: str, tree: Tree) -> str:
    if label == "source":
        component = (tree.get("source") or {}).get("component")
        return str(component or tree.get("reportingComponent") or "")
    if label == "status.podIPs":
        return ",".join(item["ip"] for item in (tree.get("status") or {}).get("podIPs") or [])
    if label == "status.successful":
        return str((tree.get("status") or {}).get("succeeded", 0))
    value: Any = tree
    for part in label.lstrip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return _FIELD_DEFAULTS.get(label, "")
    return str(value).lower() if isinstance(value, bool) else str(value)


_FIELD_DEFAULTS = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
    "status.replicas": "0",
}


def _pod_spec_defaults(spec: Tree) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        image = str(container.get("image", ""))
        is_latest = image.endswith(":latest") or ":" not in image.rpartition("/")[2]
        container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")
        for port in container.get("ports") or []:
            port.setdefault("protocol", "TCP")


def _template_defaults(spec: Tree) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    _pod_spec_defaults(template.setdefault("spec", {}))


def _pod(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    _pod_spec_defaults(spec)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    spec.setdefault(
        "tolerations",
        [
            {
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for key in ("not-ready", "unreachable")
        ],
    )
    status = tree.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status.setdefault("qosClass", "BestEffort")


def _deployment(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    _template_defaults(spec)
    tree.setdefault("status", {})


def _replica_set(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _template_defaults(spec)
    tree.setdefault("status", {}).setdefault("replicas", 0)


def _stateful_set(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    spec.setdefault("serviceName", "")
    spec.setdefault(
        "persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"}
    )
    _template_defaults(spec)
    status = tree.setdefault("status", {})
    status.setdefault("replicas", 0)
    status.setdefault("availableReplicas", 0)


def _daemon_set(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    rolling = {"maxUnavailable": 1, "maxSurge": 0}
    spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": rolling})
    spec.setdefault("revisionHistoryLimit", 10)
    _template_defaults(spec)
    status = tree.setdefault("status", {})
    for field in (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
    ):
        status.setdefault(field, 0)


def _job(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("parallelism", 1)
    spec.setdefault("completions", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    _template_defaults(spec)
    if not spec["manualSelector"]:
        metadata = tree["metadata"]
        names = {"controller-uid": metadata["uid"], "job-name": metadata["name"]}
        labels = {f"batch.kubernetes.io/{key}": value for key, value in names.items()}
        pod = spec["template"]["metadata"]
        pod["labels"] = {**names, **labels, **(pod.get("labels") or {})}
        metadata["labels"] = {**pod["labels"], **(metadata.get("labels") or {})}
        uid = {"batch.kubernetes.io/controller-uid": metadata["uid"]}
        spec.setdefault("selector", {"matchLabels": uid})
    tree.setdefault("status", {})


def _cron_job(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    job = spec.setdefault("jobTemplate", {})
    job.setdefault("metadata", {})
    _template_defaults(job.setdefault("spec", {}))
    tree.setdefault("status", {})


def _namespace(tree: Tree) -> None:
    labels = tree["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = tree["metadata"].get("name", "")
    tree.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    tree.setdefault("status", {}).setdefault("phase", "Active")


def _service(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["type"] != "ExternalName":
        # Taken from the uid, so that an update which leaves it out finds the same one again.
        number = uuid.UUID(tree["metadata"]["uid"]).int
        address = f"10.96.{number >> 8 & 0xFF}.{number & 0xFF}"
        spec.setdefault("clusterIP", address)
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        if "port" in port:
            port.setdefault("targetPort", port["port"])
    tree.setdefault("status", {}).setdefault("loadBalancer", {})


def _secret(tree: Tree) -> None:
    tree.setdefault("type", "Opaque")


def _persistent_volume_claim(tree: Tree) -> None:
    tree.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    tree.setdefault("status", {}).setdefault("phase", "Pending")


def _persistent_volume(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    tree.setdefault("status", {}).setdefault("phase", "Pending")


def _role_binding(tree: Tree) -> None:
    tree.setdefault("roleRef", {}).setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in tree.get("subjects") or []:
        if subject.get("kind") in {"User", "Group"}:
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _autoscaler(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    target = {"type": "Utilization", "averageUtilization": 80}
    resource = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    spec.setdefault("metrics", [resource])
    status = tree.setdefault("status", {})
    status.setdefault("desiredReplicas", 0)


def _status_only(tree: Tree) -> None:
    tree.setdefault("status", {})


def _ingress(tree: Tree) -> None:
    tree.setdefault("status", {}).setdefault("loadBalancer", {})


_DEFAULTS: dict[str, Callable[[Tree], None]] = {
    "clusterrolebindings.rbac.authorization.k8s.io": _role_binding,
    "cronjobs.batch": _cron_job,
    CRD_TABLE: default_definition,
    "daemonsets.apps": _daemon_set,
    "deployments.apps": _deployment,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "ingresses.networking.k8s.io": _ingress,
    "jobs.batch": _job,
    "namespaces": _namespace,
    "nodes": _status_only,
    "persistentvolumeclaims": _persistent_volume_claim,
    "persistentvolumes": _persistent_volume,
    "pods": _pod,
    "replicasets.apps": _replica_set,
    "rolebindings.rbac.authorization.k8s.io": _role_binding,
    "secrets": _secret,
    "services": _service,
    "statefulsets.apps": _stateful_set,
}


def apply_defaults(resource: Resource, tree: Tree) -> None:
    """Fill in what the kind's API fills in for itself."""
    default = _DEFAULTS.get(resource.table)
    if default is not None and not resource.is_custom:
        default(tree)
