"""The kinds that every cluster serves without a CustomResourceDefinition.

One row per kind, in the order of discovery. What a kind needs beyond its row (defaults, what may
not change) is in `strategies`; how its rows look in kubectl is in `tables`.
"""

from __future__ import annotations

from typing import Any

from watchcache_devcluster.conversions import (
    event_from_core,
    event_to_core,
    hpa_v1_to_v2,
    hpa_v2_to_v1,
)
from watchcache_devcluster.resources import Resource

__all__ = ["BUILTIN_RESOURCES", "REVIEW_RESOURCES"]

POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)

EVENT_LABELS = (
    *((old.replace("involvedObject", "regarding"), old) for old in EVENT_FIELDS[:7]),
    ("reportingController", "reportingComponent"),
)


def _core(plural: str, kind: str, *short: str, namespaced: bool = True, **more: Any) -> Resource:
    return Resource("", "v1", plural, kind, namespaced, short_names=short, **more)


def _group(
    group_version: str, plural: str, kind: str, *short: str, namespaced: bool = True, **more: Any
) -> Resource:
    group, _, version = group_version.rpartition("/")
    return Resource(group, version, plural, kind, namespaced, short_names=short, **more)


_WORKLOAD: dict[str, Any] = {"has_status": True, "has_generation": True, "categories": ("all",)}
_RBAC = "rbac.authorization.k8s.io/v1"

BUILTIN_RESOURCES: tuple[Resource, ...] = (
    _core("configmaps", "ConfigMap", "cm"),
    _core("endpoints", "Endpoints", "ep", singular="endpoints"),
    _core("events", "Event", "ev", selectable=EVENT_FIELDS),
    _core(
        "namespaces",
        "Namespace",
        "ns",
        namespaced=False,
        has_status=True,
        selectable=("status.phase",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    ),
    _core(
        "nodes",
        "Node",
        "no",
        namespaced=False,
        has_status=True,
        selectable=("spec.unschedulable",),
    ),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", has_status=True),
    _core("persistentvolumes", "PersistentVolume", "pv", namespaced=False, has_status=True),
    _core(
        "pods",
        "Pod",
        "po",
        has_status=True,
        has_generation=True,
        categories=("all",),
        selectable=POD_FIELDS,
    ),
    _core("secrets", "Secret", selectable=("type",)),
    _core("serviceaccounts", "ServiceAccount", "sa"),
    _core(
        "services",
        "Service",
        "svc",
        has_status=True,
        categories=("all",),
        selectable=("spec.clusterIP", "spec.type"),
    ),
    _group(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd",
        "crds",
        namespaced=False,
        has_status=True,
        has_generation=True,
        categories=("api-extensions",),
    ),
    _group("apps/v1", "daemonsets", "DaemonSet", "ds", **_WORKLOAD),
    _group("apps/v1", "deployments", "Deployment", "deploy", has_scale=True, **_WORKLOAD),
    _group(
        "apps/v1",
        "replicasets",
        "ReplicaSet",
        "rs",
        has_scale=True,
        selectable=("status.replicas",),
        **_WORKLOAD,
    ),
    _group("apps/v1", "statefulsets", "StatefulSet", "sts", has_scale=True, **_WORKLOAD),
    _group(
        "autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        "hpa",
        has_status=True,
        categories=("all",),
    ),
    _group(
        "autoscaling/v1",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        "hpa",
        has_status=True,
        categories=("all",),
        from_storage=hpa_v2_to_v1,
        to_storage=hpa_v1_to_v2,
    ),
    _group("batch/v1", "cronjobs", "CronJob", "cj", **_WORKLOAD),
    _group("batch/v1", "jobs", "Job", selectable=("status.successful",), **_WORKLOAD),
    _group("coordination.k8s.io/v1", "leases", "Lease"),
    _group(
        "events.k8s.io/v1",
        "events",
        "Event",
        "ev",
        table="events",
        selectable=("reason", "type", *(new for new, _ in EVENT_LABELS)),
        selectable_as=EVENT_LABELS,
        from_storage=event_from_core,
        to_storage=event_to_core,
    ),
    _group(
        "networking.k8s.io/v1",
        "ingresses",
        "Ingress",
        "ing",
        has_status=True,
        has_generation=True,
    ),
    _group(
        "networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "netpol", has_generation=True
    ),
    _group(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _group(_RBAC, "clusterroles", "ClusterRole", namespaced=False),
    _group(_RBAC, "rolebindings", "RoleBinding"),
    _group(_RBAC, "roles", "Role"),
)


def _review(group: str, plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced, verbs=("create",))


_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"

REVIEW_RESOURCES: tuple[Resource, ...] = (
    _review(_AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
    _review(_AUTHENTICATION, "tokenreviews", "TokenReview"),
    _review(
        _AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True
    ),
    _review(_AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review(_AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review(_AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview"),
)
