"""Contract: discovery, the server's version and its health."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api, eventually
from tests.contract.definitions import define, new_kind

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_WITHOUT_COLLECTION = [verb for verb in _VERBS if verb != "deletecollection"]

# Group version, plural, singular, kind, whether namespaced, short names, whether in "all".
BUILT_IN = [
    ("v1", "configmaps", "configmap", "ConfigMap", True, ["cm"], False),
    ("v1", "endpoints", "endpoints", "Endpoints", True, ["ep"], False),
    ("v1", "events", "event", "Event", True, ["ev"], False),
    ("v1", "namespaces", "namespace", "Namespace", False, ["ns"], False),
    ("v1", "nodes", "node", "Node", False, ["no"], False),
    ("v1", "pods", "pod", "Pod", True, ["po"], True),
    ("v1", "secrets", "secret", "Secret", True, [], False),
    ("v1", "serviceaccounts", "serviceaccount", "ServiceAccount", True, ["sa"], False),
    ("v1", "services", "service", "Service", True, ["svc"], True),
    ("apps/v1", "daemonsets", "daemonset", "DaemonSet", True, ["ds"], True),
    ("apps/v1", "deployments", "deployment", "Deployment", True, ["deploy"], True),
    ("apps/v1", "replicasets", "replicaset", "ReplicaSet", True, ["rs"], True),
    ("apps/v1", "statefulsets", "statefulset", "StatefulSet", True, ["sts"], True),
    ("batch/v1", "cronjobs", "cronjob", "CronJob", True, ["cj"], True),
    ("batch/v1", "jobs", "job", "Job", True, [], True),
    ("coordination.k8s.io/v1", "leases", "lease", "Lease", True, [], False),
    ("rbac.authorization.k8s.io/v1", "roles", "role", "Role", True, [], False),
    ("rbac.authorization.k8s.io/v1", "rolebindings", "rolebinding", "RoleBinding", True, [], False),
    (
        "rbac.authorization.k8s.io/v1",
        "clusterroles",
        "clusterrole",
        "ClusterRole",
        False,
        [],
        False,
    ),
    (
        "rbac.authorization.k8s.io/v1",
        "clusterrolebindings",
        "clusterrolebinding",
        "ClusterRoleBinding",
        False,
        [],
        False,
    ),
    (
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "customresourcedefinition",
        "CustomResourceDefinition",
        False,
        ["crd", "crds"],
        False,
    ),
]
SUBRESOURCES = {
    ("v1", "serviceaccounts/token"): (
        {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
        ["create"],
    ),
    ("v1", "namespaces/status"): ({"kind": "Namespace"}, ["get", "patch", "update"]),
    ("v1", "pods/status"): ({"kind": "Pod"}, ["get", "patch", "update"]),
    ("apps/v1", "deployments/status"): ({"kind": "Deployment"}, ["get", "patch", "update"]),
    ("apps/v1", "deployments/scale"): (
        {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        ["get", "patch", "update"],
    ),
}


def path_of(group_version: str) -> str:
    """Return the path of a group version."""
    return f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"


async def resources_of(api: Api, group_version: str) -> dict[str, dict[str, Any]]:
    """Return what a group version serves, by name."""
    found = await api.get(path_of(group_version))
    assert (found["kind"], found["groupVersion"]) == ("APIResourceList", group_version)
    return {entry["name"]: entry for entry in found["resources"]}


async def aggregated(api: Api, path: str) -> dict[str, dict[str, Any]]:
    """Return the aggregated discovery of a path: group name to its entry."""
    answer = await api.call("GET", path, accept=f"{_AGGREGATED},application/json", expect=200)
    assert (answer.body["kind"], answer.body["apiVersion"]) == (
        "APIGroupDiscoveryList",
        "apidiscovery.k8s.io/v2",
    )
    return {entry["metadata"].get("name", ""): entry for entry in answer.body["items"]}


async def aggregated_resources(api: Api, group_version: str) -> dict[str, dict[str, Any]]:
    """Return what the aggregated discovery says of a group version, by resource."""
    group, _, version = group_version.rpartition("/")
    groups = await aggregated(api, "/apis" if group else "/api")
    for entry in groups[group]["versions"]:
        if entry["version"] == version:
            return {resource["resource"]: resource for resource in entry["resources"]}
    raise AssertionError(f"{group_version} is not in the aggregated discovery")


async def test_the_version_is_told(api: Api) -> None:
    """/version names the version that the server follows, as three fields."""
    found = await api.get("/version")
    major, minor = found["gitVersion"].removeprefix("v").split(".")[:2]
    assert (found["major"], found["minor"].rstrip("+")) == (major, minor)
    assert {"gitCommit", "buildDate", "goVersion", "compiler", "platform"} <= set(found)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_one_word(api: Api, path: str) -> None:
    """A healthy server answers ok in plain text."""
    answer = await api.call("GET", path, expect=200)
    assert answer.body == "ok"
    assert answer.headers["Content-Type"].startswith("text/plain")


async def test_the_core_has_versions(api: Api) -> None:
    """/api lists the versions of the core group."""
    found = await api.get("/api")
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


async def test_groups_are_listed_with_their_versions(api: Api) -> None:
    """/apis lists each group, its versions, and the one that is preferred."""
    found = await api.get("/apis")
    assert (found["kind"], found["apiVersion"]) == ("APIGroupList", "v1")
    groups = {entry["name"]: entry for entry in found["groups"]}
    wanted = {row[0].rpartition("/")[0] for row in BUILT_IN} - {""}
    assert wanted | {"authentication.k8s.io", "authorization.k8s.io"} <= set(groups)
    version = {"groupVersion": "apps/v1", "version": "v1"}
    assert groups["apps"] == {"name": "apps", "versions": [version], "preferredVersion": version}


async def test_a_group_can_be_asked_for(api: Api) -> None:
    """/apis/GROUP is that group's entry by itself."""
    version = {"groupVersion": "apps/v1", "version": "v1"}
    assert await api.get("/apis/apps") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "apps",
        "versions": [version],
        "preferredVersion": version,
    }


async def test_an_unknown_group_is_404(api: Api) -> None:
    """A group that is not served has no discovery."""
    for path in ("/apis/nonesuch.example", "/apis/nonesuch.example/v1", "/api/v9"):
        assert (await api.call("GET", path)).status == 404, path


@pytest.mark.parametrize("row", BUILT_IN, ids=[f"{row[0]}/{row[1]}" for row in BUILT_IN])
async def test_a_built_in_resource_is_described(api: Api, row: tuple[Any, ...]) -> None:
    """Both forms of discovery tell names, scope and verbs of a resource alike."""
    group_version, plural, singular, kind, is_namespaced, short, is_in_all = row
    verbs = _WITHOUT_COLLECTION if plural == "namespaces" else _VERBS
    entry = (await resources_of(api, group_version))[plural]
    assert entry["singularName"] == singular
    assert (entry["kind"], entry["namespaced"]) == (kind, is_namespaced)
    assert sorted(entry["verbs"]) == verbs
    assert entry.get("shortNames", []) == short
    assert ("all" in entry.get("categories", [])) == is_in_all

    same = (await aggregated_resources(api, group_version))[plural]
    assert same["responseKind"]["kind"] == kind
    assert same["scope"] == ("Namespaced" if is_namespaced else "Cluster")
    assert same["singularResource"] == singular
    assert sorted(same["verbs"]) == verbs
    assert same.get("shortNames", []) == short
    assert ("all" in same.get("categories", [])) == is_in_all


@pytest.mark.parametrize("where", SUBRESOURCES.keys(), ids="/".join)
async def test_a_subresource_is_described(api: Api, where: tuple[str, str]) -> None:
    """A subresource has an entry of its own, or in the aggregated form one within its resource."""
    group_version, name = where
    expected, verbs = SUBRESOURCES[where]
    entry = (await resources_of(api, group_version))[name]
    described = {key: entry[key] for key in ("group", "version", "kind") if key in entry}
    assert (described, entry["verbs"]) == (expected, verbs)
    resource, _, subresource = name.partition("/")
    inner = (await aggregated_resources(api, group_version))[resource]["subresources"]
    found = {part["subresource"]: part for part in inner}[subresource]
    assert found["responseKind"]["kind"] == expected["kind"]
    assert found["verbs"] == verbs


async def test_the_aggregated_form_is_told_by_its_type(api: Api) -> None:
    """The Content-Type says which form was given, so that a client can tell an older server's."""
    for path in ("/api", "/apis"):
        answer = await api.call("GET", path, accept=f"{_AGGREGATED},application/json", expect=200)
        assert answer.headers["Content-Type"] == _AGGREGATED
    groups = await aggregated(api, "/apis")
    assert [entry["freshness"] for entry in groups["apps"]["versions"]] == ["Current"]


async def test_an_unknown_aggregated_form_falls_back(api: Api) -> None:
    """A client that offers a form of the future and plain JSON is given plain JSON."""
    accept = f"{_AGGREGATED.replace('v=v2', 'v=v9')},application/json"
    answer = await api.call("GET", "/apis", accept=accept, expect=200)
    assert answer.body["kind"] == "APIGroupList"
    assert answer.headers["Content-Type"] == "application/json"


async def test_a_custom_kind_comes_and_goes(api: Api) -> None:
    """A defined kind appears in every form of discovery, and disappears with its definition."""
    kind = new_kind(is_namespaced=False, versions=("v1", "v1beta1"))
    await define(api, kind)

    async def is_listed() -> bool:
        groups = {entry["name"] for entry in (await api.get("/apis"))["groups"]}
        return kind.group in groups and kind.group in await aggregated(api, "/apis")

    await eventually(is_listed, "the group is listed")
    group = await api.get(f"/apis/{kind.group}")
    assert [entry["version"] for entry in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1"
    served = await resources_of(api, f"{kind.group}/v1beta1")
    assert set(served) == {"widgets", "widgets/status"}
    assert (served["widgets"]["kind"], served["widgets"]["namespaced"]) == ("Widget", False)
    assert sorted(served["widgets"]["verbs"]) == _VERBS
    same = (await aggregated_resources(api, f"{kind.group}/v1"))["widgets"]
    assert same["responseKind"] == {"group": kind.group, "version": "v1", "kind": "Widget"}
    assert same["scope"] == "Cluster"

    await api.delete(kind.definition_path)

    async def is_unlisted() -> bool:
        groups = {entry["name"] for entry in (await api.get("/apis"))["groups"]}
        answer = await api.call("GET", f"/apis/{kind.group}/v1")
        return (
            kind.group not in groups
            and kind.group not in await aggregated(api, "/apis")
            and answer.status == 404
        )

    await eventually(is_unlisted, "the group is no longer listed")
