"""Contract: watches: where they start, what they send, and how they end."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from tests.contract.api import Api, WatchStream, unique
from tests.contract.objects import (
    END_OF_INITIAL_EVENTS,
    WATCH_LIST,
    assert_refused,
    create,
    latest,
    summary,
    version_of,
)

_FUTURE = 10**9


class TestChanges:
    """What each kind of change sends."""

    async def test_each_write_is_an_event_in_order(self, api: Api, configmaps: str) -> None:
        """Created, changed and deleted objects are ADDED, MODIFIED and DELETED, each whole."""
        start = await latest(api, configmaps)
        async with api.watch(configmaps, resourceVersion=start) as stream:
            made = await create(api, configmaps, "a")
            assert await stream.next() == {"type": "ADDED", "object": made}
            changed = await api.patch(f"{configmaps}/a", {"data": {"k": "v"}})
            assert await stream.next() == {"type": "MODIFIED", "object": changed}
            await api.delete(f"{configmaps}/a")
            assert summary(await stream.next()) == ("DELETED", "a")

    async def test_the_stream_is_json_lines(self, api: Api, configmaps: str) -> None:
        """Each event is one JSON value on one line, of a chunked answer that has begun at once."""
        async with api.watch(configmaps, resourceVersion=await latest(api, configmaps)) as stream:
            assert stream.headers["Content-Type"].split(";")[0] == "application/json"
            assert stream.headers["Transfer-Encoding"] == "chunked"
            text = "line\u2028separator, next\u0085line, form\u000cfeed"
            await api.create(configmaps, {"metadata": {"name": "a"}, "data": {"k": text}})
            assert (await stream.next())["object"]["data"]["k"] == text

    async def test_a_deletion_has_a_version_of_its_own(self, api: Api, configmaps: str) -> None:
        """DELETED carries the last content under the version of the deletion."""
        made = await api.create(configmaps, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        async with api.watch(configmaps, resourceVersion=version_of(made)) as stream:
            await api.delete(f"{configmaps}/a")
            after = await create(api, configmaps, "b")
            gone = (await stream.next())["object"]
            assert version_of(made) < version_of(gone) < version_of(after)
            made["metadata"].pop("resourceVersion")
            gone["metadata"].pop("resourceVersion")
            assert gone == made

    async def test_a_held_deletion_is_a_change_and_then_a_deletion(
        self, api: Api, configmaps: str
    ) -> None:
        """With a finalizer the mark is MODIFIED; the release is DELETED with a newer version."""
        await create(api, configmaps, "a", finalizers=["example.test/hold"])
        async with api.watch(configmaps, resourceVersion=await latest(api, configmaps)) as stream:
            marked = await api.delete(f"{configmaps}/a")
            assert await stream.next() == {"type": "MODIFIED", "object": marked}
            await api.patch(f"{configmaps}/a", {"metadata": {"finalizers": None}})
            event = await stream.next()
            assert summary(event) == ("DELETED", "a")
            assert version_of(event["object"]) > version_of(marked)

    async def test_a_write_without_a_change_sends_nothing(self, api: Api, configmaps: str) -> None:
        """A patch of what is already so is no event."""
        await api.create(configmaps, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        async with api.watch(configmaps, resourceVersion=await latest(api, configmaps)) as stream:
            await api.patch(f"{configmaps}/a", {"data": {"k": "v"}})
            await create(api, configmaps, "next")
            assert summary(await stream.next()) == ("ADDED", "next")

    async def test_a_recreated_object_is_two_events(self, api: Api, configmaps: str) -> None:
        """Deleted and made again under one name is DELETED and ADDED, with different uids."""
        first = await create(api, configmaps, "a")
        async with api.watch(configmaps, resourceVersion=version_of(first)) as stream:
            await api.delete(f"{configmaps}/a")
            second = await create(api, configmaps, "a")
            gone, made = await stream.take(2)
            assert (summary(gone), summary(made)) == (("DELETED", "a"), ("ADDED", "a"))
            assert gone["object"]["metadata"]["uid"] == first["metadata"]["uid"]
            assert made["object"]["metadata"]["uid"] == second["metadata"]["uid"]

    async def test_all_namespaces_come_on_one_stream(self, api: Api, namespace: str) -> None:
        """A watch of the whole cluster sees every namespace, a namespaced one only its own."""
        other = f"{namespace}-b"
        await create(api, "/api/v1/namespaces", other)
        label = unique("label")
        start = await latest(api, "/api/v1/configmaps")
        selector = f"l={label}"
        here = f"/api/v1/namespaces/{namespace}/configmaps"
        async with (
            api.watch("/api/v1/configmaps", resourceVersion=start, labelSelector=selector) as all_,
            api.watch(here, resourceVersion=start, labelSelector=selector) as own,
        ):
            for where in (other, namespace):
                path = f"/api/v1/namespaces/{where}/configmaps"
                await create(api, path, "a", labels={"l": label})
            seen = [event["object"]["metadata"]["namespace"] for event in await all_.take(2)]
            assert seen == [other, namespace]
            assert (await own.next())["object"]["metadata"]["namespace"] == namespace

    async def test_a_large_object_comes_whole(self, api: Api, configmaps: str) -> None:
        """An object near the limit of 1 MiB is one event on one line."""
        async with api.watch(configmaps, resourceVersion=await latest(api, configmaps)) as stream:
            value = "x" * 1_000_000
            await api.create(configmaps, {"metadata": {"name": "a"}, "data": {"k": value}})
            assert (await stream.next())["object"]["data"]["k"] == value


class TestStart:
    """Where a watch begins."""

    async def test_a_version_is_the_last_one_known(self, api: Api, configmaps: str) -> None:
        """A watch from a version sends every change strictly after it, old ones first."""
        first = await create(api, configmaps, "a")
        await create(api, configmaps, "b")
        await api.delete(f"{configmaps}/a")
        async with api.watch(configmaps, resourceVersion=version_of(first)) as stream:
            events = [summary(event) for event in await stream.take(2)]
            assert events == [("ADDED", "b"), ("DELETED", "a")]

    @pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}], ids=["none", "zero"])
    async def test_without_a_version_the_state_comes_first(
        self, api: Api, configmaps: str, query: dict[str, Any]
    ) -> None:
        """With none or 0 the objects that are there come as ADDED, then the changes."""
        for name in ("a", "b"):
            await create(api, configmaps, name)
        await api.patch(f"{configmaps}/a", {"data": {"k": "v"}})
        await api.get(configmaps)
        async with api.watch(configmaps, **query) as stream:
            initial = {summary(event) for event in await stream.take(2)}
            assert initial == {("ADDED", "a"), ("ADDED", "b")}
            await create(api, configmaps, "c")
            assert summary(await stream.next()) == ("ADDED", "c")

    async def test_a_version_from_the_future_is_taken_in_silence(
        self, api: Api, configmaps: str
    ) -> None:
        """Such a watch is accepted, and changes before that version are not sent."""
        async with api.watch(configmaps, resourceVersion=_FUTURE, timeoutSeconds=1) as stream:
            await create(api, configmaps, "a")
            assert await stream.rest() == []

    async def test_a_missing_namespace_can_be_watched(self, api: Api) -> None:
        """A namespace that is made later is seen by a watch that was there before."""
        name = unique("later")
        path = f"/api/v1/namespaces/{name}/configmaps"
        async with api.watch(path, resourceVersion=await latest(api, path)) as stream:
            await create(api, "/api/v1/namespaces", name)
            await create(api, path, "a")
            assert summary(await stream.next()) == ("ADDED", "a")

    @pytest.mark.parametrize(
        ("query", "status", "reason", "message"),
        [
            ({"resourceVersion": "abc"}, 500, None, "resourceVersion: Invalid value"),
            ({"labelSelector": "a==="}, 400, "BadRequest", "unable to parse requirement"),
            ({"fieldSelector": "foo=bar"}, 400, "BadRequest", '"foo" is not a known field'),
        ],
        ids=["version", "labels", "fields"],
    )
    async def test_a_malformed_watch_is_refused(
        self,
        api: Api,
        configmaps: str,
        query: dict[str, Any],
        status: int,
        reason: str | None,
        message: str,
    ) -> None:
        """A watch that cannot be understood is an HTTP error, not an event."""
        answer = await api.call("GET", configmaps, watch="true", **query)
        assert answer.status == status
        assert answer.body.get("reason") == reason
        assert answer.body["message"].startswith(message)

    async def test_a_watch_can_be_of_one_object(self, api: Api, configmaps: str) -> None:
        """A field selector on the name makes a watch of one object."""
        start = await latest(api, configmaps)
        async with api.watch(
            configmaps, resourceVersion=start, fieldSelector="metadata.name=b"
        ) as stream:
            for name in ("a", "b"):
                await create(api, configmaps, name)
            assert summary(await stream.next()) == ("ADDED", "b")


class TestWatchList:
    """A watch that begins with the whole state and says when it is whole."""

    async def _initial(self, stream: WatchStream) -> tuple[list[str], dict[str, Any]]:
        seen: list[str] = []
        while (event := await stream.next())["type"] == "ADDED":
            seen.append(event["object"]["metadata"]["name"])
        return seen, event

    @pytest.mark.parametrize("version", [None, "0", "{first}"], ids=["latest", "zero", "a version"])
    async def test_the_state_ends_with_a_marked_bookmark(
        self, api: Api, configmaps: str, version: str | None
    ) -> None:
        """ADDED for each object, an annotated bookmark, and then changes on the same stream."""
        first = await create(api, configmaps, "a")
        await create(api, configmaps, "b")
        await api.delete(f"{configmaps}/b")
        last = await create(api, configmaps, "c")
        query: dict[str, Any] = dict(WATCH_LIST)
        if version is not None:
            query["resourceVersion"] = version.format(first=version_of(first))
        await api.get(configmaps)
        async with api.watch(configmaps, **query) as stream:
            seen, bookmark = await self._initial(stream)
            assert sorted(seen) == ["a", "c"]
            assert bookmark["type"] == "BOOKMARK"
            marked = bookmark["object"]
            assert (marked["kind"], marked["apiVersion"]) == ("ConfigMap", "v1")
            assert marked["metadata"]["annotations"] == END_OF_INITIAL_EVENTS
            assert version_of(marked) >= version_of(last)
            await create(api, configmaps, "d")
            assert summary(await stream.next_change()) == ("ADDED", "d")

    async def test_the_bookmark_is_where_to_go_on_from(self, api: Api, configmaps: str) -> None:
        """A watch from the bookmark's version misses nothing and repeats nothing."""
        await create(api, configmaps, "a")
        async with api.watch(configmaps, **WATCH_LIST) as stream:
            _, bookmark = await self._initial(stream)
        await create(api, configmaps, "b")
        resumed = version_of(bookmark["object"])
        async with api.watch(configmaps, resourceVersion=resumed) as stream:
            assert summary(await stream.next()) == ("ADDED", "b")

    async def test_the_state_is_that_of_the_selection(self, api: Api, configmaps: str) -> None:
        """With a selector that matches nothing the bookmark comes alone."""
        await create(api, configmaps, "a")
        query = {**WATCH_LIST, "labelSelector": "absent"}
        async with api.watch(configmaps, **query) as stream:
            seen, bookmark = await self._initial(stream)
            assert seen == []
            assert bookmark["object"]["metadata"]["annotations"] == END_OF_INITIAL_EVENTS

    async def test_without_bookmarks_the_end_is_not_told(self, api: Api, configmaps: str) -> None:
        """A client that takes no bookmarks gets the state and no mark."""
        await create(api, configmaps, "a")
        query = {**WATCH_LIST, "allowWatchBookmarks": "false", "timeoutSeconds": "1"}
        async with api.watch(configmaps, **query) as stream:
            assert [summary(event) for event in await stream.rest()] == [("ADDED", "a")]

    async def test_switched_off_it_is_a_plain_watch(self, api: Api, configmaps: str) -> None:
        """With sendInitialEvents=false a watch from a version sends what came after it."""
        first = await create(api, configmaps, "a")
        await create(api, configmaps, "b")
        query = {**WATCH_LIST, "sendInitialEvents": "false"}
        async with api.watch(configmaps, resourceVersion=version_of(first), **query) as stream:
            assert summary(await stream.next_change()) == ("ADDED", "b")

    async def test_a_version_from_the_future_is_an_error_event(
        self, api: Api, configmaps: str
    ) -> None:
        """The state of a version not yet reached is waited for, then refused in the stream."""
        async with api.watch(
            configmaps, resourceVersion=_FUTURE, timeoutSeconds=8, **WATCH_LIST
        ) as stream:
            (event,) = await stream.rest()
        assert event["type"] == "ERROR"
        status = event["object"]
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 504, "Timeout")
        causes = [cause["reason"] for cause in status["details"]["causes"]]
        assert causes == ["ResourceVersionTooLarge"]

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            (
                {"sendInitialEvents": "true", "allowWatchBookmarks": "true"},
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (
                {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (
                {"resourceVersionMatch": "NotOlderThan"},
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
            (
                {**WATCH_LIST, "continue": "x"},
                "resourceVersionMatch is forbidden when continue is provided",
            ),
        ],
        ids=["no match", "exact", "no initial events", "continue"],
    )
    async def test_senseless_combinations_are_invalid(
        self, api: Api, configmaps: str, query: dict[str, Any], message: str
    ) -> None:
        """The parameters of a WatchList go together or not at all."""
        answer = await api.call("GET", configmaps, watch="true", resourceVersion=5, **query)
        assert_refused(answer, 422, "Invalid")
        assert message in answer.body["message"]
        details = answer.body["details"]
        assert (details["group"], details["kind"]) == ("meta.k8s.io", "ListOptions")
        assert {cause["field"] for cause in details["causes"]} == {"resourceVersionMatch"}


class TestSelectors:
    """A selection is a window: what crosses its edge comes in or goes out."""

    async def test_entering_is_added_and_leaving_is_deleted(
        self, api: Api, configmaps: str
    ) -> None:
        """A label change over the edge is ADDED or DELETED; inside it is MODIFIED; outside nothing.

        What leaves comes as it was before, under the version of the change.
        """
        path = f"{configmaps}/a"
        start = await latest(api, configmaps)
        async with api.watch(configmaps, resourceVersion=start, labelSelector="s=in") as stream:
            inside = await create(api, configmaps, "a", labels={"s": "in"})
            assert await stream.next() == {"type": "ADDED", "object": inside}
            changed = await api.patch(path, {"data": {"k": "1"}})
            assert await stream.next() == {"type": "MODIFIED", "object": changed}

            change = {"metadata": {"labels": {"s": "out"}}, "data": {"k": "2"}}
            outside = await api.patch(path, change)
            left = await stream.next()
            assert summary(left) == ("DELETED", "a")
            assert version_of(left["object"]) == version_of(outside)
            assert left["object"]["metadata"]["labels"] == {"s": "in"}
            assert left["object"]["data"] == {"k": "1"}

            await api.patch(path, {"data": {"k": "3"}})
            back = await api.patch(path, {"metadata": {"labels": {"s": "in"}}})
            assert await stream.next() == {"type": "ADDED", "object": back}
            await api.delete(path)
            assert summary(await stream.next()) == ("DELETED", "a")

    async def test_deleting_outside_sends_nothing(self, api: Api, configmaps: str) -> None:
        """An object that is not in the selection leaves no trace in it."""
        await create(api, configmaps, "a", labels={"s": "out"})
        start = await latest(api, configmaps)
        async with api.watch(configmaps, resourceVersion=start, labelSelector="s=in") as stream:
            await api.delete(f"{configmaps}/a")
            await create(api, configmaps, "b", labels={"s": "in"})
            assert summary(await stream.next()) == ("ADDED", "b")

    async def test_a_field_is_an_edge_too(self, api: Api, namespace: str) -> None:
        """A pod that is scheduled leaves the selection of those that are not."""
        pods = f"/api/v1/namespaces/{namespace}/pods"
        containers = [{"name": "main", "image": "example.test/main"}]
        await api.create(pods, {"metadata": {"name": "a"}, "spec": {"containers": containers}})
        start = await latest(api, pods)
        async with api.watch(
            pods, resourceVersion=start, fieldSelector="status.phase=Pending"
        ) as stream:
            await api.patch(f"{pods}/a/status", {"status": {"phase": "Running"}})
            event = await stream.next()
            assert summary(event) == ("DELETED", "a")
            assert event["object"]["status"]["phase"] == "Pending"


class TestEnd:
    """How a watch ends."""

    async def test_a_timeout_ends_it_cleanly(self, api: Api, configmaps: str) -> None:
        """After timeoutSeconds the stream ends at a line's end, without an error event."""
        began = time.monotonic()
        start = await latest(api, configmaps)
        async with api.watch(configmaps, resourceVersion=start, timeoutSeconds=2) as stream:
            made = await create(api, configmaps, "a")
            assert await stream.rest() == [{"type": "ADDED", "object": made}]
        assert time.monotonic() - began >= 1.9

    async def test_a_bookmark_comes_before_the_timeout(
        self, api: Api, namespace: str, configmaps: str
    ) -> None:
        """Before the end a bookmark tells how far changes out of the watch's sight have come.

        It holds a version and no more; a watch that goes on from there misses nothing.
        """
        other = f"{namespace}-b"
        await create(api, "/api/v1/namespaces", other)
        start = await latest(api, configmaps)
        async with api.watch(
            configmaps, resourceVersion=start, timeoutSeconds=4, allowWatchBookmarks="true"
        ) as stream:
            unseen = await create(api, f"/api/v1/namespaces/{other}/configmaps", "a")
            events = await stream.rest()
        assert events
        for event in events:
            assert event["type"] == "BOOKMARK"
            assert set(event["object"]) == {"kind", "apiVersion", "metadata"}
            assert event["object"]["kind"] == "ConfigMap"
            assert set(event["object"]["metadata"]) == {"resourceVersion"}
        reached = version_of(events[-1]["object"])
        assert reached >= version_of(unseen)
        made = await create(api, configmaps, "b")
        async with api.watch(configmaps, resourceVersion=reached) as stream:
            assert await stream.next() == {"type": "ADDED", "object": made}

    async def test_many_watches_end_by_themselves(self, api: Api, configmaps: str) -> None:
        """Each watch has its own deadline."""
        start = await latest(api, configmaps)

        async def watch(seconds: int) -> float:
            began = time.monotonic()
            async with api.watch(
                configmaps, resourceVersion=start, timeoutSeconds=seconds
            ) as stream:
                await stream.rest()
            return time.monotonic() - began

        one, two = await asyncio.gather(watch(1), watch(2))
        assert one < two
        assert two >= 1.9


async def test_the_old_path_of_watches_still_works(api: Api, namespace: str) -> None:
    """A watch under /api/v1/watch/ is the same without the parameter."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = await create(api, path, "a")
    answer = await api.call(
        "GET", f"/api/v1/watch/namespaces/{namespace}/configmaps", timeoutSeconds=1, expect=200
    )
    assert answer.body == {"type": "ADDED", "object": made}


@pytest.mark.parametrize("value", ["1", "true", "True"])
async def test_truth_can_be_spelled_in_several_ways(api: Api, configmaps: str, value: str) -> None:
    """The parameter watch is true for each of Go's spellings, and false is a list."""
    made = await create(api, configmaps, "a")
    answer = await api.call("GET", configmaps, watch=value, timeoutSeconds=1, expect=200)
    assert answer.body == {"type": "ADDED", "object": made}
    assert (await api.get(configmaps, watch="false"))["kind"] == "ConfigMapList"


async def test_events_are_compact(api: Api, configmaps: str) -> None:
    """Events are not indented, so that a line is a value."""
    made = await create(api, configmaps, "a")
    answer = await api.call(
        "GET", configmaps, watch="true", timeoutSeconds=1, accept="application/json", expect=200
    )
    assert json.dumps(answer.body["object"]) == json.dumps(made)
