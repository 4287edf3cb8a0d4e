"""Contract: CustomResourceDefinitions and the objects of the kinds that they define."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.api import Api, eventually
from tests.contract.definitions import DEFINITIONS, CustomKind, define, new_kind
from tests.contract.objects import TABLE, assert_refused, names, summary, version_of


@pytest.fixture
async def own_widget(api: Api) -> CustomKind:
    """Give a namespaced kind that is served, for a test that deletes it."""
    kind = new_kind()
    await define(api, kind)
    return kind


@pytest.fixture(scope="module")
def shared_kinds() -> dict[str, CustomKind]:
    """Give the kind that the tests of objects share on each server.

    A real server holds up what is created in the first two seconds of a kind, so it is made once.
    """
    return {}


@pytest.fixture
async def widget(api: Api, shared_kinds: dict[str, CustomKind]) -> CustomKind:
    """Give a namespaced kind that is served, for a test that leaves it as it is."""
    kind = shared_kinds.get(api.endpoint.url)
    if kind is None:
        kind = shared_kinds[api.endpoint.url] = new_kind()
        await define(api, kind)
    return kind


async def is_gone(api: Api, kind: CustomKind) -> bool:
    """Tell whether neither the kind nor its definition is there any more."""
    answers = [await api.call("GET", path) for path in (kind.everywhere, kind.definition_path)]
    return all(answer.status == 404 for answer in answers)


class TestDefinition:
    """From a definition to a served kind, and back."""

    async def test_it_is_established_and_served(self, api: Api) -> None:
        """The server accepts the names, says so in conditions, and serves the kind."""
        kind = new_kind()
        assert (await api.call("GET", kind.everywhere)).status == 404
        made = await define(api, kind)
        assert made["spec"]["names"]["listKind"] == "WidgetList"
        assert made["spec"]["conversion"] == {"strategy": "None"}
        assert made["metadata"]["generation"] == 1
        found = await api.get(kind.definition_path)
        conditions = {entry["type"]: entry["status"] for entry in found["status"]["conditions"]}
        assert (conditions["NamesAccepted"], conditions["Established"]) == ("True", "True")
        assert found["status"]["storedVersions"] == ["v1"]
        assert found["status"]["acceptedNames"]["plural"] == "widgets"

    async def test_it_can_be_cluster_scoped(self, api: Api, namespace: str) -> None:
        """A cluster-scoped kind has no path below a namespace."""
        kind = new_kind(is_namespaced=False)
        await define(api, kind)
        made = await api.create(kind.everywhere, kind.object("a"))
        assert "namespace" not in made["metadata"]
        answer = await api.call("GET", kind.path(namespace), expect=404)
        assert answer.body == "404 page not found\n"

    async def test_deleting_it_ends_its_watches_and_takes_its_objects_along(
        self, api: Api, own_widget: CustomKind, namespace: str
    ) -> None:
        """Its objects are deleted first, each by an event; then the watch ends, then it is 404."""
        path = own_widget.path(namespace)
        for name in ("a", "b"):
            await api.create(path, own_widget.object(name))
        start = version_of(await api.get(own_widget.everywhere))
        async with api.watch(own_widget.everywhere, resourceVersion=start) as stream:
            marked = await api.delete(own_widget.definition_path)
            assert "deletionTimestamp" in marked["metadata"]
            assert marked["metadata"]["finalizers"] == [
                "customresourcecleanup.apiextensions.k8s.io"
            ]
            events = await stream.rest()
        deleted = {summary(event) for event in events if event["type"] != "MODIFIED"}
        assert deleted == {("DELETED", "a"), ("DELETED", "b")}
        await eventually(lambda: is_gone(api, own_widget), "the kind is gone")

    async def test_while_it_goes_nothing_can_be_created(
        self, api: Api, own_widget: CustomKind, namespace: str
    ) -> None:
        """A kind whose objects are held takes no new ones."""
        path = own_widget.path(namespace)
        await api.create(path, own_widget.object("held", finalizers=["example.test/hold"]))
        await api.delete(own_widget.definition_path)

        async def is_refused() -> bool:
            answer = await api.call("POST", path, own_widget.object("late"), dryRun="All")
            return answer.status == 403

        await eventually(is_refused, "creating is refused")
        answer = await api.call("POST", path, own_widget.object("late"))
        assert_refused(answer, 403, "Forbidden")
        assert answer.body["message"] == (
            f'widgets.{own_widget.group} "late" is forbidden: create not allowed while '
            "custom resource definition is terminating"
        )

    async def test_it_can_be_defined_again_in_another_shape(
        self, api: Api, own_widget: CustomKind, namespace: str
    ) -> None:
        """After its removal the same name can be another kind, with none of the old objects."""
        await api.create(own_widget.path(namespace), own_widget.object("old"))
        await api.delete(own_widget.definition_path)
        await eventually(lambda: is_gone(api, own_widget), "the kind is gone")
        again = replace(own_widget, is_namespaced=False)
        await define(api, again)
        assert (await api.get(again.everywhere))["items"] == []
        await api.create(again.everywhere, again.object("new"))

    async def test_a_name_that_is_taken(self, api: Api, own_widget: CustomKind) -> None:
        """The same definition twice is 409."""
        answer = await api.call("POST", DEFINITIONS, own_widget.definition())
        assert_refused(answer, 409, "AlreadyExists")

    async def test_its_name_is_made_of_its_names(self, api: Api) -> None:
        """The name must be the plural and the group."""
        body = new_kind().definition()
        body["metadata"]["name"] = "other.example"
        refused = await api.create(DEFINITIONS, body, expect=422)
        assert refused["reason"] == "Invalid"
        assert [cause["field"] for cause in refused["details"]["causes"]] == ["metadata.name"]
        assert 'must be spec.names.plural+"."+spec.group' in refused["message"]

    async def test_it_needs_names_a_group_and_one_stored_version(self, api: Api) -> None:
        """A definition without its parts is 422 with a cause for each."""
        refused = await api.create(DEFINITIONS, {"metadata": {"name": "a"}, "spec": {}}, expect=422)
        fields = {cause["field"] for cause in refused["details"]["causes"]}
        assert {
            "metadata.name",
            "spec.group",
            "spec.scope",
            "spec.versions",
            "spec.names.plural",
            "spec.names.kind",
        } <= fields


class TestObjects:
    """Where objects of a custom kind differ from those of a built-in one."""

    async def test_the_kind_must_be_named(
        self, api: Api, widget: CustomKind, namespace: str
    ) -> None:
        """A body without kind and apiVersion is refused; the path alone is not enough."""
        answer = await api.call("POST", widget.path(namespace), {"metadata": {"name": "a"}})
        assert_refused(answer, 400, "BadRequest")
        assert answer.body["message"].startswith(
            "the object provided is unrecognized (must be of type Widget): "
            "Object 'Kind' is missing in "
        )

    async def test_items_of_a_list_name_their_kind(
        self, api: Api, widget: CustomKind, namespace: str
    ) -> None:
        """Unlike built-in kinds, a list is of whole objects, and its token may be empty."""
        made = await api.create(widget.path(namespace), widget.object("a"))
        found = await api.get(widget.path(namespace))
        assert (found["kind"], found["apiVersion"]) == ("WidgetList", f"{widget.group}/v1")
        assert found["items"] == [made]
        assert found["metadata"]["continue"] == ""

    async def test_what_the_schema_does_not_know_is_dropped(
        self, api: Api, widget: CustomKind, namespace: str
    ) -> None:
        """Unknown fields are pruned, as is a status where it is a subresource."""
        body = {**widget.object("a", {"size": 1, "unknown": 2}), "status": {"ready": True}}
        made = await api.create(widget.path(namespace), body)
        assert made["spec"] == {"size": 1}
        assert "status" not in made

    @pytest.mark.parametrize(
        ("size", "reason", "message"),
        [
            (-1, "FieldValueInvalid", "spec.size in body should be greater than or equal to 0"),
            ("x", "FieldValueTypeInvalid", 'spec.size in body must be of type integer: "string"'),
        ],
        ids=["too small", "of another type"],
    )
    async def test_what_breaks_the_schema_is_invalid(
        self,
        api: Api,
        widget: CustomKind,
        namespace: str,
        size: object,
        reason: str,
        message: str,
    ) -> None:
        """The schema is checked, and the field that breaks it named."""
        body = widget.object("a", {"size": size})
        answer = await api.call("POST", widget.path(namespace), body)
        assert_refused(answer, 422, "Invalid")
        details = answer.body["details"]
        assert (details["name"], details["group"], details["kind"]) == ("a", widget.group, "Widget")
        (cause,) = details["causes"]
        assert (cause["reason"], cause["field"]) == (reason, "spec.size")
        assert cause["message"].endswith(message)

    async def test_replacing_needs_a_version(
        self, api: Api, widget: CustomKind, namespace: str
    ) -> None:
        """A custom object is never replaced without knowing what is replaced."""
        path = widget.path(namespace)
        await api.create(path, widget.object("a"))
        answer = await api.call("PUT", f"{path}/a", widget.object("a"))
        assert_refused(answer, 422, "Invalid")
        (cause,) = answer.body["details"]["causes"]
        assert cause["field"] == "metadata.resourceVersion"
        assert cause["message"] == "Invalid value: 0: must be specified for an update"

    async def test_a_strategic_patch_is_not_for_custom_kinds(
        self, api: Api, widget: CustomKind, namespace: str
    ) -> None:
        """The server names the kinds of patch that it takes instead."""
        path = widget.path(namespace)
        await api.create(path, widget.object("a"))
        refused = await api.patch(f"{path}/a", {"spec": {"size": 2}}, "strategic", expect=415)
        assert refused["reason"] == "UnsupportedMediaType"
        assert "application/merge-patch+json" in refused["message"]

    async def test_generation_follows_the_spec(
        self, api: Api, widget: CustomKind, namespace: str
    ) -> None:
        """It grows with the spec, not with metadata or status."""
        path = widget.path(namespace)
        made = await api.create(path, widget.object("a"))
        assert made["metadata"]["generation"] == 1
        steps: list[tuple[str, dict[str, Any], int]] = [
            ("", {"spec": {"size": 2}}, 2),
            ("", {"metadata": {"labels": {"l": "1"}}}, 2),
            ("/status", {"status": {"ready": True}}, 2),
        ]
        for subresource, change, generation in steps:
            changed = await api.patch(f"{path}/a{subresource}", change)
            assert changed["metadata"]["generation"] == generation, change

    async def test_the_status_endpoint_writes_the_status_alone(
        self, api: Api, widget: CustomKind, namespace: str
    ) -> None:
        """A spec or a label sent to it is passed over; a status sent elsewhere is too."""
        path = widget.path(namespace)
        await api.create(path, widget.object("a"))
        change = {
            "spec": {"size": 9},
            "status": {"ready": True},
            "metadata": {"labels": {"l": "1"}},
        }
        changed = await api.patch(f"{path}/a/status", change)
        assert (changed["spec"], changed["status"]) == ({"size": 1}, {"ready": True})
        assert "labels" not in changed["metadata"]
        elsewhere = await api.patch(f"{path}/a", {"status": {"ready": False}})
        assert elsewhere["status"] == {"ready": True}

    async def test_apply_creates_and_owns(
        self, api: Api, widget: CustomKind, namespace: str
    ) -> None:
        """Server-side apply works by the schema of the kind."""
        path = f"{widget.path(namespace)}/a"
        made = await api.patch(
            path, widget.object("a", {"size": 1}), "apply", fieldManager="one", expect=201
        )
        assert made["spec"] == {"size": 1}
        other = widget.object("a", {"size": 2})
        refused = await api.patch(path, other, "apply", fieldManager="two", expect=409)
        assert [cause["field"] for cause in refused["details"]["causes"]] == [".spec.size"]
        named = widget.object("a", {"name": "n"})
        both = await api.patch(path, named, "apply", fieldManager="two")
        assert both["spec"] == {"size": 1, "name": "n"}

    async def test_selectable_fields_are_those_of_the_definition(
        self, api: Api, widget: CustomKind, namespace: str
    ) -> None:
        """Besides name and namespace, a field can be selected if the definition says so."""
        path = widget.path(namespace)
        for name in ("a", "b"):
            await api.create(path, widget.object(name, {"name": f"of-{name}"}))
        assert names(await api.get(path, fieldSelector="metadata.name=a")) == ["a"]
        assert names(await api.get(path, fieldSelector="spec.name=of-b")) == ["b"]
        answer = await api.call("GET", path, fieldSelector="spec.size=1")
        assert_refused(answer, 400, "BadRequest")
        assert answer.body["message"] == "field label not supported: spec.size"

    async def test_a_table_has_the_columns_of_the_definition(
        self, api: Api, widget: CustomKind, namespace: str
    ) -> None:
        """Printed columns come from the definition, after the name."""
        path = widget.path(namespace)
        await api.create(path, widget.object("a", {"size": 7}))
        found = await api.get(path, accept=TABLE)
        assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Size"]
        assert [row["cells"] for row in found["rows"]] == [["a", 7]]

    async def test_every_version_shows_the_same_objects(self, api: Api, namespace: str) -> None:
        """Without conversion an object differs between versions by its apiVersion alone."""
        kind = new_kind(versions=("v1", "v1beta1"))
        await define(api, kind)
        made = await api.create(kind.path(namespace), kind.object("a"))
        found = await api.get(f"{kind.path(namespace, 'v1beta1')}/a")
        assert found["apiVersion"] == f"{kind.group}/v1beta1"
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
        assert version_of(found) == version_of(made)
        assert found["spec"] == made["spec"]

    async def test_a_watch_list_of_a_custom_kind(
        self, api: Api, widget: CustomKind, namespace: str
    ) -> None:
        """Custom kinds have bookmarks and initial events as built-in ones do."""
        made = await api.create(widget.path(namespace), widget.object("a"))
        query = {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
        }
        async with api.watch(widget.path(namespace), **query) as stream:
            added, bookmark = await stream.take(2)
        assert added == {"type": "ADDED", "object": made}
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["kind"] == "Widget"
        assert bookmark["object"]["metadata"]["annotations"] == {
            "k8s.io/initial-events-end": "true"
        }
