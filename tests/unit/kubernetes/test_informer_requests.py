"""Rules of what an informer asks an API server for."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from tests.items import served, source_spec
from watchcache_server.informer.effects import List, Watch
from watchcache_server.kubernetes.informer_requests import collection_request
from watchcache_server.kubernetes.requests import ACCEPT_JSON, ACCEPT_METADATA, ACCEPT_METADATA_LIST

LISTS = {
    "the first page": (List(limit=500), {"limit": "500"}),
    "no pages": (List(limit=None), {}),
    "a relist": (
        List(limit=500, resource_version="7", match="NotOlderThan"),
        {"limit": "500", "resourceVersion": "7", "resourceVersionMatch": "NotOlderThan"},
    ),
    "a page behind the first": (
        List(limit=500, continue_token="next"),
        {"limit": "500", "continue": "next"},
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_asks_for_what_the_reflector_says(name: str) -> None:
    """Empty and None are not sent."""
    asked, query = LISTS[name]
    request = collection_request(asked, source_spec(), served(), "team-a")
    assert request.path == "/api/v1/namespaces/team-a/pods"
    assert {key: value[0] for key, value in parse_qs(request.query).items()} == query


def test_a_watch_asks_for_bookmarks_and_its_limits() -> None:
    """The silence that is allowed is the reflector's."""
    asked = Watch(resource_version="7", timeout_seconds=50, inactivity_seconds=60.0)
    request = collection_request(asked, source_spec(), served(), "")
    assert request.path == "/api/v1/pods"
    assert request.idle_seconds == 60.0
    assert {key: value[0] for key, value in parse_qs(request.query).items()} == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "50",
        "resourceVersion": "7",
    }


def test_a_watch_that_begins_with_what_there_is_says_so() -> None:
    """As the WatchList protocol wants it."""
    asked = Watch(
        resource_version="",
        timeout_seconds=300,
        inactivity_seconds=310.0,
        send_initial_events=True,
        match="NotOlderThan",
    )
    query = parse_qs(collection_request(asked, source_spec(), served(), "").query)
    assert query["sendInitialEvents"] == ["true"]
    assert query["resourceVersionMatch"] == ["NotOlderThan"]
    assert "resourceVersion" not in query


ASKED = {
    "list": List(limit=1),
    "watch": Watch(resource_version="1", timeout_seconds=1, inactivity_seconds=1.0),
}


@pytest.mark.parametrize("name", ASKED)
def test_selectors_and_projection_are_those_of_the_spec(name: str) -> None:
    """The API server selects, and sends metadata only where no more is wanted."""
    spec = source_spec(
        label_selector="app=web", field_selector="metadata.name=a", projection="metadata"
    )
    request = collection_request(ASKED[name], spec, served(), "team-a")
    query = parse_qs(request.query)
    assert (query["labelSelector"], query["fieldSelector"]) == (["app=web"], ["metadata.name=a"])
    wanted = {"list": ACCEPT_METADATA_LIST, "watch": ACCEPT_METADATA}
    assert request.accept == wanted[name]
    plain = collection_request(ASKED[name], source_spec(), served(), "team-a")
    assert plain.accept == ACCEPT_JSON
