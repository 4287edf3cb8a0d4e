"""Contract: what happens when the past is gone.

On the real server its window of old versions must be gone as well as etcd's, which takes a restart.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tests.contract.api import Api
from tests.contract.objects import assert_refused, names, summary, version_of


async def test_an_expired_past_is_told_and_can_be_left_behind(api: Api, configmaps: str) -> None:
    """Old versions end in 410 Expired: in a watch as an event, in a list as an answer.

    A list that is not bound to its version goes on working, and so does a watch from there.
    """
    versions = []
    for number in range(5):
        made = await api.create(configmaps, {"metadata": {"name": f"c{number}"}})
        versions.append(version_of(made))
    page = await api.get(configmaps, limit=2)
    token = page["metadata"]["continue"]
    # Something after the last version of interest, so that none of them is the newest there is.
    await api.create(configmaps, {"metadata": {"name": "last"}})

    await asyncio.to_thread(api.endpoint.expire_history)

    await _check_watch(api, configmaps, versions[1])
    await _check_exact_lists(api, configmaps, versions[1])
    await _check_token(api, configmaps, token)
    await _check_what_still_works(api, configmaps, versions[1])


async def _check_watch(api: Api, path: str, version: int) -> None:
    # 200 and then one ERROR event, after which the stream ends: not an HTTP error.
    queries: list[dict[str, Any]] = [{}, {"labelSelector": "absent"}]
    for query in queries:
        async with api.watch(path, resourceVersion=version, timeoutSeconds=8, **query) as stream:
            (event,) = await stream.rest()
        status = event["object"]
        assert event["type"] == "ERROR"
        assert status["message"].startswith(f"too old resource version: {version} (")
        assert {key: status[key] for key in ("kind", "status", "reason", "code")} == {
            "kind": "Status",
            "status": "Failure",
            "reason": "Expired",
            "code": 410,
        }


async def _check_exact_lists(api: Api, path: str, version: int) -> None:
    queries: list[dict[str, Any]] = [{"resourceVersionMatch": "Exact"}, {"limit": 2}]
    for query in queries:
        answer = await api.call("GET", path, resourceVersion=version, **query)
        assert_refused(answer, 410, "Expired")
        assert answer.body["message"] == "The resourceVersion for the provided list is too old."


async def _check_token(api: Api, path: str, token: str) -> None:
    query: dict[str, Any] = {"limit": 2, "continue": token}
    answer = await api.call("GET", path, **query)
    assert_refused(answer, 410, "Expired")
    assert answer.body["message"].startswith(
        "The provided continue parameter is too old to display a consistent list result."
    )
    # The refusal offers a way on, in another state than the first page's.
    rest = await api.get(path, limit=2, **{"continue": answer.body["metadata"]["continue"]})
    assert names(rest) == ["c2", "c3"]
    last = await api.get(path, **{"continue": rest["metadata"]["continue"]})
    assert names(last) == ["c4", "last"]


async def _check_what_still_works(api: Api, path: str, version: int) -> None:
    not_older: dict[str, Any] = {
        "resourceVersion": version,
        "resourceVersionMatch": "NotOlderThan",
    }
    found = await api.get(path, **not_older)
    assert names(found) == ["c0", "c1", "c2", "c3", "c4", "last"]
    assert (await api.get(f"{path}/c0", resourceVersion=version))["metadata"]["name"] == "c0"

    watch_list = {**not_older, "sendInitialEvents": "true", "allowWatchBookmarks": "true"}
    async with api.watch(path, **watch_list) as stream:
        events = await stream.take(7)
        assert [event["type"] for event in events] == ["ADDED"] * 6 + ["BOOKMARK"]

    current = version_of(await api.get(path))
    async with api.watch(path, resourceVersion=current) as stream:
        await api.delete(f"{path}/last")
        assert summary(await stream.next()) == ("DELETED", "last")
