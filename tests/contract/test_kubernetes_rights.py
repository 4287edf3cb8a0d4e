"""Contract: what a caller may do, by RBAC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.contract.api import Api, eventually, unique
from tests.contract.objects import summary
from tests.contract.rights import RBAC, RBAC_GROUP, Robot, bind, is_allowed, rights_are_known, rule


@dataclass(frozen=True)
class Grant:
    """Rules that someone is given, and what that allows or not. `{ns}` is the test's namespace."""

    rules: list[dict[str, Any]]
    allowed: list[dict[str, str]]
    denied: list[dict[str, str]]
    role: str = "Role"
    binding: str = "RoleBinding"
    kind: str = "User"
    asked_as: dict[str, Any] = field(default_factory=dict)


def attributes(verb: str, resource: str, **more: str) -> dict[str, str]:
    """Return what to ask for in the test's namespace; a slash leads to a subresource."""
    name, _, subresource = resource.partition("/")
    made = {"namespace": "{ns}", "verb": verb, "resource": name, **more}
    return {**made, "subresource": subresource} if subresource else made


GRANTS = {
    "a verb on a resource": Grant(
        [rule("configmaps", "get list")],
        [attributes("get", "configmaps"), attributes("list", "configmaps")],
        [
            attributes("watch", "configmaps"),
            attributes("get", "secrets"),
            attributes("get", "configmaps", group="apps"),
            attributes("get", "configmaps", namespace="default"),
            attributes("get", "configmaps", namespace=""),
        ],
    ),
    "everything in a group": Grant(
        [rule("*", "*", groups="apps")],
        [
            attributes("delete", "deployments", group="apps"),
            attributes("get", "deployments/scale", group="apps"),
            attributes("frobnicate", "anything", group="apps"),
        ],
        [attributes("get", "configmaps"), attributes("get", "jobs", group="batch")],
    ),
    "every group": Grant(
        [rule("things", "get", groups="*")],
        [attributes("get", "things"), attributes("get", "things", group="g.example")],
        [attributes("get", "others", group="g.example")],
    ),
    "named objects": Grant(
        [rule("configmaps", "get list watch delete", names="a b")],
        [
            attributes("get", "configmaps", name="a"),
            attributes("delete", "configmaps", name="b"),
            attributes("watch", "configmaps", name="a"),
        ],
        [
            attributes("get", "configmaps", name="c"),
            attributes("list", "configmaps"),
            attributes("get", "configmaps"),
        ],
    ),
    "minting tokens of a named account": Grant(
        [rule("serviceaccounts/token", "create", names="robot")],
        [attributes("create", "serviceaccounts/token", name="robot")],
        [
            attributes("create", "serviceaccounts/token", name="other"),
            attributes("create", "serviceaccounts/token"),
            attributes("create", "serviceaccounts", name="robot"),
        ],
    ),
    "a subresource is not its resource": Grant(
        [rule("pods/log", "get"), rule("deployments", "update", groups="apps")],
        [attributes("get", "pods/log"), attributes("update", "deployments", group="apps")],
        [
            attributes("get", "pods"),
            attributes("get", "pods/status"),
            attributes("update", "deployments/scale", group="apps"),
        ],
    ),
    "one subresource of every resource": Grant(
        [rule("*/status", "get", groups="*")],
        [attributes("get", "pods/status"), attributes("get", "deployments/status", group="apps")],
        [attributes("get", "pods"), attributes("get", "pods/log")],
    ),
    "a cluster role within a namespace": Grant(
        [rule("configmaps nodes", "get")],
        [attributes("get", "configmaps")],
        [
            attributes("get", "configmaps", namespace="default"),
            attributes("get", "nodes", namespace=""),
        ],
        role="ClusterRole",
    ),
    "a cluster role everywhere": Grant(
        [rule("configmaps nodes", "get")],
        [
            attributes("get", "configmaps"),
            attributes("get", "configmaps", namespace="default"),
            attributes("get", "configmaps", namespace=""),
            attributes("get", "nodes", namespace=""),
        ],
        [attributes("list", "nodes", namespace="")],
        role="ClusterRole",
        binding="ClusterRoleBinding",
    ),
    "a group": Grant(
        [rule("configmaps", "get")],
        [attributes("get", "configmaps")],
        [attributes("list", "configmaps")],
        kind="Group",
    ),
    "a service account": Grant(
        [rule("configmaps", "get")],
        [attributes("get", "configmaps")],
        [attributes("list", "configmaps")],
        kind="ServiceAccount",
    ),
    "standing in for a service account": Grant(
        [rule("serviceaccounts", "impersonate", names="robot")],
        [attributes("impersonate", "serviceaccounts", name="robot")],
        [attributes("impersonate", "serviceaccounts", name="other")],
    ),
}


@pytest.mark.parametrize("grant", GRANTS.values(), ids=GRANTS.keys())
async def test_a_grant_allows_what_it_says_and_no_more(
    api: Api, namespace: str, grant: Grant
) -> None:
    """Rights add up from rules that match verb, group, resource and name; there is no denial."""
    who = unique("who")
    subject = {"kind": grant.kind, "name": who, "apiGroup": RBAC_GROUP}
    user: dict[str, Any] = {"user": who}
    if grant.kind == "Group":
        user = {"user": "someone", "groups": ["others", who]}
    elif grant.kind == "ServiceAccount":
        subject = {"kind": "ServiceAccount", "name": who, "namespace": namespace}
        user = {"user": f"system:serviceaccount:{namespace}:{who}"}
    await bind(api, namespace, grant.rules, subject, role=grant.role, binding=grant.binding)
    await rights_are_known(api, namespace)
    for is_expected, cases in ((True, grant.allowed), (False, grant.denied)):
        for case in cases:
            asked = {key: value.format(ns=namespace) for key, value in case.items()}
            answer = await is_allowed(api, user, {"resourceAttributes": asked})
            assert answer is is_expected, asked


async def test_paths_can_be_granted_by_prefix(api: Api, namespace: str) -> None:
    """A cluster role may allow paths that are no resources, with a star at the end."""
    who = unique("who")
    rules = [{"nonResourceURLs": ["/metrics", "/debug/*"], "verbs": ["get"]}]
    subject = {"kind": "User", "name": who, "apiGroup": RBAC_GROUP}
    await bind(api, namespace, rules, subject, role="ClusterRole", binding="ClusterRoleBinding")
    await rights_are_known(api, namespace)
    for path, verb, expected in (
        ("/metrics", "get", True),
        ("/debug/pprof/heap", "get", True),
        ("/metrics/more", "get", False),
        ("/metrics", "post", False),
    ):
        attributes = {"nonResourceAttributes": {"path": path, "verb": verb}}
        assert await is_allowed(api, {"user": who}, attributes) is expected, path


async def test_a_binding_to_a_missing_role_grants_nothing(api: Api, namespace: str) -> None:
    """A binding may come before its role; it counts from when the role is there."""
    who = unique("who")
    binding = {
        "metadata": {"name": "early"},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "Role", "name": "late"},
        "subjects": [{"kind": "User", "name": who, "apiGroup": RBAC_GROUP}],
    }
    path = f"{RBAC}/namespaces/{namespace}"
    await api.create(f"{path}/rolebindings", binding)
    await rights_are_known(api, namespace)
    asked = {
        "resourceAttributes": {"namespace": namespace, "verb": "get", "resource": "configmaps"}
    }
    assert not await is_allowed(api, {"user": who}, asked)
    role = {"metadata": {"name": "late"}, "rules": [rule("configmaps", "get")]}
    await api.create(f"{path}/roles", role)
    await eventually(lambda: is_allowed(api, {"user": who}, asked), "the role is in force")


async def test_what_a_binding_refers_to_cannot_change(api: Api, namespace: str) -> None:
    """The roleRef of a binding is immutable, and must be there."""
    subject = {"kind": "User", "name": "someone", "apiGroup": RBAC_GROUP}
    name = await bind(api, namespace, [rule("configmaps", "get")], subject)
    path = f"{RBAC}/namespaces/{namespace}/rolebindings"
    refused = await api.patch(f"{path}/{name}", {"roleRef": {"name": "other"}}, expect=422)
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["roleRef"]
    assert refused["message"].endswith("cannot change roleRef")
    refused = await api.create(path, {"metadata": {"name": "a"}, "subjects": []}, expect=422)
    fields = {cause["field"] for cause in refused["details"]["causes"]}
    assert fields == {"roleRef.kind", "roleRef.name"}


async def test_the_first_roles_are_there(api: Api) -> None:
    """A new cluster has the roles that people bind, and its administrators bound."""
    roles = {item["metadata"]["name"] for item in (await api.get(f"{RBAC}/clusterroles"))["items"]}
    assert {"admin", "cluster-admin", "edit", "view", "system:auth-delegator"} <= roles
    bindings = await api.get(f"{RBAC}/clusterrolebindings")
    assert "cluster-admin" in {item["metadata"]["name"] for item in bindings["items"]}


class TestEnforcement:
    """Rights as they come and go."""

    async def test_a_grant_and_a_revocation_take_effect(
        self, api: Api, robot: Robot, configmaps: str
    ) -> None:
        """Soon after the binding is made the caller is let in, and soon after its end kept out."""

        async def status() -> int:
            return (await api.call("GET", configmaps, token=robot.token)).status

        async def is_open() -> bool:
            return await status() == 200

        async def is_closed() -> bool:
            return await status() == 403

        assert await is_closed()
        name = await bind(api, robot.namespace, [rule("configmaps", "list")], robot.subject)
        await eventually(is_open, "the grant is in force")
        await api.delete(f"{RBAC}/namespaces/{robot.namespace}/rolebindings/{name}")
        await eventually(is_closed, "the revocation is in force")

    async def test_a_named_object_can_be_listed_and_watched_by_name(
        self, api: Api, robot: Robot, configmaps: str
    ) -> None:
        """With resourceNames a list is allowed if a field selector asks for that name alone."""
        for name in ("a", "b"):
            await api.create(configmaps, {"metadata": {"name": name}})
        named = rule("configmaps", "get list watch", names="a")
        await bind(api, robot.namespace, [named], robot.subject)
        await rights_are_known(api, robot.namespace)
        by_name = {"fieldSelector": "metadata.name=a"}
        found = await api.get(configmaps, token=robot.token, **by_name)
        assert [item["metadata"]["name"] for item in found["items"]] == ["a"]
        async with api.watch(configmaps, token=robot.token, **by_name) as stream:
            assert summary(await stream.next()) == ("ADDED", "a")
        for path, query in (
            (configmaps, {}),
            (configmaps, {"fieldSelector": "metadata.name=b"}),
            (configmaps, {"fieldSelector": "metadata.name!=b"}),
            (f"{configmaps}/b", {}),
        ):
            await api.get(path, token=robot.token, expect=403, **query)

    async def test_a_running_watch_outlives_its_right(
        self, api: Api, robot: Robot, configmaps: str
    ) -> None:
        """A watch is authorized when it is opened and not again."""
        grants = rule("configmaps", "list watch")
        name = await bind(api, robot.namespace, [grants], robot.subject)
        await rights_are_known(api, robot.namespace)
        found = await api.get(configmaps, token=robot.token)
        start = found["metadata"]["resourceVersion"]
        async with api.watch(configmaps, token=robot.token, resourceVersion=start) as stream:
            await api.delete(f"{RBAC}/namespaces/{robot.namespace}/rolebindings/{name}")

            async def is_closed() -> bool:
                return (await api.call("GET", configmaps, token=robot.token)).status == 403

            await eventually(is_closed, "the revocation is in force")
            await api.create(configmaps, {"metadata": {"name": "a"}})
            assert summary(await stream.next()) == ("ADDED", "a")
