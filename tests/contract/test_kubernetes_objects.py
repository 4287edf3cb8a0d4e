"""Contract: creating, reading, replacing and deleting objects.

Defaults and validation of the built-in kinds' own fields are not part of the contract; those of
metadata are.
"""

from __future__ import annotations

import re

import pytest

from tests.contract.api import Api
from tests.contract.objects import assert_refused, version_of

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


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
