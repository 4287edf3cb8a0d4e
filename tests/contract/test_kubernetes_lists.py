"""Contract: lists: their shape, pages and versions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.api import Api, unique
from tests.contract.objects import assert_refused, names, version_of

_FUTURE = 10**9


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
