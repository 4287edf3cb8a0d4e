"""Rules of writes and of the smaller endpoints, each by the answer of a server that follows it.

The contract tests hold the rules that matter most against a real server; here are the rest.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.devcluster.calls import Caller, calling
from watchcache_devcluster import DevCluster

DEFAULT = "/api/v1/namespaces/default"
CONFIGMAPS = f"{DEFAULT}/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
APPLY_PATCH = {"Content-Type": "application/apply-patch+yaml"}
TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


@pytest.fixture
async def caller(devcluster: DevCluster) -> Any:
    """Give a client of a cluster with a ConfigMap, a Deployment and an account."""
    await devcluster.create("cm", {"metadata": {"name": "taken"}, "data": {"k": "v"}})
    pod = {"containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    await devcluster.create("deploy", {"metadata": {"name": "web"}, "spec": spec})
    await devcluster.create("sa", {"metadata": {"name": "robot"}})
    async with calling(devcluster) as caller:
        yield caller


def _scale(replicas: Any, **metadata: str) -> dict[str, Any]:
    """Return a Scale of the Deployment."""
    return {"metadata": {"name": "web", **metadata}, "spec": {"replicas": replicas}}


REFUSALS: dict[str, tuple[str, str, Any, dict[str, str], int, str]] = {
    "a body that is no object": ("POST", CONFIGMAPS, [1], {}, 400, "couldn't get version/kind"),
    "an unknown dry run": ("POST", f"{CONFIGMAPS}?dryRun=Some", {}, {}, 422, "dryRun"),
    "an unknown dry run of an update": (
        "PUT",
        f"{CONFIGMAPS}/taken?dryRun=Some",
        {},
        {},
        422,
        "UpdateOptions.meta.k8s.io",
    ),
    "an unknown validation": (
        "PATCH",
        f"{CONFIGMAPS}/taken?fieldValidation=Some",
        {},
        MERGE_PATCH,
        422,
        'PatchOptions.meta.k8s.io "" is invalid: fieldValidation',
    ),
    "force without apply": (
        "PATCH",
        f"{CONFIGMAPS}/taken?force=true",
        {},
        MERGE_PATCH,
        422,
        "may not be specified for non-apply patch",
    ),
    "an apply of no object": (
        "PATCH",
        f"{CONFIGMAPS}/taken?fieldManager=m",
        b"- 1",
        APPLY_PATCH,
        400,
        "error decoding YAML",
    ),
    "an apply of a wrong type": (
        "PATCH",
        f"{CONFIGMAPS}/taken?fieldManager=m",
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": 1}},
        APPLY_PATCH,
        500,
        "failed to create typed patch object",
    ),
    "an apply of another kind": (
        "PATCH",
        f"{CONFIGMAPS}/taken?fieldManager=m",
        {"apiVersion": "v1", "kind": "Secret"},
        APPLY_PATCH,
        400,
        "invalid object type: /v1, Kind=Secret",
    ),
    "an apply of a status of nothing": (
        "PATCH",
        f"{DEPLOYMENTS}/absent/status?fieldManager=m",
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        APPLY_PATCH,
        404,
        "not found",
    ),
    "a number for grace": (
        "DELETE",
        f"{CONFIGMAPS}/taken?gracePeriodSeconds=x",
        None,
        {},
        400,
        'parsing "x": invalid syntax',
    ),
    "options of another kind": (
        "DELETE",
        f"{CONFIGMAPS}/taken",
        {"kind": "ConfigMap", "apiVersion": "v1"},
        {},
        400,
        "no kind",
    ),
    "options of a wrong type": (
        "DELETE",
        f"{CONFIGMAPS}/taken",
        {"gracePeriodSeconds": "x"},
        {},
        400,
        "cannot unmarshal string",
    ),
    "a negative scale": (
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        _scale(-1),
        {},
        422,
        "-1",
    ),
    "a scale of a wrong type": (
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        _scale("x"),
        {},
        400,
        "ScaleSpec.spec.replicas of type",
    ),
    "a scale that is no object": ("PUT", f"{DEPLOYMENTS}/web/scale", [1], {}, 400, "of type Scale"),
    "a scale with wrong metadata": (
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        {"metadata": {"name": 1}},
        {},
        400,
        "cannot unmarshal number",
    ),
    "a stale scale": (
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        _scale(1, resourceVersion="1"),
        {},
        409,
        "the object has been modified",
    ),
    "a cluster-scoped kind in a namespace": ("GET", f"{DEFAULT}/nodes", None, {}, 404, "could not"),
    "a namespaced name without a namespace": ("GET", "/api/v1/pods/a", None, {}, 404, "could not"),
    "creating without a namespace": ("POST", "/api/v1/pods", {}, {}, 405, "does not allow"),
    "creating a status": ("POST", f"{DEPLOYMENTS}/web/status", {}, {}, 405, "does not allow"),
    "a scale without a name": (
        "PUT",
        f"{DEPLOYMENTS}/web/scale",
        {"spec": {"replicas": 1}},
        {},
        400,
        "name must be provided",
    ),
    "a group that is not served": ("GET", "/apis/x.test", None, {}, 404, "404 page not found"),
    "a schema that is not there": ("GET", "/openapi/v3/apis/x/v1", None, {}, 404, "404 page"),
    "a version that makes no sense": (
        "GET",
        f"{CONFIGMAPS}?resourceVersion=x",
        None,
        {},
        400,
        "invalid resource version",
    ),
    "a continuation of another kind": (
        "GET",
        f"{CONFIGMAPS}?continue=eyJ2IjoiYSJ9",
        None,
        {},
        400,
        "does not recognize this encoded version",
    ),
    "a continuation of nothing": (
        "GET",
        f"{CONFIGMAPS}?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
        None,
        {},
        400,
        "continue key is not valid",
    ),
    "rules of no namespace": (
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        {"spec": {}},
        {},
        400,
        "no namespace on request",
    ),
    "a local review of elsewhere": (
        "POST",
        "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
        {"spec": {"user": "u", "resourceAttributes": {"namespace": "other"}}},
        {},
        422,
        "must match metadata.namespace",
    ),
    "a token that outlives everything": (
        "POST",
        f"{DEFAULT}/serviceaccounts/robot/token",
        {"spec": {"expirationSeconds": 1 << 33}},
        {},
        422,
        "larger than 2^32 seconds",
    ),
    "a token for a ConfigMap": (
        "POST",
        f"{DEFAULT}/serviceaccounts/robot/token",
        {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "n"}}},
        {},
        400,
        "cannot bind token to object of type",
    ),
    "a token for a node": (
        "POST",
        f"{DEFAULT}/serviceaccounts/robot/token",
        {"spec": {"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "n"}}},
        {},
        404,
        'nodes "n" not found',
    ),
}


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "message"),
    REFUSALS.values(),
    ids=REFUSALS.keys(),
)
async def test_a_refusal_names_the_rule(
    caller: Caller,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
    status: int,
    message: str,
) -> None:
    """The code is that of the rule, the message says what was wrong."""
    found, answer = await caller.call(method, path, body, **headers)
    assert found == status, answer
    assert message in (answer if isinstance(answer, str) else answer["message"])


class TestScale:
    """A workload as a number of replicas."""

    async def test_it_is_read_and_written(self, devcluster: DevCluster, caller: Caller) -> None:
        """By GET, PUT and both kinds of patch; the selector is text."""
        path = f"{DEPLOYMENTS}/web/scale"
        _, scale = await caller.call("GET", path)
        assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == (
            "Scale",
            {"replicas": 2},
            "app=web",
        )
        scale["spec"]["replicas"] = 3
        assert (await caller.call("PUT", path, scale))[1]["spec"] == {"replicas": 3}
        for headers, patch, count in (
            (MERGE_PATCH, {"spec": {"replicas": 4}}, 4),
            (JSON_PATCH, [{"op": "replace", "path": "/spec/replicas", "value": 5}], 5),
        ):
            _, scale = await caller.call("PATCH", path, patch, **headers)
            assert scale["spec"] == {"replicas": count}
        assert (await devcluster.get("deploy", "web"))["spec"]["replicas"] == 5


class TestBoundTokens:
    """Tokens that live no longer than something else."""

    async def test_a_token_ends_with_its_pod(self, devcluster: DevCluster, caller: Caller) -> None:
        """It says which pod it is for, must be for its account, and ends with it."""
        spec = {"serviceAccountName": "robot", "containers": [{"name": "c"}]}
        pod = await devcluster.create("pods", {"metadata": {"name": "p"}, "spec": spec})
        other = {"metadata": {"name": "o"}, "spec": {"containers": [{"name": "c"}]}}
        await devcluster.create("pods", other)
        path = f"{DEFAULT}/serviceaccounts/robot/token"

        async def ask(name: str, uid: str = "") -> tuple[int, Any]:
            reference = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
            return await caller.call("POST", path, {"spec": {"boundObjectRef": reference}})

        status, answer = await ask("p", pod["metadata"]["uid"])
        assert status == 201
        bearer = {"Authorization": f"Bearer {answer['status']['token']}"}
        review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        _, found = await caller.call("POST", review, {}, **bearer)
        extra = found["status"]["userInfo"]["extra"]
        assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
        assert (await ask("p", "other"))[0] == 409
        assert (await ask("o"))[0] == 400
        assert (await ask("absent"))[0] == 404
        await devcluster.delete("pods", "p")
        assert (await caller.call("POST", review, {}, **bearer))[0] == 401


async def test_a_deletion_can_be_tried(devcluster: DevCluster, caller: Caller) -> None:
    """DryRun in the query or in the body answers as if, for one and for many."""
    for path, body in (
        (f"{CONFIGMAPS}/taken?dryRun=All", None),
        (f"{CONFIGMAPS}/taken", {"dryRun": ["All"]}),
        (f"{CONFIGMAPS}?dryRun=All", None),
    ):
        assert (await caller.call("DELETE", path, body))[0] == 200
    assert (await devcluster.get("cm", "taken"))["data"] == {"k": "v"}
    path = f"{CONFIGMAPS}/taken?orphanDependents=true&gracePeriodSeconds=5"
    status, marked = await caller.call("DELETE", path)
    assert (status, marked["metadata"]["finalizers"]) == (200, ["orphan"])


async def test_one_object_may_be_a_table(caller: Caller) -> None:
    """Kubectl asks for tables of single objects, too."""
    _, table = await caller.call("GET", f"{CONFIGMAPS}/taken", **TABLE)
    assert (table["kind"], table["rows"][0]["cells"][:2]) == ("Table", ["taken", 1])


async def test_an_older_version_of_a_kind_is_written_and_kept_as_the_newer(
    devcluster: DevCluster, caller: Caller
) -> None:
    """A v1 autoscaler can be made, read and watched as either version."""
    base = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"maxReplicas": 3, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 60}
    body = {"metadata": {"name": "a"}, "spec": spec}
    status, made = await caller.call("POST", base.format("v1"), body)
    assert (status, made["spec"]["targetCPUUtilizationPercentage"]) == (201, 60)
    newer = await devcluster.get("hpa", "a")
    assert newer["apiVersion"] == "autoscaling/v2"
    assert newer["spec"]["metrics"][0]["resource"]["name"] == "cpu"
    async with caller.watch(base.format("v1")) as lines:
        event = await lines.next()
    assert event["object"]["apiVersion"] == "autoscaling/v1"
    assert event["object"]["spec"]["targetCPUUtilizationPercentage"] == 60


async def test_openapi_says_what_kubectl_asks_for(devcluster: DevCluster, caller: Caller) -> None:
    """Every group version has a document, whose writes take fieldValidation."""
    assert (await caller.call("GET", "/openapi/v2"))[1]["swagger"] == "2.0"
    _, index = await caller.call("GET", "/openapi/v3")
    for entry in index["paths"].values():
        _, document = await caller.call("GET", entry["serverRelativeURL"])
        for path in document["paths"].values():
            for operation in path.values():
                names = [parameter["name"] for parameter in operation["parameters"]]
                assert "fieldValidation" in names
                assert operation["x-kubernetes-group-version-kind"]["kind"]
