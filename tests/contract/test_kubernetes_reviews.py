"""Contract: what a caller without rights is told, and what anyone can ask about rights."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api
from tests.contract.objects import assert_refused
from tests.contract.rights import REVIEWS, Robot, bind, is_allowed, rights_are_known, rule

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
                f"{REVIEWS}/selfsubjectaccessreviews", {"spec": spec}, token=robot.token
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
        answer = await api.call("POST", f"{REVIEWS}/subjectaccessreviews", body, token=robot.token)
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
        path = f"{REVIEWS}/namespaces/{robot.namespace}/localsubjectaccessreviews"
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
        answer = await api.call("POST", f"{REVIEWS}/{kind}", {"spec": spec})
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
            f"{REVIEWS}/selfsubjectrulesreviews",
            {"spec": {"namespace": robot.namespace}},
            token=robot.token,
        )
        assert named in made["status"]["resourceRules"]
        assert made["status"]["incomplete"] is False
