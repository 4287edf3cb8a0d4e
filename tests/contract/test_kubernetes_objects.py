"""Contract: creating, reading, replacing and deleting objects, and the Status bodies of refusals.

Defaults and validation of the built-in kinds' own fields are not part of the contract; those of
metadata are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.contract.api import Answer, Api, unique

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def version_of(found: Mapping[str, Any]) -> int:
    """Return the resourceVersion of an object or a list as a number."""
    return int(found["metadata"]["resourceVersion"])


def deployment(name: str, **spec: Any) -> dict[str, Any]:
    """Return the least Deployment that a real server takes."""
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example.test/main"}]},
            },
            **spec,
        },
    }


class TestCreate:
    """POST to a collection."""

    async def test_the_server_fills_in_the_metadata(self, api: Api, configmaps: str) -> None:
        """The answer is 201 with the object: its kind, namespace, uid, time and version."""
        made = await api.create(configmaps, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        metadata = made["metadata"]
        assert (made["kind"], made["apiVersion"], made["data"]) == ("ConfigMap", "v1", {"k": "v"})
        assert metadata["name"] == "a"
        assert metadata["namespace"] == configmaps.split("/")[4]
        assert _UUID.fullmatch(metadata["uid"])
        assert _TIMESTAMP.fullmatch(metadata["creationTimestamp"])
        assert re.fullmatch(r"[1-9]\d*", metadata["resourceVersion"])
        assert await api.get(f"{configmaps}/a") == made

    async def test_the_writer_is_recorded_in_managed_fields(
        self, api: Api, configmaps: str
    ) -> None:
        """Each write leaves who wrote which fields; the manager is the client's user agent."""
        made = await api.create(configmaps, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        (entry,) = made["metadata"]["managedFields"]
        assert _TIMESTAMP.fullmatch(entry.pop("time"))
        assert entry == {
            "manager": "watchcache-contract",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:k": {}}},
        }

    async def test_identity_and_time_are_the_servers_to_give(
        self, api: Api, configmaps: str
    ) -> None:
        """A uid, a creation time or a self link in the request are passed over."""
        metadata = {
            "name": "a",
            "uid": "mine",
            "creationTimestamp": "2001-01-01T00:00:00Z",
            "selfLink": "/mine",
        }
        made = await api.create(configmaps, {"metadata": metadata})
        assert _UUID.fullmatch(made["metadata"]["uid"])
        assert made["metadata"]["creationTimestamp"] > "2001-01-01T00:00:00Z"
        assert "selfLink" not in made["metadata"]

    async def test_a_name_is_made_from_generate_name(self, api: Api, configmaps: str) -> None:
        """A generateName gives each object another name, of the prefix and five characters."""
        body = {"metadata": {"generateName": "g-"}}
        names = {(await api.create(configmaps, body))["metadata"]["name"] for _ in range(3)}
        assert len(names) == 3
        assert all(re.fullmatch(r"g-[a-z0-9]{5}", name) for name in names)

    async def test_the_namespace_may_be_left_to_the_path(self, api: Api, configmaps: str) -> None:
        """apiVersion, kind and namespace in the body are checked if they are there."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": configmaps.split("/")[4]},
        }
        assert (await api.create(configmaps, body))["metadata"]["name"] == "a"

    async def test_a_dry_run_stores_nothing(self, api: Api, configmaps: str) -> None:
        """dryRun=All answers as if, without a version, and leaves nothing behind."""
        made = await api.create(configmaps, {"metadata": {"name": "a"}}, dryRun="All")
        assert _UUID.fullmatch(made["metadata"]["uid"])
        assert "resourceVersion" not in made["metadata"]
        await api.get(f"{configmaps}/a", expect=404)

    async def test_unknown_fields_are_dropped_unless_asked_to_be_refused(
        self, api: Api, configmaps: str
    ) -> None:
        """A built-in kind drops what it does not know; fieldValidation=Strict refuses it."""
        body = {"metadata": {"name": "a"}, "nonsense": 1}
        assert "nonsense" not in await api.create(configmaps, body)
        refused = await api.create(configmaps, body, fieldValidation="Strict", expect=400)
        assert refused["reason"] == "BadRequest"
        assert 'unknown field "nonsense"' in refused["message"]


@dataclass(frozen=True)
class Refusal:
    """A request to be refused. `{configmaps}` in its path stands for the test's collection."""

    method: str
    path: str
    body: Any
    status: int
    reason: str
    message: str
    details: dict[str, Any] | None = field(default=None)
    content_type: str = "application/json"
    accept: str = "application/json"


REFUSALS = {
    "an object that is not there": Refusal(
        "GET",
        "{configmaps}/absent",
        None,
        404,
        "NotFound",
        'configmaps "absent" not found',
        {"name": "absent", "kind": "configmaps"},
    ),
    "an object of a named group that is not there": Refusal(
        "GET",
        "/apis/apps/v1/namespaces/default/deployments/absent",
        None,
        404,
        "NotFound",
        'deployments.apps "absent" not found',
        {"name": "absent", "group": "apps", "kind": "deployments"},
    ),
    "a resource that the version does not have": Refusal(
        "GET",
        "/api/v1/nonesuches",
        None,
        404,
        "NotFound",
        "the server could not find the requested resource",
        {},
    ),
    "a version that the group does not have": Refusal(
        "GET",
        "/apis/apps/v9/deployments",
        None,
        404,
        "NotFound",
        "the server could not find the requested resource",
        {},
    ),
    "a name that is taken": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": "taken"}},
        409,
        "AlreadyExists",
        'configmaps "taken" already exists',
        {"name": "taken", "kind": "configmaps"},
    ),
    "a namespace that is not there": Refusal(
        "POST",
        "/api/v1/namespaces/absent/configmaps",
        {"metadata": {"name": "a"}},
        404,
        "NotFound",
        'namespaces "absent" not found',
        {"name": "absent", "kind": "namespaces"},
    ),
    "no name": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {}},
        422,
        "Invalid",
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        {
            "kind": "ConfigMap",
            "causes": [
                {
                    "reason": "FieldValueRequired",
                    "message": "Required value: name or generateName is required",
                    "field": "metadata.name",
                }
            ],
        },
    ),
    "a name that breaks the DNS rules": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": "Not_A_Name"}},
        422,
        "Invalid",
        'ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid value: "Not_A_Name": '
        "a lowercase RFC 1123 subdomain must consist of",
    ),
    "a label that breaks the rules": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": "a", "labels": {"k": "not a value"}}},
        422,
        "Invalid",
        'ConfigMap "a" is invalid: metadata.labels: Invalid value: "not a value": '
        "a valid label must be an empty string or consist of",
    ),
    "a finalizer without a domain": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": "a", "finalizers": ["plain"]}},
        422,
        "Invalid",
        'ConfigMap "a" is invalid: metadata.finalizers[0]: Invalid value: "plain": name is neither',
    ),
    "another namespace in the body": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": "a", "namespace": "other"}},
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "another kind in the body": Refusal(
        "POST",
        "{configmaps}",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}},
        400,
        "BadRequest",
        'Secret in version "v1" cannot be handled as a ConfigMap',
    ),
    "another version in the body": Refusal(
        "POST",
        "{configmaps}",
        {"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
        400,
        "BadRequest",
        'ConfigMap in version "v1" cannot be handled as a ConfigMap',
    ),
    "a name of another type": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": 5}},
        400,
        "BadRequest",
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number',
    ),
    "half a JSON value": Refusal(
        "POST",
        "{configmaps}",
        b'{"metadata"',
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version",
    ),
    "an empty body": Refusal(
        "POST",
        "{configmaps}",
        b"",
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version",
    ),
    "a body of an unknown media type": Refusal(
        "POST",
        "{configmaps}",
        {"metadata": {"name": "a"}},
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json",
        content_type="text/plain",
    ),
    "an answer in an unknown media type": Refusal(
        "GET",
        "{configmaps}",
        None,
        406,
        "NotAcceptable",
        "",
        accept="text/html",
    ),
    "a method that a collection does not have": Refusal(
        "PUT",
        "{configmaps}",
        {},
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    ),
    "a method that an object does not have": Refusal(
        "POST",
        "{configmaps}/taken",
        {},
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    ),
    "deleting what is not there": Refusal(
        "DELETE",
        "{configmaps}/absent",
        None,
        404,
        "NotFound",
        'configmaps "absent" not found',
        {"name": "absent", "kind": "configmaps"},
    ),
    "replacing what is not there": Refusal(
        "PUT",
        "{configmaps}/absent",
        {"metadata": {"name": "absent"}},
        404,
        "NotFound",
        'configmaps "absent" not found',
        {"name": "absent", "kind": "configmaps"},
    ),
    "replacing under another name": Refusal(
        "PUT",
        "{configmaps}/taken",
        {"metadata": {"name": "other"}},
        400,
        "BadRequest",
        "the name of the object (other) does not match the name on the URL (taken)",
    ),
    "replacing without a name": Refusal(
        "PUT",
        "{configmaps}/taken",
        {"metadata": {}},
        400,
        "BadRequest",
        "the name of the object (taken based on URL) was undeterminable: name must be provided",
    ),
    "a subresource that the kind does not have": Refusal(
        "GET",
        "{configmaps}/taken/status",
        None,
        404,
        "NotFound",
        "the server could not find the requested resource",
        {},
    ),
}


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_refusal_says_what_was_wrong(api: Api, configmaps: str, case: Refusal) -> None:
    """A refused request is answered by a Status whose code, reason and details tell the cause."""
    await api.create(configmaps, {"metadata": {"name": "taken"}})
    answer = await api.call(
        case.method,
        case.path.format(configmaps=configmaps),
        case.body,
        content_type=case.content_type,
        accept=case.accept,
    )
    assert_refused(answer, case.status, case.reason)
    assert answer.body["message"].startswith(case.message)
    if case.details is not None:
        assert answer.body.get("details", {}) == case.details


def assert_refused(answer: Answer, status: int, reason: str) -> None:
    """Check the parts that every failure Status has in common."""
    assert answer.status == status, answer.body
    assert {key: answer.body.get(key) for key in ("kind", "apiVersion", "status", "reason")} == {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
    }
    assert answer.body["code"] == status


async def test_a_version_given_to_create_is_refused(api: Api, configmaps: str) -> None:
    """A resourceVersion on a new object is an error, by a Status that has no reason."""
    body = {"metadata": {"name": "a", "resourceVersion": "5"}}
    refused = await api.create(configmaps, body, expect=500)
    assert refused["message"] == "resourceVersion should not be set on objects to be created"
    assert "reason" not in refused


async def test_an_unknown_group_is_plain_text(api: Api) -> None:
    """A path under a group that is not served is 404 without a Status."""
    answer = await api.call("GET", "/apis/nonesuch.example/v1/things", expect=404)
    assert answer.body == "404 page not found\n"
    assert answer.headers["Content-Type"].startswith("text/plain")


class TestReplace:
    """PUT to an object."""

    async def test_each_change_has_a_greater_version(self, api: Api, configmaps: str) -> None:
        """A write changes the version, upward, and leaves identity and birth as they were."""
        first = await api.create(configmaps, {"metadata": {"name": "a"}})
        second = await api.replace(f"{configmaps}/a", {**first, "data": {"k": "v"}})
        assert version_of(second) > version_of(first)
        for name in ("uid", "creationTimestamp", "name", "namespace"):
            assert second["metadata"][name] == first["metadata"][name]

    async def test_versions_are_shared_by_all_resources(self, api: Api, namespace: str) -> None:
        """One counter runs through every write to the server, whatever its kind."""
        body = {"metadata": {"name": "a"}}
        versions = [
            version_of(await api.create(f"/api/v1/namespaces/{namespace}/{resource}", body))
            for resource in ("configmaps", "serviceaccounts", "secrets")
        ]
        assert versions == sorted(set(versions))

    async def test_a_write_that_changes_nothing_keeps_the_version(
        self, api: Api, configmaps: str
    ) -> None:
        """Writing what is already there is a success without a new version or an event."""
        made = await api.create(configmaps, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        assert await api.replace(f"{configmaps}/a", made) == made
        same = await api.patch(f"{configmaps}/a", {"data": {"k": "v"}})
        assert version_of(same) == version_of(made)

    async def test_a_stale_version_is_a_conflict(self, api: Api, configmaps: str) -> None:
        """A write that names an older version is 409 and changes nothing."""
        stale = await api.create(configmaps, {"metadata": {"name": "a"}})
        current = await api.replace(f"{configmaps}/a", {**stale, "data": {"k": "v"}})
        answer = await api.call("PUT", f"{configmaps}/a", {**stale, "data": {"k": "other"}})
        assert_refused(answer, 409, "Conflict")
        assert answer.body["message"] == (
            'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
            "please apply your changes to the latest version and try again"
        )
        assert answer.body["details"] == {"name": "a", "kind": "configmaps"}
        assert await api.get(f"{configmaps}/a") == current

    async def test_no_version_means_no_condition(self, api: Api, configmaps: str) -> None:
        """A built-in kind may be replaced without a version: the last writer wins."""
        made = await api.create(configmaps, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        body = {"metadata": {"name": "a", "labels": {"l": "1"}}}
        replaced = await api.replace(f"{configmaps}/a", body)
        assert "data" not in replaced
        assert replaced["metadata"]["uid"] == made["metadata"]["uid"]

    async def test_another_uid_is_a_conflict(self, api: Api, configmaps: str) -> None:
        """A write meant for an object that has been recreated meanwhile is 409."""
        await api.create(configmaps, {"metadata": {"name": "a"}})
        other = {"metadata": {"name": "a", "uid": "00000000-0000-0000-0000-000000000000"}}
        answer = await api.call("PUT", f"{configmaps}/a", other)
        assert_refused(answer, 409, "Conflict")
        assert "Precondition failed: UID in precondition" in answer.body["message"]


class TestDelete:
    """DELETE of an object or a collection."""

    async def test_the_answer_names_what_is_gone(self, api: Api, configmaps: str) -> None:
        """Without finalizers the object goes at once; the answer is a Status with its uid."""
        made = await api.create(configmaps, {"metadata": {"name": "a"}})
        assert await api.delete(f"{configmaps}/a") == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]},
        }
        await api.get(f"{configmaps}/a", expect=404)

    @pytest.mark.parametrize(
        ("precondition", "message"),
        [
            ({"uid": "other"}, "the UID in the precondition (other) does not match the UID"),
            (
                {"resourceVersion": "1"},
                "the ResourceVersion in the precondition (1) does not match the ResourceVersion",
            ),
        ],
        ids=["uid", "resourceVersion"],
    )
    async def test_a_failed_precondition_is_a_conflict(
        self, api: Api, configmaps: str, precondition: dict[str, str], message: str
    ) -> None:
        """A deletion meant for another uid or version is 409 and deletes nothing."""
        await api.create(configmaps, {"metadata": {"name": "a"}})
        answer = await api.call(
            "DELETE", f"{configmaps}/a", {"preconditions": precondition}, expect=409
        )
        assert_refused(answer, 409, "Conflict")
        assert message in answer.body["message"]
        await api.get(f"{configmaps}/a")

    async def test_a_dry_run_deletes_nothing(self, api: Api, configmaps: str) -> None:
        """dryRun=All answers as if."""
        await api.create(configmaps, {"metadata": {"name": "a"}})
        assert (await api.delete(f"{configmaps}/a", dryRun="All"))["status"] == "Success"
        await api.get(f"{configmaps}/a")

    async def test_a_recreated_object_is_another(self, api: Api, configmaps: str) -> None:
        """Under the same name, a new object has a new uid."""
        first = await api.create(configmaps, {"metadata": {"name": "a"}})
        await api.delete(f"{configmaps}/a")
        second = await api.create(configmaps, {"metadata": {"name": "a"}})
        assert second["metadata"]["uid"] != first["metadata"]["uid"]

    async def test_a_collection_is_deleted_by_selector(self, api: Api, configmaps: str) -> None:
        """Deleting a collection answers with a list of what went, and leaves the rest."""
        for name, tier in (("a", "x"), ("b", "y"), ("c", "x")):
            await api.create(configmaps, {"metadata": {"name": name, "labels": {"tier": tier}}})
        gone = await api.delete(configmaps, labelSelector="tier=x")
        assert gone["kind"] == "ConfigMapList"
        assert [item["metadata"]["name"] for item in gone["items"]] == ["a", "c"]
        left = await api.get(configmaps)
        assert [item["metadata"]["name"] for item in left["items"]] == ["b"]

    async def test_an_unscheduled_pod_goes_at_once(self, api: Api, namespace: str) -> None:
        """A pod that no node runs needs no grace; the answer is the pod as it was deleted."""
        pods = f"/api/v1/namespaces/{namespace}/pods"
        containers = [{"name": "main", "image": "example.test/main"}]
        await api.create(pods, {"metadata": {"name": "a"}, "spec": {"containers": containers}})
        gone = await api.delete(f"{pods}/a")
        assert (gone["kind"], gone["metadata"]["name"]) == ("Pod", "a")
        assert _TIMESTAMP.fullmatch(gone["metadata"]["deletionTimestamp"])
        await api.get(f"{pods}/a", expect=404)


class TestFinalizers:
    """Objects that are held until someone lets them go."""

    async def test_a_held_object_is_marked_and_then_goes(self, api: Api, configmaps: str) -> None:
        """Deleting marks it once; removing the last finalizer removes it."""
        made = await api.create(
            configmaps, {"metadata": {"name": "a", "finalizers": ["example.test/hold"]}}
        )
        marked = await api.delete(f"{configmaps}/a")
        assert _TIMESTAMP.fullmatch(marked["metadata"]["deletionTimestamp"])
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
        assert version_of(marked) > version_of(made)
        again = await api.delete(f"{configmaps}/a")
        assert version_of(again) == version_of(marked), "a second deletion changes nothing"

        changed = await api.patch(f"{configmaps}/a", {"data": {"k": "v"}})
        assert changed["data"] == {"k": "v"}, "it can be changed while it is held"

        await api.patch(f"{configmaps}/a", {"metadata": {"finalizers": None}})
        await api.get(f"{configmaps}/a", expect=404)

    async def test_no_finalizer_can_be_added_after_the_deletion(
        self, api: Api, configmaps: str
    ) -> None:
        """A deleted object takes no new finalizers."""
        held = {"metadata": {"name": "a", "finalizers": ["example.test/hold"]}}
        await api.create(configmaps, held)
        await api.delete(f"{configmaps}/a")
        more = {"metadata": {"finalizers": ["example.test/hold", "example.test/more"]}}
        refused = await api.patch(f"{configmaps}/a", more, expect=422)
        assert "no new finalizers can be added if the object is being deleted" in refused["message"]

    @pytest.mark.parametrize(
        ("policy", "finalizer"), [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")]
    )
    async def test_a_propagation_policy_holds_the_object_for_the_collector(
        self, api: Api, configmaps: str, policy: str, finalizer: str
    ) -> None:
        """Orphan and Foreground deletion leave the object to the garbage collector to remove."""
        await api.create(configmaps, {"metadata": {"name": "a"}})
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}
        marked = await api.delete(f"{configmaps}/a", options)
        assert marked["metadata"]["finalizers"] == [finalizer]
        assert _TIMESTAMP.fullmatch(marked["metadata"]["deletionTimestamp"])


class TestGeneration:
    """The counter of changes that a controller should act on."""

    async def test_only_a_changed_spec_raises_it(self, api: Api, namespace: str) -> None:
        """It starts at 1 and grows with the spec, not with labels or status."""
        deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        made = await api.create(deployments, deployment("a", replicas=1))
        assert made["metadata"]["generation"] == 1
        steps: list[tuple[str, dict[str, Any], int]] = [
            ("", {"spec": {"replicas": 2}}, 2),
            ("", {"metadata": {"labels": {"l": "1"}}}, 2),
            ("/status", {"status": {"replicas": 2}}, 2),
            ("", {"spec": {"replicas": 2}}, 2),
            ("", {"spec": {"replicas": 3}}, 3),
        ]
        for subresource, change, generation in steps:
            changed = await api.patch(f"{deployments}/a{subresource}", change)
            assert changed["metadata"]["generation"] == generation, change

    async def test_kinds_without_a_spec_have_none(self, api: Api, configmaps: str) -> None:
        """A ConfigMap has no generation, however often it changes."""
        await api.create(configmaps, {"metadata": {"name": "a"}})
        changed = await api.patch(f"{configmaps}/a", {"data": {"k": "v"}})
        assert "generation" not in changed["metadata"]


class TestStatus:
    """The status subresource: two halves of an object with two writers."""

    async def test_each_endpoint_writes_its_own_half(self, api: Api, namespace: str) -> None:
        """The object's endpoint passes over a status; the status endpoint passes over a spec."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        made = await api.create(path, {**deployment("a", replicas=1), "status": {"replicas": 9}})
        assert made["status"] == {}

        both: dict[str, Any] = {"spec": {"replicas": 2}, "status": {"replicas": 2}}
        main = await api.patch(f"{path}/a", both)
        assert (main["spec"]["replicas"], main["status"]) == (2, {})

        both = {"spec": {"replicas": 3}, "status": {"replicas": 3}}
        status = await api.patch(f"{path}/a/status", both)
        assert (status["spec"]["replicas"], status["status"]) == (2, {"replicas": 3})
        assert await api.get(f"{path}/a/status") == await api.get(f"{path}/a") == status

        status["status"]["readyReplicas"] = 1
        replaced = await api.replace(f"{path}/a/status", status)
        assert replaced["status"] == {"replicas": 3, "readyReplicas": 1}

    async def test_the_writer_of_a_status_is_recorded_apart(self, api: Api, namespace: str) -> None:
        """Managed fields tell writes to the status subresource from writes to the object."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        await api.create(path, deployment("a"))
        changed = await api.patch(f"{path}/a/status", {"status": {"replicas": 1}})
        entries = [
            (entry["operation"], entry.get("subresource"))
            for entry in changed["metadata"]["managedFields"]
        ]
        assert sorted(entries, key=str) == [("Update", "status"), ("Update", None)]

    async def test_scale_is_a_view_of_the_replicas(self, api: Api, namespace: str) -> None:
        """The scale subresource reads and writes the number of replicas alone."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        made = await api.create(path, deployment("a", replicas=1))
        scale = await api.get(f"{path}/a/scale")
        assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert scale["spec"] == {"replicas": 1}
        assert scale["status"] == {"replicas": 0, "selector": "app=a"}
        assert scale["metadata"]["uid"] == made["metadata"]["uid"]
        scaled = await api.patch(f"{path}/a/scale", {"spec": {"replicas": 4}})
        assert scaled["spec"] == {"replicas": 4}
        assert (await api.get(f"{path}/a"))["spec"]["replicas"] == 4


class TestNamespaces:
    """Namespaces, and what they do to what is in them."""

    async def test_a_new_namespace_is_active_and_labelled(self, api: Api, namespace: str) -> None:
        """It carries its own name as a label, the finalizer of its content, and a phase."""
        made = await api.get(f"/api/v1/namespaces/{namespace}")
        assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}
        assert made["spec"] == {"finalizers": ["kubernetes"]}
        assert made["status"] == {"phase": "Active"}

    async def test_the_first_namespaces_are_there(self, api: Api) -> None:
        """A new cluster has default and kube-system."""
        names = {
            item["metadata"]["name"] for item in (await api.get("/api/v1/namespaces"))["items"]
        }
        assert {"default", "kube-system"} <= names

    async def test_default_may_not_be_deleted(self, api: Api) -> None:
        """The namespaces that the cluster needs are protected."""
        answer = await api.call("DELETE", "/api/v1/namespaces/default")
        assert_refused(answer, 403, "Forbidden")
        assert answer.body["message"] == (
            'namespaces "default" is forbidden: this namespace may not be deleted'
        )

    async def test_namespaces_have_no_collection_to_delete(self, api: Api) -> None:
        """All namespaces at once cannot be deleted."""
        answer = await api.call("DELETE", "/api/v1/namespaces")
        assert_refused(answer, 405, "MethodNotAllowed")

    async def test_a_terminating_namespace_takes_nothing_new(
        self, api: Api, namespace: str, configmaps: str
    ) -> None:
        """While its content is being removed, creating in it is 403 for a cause of its own."""
        held = {"metadata": {"name": "held", "finalizers": ["example.test/hold"]}}
        await api.create(configmaps, held)
        marked = await api.delete(f"/api/v1/namespaces/{namespace}")
        assert marked["kind"] == "Namespace"
        assert marked["status"]["phase"] == "Terminating"
        assert "deletionTimestamp" in marked["metadata"]
        answer = await api.call("POST", configmaps, {"metadata": {"name": "late"}})
        assert_refused(answer, 403, "Forbidden")
        assert answer.body["message"] == (
            'configmaps "late" is forbidden: unable to create new content in namespace '
            f"{namespace} because it is being terminated"
        )
        assert answer.body["details"]["causes"] == [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ]

    async def test_a_deleted_namespace_takes_its_content_along(
        self, api: Api, namespace: str, configmaps: str
    ) -> None:
        """Each object in it is deleted, by an event of its own, and then the namespace is gone."""
        api.endpoint.run_controllers()
        for name in ("a", "b"):
            await api.create(configmaps, {"metadata": {"name": name}})
        start = version_of(await api.get(configmaps))
        selector = f"metadata.name={namespace}"
        async with (
            api.watch(configmaps, resourceVersion=start) as content,
            api.watch("/api/v1/namespaces", fieldSelector=selector, resourceVersion=start) as names,
        ):
            await api.delete(f"/api/v1/namespaces/{namespace}")
            gone = [await content.next_change() for _ in range(2)]
            assert {(event["type"], event["object"]["metadata"]["name"]) for event in gone} == {
                ("DELETED", "a"),
                ("DELETED", "b"),
            }
            while (await names.next_change())["type"] != "DELETED":
                pass
        await api.get(f"/api/v1/namespaces/{namespace}", expect=404)
        assert (await api.get(configmaps))["items"] == []

    async def test_a_list_in_a_missing_namespace_is_empty(self, api: Api) -> None:
        """Reading the objects of a namespace that is not there is no error."""
        found = await api.get(f"/api/v1/namespaces/{unique('absent')}/configmaps")
        assert (found["kind"], found["items"]) == ("ConfigMapList", [])
