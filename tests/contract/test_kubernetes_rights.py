"""Contract: what a caller may do: RBAC, and the reviews that tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.contract.api import Api, eventually, unique
from tests.contract.test_kubernetes_objects import assert_refused
from tests.contract.test_kubernetes_watches import summary

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS = "/apis/authorization.k8s.io/v1"
_GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Robot:
    """A ServiceAccount that has no rights of its own, with a token."""

    namespace: str
    token: str

    @property
    def user(self) -> str:
        """Its user name."""
        return f"system:serviceaccount:{self.namespace}:robot"

    @property
    def subject(self) -> dict[str, str]:
        """How a binding names it."""
        return {"kind": "ServiceAccount", "name": "robot", "namespace": self.namespace}


@pytest.fixture
async def robot(api: Api, namespace: str) -> Robot:
    """Give a ServiceAccount of the test's namespace."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(path, {"metadata": {"name": "robot"}})
    made = await api.create(f"{path}/robot/token", {"spec": {}})
    return Robot(namespace, made["status"]["token"])


def rule(resources: str, verbs: str, *, groups: str = "", names: str = "") -> dict[str, Any]:
    """Return a rule from words; an empty group is the core."""
    made: dict[str, Any] = {
        "apiGroups": groups.split() or [""],
        "resources": resources.split(),
        "verbs": verbs.split(),
    }
    return {**made, "resourceNames": names.split()} if names else made


async def bind(
    api: Api,
    namespace: str,
    rules: list[dict[str, Any]],
    subject: dict[str, str],
    *,
    role: str = "Role",
    binding: str = "RoleBinding",
) -> str:
    """Make a role and a binding of these kinds under one new name, and return the name."""
    name = unique("grant")
    where = {
        kind: _RBAC if kind.startswith("Cluster") else f"{_RBAC}/namespaces/{namespace}"
        for kind in (role, binding)
    }
    await api.create(f"{where[role]}/{role.lower()}s", {"metadata": {"name": name}, "rules": rules})
    await api.create(
        f"{where[binding]}/{binding.lower()}s",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": _GROUP, "kind": role, "name": name},
            "subjects": [subject],
        },
    )
    return name


async def is_allowed(api: Api, user: dict[str, Any], attributes: dict[str, Any]) -> bool:
    """Ask the server by a SubjectAccessReview."""
    made = await api.create(f"{_REVIEWS}/subjectaccessreviews", {"spec": {**user, **attributes}})
    allowed: bool = made["status"]["allowed"]
    return allowed


async def rights_are_known(api: Api, namespace: str) -> None:
    """Return when the server acts on every role and binding made so far.

    It learns of each kind in order, so grants of all four kinds that are made now and seen to work
    mean that those made before are in force as well.
    """
    for role, binding in (("Role", "RoleBinding"), ("ClusterRole", "ClusterRoleBinding")):
        user = unique("user")
        subject = {"kind": "User", "name": user, "apiGroup": _GROUP}
        await bind(api, namespace, [rule("configmaps", "get")], subject, role=role, binding=binding)
        attributes = {
            "resourceAttributes": {"namespace": namespace, "verb": "get", "resource": "configmaps"}
        }

        async def is_known(user: str = user, attributes: dict[str, Any] = attributes) -> bool:
            return await is_allowed(api, {"user": user}, attributes)

        await eventually(is_known, f"the {binding} of {user} is in force")


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
    subject = {"kind": grant.kind, "name": who, "apiGroup": _GROUP}
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
    subject = {"kind": "User", "name": who, "apiGroup": _GROUP}
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
        "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": "late"},
        "subjects": [{"kind": "User", "name": who, "apiGroup": _GROUP}],
    }
    path = f"{_RBAC}/namespaces/{namespace}"
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
    subject = {"kind": "User", "name": "someone", "apiGroup": _GROUP}
    name = await bind(api, namespace, [rule("configmaps", "get")], subject)
    path = f"{_RBAC}/namespaces/{namespace}/rolebindings"
    refused = await api.patch(f"{path}/{name}", {"roleRef": {"name": "other"}}, expect=422)
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["roleRef"]
    assert refused["message"].endswith("cannot change roleRef")
    refused = await api.create(path, {"metadata": {"name": "a"}, "subjects": []}, expect=422)
    fields = {cause["field"] for cause in refused["details"]["causes"]}
    assert fields == {"roleRef.kind", "roleRef.name"}


async def test_the_first_roles_are_there(api: Api) -> None:
    """A new cluster has the roles that people bind, and its administrators bound."""
    roles = {item["metadata"]["name"] for item in (await api.get(f"{_RBAC}/clusterroles"))["items"]}
    assert {"admin", "cluster-admin", "edit", "view", "system:auth-delegator"} <= roles
    bindings = await api.get(f"{_RBAC}/clusterrolebindings")
    assert "cluster-admin" in {item["metadata"]["name"] for item in bindings["items"]}


# What is asked, whom the answer names, what it misses, in which group, and where.
FORBIDDEN = {
    "list": ("GET configmaps", "configmaps", "list configmaps", "", "in"),
    "watch": ("GET configmaps?watch=true", "configmaps", "watch configmaps", "", "in"),
    "watch of one": (
        "GET configmaps?watch=true&fieldSelector=metadata.name%3Da",
        'configmaps "a"',
        "watch configmaps",
        "",
        "in",
    ),
    "list of the cluster": ("GET /api/v1/configmaps", "configmaps", "list configmaps", "", "all"),
    "get": (
        "GET /apis/apps/v1/namespaces/{ns}/deployments/a",
        'deployments.apps "a"',
        "get deployments",
        "apps",
        "in",
    ),
    "get a status": (
        "GET /apis/apps/v1/namespaces/{ns}/deployments/a/status",
        'deployments.apps "a"',
        "get deployments/status",
        "apps",
        "in",
    ),
    "create": ("POST configmaps", "configmaps", "create configmaps", "", "in"),
    "update": ("PUT configmaps/a", 'configmaps "a"', "update configmaps", "", "in"),
    "patch": ("PATCH configmaps/a", 'configmaps "a"', "patch configmaps", "", "in"),
    "delete": ("DELETE configmaps/a", 'configmaps "a"', "delete configmaps", "", "in"),
    "delete all": ("DELETE configmaps", "configmaps", "deletecollection configmaps", "", "in"),
    "mint a token": (
        "POST serviceaccounts/robot/token",
        'serviceaccounts "robot"',
        "create serviceaccounts/token",
        "",
        "in",
    ),
    "get a namespace": (
        "GET /api/v1/namespaces/{ns}",
        'namespaces "{ns}"',
        "get namespaces",
        "",
        "in",
    ),
    "get a node": ("GET /api/v1/nodes/n", 'nodes "n"', "get nodes", "", "all"),
    "list what is not served": (
        "GET /apis/nonesuch.example/v1/things",
        "things.nonesuch.example",
        "list things",
        "nonesuch.example",
        "all",
    ),
}


class TestForbidden:
    """Answers to callers without rights."""

    @pytest.mark.parametrize("case", FORBIDDEN.values(), ids=FORBIDDEN.keys())
    async def test_the_message_names_user_verb_resource_and_scope(
        self, api: Api, robot: Robot, case: tuple[str, ...]
    ) -> None:
        """From a 403 alone a person can tell which right is missing, to whom, and where."""
        request, what, missing, group, scope = (
            part.replace("{ns}", robot.namespace) for part in case
        )
        method, _, path = request.partition(" ")
        if not path.startswith("/"):
            path = f"/api/v1/namespaces/{robot.namespace}/{path}"
        answer = await api.call(
            method,
            path,
            {"metadata": {"name": "a"}} if method in {"POST", "PUT", "PATCH"} else None,
            content_type="application/merge-patch+json"
            if method == "PATCH"
            else "application/json",
            token=robot.token,
        )
        assert_refused(answer, 403, "Forbidden")
        verb, _, resource = missing.partition(" ")
        where = f'in the namespace "{robot.namespace}"' if scope == "in" else "at the cluster scope"
        assert answer.body["message"] == (
            f'{what} is forbidden: User "{robot.user}" cannot {verb} resource "{resource}" '
            f'in API group "{group}" {where}'
        )
        named = {"name": what.split('"')[1]} if '"' in what else {}
        grouped = {"group": group} if group else {}
        kind = resource.partition("/")[0]
        assert answer.body["details"] == {**named, **grouped, "kind": kind}

    async def test_a_path_is_named_as_it_is(self, api: Api, robot: Robot) -> None:
        """What is no resource is forbidden by its path."""
        answer = await api.call("GET", "/metrics", token=robot.token)
        assert_refused(answer, 403, "Forbidden")
        assert answer.body["message"] == (
            f'forbidden: User "{robot.user}" cannot get path "/metrics"'
        )

    async def test_discovery_is_open_to_all_who_are_known(self, api: Api, robot: Robot) -> None:
        """A caller without rights may still learn what is served."""
        for path in ("/api", "/api/v1", "/apis", "/apis/apps/v1", "/version"):
            await api.get(path, token=robot.token)


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
        await api.delete(f"{_RBAC}/namespaces/{robot.namespace}/rolebindings/{name}")
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
            await api.delete(f"{_RBAC}/namespaces/{robot.namespace}/rolebindings/{name}")

            async def is_closed() -> bool:
                return (await api.call("GET", configmaps, token=robot.token)).status == 403

            await eventually(is_closed, "the revocation is in force")
            await api.create(configmaps, {"metadata": {"name": "a"}})
            assert summary(await stream.next()) == ("ADDED", "a")


class TestReviews:
    """Questions about rights."""

    async def test_one_can_ask_about_oneself(self, api: Api, robot: Robot) -> None:
        """A SelfSubjectAccessReview needs no right; an allowed one says by which grant."""
        name = await bind(api, robot.namespace, [rule("configmaps", "list")], robot.subject)
        await rights_are_known(api, robot.namespace)
        for verb, expected in (("list", True), ("watch", False)):
            spec = {
                "resourceAttributes": {
                    "namespace": robot.namespace,
                    "verb": verb,
                    "resource": "configmaps",
                }
            }
            made = await api.create(
                f"{_REVIEWS}/selfsubjectaccessreviews", {"spec": spec}, token=robot.token
            )
            assert (made["kind"], made["spec"]) == ("SelfSubjectAccessReview", spec)
            assert made["status"]["allowed"] is expected
            if expected:
                assert made["status"]["reason"] == (
                    f'RBAC: allowed by RoleBinding "{name}/{robot.namespace}" of Role "{name}" '
                    f'to ServiceAccount "robot/{robot.namespace}"'
                )
            else:
                assert made["status"] == {"allowed": False}

    async def test_asking_about_others_needs_a_right(self, api: Api, robot: Robot) -> None:
        """A SubjectAccessReview is a create like any other."""
        body = {"spec": {"user": "someone", "resourceAttributes": {"verb": "get"}}}
        answer = await api.call("POST", f"{_REVIEWS}/subjectaccessreviews", body, token=robot.token)
        assert_refused(answer, 403, "Forbidden")
        assert answer.body["details"] == {
            "group": "authorization.k8s.io",
            "kind": "subjectaccessreviews",
        }

    async def test_masters_may_do_anything(self, api: Api, namespace: str) -> None:
        """The group system:masters is beyond all rules."""
        asked = {
            "resourceAttributes": {
                "namespace": namespace,
                "verb": "frobnicate",
                "group": "nonesuch.example",
                "resource": "things",
            }
        }
        assert await is_allowed(api, {"user": "x", "groups": ["system:masters"]}, asked)
        assert not await is_allowed(api, {"user": "x", "groups": ["others"]}, asked)

    async def test_it_goes_by_name_whether_or_not_there_is_such_a_user(
        self, api: Api, robot: Robot
    ) -> None:
        """After its ServiceAccount is deleted a name keeps its rights in a SubjectAccessReview."""
        await bind(api, robot.namespace, [rule("configmaps", "list")], robot.subject)
        await rights_are_known(api, robot.namespace)
        await api.delete(f"/api/v1/namespaces/{robot.namespace}/serviceaccounts/robot")
        asked = {
            "resourceAttributes": {
                "namespace": robot.namespace,
                "verb": "list",
                "resource": "configmaps",
            }
        }
        assert await is_allowed(api, {"user": robot.user}, asked)

    async def test_a_local_review_is_of_its_namespace(self, api: Api, robot: Robot) -> None:
        """A LocalSubjectAccessReview asks in one namespace."""
        await bind(api, robot.namespace, [rule("configmaps", "list")], robot.subject)
        await rights_are_known(api, robot.namespace)
        spec = {
            "user": robot.user,
            "resourceAttributes": {
                "namespace": robot.namespace,
                "verb": "list",
                "resource": "configmaps",
            },
        }
        path = f"{_REVIEWS}/namespaces/{robot.namespace}/localsubjectaccessreviews"
        made = await api.create(path, {"spec": spec})
        assert made["status"]["allowed"] is True

    @pytest.mark.parametrize(
        ("kind", "spec", "field", "message"),
        [
            (
                "selfsubjectaccessreviews",
                {},
                "spec.resourceAttributes",
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ),
            (
                "selfsubjectaccessreviews",
                {
                    "resourceAttributes": {"verb": "get"},
                    "nonResourceAttributes": {"path": "/", "verb": "get"},
                },
                "spec.nonResourceAttributes",
                "cannot be specified in combination with resourceAttributes",
            ),
            (
                "subjectaccessreviews",
                {"resourceAttributes": {"verb": "get"}},
                "spec.user",
                "at least one of user or group must be specified",
            ),
        ],
        ids=["nothing", "both", "nobody"],
    )
    async def test_an_unclear_question_is_invalid(
        self, api: Api, kind: str, spec: dict[str, Any], field: str, message: str
    ) -> None:
        """A review asks one thing, about someone."""
        answer = await api.call("POST", f"{_REVIEWS}/{kind}", {"spec": spec})
        assert_refused(answer, 422, "Invalid")
        (cause,) = answer.body["details"]["causes"]
        assert cause["field"] == field
        assert cause["message"].endswith(message)

    async def test_all_rules_of_a_namespace_can_be_asked_for(self, api: Api, robot: Robot) -> None:
        """A SelfSubjectRulesReview lists the rules that apply to the caller."""
        named = rule("configmaps", "get list", names="a")
        await bind(api, robot.namespace, [named], robot.subject)
        await rights_are_known(api, robot.namespace)
        made = await api.create(
            f"{_REVIEWS}/selfsubjectrulesreviews",
            {"spec": {"namespace": robot.namespace}},
            token=robot.token,
        )
        assert named in made["status"]["resourceRules"]
        assert made["status"]["incomplete"] is False
