"""Contract: what tells how far a server is, and brings a watch there: what fresh reads rely on."""

from __future__ import annotations

import asyncio
import time

from tests.contract.api import Api
from tests.contract.objects import PARTIAL_LIST, create, latest, names, version_of


async def _write_elsewhere(api: Api, namespace: str) -> int:
    """Create an object of another resource; return its version."""
    path = f"/api/v1/namespaces/{namespace}/secrets"
    return version_of(await api.create(path, {"metadata": {"generateName": "other-"}}))


async def test_a_list_tells_the_newest_version_of_all_resources(
    api: Api, namespace: str, configmaps: str
) -> None:
    """Though nothing of its own has changed, and whatever part of it is asked for."""
    await create(api, configmaps, "a")
    await create(api, configmaps, "b")
    for query in ({}, {"limit": 1}, {"limit": 500}, {"fieldSelector": "metadata.name=a"}):
        written = await _write_elsewhere(api, namespace)
        found = await api.get(configmaps, accept=PARTIAL_LIST, **query)
        assert version_of(found) >= written


async def test_an_object_is_listed_by_name_with_the_version_of_the_list(
    api: Api, namespace: str, configmaps: str
) -> None:
    """Also when there is none of the name: that is known at this version then."""
    await create(api, configmaps, "a")
    await create(api, configmaps, "b")
    written = await _write_elsewhere(api, namespace)
    for name, expected in (("a", ["a"]), ("none", [])):
        found = await api.get(
            configmaps, accept=PARTIAL_LIST, fieldSelector=f"metadata.name={name}", limit=500
        )
        assert names({"items": found["items"] or []}) == expected, "of none it may be null"
        assert version_of(found) >= written
        assert not found["metadata"].get("continue")


async def test_a_list_shows_every_write_that_was_answered_before(api: Api, configmaps: str) -> None:
    """By the versions of the objects, not only by its own."""
    made = await create(api, configmaps, "a")
    for number in range(50):
        changed = await api.patch(f"{configmaps}/a", {"data": {"n": str(number)}})
        found = await api.get(configmaps, accept=PARTIAL_LIST, limit=500)
        assert version_of(changed) > version_of(made)
        assert version_of(found["items"][0]) == version_of(changed)


async def test_a_watch_of_a_few_seconds_gets_a_bookmark_at_once_or_nearly(
    api: Api, namespace: str, configmaps: str
) -> None:
    """Two seconds before its end, at or behind what a list has told before, though all is quiet."""
    await create(api, configmaps, "a")
    start = await latest(api, configmaps)
    await _write_elsewhere(api, namespace)
    told = version_of(await api.get(configmaps, limit=1))
    assert told > int(start)
    began = time.monotonic()
    async with api.watch(
        configmaps, resourceVersion=start, allowWatchBookmarks="true", timeoutSeconds=3
    ) as stream:
        bookmark = await stream.next()
        took = time.monotonic() - began
        assert bookmark["type"] == "BOOKMARK"
        assert version_of(bookmark["object"]) >= told
        assert {event["type"] for event in await stream.rest()} <= {"BOOKMARK"}
    assert took < time.monotonic() - began, "it goes on to its end"


async def test_a_bookmark_comes_behind_the_events_before_it(
    api: Api, namespace: str, configmaps: str
) -> None:
    """So that whoever has got it has got them."""
    await create(api, configmaps, "a")
    start = await latest(api, configmaps)
    async with api.watch(
        configmaps, resourceVersion=start, allowWatchBookmarks="true", timeoutSeconds=3
    ) as stream:

        async def write() -> list[int]:
            written = []
            for number in range(30):
                changed = await api.patch(f"{configmaps}/a", {"data": {"n": str(number)}})
                written.append(version_of(changed))
            return written

        writing = asyncio.create_task(write())
        seen: list[int] = []
        while (event := await stream.next())["type"] != "BOOKMARK":
            seen.append(version_of(event["object"]))
        written = await writing
    at = version_of(event["object"])
    assert seen == [version for version in written if version <= at]
    await _write_elsewhere(api, namespace)
