"""Rules of paths, queries and Accept headers."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache_server.kubernetes.errors import RequestInvalidError
from watchcache_server.kubernetes.requests import (
    ACCEPT_JSON,
    ACCEPT_METADATA,
    ACCEPT_METADATA_LIST,
    Request,
    get_request,
    list_request,
    resource_path,
    watch_request,
)

PATHS = {
    "core, cluster-wide": (("", "v1", "pods"), {}, "/api/v1/pods"),
    "core, in a namespace": (
        ("", "v1", "pods"),
        {"namespace": "a"},
        "/api/v1/namespaces/a/pods",
    ),
    "group, in a namespace": (
        ("apps", "v1", "deployments"),
        {"namespace": "a"},
        "/apis/apps/v1/namespaces/a/deployments",
    ),
    "an object": (
        ("apps", "v1", "deployments"),
        {"namespace": "a", "name": "web"},
        "/apis/apps/v1/namespaces/a/deployments/web",
    ),
    "a cluster-scoped object": (("", "v1", "nodes"), {"name": "n1"}, "/api/v1/nodes/n1"),
    "a subresource": (
        ("", "v1", "serviceaccounts"),
        {"namespace": "a", "name": "shop", "subresource": "token"},
        "/api/v1/namespaces/a/serviceaccounts/shop/token",
    ),
    "a name with a colon": (
        ("rbac.authorization.k8s.io", "v1", "clusterroles"),
        {"name": "system:node"},
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
    ),
    "a name that needs quoting": (
        ("", "v1", "pods"),
        {"namespace": "a", "name": "x?y=z#w é"},
        "/api/v1/namespaces/a/pods/x%3Fy%3Dz%23w%20%C3%A9",
    ),
}


@pytest.mark.parametrize("case", PATHS)
def test_paths_are_those_of_the_api(case: str) -> None:
    """Groups, namespaces, names and subresources have their places; everything is quoted."""
    positional, named, path = PATHS[case]
    assert resource_path(*positional, **named) == path


@pytest.mark.parametrize("name", [".", "..", "a/b", "../secrets", "a%2Fb", "x" * 254])
def test_a_name_that_could_change_the_path_is_refused(name: str) -> None:
    """No name reaches another object than the one it names."""
    with pytest.raises(RequestInvalidError, match="part of a path"):
        resource_path("", "v1", "pods", namespace="a", name=name)
    with pytest.raises(RequestInvalidError, match="part of a path"):
        resource_path("", "v1", "pods", namespace=name)


def test_a_subresource_needs_an_object() -> None:
    """There is no token of all ServiceAccounts."""
    with pytest.raises(RequestInvalidError, match="needs the name of an object"):
        resource_path("", "v1", "serviceaccounts", namespace="a", subresource="token")


def parameters(request: Request) -> dict[str, str]:
    """Return the query as a server reads it."""
    return {key: values[0] for key, values in parse_qs(request.query, strict_parsing=True).items()}


def test_a_list_sends_only_what_is_set() -> None:
    """An unset resourceVersion is not sent: it means the most recent state."""
    assert list_request("/api/v1/pods").target == "/api/v1/pods"
    assert parameters(
        list_request("/api/v1/pods", limit=500, resource_version="7", match="NotOlderThan")
    ) == {"limit": "500", "resourceVersion": "7", "resourceVersionMatch": "NotOlderThan"}


@pytest.mark.parametrize(
    "forbidden", [{"resource_version": "7"}, {"resource_version": "0"}, {"match": "Exact"}]
)
def test_a_page_after_the_first_has_no_version(forbidden: dict[str, str]) -> None:
    """A continued list is bound to its token; a version beside it is refused by the server."""
    with pytest.raises(RequestInvalidError, match="bound to its token"):
        list_request("/api/v1/pods", continue_token="abc", **forbidden)  # type: ignore[arg-type]


def test_a_watch_always_asks_for_bookmarks_and_an_end() -> None:
    """Bookmarks keep the position young; the time limit is ours, not the server's guess."""
    assert parameters(watch_request("/x", timeout_seconds=300, resource_version="7")) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
        "resourceVersion": "7",
    }


def test_a_watch_list_asks_for_initial_events() -> None:
    """Initial events need both parameters."""
    query = parameters(
        watch_request(
            "/x", timeout_seconds=60, is_sending_initial_events=True, match="NotOlderThan"
        )
    )
    assert query["sendInitialEvents"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"


@given(st.text(min_size=1), st.text(min_size=1))
def test_selectors_arrive_as_they_are_written(labels: str, fields: str) -> None:
    """Whatever characters a selector has, the server reads the same."""
    request = list_request("/x", label_selector=labels, field_selector=fields)
    assert parameters(request) == {"labelSelector": labels, "fieldSelector": fields}


def test_metadata_only_is_asked_for_with_plain_json_as_the_way_out() -> None:
    """A server that cannot project answers whole objects instead of 406."""
    assert list_request("/x", is_metadata_only=True).accept == ACCEPT_METADATA_LIST
    assert watch_request("/x", timeout_seconds=60, is_metadata_only=True).accept == ACCEPT_METADATA
    assert get_request("/x", is_metadata_only=True).accept == ACCEPT_METADATA
    for accept in (ACCEPT_METADATA_LIST, ACCEPT_METADATA):
        assert accept.startswith("application/json;as=PartialObjectMetadata")
        assert accept.endswith(",application/json")
    assert get_request("/x").accept == list_request("/x").accept == ACCEPT_JSON
