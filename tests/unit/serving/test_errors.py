"""Errors as statuses: one table, one ErrorInfo each, and nothing too long for a header."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from watchcache_server.model import errors
from watchcache_server.model.errors import (
    ConnectionAgedError,
    ExtensionNotFoundError,
    FieldViolation,
    InvalidRequestError,
    KnownNotFoundError,
    LimitExceededError,
    NotFreshEnoughError,
    NotSyncedError,
    ObjectNotFoundError,
    ResumeLostError,
    ServiceAccountGoneError,
    ServiceDrainingError,
    ServiceError,
    SettingsError,
)
from watchcache_server.serving.errors import RpcStatus, internal_status, status_of

Code = grpc.StatusCode

# name: error, code, reason, the kind of the other detail, words in it
STATUSES: dict[str, tuple[ServiceError, Code, str, str, str]] = {
    "a broken rule": (
        InvalidRequestError.of("spec.ttl", "is too short; use 1 s"),
        Code.INVALID_ARGUMENT,
        "INVALID_REQUEST",
        "BadRequest",
        "spec.ttl",
    ),
    "a rule with a reason of its own": (
        InvalidRequestError.of("spec", "is too large", reason="SPEC_TOO_LARGE"),
        Code.INVALID_ARGUMENT,
        "SPEC_TOO_LARGE",
        "BadRequest",
        "too large",
    ),
    "no extension": (
        ExtensionNotFoundError("team-a", "shop"),
        Code.NOT_FOUND,
        "EXTENSION_NOT_FOUND",
        "ResourceInfo",
        "team-a/shop",
    ),
    "an extension that ended": (
        ExtensionNotFoundError("team-a", "shop", why="TTL_EXPIRED"),
        Code.NOT_FOUND,
        "EXTENSION_TTL_EXPIRED",
        "ResourceInfo",
        "ttl ran out",
    ),
    "no object": (
        ObjectNotFoundError("pods web: there is none"),
        Code.NOT_FOUND,
        "OBJECT_NOT_FOUND",
        "ResourceInfo",
        "pods web",
    ),
    "not synced yet": (
        NotSyncedError("pods", "the informer is syncing", is_transient=True),
        Code.UNAVAILABLE,
        "NOT_SYNCED",
        "RetryInfo",
        "retry_delay",
    ),
    "not as fresh as asked for": (
        NotFreshEnoughError("pods is at 7", {"resource_version": "7"}),
        Code.UNAVAILABLE,
        "NOT_FRESH_ENOUGH",
        "RetryInfo",
        "retry_delay",
    ),
    "not to be synced": (
        NotSyncedError("pods", "needs list", is_transient=False),
        Code.FAILED_PRECONDITION,
        "NOT_SYNCED",
        "PreconditionFailure",
        "needs list",
    ),
    "no ServiceAccount": (
        ServiceAccountGoneError("hub", "team-a", "shop"),
        Code.FAILED_PRECONDITION,
        "SERVICE_ACCOUNT_GONE",
        "PreconditionFailure",
        "serviceaccount team-a/shop in cluster hub",
    ),
    "a limit": (
        LimitExceededError("Watch streams", "5 are open", setting="max_subscriptions"),
        Code.RESOURCE_EXHAUSTED,
        "LIMIT_EXCEEDED",
        "QuotaFailure",
        "5 are open",
    ),
    "an old connection": (
        ConnectionAgedError(),
        Code.UNAVAILABLE,
        "CONNECTION_AGED",
        "RetryInfo",
        "retry_delay",
    ),
    "a lost past": (
        ResumeLostError("the service has restarted"),
        Code.OUT_OF_RANGE,
        "RESUME_LOST",
        "BadRequest",
        "UploadKnown",
    ),
    "a used handle": (
        KnownNotFoundError(),
        Code.NOT_FOUND,
        "KNOWN_NOT_FOUND",
        "ResourceInfo",
        "call UploadKnown again",
    ),
    "a stop": (
        ServiceDrainingError(),
        Code.UNAVAILABLE,
        "DRAINING",
        "RetryInfo",
        "retry_delay",
    ),
}


def read(status: RpcStatus) -> tuple[error_details_pb2.ErrorInfo, list[Any]]:
    """Return the one ErrorInfo and the other details."""
    (name, trailer), *others_sent = status.trailing_metadata
    assert others_sent in ([], [("grpc-retry-pushback-ms", "-1")])
    assert isinstance(trailer, bytes)
    assert name == "grpc-status-details-bin"
    whole = status_pb2.Status.FromString(trailer)
    assert (whole.code, whole.message) == (status.code.value[0], status.details)
    infos, others = [], []
    for packed in whole.details:
        kind = getattr(error_details_pb2, packed.TypeName().rpartition(".")[2])
        detail = kind()
        assert packed.Unpack(detail)
        (infos if kind is error_details_pb2.ErrorInfo else others).append(detail)
    (info,) = infos
    assert info.domain == "watchcache"
    return info, others


def told(error: Exception) -> RpcStatus:
    """Return the status of an error that a caller is told of."""
    status = status_of(error)
    assert status is not None
    return status


@pytest.mark.parametrize("name", STATUSES)
def test_each_error_has_its_code_and_detail(name: str) -> None:
    """Exactly one ErrorInfo with a stable reason, and one detail of the kind that helps."""
    error, code, reason, kind, words = STATUSES[name]
    status = told(error)
    assert (status.code, status.details) == (code, str(error))
    info, (detail,) = read(status)
    assert info.reason == reason
    assert type(detail).__name__ == kind
    assert words in str(detail)


def test_every_error_that_callers_are_told_of_is_in_the_table() -> None:
    """But for those that never reach one."""
    causes = {
        found
        for name in errors.__all__
        if isinstance(found := getattr(errors, name), type) and issubclass(found, ServiceError)
    }
    told_of = {type(error) for error, *_ in STATUSES.values()}
    assert causes - told_of == {ServiceError, SettingsError}


def test_facts_for_programs_are_in_the_error_info() -> None:
    """Which extension, which setting."""
    info, _ = read(told(ExtensionNotFoundError("team-a", "shop")))
    assert dict(info.metadata) == {"extension": "team-a/shop"}
    info, _ = read(told(LimitExceededError("a", "b", setting="max_sources")))
    assert dict(info.metadata) == {"setting": "max_sources"}


def test_a_limit_says_when_to_try_again_where_that_helps() -> None:
    """Beside what it is."""
    error = LimitExceededError("a", "b", setting="max_subscriptions", retry_seconds=7.25)
    _, (quota, retry) = read(told(error))
    assert quota.violations[0].subject == "a"
    assert retry.retry_delay.ToMilliseconds() == 7250


FAULTS = {
    "any": RuntimeError("secret"),
    "a limit of ours": TimeoutError(),
    "settings": SettingsError("secret path"),
    "unnamed": ServiceError("secret"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_ours_has_no_status_of_its_own(name: str) -> None:
    """Nothing of what went wrong is told, and anything unknown counts as such."""
    assert status_of(FAULTS[name]) is None


def test_a_fault_of_ours_tells_its_number_alone() -> None:
    """Under which it is in the log."""
    status = internal_status("abc123")
    assert status.code is Code.INTERNAL
    info, others = read(status)
    assert (info.reason, dict(info.metadata), others) == ("INTERNAL", {"incident": "abc123"}, [])
    assert "abc123" in status.details


LARGE: dict[str, ServiceError] = {
    "many violations": InvalidRequestError(
        [FieldViolation(f"spec.resources.items[{n}].name", "is wrong " * 20) for n in range(1000)]
    ),
    "one long violation": InvalidRequestError.of("field" * 1000, "x" * 1_000_000),
    "letters of many bytes": InvalidRequestError.of("spec", "ä€𝄞" * 10_000),
    "half a letter": InvalidRequestError.of("spec", "\ud800 is no text"),
    "many halves": InvalidRequestError.of("spec", "\udcff" * 10_000),
    "a long name": ExtensionNotFoundError("n" * 63, "x" * 253),
    "a long object": ObjectNotFoundError("x" * 100_000),
    "a long limit": LimitExceededError("s" * 100_000, "d" * 100_000, setting="a"),
    "a long state": NotSyncedError("s" * 100_000, "d" * 100_000, is_transient=False),
    "many clusters": ServiceAccountGoneError(", ".join(["cluster"] * 1000), "team-a", "shop"),
}


@pytest.mark.parametrize("name", LARGE)
def test_no_status_outgrows_a_header(name: str) -> None:
    """Peers take 8 KiB of trailers: the message percent-encoded, and the details in base64."""
    status = told(LARGE[name])
    message = sum(
        1 if 0x20 <= byte <= 0x7E and byte != 0x25 else 3 for byte in status.details.encode()
    )
    ((_, trailer),) = status.trailing_metadata
    assert message + len(trailer) * 4 / 3 < 7800
    read(status)


def test_long_texts_are_cut_in_the_middle() -> None:
    """What is wrong stands at the start, and the mend at the end."""
    status = told(InvalidRequestError.of("f0", "start " + "ä" * 5000 + " end"))
    assert status.details.startswith("f0: start")
    assert status.details.endswith("end")
    assert 500 < len(status.details.encode()) <= 600


def test_violations_that_do_not_fit_are_counted() -> None:
    """The first are told in full, and how many there are."""
    status = told(LARGE["many violations"])
    info, (bad,) = read(status)
    assert info.metadata["violations"] == "1000"
    assert 5 < len(bad.field_violations) < 1000
    assert bad.field_violations[0].description == "is wrong " * 20
    few, _ = read(told(InvalidRequestError.of("a", "b")))
    assert not few.metadata
