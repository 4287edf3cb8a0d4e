"""Rules of asking what an identity may do."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from tests.unit.kubernetes.api_double import ApiDouble
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.credentials import StaticToken
from watchcache_server.kubernetes.errors import ReviewMalformedError, StatusError
from watchcache_server.kubernetes.reviews import Right, is_allowed, missing_rights

PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture
def asked(api: ApiDouble) -> list[dict[str, Any]]:
    """Give what was asked; list is allowed and nothing else."""
    asked: list[dict[str, Any]] = []

    async def review(request: web.Request) -> web.StreamResponse:
        attributes = (await request.json())["spec"]["resourceAttributes"]
        asked.append(attributes)
        return web.json_response({"status": {"allowed": attributes["verb"] == "list"}}, status=201)

    api.routes[PATH] = review
    return asked


@pytest.fixture
def shop(api: ApiDouble) -> ApiAccess:
    """Give access as a ServiceAccount."""
    return ApiAccess(api.transport(), StaticToken("t"), identity="serviceaccount team-a/shop")


def right(verb: str, **parts: str) -> Right:
    """Return a right on Deployments."""
    return Right(verb=verb, group="apps", version="v1", resource="deployments", **parts)


async def test_what_is_missing_is_named_exactly(
    shop: ApiAccess, asked: list[dict[str, Any]], api: ApiDouble
) -> None:
    """Verb, resource and namespace, asked with the identity's own token."""
    needed = [right("list", namespace="team-a"), right("watch", namespace="team-a")]
    assert await missing_rights(shop, needed) == (needed[1],)
    assert str(needed[1]) == "watch on deployments.apps in namespace team-a"
    assert asked[0] == {
        "verb": "list",
        "group": "apps",
        "version": "v1",
        "resource": "deployments",
        "namespace": "team-a",
    }
    assert api.requests[0].headers["Authorization"] == "Bearer t"


async def test_a_limited_request_is_asked_for_with_its_limits(
    shop: ApiAccess, asked: list[dict[str, Any]]
) -> None:
    """Name and selectors go along: the right may be no wider."""
    limited = right("list", name="web", label_selector="a=b", field_selector="metadata.name=web")
    assert await is_allowed(shop, limited)
    assert asked[0]["name"] == "web"
    assert asked[0]["labelSelector"] == {"rawSelector": "a=b"}
    assert asked[0]["fieldSelector"] == {"rawSelector": "metadata.name=web"}


def test_a_right_in_the_whole_cluster_says_so() -> None:
    """And the core group has no name."""
    assert str(Right(verb="list", group="", version="v1", resource="nodes")) == (
        "list on nodes in the whole cluster"
    )


async def test_what_cannot_be_told_is_an_error(shop: ApiAccess, api: ApiDouble) -> None:
    """Neither yes nor no."""
    api.refuse(PATH, 503)
    with pytest.raises(StatusError, match="reviewing whether serviceaccount team-a/shop may list"):
        await is_allowed(shop, right("list"))
    api.answer(PATH, "<html>", status=201)
    with pytest.raises(ReviewMalformedError):
        await is_allowed(shop, right("list"))
