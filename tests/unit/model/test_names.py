"""Names are checked by the rules of Kubernetes, and each answer says what to do."""

from __future__ import annotations

import pytest

from watchcache_server.model.names import (
    dns_label_problem,
    dns_subdomain_problem,
    kind_problem,
    path_segment_problem,
    qualified_name_problem,
)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("web", None, id="plain"),
        pytest.param("a", None, id="one letter"),
        pytest.param("0", None, id="one digit"),
        pytest.param("team-a1", None, id="dash and digit"),
        pytest.param("a--b", None, id="two dashes"),
        pytest.param("a" * 63, None, id="longest"),
        pytest.param("", "is required", id="empty"),
        pytest.param("a" * 64, "is 64 characters long", id="too long"),
        pytest.param("Web", "is no DNS label", id="upper case"),
        pytest.param("-web", "is no DNS label", id="dash at the start"),
        pytest.param("web-", "is no DNS label", id="dash at the end"),
        pytest.param("-", "is no DNS label", id="only a dash"),
        pytest.param("a.b", "is no DNS label", id="dot"),
        pytest.param("a_b", "is no DNS label", id="underscore"),
        pytest.param("a b", "is no DNS label", id="space"),
        pytest.param("wéb", "is no DNS label", id="not ASCII"),
        pytest.param("web\n", "is no DNS label", id="line end"),
        pytest.param("../x", "is no DNS label", id="path"),
    ],
)
def test_dns_label(value: str, problem: str | None) -> None:
    """Namespaces and the like: RFC 1123 labels of at most 63 characters."""
    found = dns_label_problem(value)
    assert found is None if problem is None else problem in (found or "")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("web", None, id="label"),
        pytest.param("a.b-c.d", None, id="several labels"),
        pytest.param("a" * 253, None, id="longest"),
        pytest.param("", "is required", id="empty"),
        pytest.param("a" * 254, "is 254 characters long", id="too long"),
        pytest.param("a..b", "is no DNS subdomain", id="empty label"),
        pytest.param(".a", "is no DNS subdomain", id="dot at the start"),
        pytest.param("a.", "is no DNS subdomain", id="dot at the end"),
        pytest.param("a.-b", "is no DNS subdomain", id="label begins with a dash"),
        pytest.param("A.b", "is no DNS subdomain", id="upper case"),
        pytest.param("a/b", "is no DNS subdomain", id="slash"),
        pytest.param("a.b\n", "is no DNS subdomain", id="line end"),
    ],
)
def test_dns_subdomain(value: str, problem: str | None) -> None:
    """Names of extensions and most objects: labels joined by dots."""
    found = dns_subdomain_problem(value)
    assert found is None if problem is None else problem in (found or "")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("web", None, id="plain"),
        pytest.param("system:node-proxier", None, id="colon, as roles have"),
        pytest.param("Upper_Case", None, id="what DNS would not allow"),
        pytest.param("...", None, id="three dots"),
        pytest.param("", "is required", id="empty"),
        pytest.param("a" * 254, "is 254 characters long", id="too long"),
        pytest.param(".", "is no object name", id="this folder"),
        pytest.param("..", "is no object name", id="the folder above"),
        pytest.param("a/b", "is no object name", id="slash"),
        pytest.param("a%2fb", "is no object name", id="escaped slash"),
    ],
)
def test_path_segment(value: str, problem: str | None) -> None:
    """Any object's name, which becomes a part of a path."""
    found = path_segment_problem(value)
    assert found is None if problem is None else problem in (found or "")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("app", None, id="plain"),
        pytest.param("App_1.x-y", None, id="every character"),
        pytest.param("app.kubernetes.io/name", None, id="prefix"),
        pytest.param("a" * 253 + "/" + "n" * 63, None, id="longest"),
        pytest.param("", "is no label key", id="empty"),
        pytest.param("n" * 64, "a name part of 64 characters", id="too long"),
        pytest.param("example.com/", "is no label key", id="no name"),
        pytest.param("-a", "is no label key", id="dash at the start"),
        pytest.param("a.", "is no label key", id="dot at the end"),
        pytest.param("a b", "is no label key", id="space"),
        pytest.param("/name", "prefix that is no DNS subdomain: is required", id="no prefix"),
        pytest.param("a_b/name", "prefix that is no DNS subdomain", id="bad prefix"),
        pytest.param("a/b/c", "prefix that is no DNS subdomain", id="two slashes"),
        pytest.param("a" * 254 + "/n", "prefix that is no DNS subdomain", id="prefix too long"),
    ],
)
def test_qualified_name(value: str, problem: str | None) -> None:
    """Keys of labels: a name, with or without a prefix."""
    found = qualified_name_problem(value)
    assert found is None if problem is None else problem in (found or "")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("Deployment", None, id="plain"),
        pytest.param("K" * 63, None, id="longest"),
        pytest.param("", "is required", id="empty"),
        pytest.param("K" * 64, "is 64 characters long", id="too long"),
        pytest.param("Deploy ment", "is no kind", id="space"),
        pytest.param("Déploiement", "is no kind", id="not ASCII"),
    ],
)
def test_kind(value: str, problem: str | None) -> None:
    """Kinds are words of letters and digits."""
    found = kind_problem(value)
    assert found is None if problem is None else problem in (found or "")
