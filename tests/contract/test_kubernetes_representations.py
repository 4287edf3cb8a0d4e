"""Contract: the Accept header: metadata only, or a table for people."""

from __future__ import annotations

import pytest

from tests.contract.api import Api
from tests.contract.objects import (
    END_OF_INITIAL_EVENTS,
    PARTIAL,
    PARTIAL_LIST,
    TABLE,
    WATCH_LIST,
    assert_refused,
    create,
    names,
)


class TestObjects:
    """Objects and lists."""

    async def test_metadata_only(self, api: Api, configmaps: str) -> None:
        """PartialObjectMetadata is the object's metadata whole, and nothing else."""
        made = await api.create(configmaps, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        assert await api.get(f"{configmaps}/a", accept=PARTIAL) == {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": made["metadata"],
        }

    async def test_a_list_of_metadata_only(
        self, api: Api, configmaps: str, seven: list[int]
    ) -> None:
        """Its items do name their kind; pages and versions are as in the full list."""
        found = await api.get(configmaps, accept=PARTIAL_LIST, limit=2)
        assert (found["kind"], found["apiVersion"]) == (
            "PartialObjectMetadataList",
            "meta.k8s.io/v1",
        )
        assert found["metadata"]["remainingItemCount"] == 5
        assert names(found) == ["c0", "c1"]
        for item in found["items"]:
            assert set(item) == {"kind", "apiVersion", "metadata"}
            assert item["kind"] == "PartialObjectMetadata"

    async def test_a_table_for_people(self, api: Api, configmaps: str, seven: list[int]) -> None:
        """A table has columns, and for each object its cells and its metadata."""
        found = await api.get(configmaps, accept=TABLE, limit=2)
        assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert [row["cells"][:2] for row in found["rows"]] == [["c0", 0], ["c1", 0]]
        assert found["metadata"]["continue"]
        for row in found["rows"]:
            assert row["object"]["kind"] == "PartialObjectMetadata"

    @pytest.mark.parametrize(
        ("include", "kind"),
        [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "ConfigMap")],
    )
    async def test_a_table_holds_as_much_of_the_object_as_asked(
        self, api: Api, configmaps: str, include: str, kind: str | None
    ) -> None:
        """The parameter includeObject asks for nothing, the metadata, or the object in a row."""
        await api.create(configmaps, {"metadata": {"name": "a"}})
        found = await api.get(f"{configmaps}/a", accept=TABLE, includeObject=include)
        (row,) = found["rows"]
        assert (row.get("object") or {}).get("kind") == kind

    async def test_an_empty_table_still_has_columns(self, api: Api, namespace: str) -> None:
        """The columns belong to the kind, not to the rows."""
        found = await api.get(f"/api/v1/namespaces/{namespace}/pods", accept=TABLE)
        visible = [c["name"] for c in found["columnDefinitions"] if c["priority"] == 0]
        assert visible == ["Name", "Ready", "Status", "Restarts", "Age"]
        assert found["rows"] == []

    @pytest.mark.parametrize(
        "path", ["{configmaps}", "{configmaps}/a"], ids=["one for many", "many for one"]
    )
    async def test_one_is_not_many(self, api: Api, configmaps: str, path: str) -> None:
        """Asking for one object's metadata of a list, or the reverse, is not acceptable."""
        await api.create(configmaps, {"metadata": {"name": "a"}})
        accept = PARTIAL if path == "{configmaps}" else PARTIAL_LIST
        answer = await api.call("GET", path.format(configmaps=configmaps), accept=accept)
        assert_refused(answer, 406, "NotAcceptable")

    async def test_the_first_acceptable_form_is_given(self, api: Api, configmaps: str) -> None:
        """Of several forms the first known one is taken; with none known it is 406."""
        unknown = "application/json;as=Nonesuch;g=meta.k8s.io;v=v1"
        found = await api.get(configmaps, accept=f"{unknown},application/json")
        assert found["kind"] == "ConfigMapList"
        assert (await api.get(configmaps, accept=f"{TABLE},application/json"))["kind"] == "Table"
        answer = await api.call("GET", configmaps, accept=unknown)
        assert_refused(answer, 406, "NotAcceptable")

    async def test_a_written_object_comes_back_as_asked(self, api: Api, configmaps: str) -> None:
        """The form applies to the answers of writes too."""
        made = await api.create(configmaps, {"metadata": {"name": "a"}}, accept=PARTIAL)
        assert made["kind"] == "PartialObjectMetadata"


class TestEvents:
    """Watches."""

    async def test_metadata_only(self, api: Api, configmaps: str) -> None:
        """Events and bookmarks hold PartialObjectMetadata."""
        made = await api.create(configmaps, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        async with api.watch(configmaps, accept=PARTIAL, **WATCH_LIST) as stream:
            added, bookmark = await stream.take(2)
        partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        assert added == {"type": "ADDED", "object": {**partial, "metadata": made["metadata"]}}
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["kind"] == "PartialObjectMetadata"
        assert bookmark["object"]["metadata"]["annotations"] == END_OF_INITIAL_EVENTS

    async def test_tables_for_people(self, api: Api, configmaps: str) -> None:
        """Each event is a table of one row; only the first has the columns."""
        for name in ("a", "b"):
            await create(api, configmaps, name)
        async with api.watch(configmaps, accept=TABLE) as stream:
            first, second = [event["object"] for event in await stream.take(2)]
        assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert not second["columnDefinitions"]
        assert [table["rows"][0]["cells"][0] for table in (first, second)] == ["a", "b"]
