"""Discovery documents as API servers write them, built from a short list of resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

READ = ("get", "list", "watch")


@dataclass(frozen=True)
class Kind:
    """A resource to serve."""

    resource: str
    kind: str
    is_namespaced: bool = True
    verbs: tuple[str, ...] = READ
    short_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Version:
    """A version of a group with its resources."""

    group: str
    version: str
    kinds: tuple[Kind, ...] = ()
    is_stale: bool = False


@dataclass
class Served:
    """What a server serves, in the order of preference."""

    versions: list[Version] = field(default_factory=list)

    def aggregated(self, *, is_core: bool) -> dict[str, Any]:
        """Return the aggregated document of the core group or of the others."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for each in self._part(is_core=is_core):
            groups.setdefault(each.group, []).append(_aggregated_version(each))
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [
                {"metadata": {"name": group} if group else {}, "versions": versions}
                for group, versions in groups.items()
            ],
        }

    def legacy(self) -> Mapping[str, dict[str, Any]]:
        """Return the legacy documents by their paths."""
        core = [each.version for each in self._part(is_core=True)]
        groups: dict[str, list[dict[str, str]]] = {}
        for each in self._part(is_core=False):
            entry = {"groupVersion": f"{each.group}/{each.version}", "version": each.version}
            groups.setdefault(each.group, []).append(entry)
        documents: dict[str, dict[str, Any]] = {
            "/api": {"kind": "APIVersions", "versions": core},
            "/apis": {
                "kind": "APIGroupList",
                "groups": [
                    {
                        "name": group,
                        "versions": sorted(versions, key=lambda each: each["version"]),
                        "preferredVersion": versions[0],
                    }
                    for group, versions in groups.items()
                ],
            },
        }
        for each in self.versions:
            path = f"/apis/{each.group}/{each.version}" if each.group else f"/api/{each.version}"
            documents[path] = _legacy_version(each)
        return documents

    def _part(self, *, is_core: bool) -> Iterable[Version]:
        return [each for each in self.versions if (each.group == "") == is_core]


def _aggregated_version(version: Version) -> dict[str, Any]:
    return {
        "version": version.version,
        "freshness": "Stale" if version.is_stale else "Current",
        "resources": [
            {
                "resource": kind.resource,
                "responseKind": {"group": "", "version": "", "kind": kind.kind},
                "scope": "Namespaced" if kind.is_namespaced else "Cluster",
                "singularResource": kind.kind.lower(),
                "verbs": list(kind.verbs),
                "shortNames": list(kind.short_names),
                "subresources": [{"subresource": "status", "verbs": ["get"]}],
            }
            for kind in version.kinds
        ],
    }


def _legacy_version(version: Version) -> dict[str, Any]:
    resources: list[dict[str, Any]] = []
    for kind in version.kinds:
        entry = {
            "name": kind.resource,
            "kind": kind.kind,
            "namespaced": kind.is_namespaced,
            "singularName": kind.kind.lower(),
            "verbs": list(kind.verbs),
            "shortNames": list(kind.short_names),
        }
        resources += [entry, {**entry, "name": f"{kind.resource}/status", "verbs": ["get"]}]
    return {"kind": "APIResourceList", "resources": resources}


PODS = Kind("pods", "Pod", short_names=("po",))
NODES = Kind("nodes", "Node", is_namespaced=False)
DEPLOYMENTS = Kind("deployments", "Deployment", short_names=("deploy",))
AUTOSCALERS = Kind("horizontalpodautoscalers", "HorizontalPodAutoscaler")
REVIEWS = Kind("tokenreviews", "TokenReview", is_namespaced=False, verbs=("create",))

USUAL = (
    Version("", "v1", (PODS, NODES)),
    Version("apps", "v1", (DEPLOYMENTS,)),
    Version("autoscaling", "v2", (AUTOSCALERS,)),
    Version("autoscaling", "v1", (AUTOSCALERS,)),
    Version("authentication.k8s.io", "v1", (REVIEWS,)),
)
