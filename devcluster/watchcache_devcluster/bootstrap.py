"""What a cluster holds before anybody writes: namespaces and the roles that everybody relies on."""

from __future__ import annotations

from typing import Any

from watchcache_devcluster.options import WriteOptions
from watchcache_devcluster.resources import Catalog
from watchcache_devcluster.writer import Writer

__all__ = ["bootstrap"]

_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_WORKLOADS: list[dict[str, Any]] = [
    {
        "apiGroups": [""],
        "resources": [
            "configmaps",
            "endpoints",
            "events",
            "persistentvolumeclaims",
            "pods",
            "serviceaccounts",
            "services",
        ],
    },
    {"apiGroups": ["apps"], "resources": ["*"]},
    {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"]},
    {"apiGroups": ["batch"], "resources": ["cronjobs", "jobs"]},
    {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses", "networkpolicies"]},
]
_SECRETS: dict[str, Any] = {"apiGroups": [""], "resources": ["secrets"]}
_TOKENS: dict[str, Any] = {"apiGroups": [""], "resources": ["serviceaccounts/token"]}
_DISCOVERY_PATHS = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"]
_PUBLIC_PATHS = ["/healthz", "/livez", "/readyz", "/version", "/version/"]


def _with(verbs: list[str], rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**rule, "verbs": verbs} for rule in rules]


def _roles() -> dict[str, list[dict[str, Any]]]:
    everything = _READ + _WRITE
    view = [
        *_with(_READ, _WORKLOADS),
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": _READ},
    ]
    edit = [
        *_with(everything, [*_WORKLOADS, _SECRETS]),
        {**_TOKENS, "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": _READ},
    ]
    admin = [
        *edit,
        {"apiGroups": [_RBAC], "resources": ["rolebindings", "roles"], "verbs": everything},
    ]
    full_reviews = [
        {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["tokenreviews"],
            "verbs": ["create"],
        },
        {
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["subjectaccessreviews"],
            "verbs": ["create"],
        },
    ]
    reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    return {
        "admin": admin,
        "cluster-admin": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ],
        "edit": edit,
        "system:auth-delegator": full_reviews,
        "system:basic-user": [
            {"apiGroups": ["authorization.k8s.io"], "resources": reviews, "verbs": ["create"]},
            {
                "apiGroups": ["authentication.k8s.io"],
                "resources": ["selfsubjectreviews"],
                "verbs": ["create"],
            },
        ],
        "system:discovery": [
            {"nonResourceURLs": [*_DISCOVERY_PATHS, *_PUBLIC_PATHS], "verbs": ["get"]}
        ],
        "system:public-info-viewer": [{"nonResourceURLs": _PUBLIC_PATHS, "verbs": ["get"]}],
        "view": view,
    }


_BINDINGS: dict[str, list[str]] = {
    "cluster-admin": ["system:masters"],
    "system:basic-user": ["system:authenticated"],
    "system:discovery": ["system:authenticated"],
    "system:public-info-viewer": ["system:authenticated", "system:unauthenticated"],
}


def bootstrap(writer: Writer, catalog: Catalog) -> None:
    """Write the initial objects."""
    options = WriteOptions("kube-apiserver")
    for name in ("default", "kube-node-lease", "kube-public", "kube-system"):
        writer.create(catalog.resolve("namespaces"), "", {"metadata": {"name": name}}, options)
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    for name, rules in _roles().items():
        role = {"metadata": {"name": name, "labels": labels}, "rules": rules}
        writer.create(catalog.resolve("clusterroles"), "", role, options)
    for name, groups in _BINDINGS.items():
        binding = {
            "metadata": {"name": name, "labels": labels},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group} for group in groups],
        }
        writer.create(catalog.resolve("clusterrolebindings"), "", binding, options)
