"""Contract: lists: their versions, pages, selectors and representations."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.api import Api, unique
from tests.contract.test_kubernetes_objects import assert_refused, version_of

_FUTURE = 10**9
_PARTIAL = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def names(found: dict[str, Any]) -> list[str]:
    """Return the names of a list's items, in order."""
    return [item["metadata"]["name"] for item in found["items"]]


@pytest.fixture
async def seven(api: Api, configmaps: str) -> list[int]:
    """Make c0 to c6, numbered and labelled even or odd; return the version of each."""
    versions = []
    for number in range(7):
        labels = {"n": str(number), "parity": "odd" if number % 2 else "even"}
        made = await api.create(configmaps, {"metadata": {"name": f"c{number}", "labels": labels}})
        versions.append(version_of(made))
    return versions


class TestShape:
    """What a list looks like."""

    async def test_items_of_built_in_kinds_do_not_name_their_kind(
        self, api: Api, configmaps: str, seven: list[int]
    ) -> None:
        """The list has a kind and a version of its own; its items leave theirs out."""
        found = await api.get(configmaps)
        assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
        assert version_of(found) >= seven[-1]
        assert names(found) == [f"c{number}" for number in range(7)]
        for item in found["items"]:
            assert not {"kind", "apiVersion"} & set(item)
            assert item["metadata"]["managedFields"]
        assert not {"continue", "remainingItemCount", "selfLink"} & set(found["metadata"])

    async def test_an_empty_list_has_a_version_and_no_items(
        self, api: Api, configmaps: str
    ) -> None:
        """Nothing is still a state of some version."""
        found = await api.get(configmaps)
        assert found["items"] == []
        assert version_of(found) > 0

    async def test_all_namespaces_are_in_order_of_namespace_and_name(
        self, api: Api, namespace: str
    ) -> None:
        """A list of the whole cluster is sorted by namespace, then by name."""
        label = unique("label")
        other = f"{namespace}-a"
        await api.create("/api/v1/namespaces", {"metadata": {"name": other}})
        for where, name in ((other, "x"), (namespace, "b"), (namespace, "a")):
            body = {"metadata": {"name": name, "labels": {"l": label}}}
            await api.create(f"/api/v1/namespaces/{where}/configmaps", body)
        found = await api.get("/api/v1/configmaps", labelSelector=f"l={label}")
        where_and_name = [
            (item["metadata"]["namespace"], item["metadata"]["name"]) for item in found["items"]
        ]
        # By storage key, where "/" comes after "-".
        assert where_and_name == [(other, "x"), (namespace, "a"), (namespace, "b")]


class TestPages:
    """Pages: limit, continue and remainingItemCount."""

    async def test_pages_together_are_one_state(
        self, api: Api, configmaps: str, seven: list[int]
    ) -> None:
        """Later pages show the state of the first, whatever has changed since."""
        first = await api.get(configmaps, limit=3)
        assert names(first) == ["c0", "c1", "c2"]
        assert first["metadata"]["remainingItemCount"] == 4

        await api.create(configmaps, {"metadata": {"name": "c5a"}})
        await api.delete(f"{configmaps}/c6")
        token = first["metadata"]["continue"]
        second = await api.get(configmaps, limit=3, **{"continue": token})
        assert names(second) == ["c3", "c4", "c5"]
        assert second["metadata"]["remainingItemCount"] == 1

        token = second["metadata"]["continue"]
        third = await api.get(configmaps, limit=3, **{"continue": token})
        assert names(third) == ["c6"]
        assert not third["metadata"].get("continue")
        assert "remainingItemCount" not in third["metadata"]
        versions = [page["metadata"]["resourceVersion"] for page in (first, second, third)]
        assert len(set(versions)) == 1

    async def test_a_token_without_a_limit_gives_the_rest(
        self, api: Api, configmaps: str, seven: list[int]
    ) -> None:
        """The size of a page may change, or be left out, from one page to the next."""
        first = await api.get(configmaps, limit=2)
        rest = await api.get(configmaps, **{"continue": first["metadata"]["continue"]})
        assert names(rest) == ["c2", "c3", "c4", "c5", "c6"]

    @pytest.mark.parametrize("limit", [7, 8, 0], ids=["just fits", "room to spare", "none"])
    async def test_a_whole_list_has_no_token(
        self, api: Api, configmaps: str, seven: list[int], limit: int
    ) -> None:
        """A page that ends the list does not lead on, even when it is full."""
        found = await api.get(configmaps, limit=limit)
        assert len(found["items"]) == 7
        assert not found["metadata"].get("continue")

    async def test_pages_of_a_selection_do_not_count_what_is_left(
        self, api: Api, configmaps: str, seven: list[int]
    ) -> None:
        """With a selector the server does not know how many more will match."""
        first = await api.get(configmaps, limit=2, labelSelector="parity=even")
        assert names(first) == ["c0", "c2"]
        assert "remainingItemCount" not in first["metadata"]
        token = first["metadata"]["continue"]
        rest = await api.get(
            configmaps, limit=2, labelSelector="parity=even", **{"continue": token}
        )
        assert names(rest) == ["c4", "c6"]

    @pytest.mark.parametrize(
        ("query", "status", "reason", "message"),
        [
            ({"continue": "garbage"}, 400, "BadRequest", "invalid continue token"),
            ({"limit": "many"}, 400, "BadRequest", ""),
            (
                {"resourceVersion": "5"},
                400,
                "BadRequest",
                "specifying resource version is not allowed when using continue",
            ),
            (
                {"resourceVersion": "5", "resourceVersionMatch": "Exact"},
                422,
                "Invalid",
                'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: ',
            ),
        ],
        ids=["garbage", "limit", "version", "match"],
    )
    async def test_what_does_not_go_with_a_token_is_refused(
        self,
        api: Api,
        configmaps: str,
        seven: list[int],
        query: dict[str, Any],
        status: int,
        reason: str,
        message: str,
    ) -> None:
        """A token settles the version by itself, and must be one that the server gave."""
        first = await api.get(configmaps, limit=2)
        token = {"limit": "2", "continue": first["metadata"]["continue"]}
        answer = await api.call("GET", configmaps, **{**token, **query})
        assert_refused(answer, status, reason)
        assert answer.body["message"].startswith(message)


class TestVersions:
    """What resourceVersion and resourceVersionMatch ask of a list."""

    async def test_no_version_is_the_latest(
        self, api: Api, configmaps: str, seven: list[int]
    ) -> None:
        """A list without a version shows every write that was answered before it."""
        for number in range(3):
            made = await api.create(configmaps, {"metadata": {"name": f"d{number}"}})
            found = await api.get(configmaps)
            assert f"d{number}" in names(found)
            assert version_of(found) >= version_of(made)

    @pytest.mark.parametrize(
        "query",
        [
            {"resourceVersion": "{third}"},
            {"resourceVersion": "{third}", "resourceVersionMatch": "NotOlderThan"},
            {"resourceVersion": "0"},
            {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"},
        ],
        ids=["a version", "not older than a version", "zero", "not older than zero"],
    )
    async def test_an_older_version_may_be_answered_by_a_newer_state(
        self, api: Api, configmaps: str, seven: list[int], query: dict[str, Any]
    ) -> None:
        """Without Exact and without a limit the answer is at least as new as was asked."""
        await api.get(configmaps)
        third = str(seven[2])
        found = await api.get(
            configmaps, **{name: value.format(third=third) for name, value in query.items()}
        )
        assert version_of(found) >= seven[2]
        assert names(found)[:3] == ["c0", "c1", "c2"]

    @pytest.mark.parametrize(
        "query",
        [{"resourceVersionMatch": "Exact"}, {"limit": "10"}],
        ids=["exact", "a limit without a match"],
    )
    async def test_an_exact_version_is_that_state(
        self, api: Api, configmaps: str, seven: list[int], query: dict[str, Any]
    ) -> None:
        """Exact gives the state of then; so does, by old habit, a version with a limit."""
        found = await api.get(configmaps, resourceVersion=seven[2], **query)
        assert version_of(found) == seven[2]
        assert names(found) == ["c0", "c1", "c2"]

    async def test_pages_of_an_exact_version_stay_there(
        self, api: Api, configmaps: str, seven: list[int]
    ) -> None:
        """The rest of an exact list is of the same version."""
        first = await api.get(
            configmaps, resourceVersion=seven[2], resourceVersionMatch="Exact", limit=2
        )
        assert first["metadata"]["remainingItemCount"] == 1
        rest = await api.get(configmaps, **{"continue": first["metadata"]["continue"]})
        assert (names(rest), version_of(rest)) == (["c2"], seven[2])

    async def test_not_older_than_with_a_limit_is_paged(
        self, api: Api, configmaps: str, seven: list[int]
    ) -> None:
        """A named match keeps its meaning beside a limit."""
        query = {"resourceVersion": seven[2], "resourceVersionMatch": "NotOlderThan"}
        found = await api.get(configmaps, limit=2, **query)
        assert version_of(found) >= seven[2]
        assert names(found) == ["c0", "c1"]
        assert found["metadata"]["continue"]

    async def test_zero_passes_over_the_limit(
        self, api: Api, configmaps: str, seven: list[int]
    ) -> None:
        """Version 0 is answered whole, in one body, whatever its size."""
        await api.get(configmaps)
        found = await api.get(configmaps, resourceVersion=0, limit=2)
        assert len(found["items"]) == 7
        assert not found["metadata"].get("continue")

    @pytest.mark.parametrize(
        ("query", "field", "cause", "message"),
        [
            (
                {"resourceVersionMatch": "NotOlderThan"},
                "resourceVersionMatch",
                "FieldValueForbidden",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                {"resourceVersionMatch": "Exact"},
                "resourceVersionMatch",
                "FieldValueForbidden",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
                "resourceVersionMatch",
                "FieldValueForbidden",
                'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
            ),
            (
                {"resourceVersionMatch": "Nearly", "resourceVersion": "5"},
                "resourceVersionMatch",
                "FieldValueNotSupported",
                'Unsupported value: "Nearly": supported values: "Exact", "NotOlderThan", ""',
            ),
            (
                {
                    "sendInitialEvents": "true",
                    "resourceVersionMatch": "NotOlderThan",
                    "resourceVersion": "5",
                },
                "sendInitialEvents",
                "FieldValueForbidden",
                "sendInitialEvents is forbidden for list",
            ),
        ],
        ids=[
            "not older than nothing",
            "exactly nothing",
            "exactly zero",
            "unknown match",
            "initial events",
        ],
    )
    async def test_senseless_combinations_are_invalid(
        self,
        api: Api,
        configmaps: str,
        query: dict[str, Any],
        field: str,
        cause: str,
        message: str,
    ) -> None:
        """A match needs a version to match, and one that it can match."""
        answer = await api.call("GET", configmaps, **query)
        assert_refused(answer, 422, "Invalid")
        details = answer.body["details"]
        assert (details["group"], details["kind"]) == ("meta.k8s.io", "ListOptions")
        (found,) = details["causes"]
        assert (found["reason"], found["field"]) == (cause, field)
        assert message in found["message"]

    @pytest.mark.parametrize("version", ["abc", "-1", "1.5"])
    @pytest.mark.parametrize("match", [{}, {"resourceVersionMatch": "Exact"}], ids=["any", "exact"])
    async def test_what_is_no_version_is_a_bad_request(
        self, api: Api, configmaps: str, version: str, match: dict[str, Any]
    ) -> None:
        """Versions are whole numbers from zero."""
        answer = await api.call("GET", configmaps, resourceVersion=version, **match)
        assert_refused(answer, 400, "BadRequest")
        assert answer.body["message"].startswith(
            f'invalid resource version: resourceVersion: Invalid value: "{version}"'
        )

    async def test_a_version_from_the_future_times_out(
        self, api: Api, configmaps: str, seven: list[int]
    ) -> None:
        """The server waits about three seconds for such a version, and then says too large."""
        queries: list[dict[str, Any]] = [
            {},
            {"resourceVersionMatch": "NotOlderThan"},
            {"resourceVersionMatch": "Exact"},
            {"limit": 2},
        ]
        requests = [
            api.call("GET", configmaps, resourceVersion=_FUTURE, **query) for query in queries
        ]
        requests.append(api.call("GET", f"{configmaps}/c0", resourceVersion=_FUTURE))
        for answer in await asyncio.gather(*requests):
            assert_refused(answer, 504, "Timeout")
            assert answer.body["message"].startswith(
                f"Timeout: Too large resource version: {_FUTURE}, current: "
            )
            assert answer.body["details"] == {
                "causes": [
                    {
                        "reason": "ResourceVersionTooLarge",
                        "message": "Too large resource version",
                    }
                ],
                "retryAfterSeconds": 1,
            }
            assert answer.headers["Retry-After"] == "1"

    @pytest.mark.parametrize("version", ["0", "{first}"])
    async def test_an_object_can_be_read_at_least_as_new(
        self, api: Api, configmaps: str, seven: list[int], version: str
    ) -> None:
        """A GET takes a version too, as a lower bound."""
        await api.get(f"{configmaps}/c0")
        found = await api.get(f"{configmaps}/c0", resourceVersion=version.format(first=seven[0]))
        assert version_of(found) == seven[0]


class TestSelectors:
    """Label and field selectors."""

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("parity=even", "0246"),
            ("parity==even", "0246"),
            ("parity!=even", "135x"),
            ("parity in (even,odd)", "0123456"),
            ("parity in (odd)", "135"),
            ("parity notin (odd)", "0246x"),
            ("parity", "0123456"),
            ("!parity", "x"),
            ("n>3", "456"),
            ("n<2", "01"),
            ("parity=even,n=2", "2"),
            ("parity=even,n!=2", "046"),
            ("parity=even, n in (2, 4)", "24"),
            ("parity=", ""),
            ("absent!=x", "0123456x"),
            ("", "0123456x"),
        ],
    )
    async def test_label_selectors(
        self, api: Api, configmaps: str, seven: list[int], selector: str, expected: str
    ) -> None:
        """Requirements are joined by and; a missing label satisfies the negative ones."""
        await api.create(configmaps, {"metadata": {"name": "cx"}})
        found = await api.get(configmaps, labelSelector=selector)
        assert names(found) == [f"c{name}" for name in expected]

    @pytest.mark.parametrize(
        ("selector", "message"),
        [
            ("p===x", "unable to parse requirement: found '=', expected: identifier"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("p in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, =="),
            ("p=x,", "found '', expected: identifier after ','"),
            ("-p=x", 'unable to parse requirement: <nil>: Invalid value: "-p"'),
            ("p=-x-", 'unable to parse requirement: values[0][p]: Invalid value: "-x-"'),
            ("n>x", 'unable to parse requirement: values[0]: Invalid value: "x"'),
        ],
    )
    async def test_malformed_label_selectors_are_bad_requests(
        self, api: Api, configmaps: str, selector: str, message: str
    ) -> None:
        """A selector that cannot be parsed is refused, with the place where it went wrong."""
        answer = await api.call("GET", configmaps, labelSelector=selector)
        assert_refused(answer, 400, "BadRequest")
        assert answer.body["message"].startswith(message)

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("metadata.name=c1", "1"),
            ("metadata.name==c1", "1"),
            ("metadata.name!=c1", "023456"),
            ("metadata.name=c1,metadata.name=c2", ""),
            ("metadata.namespace=absent", ""),
        ],
    )
    async def test_field_selectors(
        self, api: Api, configmaps: str, seven: list[int], selector: str, expected: str
    ) -> None:
        """Every kind can be selected by name and namespace."""
        found = await api.get(configmaps, fieldSelector=selector)
        assert names(found) == [f"c{name}" for name in expected]

    async def test_both_selectors_apply(self, api: Api, configmaps: str, seven: list[int]) -> None:
        """Label and field selectors together select what both select."""
        query = {"labelSelector": "parity=even", "fieldSelector": "metadata.name!=c2"}
        assert names(await api.get(configmaps, **query)) == ["c0", "c4", "c6"]

    async def test_some_kinds_have_fields_of_their_own(self, api: Api, namespace: str) -> None:
        """Pods can be selected by their node and phase."""
        pods = f"/api/v1/namespaces/{namespace}/pods"
        containers = [{"name": "main", "image": "example.test/main"}]
        for name, node in (("a", {"nodeName": "n1"}), ("b", {})):
            spec = {"containers": containers, **node}
            await api.create(pods, {"metadata": {"name": name}, "spec": spec})
        for selector, expected in (
            ("spec.nodeName=n1", ["a"]),
            ("spec.nodeName=", ["b"]),
            ("status.phase=Pending", ["a", "b"]),
            ("spec.nodeName!=n1,status.phase=Pending", ["b"]),
        ):
            assert names(await api.get(pods, fieldSelector=selector)) == expected, selector

    @pytest.mark.parametrize(
        ("selector", "message"),
        [
            (
                "data.k=v",
                '"data.k" is not a known field selector: only "metadata.name", "metadata.',
            ),
            ("nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
            ("metadata.name>x", "invalid selector: 'metadata.name>x'; can't understand"),
        ],
    )
    async def test_other_field_selectors_are_bad_requests(
        self, api: Api, configmaps: str, selector: str, message: str
    ) -> None:
        """A field that the kind does not offer is refused, not passed over."""
        answer = await api.call("GET", configmaps, fieldSelector=selector)
        assert_refused(answer, 400, "BadRequest")
        assert answer.body["message"].startswith(message)


class TestRepresentations:
    """The Accept header: metadata only, or a table for people."""

    async def test_metadata_only(self, api: Api, configmaps: str) -> None:
        """PartialObjectMetadata is the object's metadata whole, and nothing else."""
        made = await api.create(configmaps, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        assert await api.get(f"{configmaps}/a", accept=_PARTIAL.format("")) == {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": made["metadata"],
        }

    async def test_a_list_of_metadata_only(
        self, api: Api, configmaps: str, seven: list[int]
    ) -> None:
        """Its items do name their kind; pages and versions are as in the full list."""
        found = await api.get(configmaps, accept=_PARTIAL.format("List"), limit=2)
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
        found = await api.get(configmaps, accept=_TABLE, limit=2)
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
        found = await api.get(f"{configmaps}/a", accept=_TABLE, includeObject=include)
        (row,) = found["rows"]
        assert (row.get("object") or {}).get("kind") == kind

    async def test_an_empty_table_still_has_columns(self, api: Api, namespace: str) -> None:
        """The columns belong to the kind, not to the rows."""
        found = await api.get(f"/api/v1/namespaces/{namespace}/pods", accept=_TABLE)
        visible = [c["name"] for c in found["columnDefinitions"] if c["priority"] == 0]
        assert visible == ["Name", "Ready", "Status", "Restarts", "Age"]
        assert found["rows"] == []

    @pytest.mark.parametrize(
        "path", ["{configmaps}", "{configmaps}/a"], ids=["one for many", "many for one"]
    )
    async def test_one_is_not_many(self, api: Api, configmaps: str, path: str) -> None:
        """Asking for one object's metadata of a list, or the reverse, is not acceptable."""
        await api.create(configmaps, {"metadata": {"name": "a"}})
        accept = _PARTIAL.format("" if path == "{configmaps}" else "List")
        answer = await api.call("GET", path.format(configmaps=configmaps), accept=accept)
        assert_refused(answer, 406, "NotAcceptable")

    async def test_the_first_acceptable_form_is_given(self, api: Api, configmaps: str) -> None:
        """Of several forms the first known one is taken; with none known it is 406."""
        unknown = "application/json;as=Nonesuch;g=meta.k8s.io;v=v1"
        found = await api.get(configmaps, accept=f"{unknown},application/json")
        assert found["kind"] == "ConfigMapList"
        assert (await api.get(configmaps, accept=f"{_TABLE},application/json"))["kind"] == "Table"
        answer = await api.call("GET", configmaps, accept=unknown)
        assert_refused(answer, 406, "NotAcceptable")

    async def test_a_written_object_comes_back_as_asked(self, api: Api, configmaps: str) -> None:
        """The form applies to the answers of writes too."""
        made = await api.create(configmaps, {"metadata": {"name": "a"}}, accept=_PARTIAL.format(""))
        assert made["kind"] == "PartialObjectMetadata"
