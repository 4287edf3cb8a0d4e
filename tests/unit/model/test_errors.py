"""Each error names the thing, the rule and the mend, and has a reason for programs."""

from __future__ import annotations

import pytest

from watchcache_server.model import errors
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    FieldViolation,
    InvalidRequestError,
    LimitExceededError,
    NotSyncedError,
    ObjectNotFoundError,
    ServiceAccountGoneError,
    ServiceDrainingError,
    ServiceError,
    SettingsError,
)


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        pytest.param(
            InvalidRequestError.of("spec.ttl", "is 0.5 s; use at least 1 s"),
            "INVALID_REQUEST",
            "spec.ttl: is 0.5 s; use at least 1 s",
            id="one violation",
        ),
        pytest.param(
            InvalidRequestError([FieldViolation("a", "is bad"), FieldViolation("b", "is worse")]),
            "INVALID_REQUEST",
            "a: is bad; b: is worse",
            id="two violations",
        ),
        pytest.param(
            InvalidRequestError.of("a", "is bad", reason="BAD_A"),
            "BAD_A",
            "a: is bad",
            id="own reason",
        ),
        pytest.param(
            ExtensionNotFoundError("team-a", "shop"),
            "EXTENSION_NOT_FOUND",
            "extension team-a/shop is not registered; call Register first",
            id="extension unknown",
        ),
        pytest.param(
            ExtensionNotFoundError("team-a", "shop", why="DEREGISTERED"),
            "EXTENSION_DEREGISTERED",
            "extension team-a/shop was deregistered; call Register to have it again",
            id="extension deregistered",
        ),
        pytest.param(
            ExtensionNotFoundError("team-a", "shop", why="TTL_EXPIRED"),
            "EXTENSION_TTL_EXPIRED",
            "extension team-a/shop was freed when its ttl ran out; call Register to have it again",
            id="extension expired",
        ),
        pytest.param(
            ExtensionNotFoundError("team-a", "shop", why="SERVICE_ACCOUNT_GONE"),
            "EXTENSION_SERVICE_ACCOUNT_GONE",
            "extension team-a/shop was freed because its ServiceAccount was deleted; create the "
            "ServiceAccount and call Register",
            id="extension without account",
        ),
        pytest.param(
            ObjectNotFoundError("pods team-a/web does not exist"),
            "OBJECT_NOT_FOUND",
            "pods team-a/web does not exist",
            id="object",
        ),
        pytest.param(
            NotSyncedError("pods", "needs list in namespace team-a", is_transient=False),
            "NOT_SYNCED",
            "pods: needs list in namespace team-a",
            id="not synced",
        ),
        pytest.param(
            LimitExceededError("extensions", "at most 5 are allowed", setting="max_extensions"),
            "LIMIT_EXCEEDED",
            "extensions: at most 5 are allowed",
            id="limit",
        ),
        pytest.param(
            ServiceDrainingError(),
            "DRAINING",
            "the service is shutting down; connect again, to another replica if there is one",
            id="draining",
        ),
        pytest.param(
            ServiceAccountGoneError("hub", "team-a", "shop"),
            "SERVICE_ACCOUNT_GONE",
            "ServiceAccount team-a/shop does not exist in cluster hub; create it",
            id="service account",
        ),
        pytest.param(SettingsError("no"), "INVALID_SETTINGS", "no", id="settings"),
        pytest.param(ServiceError("no"), "INTERNAL", "no", id="any"),
    ],
)
def test_error_has_reason_and_text(error: ServiceError, reason: str, text: str) -> None:
    """The reason is stable, the text is for people."""
    assert isinstance(error, ServiceError)
    assert error.reason == reason
    assert str(error) == text


def test_errors_keep_what_edges_need() -> None:
    """The fields of which a status is made."""
    not_synced = NotSyncedError("pods", "is syncing", is_transient=True)
    assert (not_synced.subject, not_synced.is_transient) == ("pods", True)
    assert LimitExceededError("x", "y", setting="max_x").setting == "max_x"
    gone = ServiceAccountGoneError("hub", "team-a", "shop")
    assert (gone.cluster, gone.namespace, gone.name) == ("hub", "team-a", "shop")
    missing = ExtensionNotFoundError("team-a", "shop")
    assert (missing.namespace, missing.name) == ("team-a", "shop")
    assert InvalidRequestError.of("a", "b").violations == (FieldViolation("a", "b"),)


def test_reason_of_one_request_is_not_that_of_all() -> None:
    """An own reason belongs to one error, not to the class."""
    InvalidRequestError.of("a", "b", reason="SPECIAL")
    assert InvalidRequestError.of("a", "b").reason == "INVALID_REQUEST"


def test_every_error_is_exported_and_has_a_reason_of_its_own() -> None:
    """No two causes share a reason."""
    classes = [
        found
        for name in errors.__all__
        if isinstance(found := getattr(errors, name), type) and issubclass(found, ServiceError)
    ]
    reasons = [found.reason for found in classes]
    assert len(set(reasons)) == len(reasons) == len(ServiceError.__subclasses__()) + 1
