"""Contract: the four kinds of PATCH that controllers and kubectl send."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api
from tests.contract.objects import assert_refused, deployment, version_of

_BEFORE: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"x": "1", "y": "2"}, "annotations": {"n": "1"}},
    "data": {"k": "v", "j": "u"},
}


@pytest.fixture
async def target(api: Api, configmaps: str) -> str:
    """Give the path of a ConfigMap with labels, annotations and data."""
    await api.create(configmaps, _BEFORE)
    return f"{configmaps}/a"


CHANGES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "merge: a null removes, a value sets": (
        "merge",
        {"metadata": {"labels": {"x": None, "z": "3"}}},
        {"labels": {"y": "2", "z": "3"}, "data": {"k": "v", "j": "u"}},
    ),
    "merge: a null removes a whole map": (
        "merge",
        {"data": None},
        {"labels": {"x": "1", "y": "2"}, "data": None},
    ),
    "merge: removing what is not there": (
        "merge",
        {"data": {"absent": None}},
        {"data": {"k": "v", "j": "u"}},
    ),
    "strategic: labels and annotations": (
        "strategic",
        {"metadata": {"labels": {"x": None, "z": "3"}, "annotations": {"n": "2"}}},
        {"labels": {"y": "2", "z": "3"}, "annotations": {"n": "2"}},
    ),
    "json: add, replace, remove": (
        "json",
        [
            {"op": "add", "path": "/metadata/labels/z", "value": "3"},
            {"op": "replace", "path": "/metadata/labels/x", "value": "9"},
            {"op": "remove", "path": "/metadata/labels/y"},
        ],
        {"labels": {"x": "9", "z": "3"}},
    ),
    "json: a slash and a tilde in a key": (
        "json",
        [
            {"op": "add", "path": "/metadata/annotations/example.test~1a", "value": "1"},
            {"op": "add", "path": "/data/b", "value": "2"},
        ],
        {"annotations": {"n": "1", "example.test/a": "1"}, "data": {"k": "v", "j": "u", "b": "2"}},
    ),
    "json: test, copy and move": (
        "json",
        [
            {"op": "test", "path": "/data/k", "value": "v"},
            {"op": "copy", "from": "/data/k", "path": "/data/l"},
            {"op": "move", "from": "/data/j", "path": "/data/m"},
        ],
        {"data": {"k": "v", "l": "v", "m": "u"}},
    ),
    "json: adding a whole map": (
        "json",
        [{"op": "add", "path": "/data", "value": {"only": "1"}}],
        {"data": {"only": "1"}},
    ),
    "json: replacing what is not there adds it": (
        "json",
        [{"op": "replace", "path": "/data/absent", "value": "1"}],
        {"data": {"k": "v", "j": "u", "absent": "1"}},
    ),
}


@pytest.mark.parametrize(("kind", "change", "expected"), CHANGES.values(), ids=CHANGES.keys())
async def test_a_patch_changes_just_what_it_names(
    api: Api, target: str, kind: str, change: Any, expected: dict[str, Any]
) -> None:
    """Each media type has its rules; what a patch does not name stays as it was."""
    patched = await api.patch(target, change, kind)
    wanted = {
        "labels": _BEFORE["metadata"]["labels"],
        "annotations": _BEFORE["metadata"]["annotations"],
        "data": _BEFORE["data"],
        **expected,
    }
    found = {
        "labels": patched["metadata"].get("labels"),
        "annotations": patched["metadata"].get("annotations"),
        "data": patched.get("data"),
    }
    assert found == wanted
    assert await api.get(target) == patched


REFUSED: dict[str, tuple[str, Any, int, str, str]] = {
    "a stale version": (
        "merge",
        {"metadata": {"resourceVersion": "1"}, "data": {"q": "q"}},
        409,
        "Conflict",
        'Operation cannot be fulfilled on configmaps "a": the object has been modified',
    ),
    "another name": (
        "merge",
        {"metadata": {"name": "b"}},
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    ),
    "another namespace": (
        "merge",
        {"metadata": {"namespace": "other"}},
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "another uid": (
        "merge",
        {"metadata": {"uid": "other"}},
        422,
        "Invalid",
        'ConfigMap "a" is invalid: metadata.uid: Invalid value: "other": field is immutable',
    ),
    "a value of the wrong type": ("merge", {"data": {"k": 5}}, 422, "Invalid", ""),
    "half a JSON value": ("merge", b"{", 400, "BadRequest", "error decoding patch: "),
    "a merge patch that is a list": ("merge", [1], 400, "BadRequest", "error decoding patch: "),
    "a JSON patch that is a map": ("json", {"a": 1}, 400, "BadRequest", "error decoding patch: "),
    "a test that fails": (
        "json",
        [{"op": "test", "path": "/data/k", "value": "other"}],
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    ),
    "removing a path that is not there": (
        "json",
        [{"op": "remove", "path": "/data/absent"}],
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    ),
    "an unknown operation": (
        "json",
        [{"op": "frobnicate", "path": "/data/k", "value": "1"}],
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    ),
}


@pytest.mark.parametrize(
    ("kind", "change", "status", "reason", "message"), REFUSED.values(), ids=REFUSED.keys()
)
async def test_a_refused_patch_changes_nothing(
    api: Api, target: str, kind: str, change: Any, status: int, reason: str, message: str
) -> None:
    """A patch that cannot be applied as a whole is not applied at all."""
    before = await api.get(target)
    media_type = {"json": "json-patch+json", "merge": "merge-patch+json"}[kind]
    answer = await api.call("PATCH", target, change, content_type=f"application/{media_type}")
    assert_refused(answer, status, reason)
    assert answer.body["message"].startswith(message)
    assert await api.get(target) == before


async def test_an_unknown_kind_of_patch_is_refused(api: Api, target: str) -> None:
    """PATCH with plain JSON says that the media type is not one of its own."""
    answer = await api.call("PATCH", target, {}, content_type="application/json")
    assert_refused(answer, 415, "UnsupportedMediaType")


@pytest.mark.parametrize("kind", ["merge", "strategic", "json"])
async def test_patching_what_is_not_there_is_404(api: Api, configmaps: str, kind: str) -> None:
    """Only apply creates."""
    body: Any = [] if kind == "json" else {}
    refused = await api.patch(f"{configmaps}/absent", body, kind, expect=404)
    assert refused["details"] == {"name": "absent", "kind": "configmaps"}


async def test_the_time_of_birth_cannot_be_patched(api: Api, target: str) -> None:
    """A changed creation time is passed over."""
    before = await api.get(target)
    change = {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}
    assert await api.patch(target, change) == before


async def test_a_dry_run_shows_the_outcome_and_keeps_the_object(api: Api, target: str) -> None:
    """dryRun=All answers with the patched object and stores nothing."""
    before = await api.get(target)
    shown = await api.patch(target, {"data": {"k": "other"}}, dryRun="All")
    assert shown["data"]["k"] == "other"
    assert await api.get(target) == before


class TestStrategicLists:
    """Lists that a strategic merge patch merges by key, or as a set."""

    async def test_containers_merge_by_name(self, api: Api, namespace: str) -> None:
        """An entry with a new name is added, one with `$patch: delete` removed."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        await api.create(path, deployment("a"))

        async def containers(change: dict[str, Any]) -> set[str]:
            body = {"spec": {"template": {"spec": {"containers": [change]}}}}
            patched = await api.patch(f"{path}/a", body, "strategic")
            return {entry["name"] for entry in patched["spec"]["template"]["spec"]["containers"]}

        assert await containers({"name": "side", "image": "example.test/side"}) == {"main", "side"}
        assert await containers({"name": "side", "$patch": "delete"}) == {"main"}

    async def test_finalizers_merge_as_a_set(self, api: Api, target: str) -> None:
        """A list of finalizers adds to those there; a merge patch replaces them."""
        one, two = "example.test/one", "example.test/two"
        await api.patch(target, {"metadata": {"finalizers": [one]}}, "strategic")
        both = await api.patch(target, {"metadata": {"finalizers": [two]}}, "strategic")
        assert set(both["metadata"]["finalizers"]) == {one, two}
        removal = {"metadata": {"$deleteFromPrimitiveList/finalizers": [one]}}
        left = await api.patch(target, removal, "strategic")
        assert left["metadata"]["finalizers"] == [two]
        none = await api.patch(target, {"metadata": {"finalizers": []}}, "merge")
        assert "finalizers" not in none["metadata"]


def manifest(name: str, data: dict[str, str]) -> dict[str, Any]:
    """Return a ConfigMap as it is applied."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class TestApply:
    """Server-side apply: each manager owns the fields it applied."""

    async def test_it_creates_and_then_updates(self, api: Api, configmaps: str) -> None:
        """The first apply is 201; the same again is 200 without a new version."""
        made = await api.patch(
            f"{configmaps}/a", manifest("a", {"k": "1"}), "apply", fieldManager="one", expect=201
        )
        (entry,) = made["metadata"]["managedFields"]
        assert (entry["manager"], entry["operation"]) == ("one", "Apply")
        assert entry["fieldsV1"] == {"f:data": {"f:k": {}}}
        same = await api.patch(
            f"{configmaps}/a", manifest("a", {"k": "1"}), "apply", fieldManager="one"
        )
        assert version_of(same) == version_of(made)

    async def test_yaml_is_taken(self, api: Api, configmaps: str) -> None:
        """The body may be YAML, as people write it."""
        body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: '1'\n"
        made = await api.patch(f"{configmaps}/a", body, "apply", fieldManager="one", expect=201)
        assert made["data"] == {"k": "1"}

    async def test_a_field_of_another_manager_is_a_conflict(
        self, api: Api, configmaps: str
    ) -> None:
        """To change what another manager applied is 409 with the manager and the field named."""
        path = f"{configmaps}/a"
        await api.patch(path, manifest("a", {"k": "1"}), "apply", fieldManager="one", expect=201)
        changed = manifest("a", {"k": "2"})
        answer = await api.call(
            "PATCH",
            path,
            changed,
            content_type="application/apply-patch+yaml",
            fieldManager="two",
        )
        assert_refused(answer, 409, "Conflict")
        assert answer.body["message"] == (
            'Apply failed with 1 conflict: conflict with "one": .data.k'
        )
        assert answer.body["details"]["causes"] == [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "one"',
                "field": ".data.k",
            }
        ]
        forced = await api.patch(path, changed, "apply", fieldManager="two", force="true")
        assert forced["data"] == {"k": "2"}
        assert [entry["manager"] for entry in forced["metadata"]["managedFields"]] == ["two"]

    async def test_equal_values_can_be_shared(self, api: Api, configmaps: str) -> None:
        """Applying the value that is there makes the manager an owner beside the first."""
        path = f"{configmaps}/a"
        body = manifest("a", {"k": "1"})
        await api.patch(path, body, "apply", fieldManager="one", expect=201)
        shared = await api.patch(path, body, "apply", fieldManager="two")
        managers = {entry["manager"] for entry in shared["metadata"]["managedFields"]}
        assert managers == {"one", "two"}
        left = await api.patch(path, manifest("a", {"x": "1"}), "apply", fieldManager="two")
        assert left["data"] == {"k": "1", "x": "1"}, "the first still owns it"

    async def test_what_a_manager_stops_applying_goes(self, api: Api, configmaps: str) -> None:
        """A field that its only owner leaves out is removed; others' fields stay."""
        path = f"{configmaps}/a"
        await api.create(configmaps, {"metadata": {"name": "a"}, "data": {"other": "1"}})
        both = manifest("a", {"k": "1", "l": "1"})
        await api.patch(path, both, "apply", fieldManager="one")
        left = await api.patch(path, manifest("a", {"k": "1"}), "apply", fieldManager="one")
        assert left["data"] == {"k": "1", "other": "1"}

    @pytest.mark.parametrize(
        ("body", "query", "status", "message"),
        [
            (manifest("a", {}), {}, 422, "fieldManager: Required value"),
            (manifest("b", {}), {"fieldManager": "m"}, 400, "the name of the object (b) does not"),
            (
                {"kind": "ConfigMap", "metadata": {"name": "a"}},
                {"fieldManager": "m"},
                400,
                "invalid object type: /, Kind=ConfigMap",
            ),
            (
                {**manifest("a", {}), "metadata": {"name": "a", "managedFields": []}},
                {"fieldManager": "m"},
                400,
                "metadata.managedFields must be nil",
            ),
        ],
        ids=["no manager", "another name", "no version", "managed fields"],
    )
    async def test_what_cannot_be_applied_is_refused(
        self,
        api: Api,
        configmaps: str,
        body: dict[str, Any],
        query: dict[str, str],
        status: int,
        message: str,
    ) -> None:
        """An apply must name its manager, version and kind, and not claim others' fields."""
        refused = await api.patch(f"{configmaps}/a", body, "apply", expect=status, **query)
        assert message in refused["message"]
        await api.get(f"{configmaps}/a", expect=404)
