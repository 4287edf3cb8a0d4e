"""Errors as statuses: one table, one ErrorInfo each, and nothing too long for a header."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

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
)
from watchcache_server.serving.errors import RpcStatus, internal_status, status_of

TABLE: dict[str, tuple[ServiceError, grpc.StatusCode, str]] = {
    "a broken rule": (
        InvalidRequestError.of("spec", "is wrong"),
        grpc.StatusCode.INVALID_ARGUMENT,
        "BadRequest",
    ),
    "no extension": (
        ExtensionNotFoundError("a", "b"),
        grpc.StatusCode.NOT_FOUND,
        "ResourceInfo",
    ),
    "no object": (ObjectNotFoundError("pods a"), grpc.StatusCode.NOT_FOUND, "ResourceInfo"),
    "not synced yet": (
        NotSyncedError("pods", "loads", is_transient=True),
        grpc.StatusCode.UNAVAILABLE,
        "RetryInfo",
    ),
    "not to be synced": (
        NotSyncedError("pods", "forbidden", is_transient=False),
        grpc.StatusCode.FAILED_PRECONDITION,
        "PreconditionFailure",
    ),
    "no ServiceAccount": (
        ServiceAccountGoneError("hub", "a", "b"),
        grpc.StatusCode.FAILED_PRECONDITION,
        "PreconditionFailure",
    ),
    "a limit": (
        LimitExceededError("streams", "too many", setting="max_subscriptions"),
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "QuotaFailure",
    ),
    "a stop": (ServiceDrainingError(), grpc.StatusCode.UNAVAILABLE, "RetryInfo"),
}


def unpacked(status: RpcStatus) -> tuple[status_pb2.Status, error_details_pb2.ErrorInfo]:
    """Return the rich status and its ErrorInfo."""
    ((key, value),) = status.trailing_metadata
    assert key == "grpc-status-details-bin"
    rich = status_pb2.Status.FromString(value)
    info = error_details_pb2.ErrorInfo()
    assert rich.details[0].Unpack(info)
    return rich, info


@pytest.mark.parametrize("name", TABLE)
def test_each_error_has_its_code_and_detail(name: str) -> None:
    """Code and message are the same in both places, and the reason is the error's own."""
    error, code, detail = TABLE[name]
    status = status_of(error)
    assert status is not None
    rich, info = unpacked(status)
    assert (status.code, rich.code, rich.message) == (code, code.value[0], status.details)
    assert (info.domain, info.reason) == ("watchcache", error.reason)
    (kind,) = [each.type_url.rpartition(".")[2] for each in rich.details[1:]]
    assert kind == detail


def test_a_fault_of_ours_tells_its_number_alone() -> None:
    """Nothing of what went wrong is told, and anything unknown counts as such."""
    assert status_of(ValueError("secret")) is None
    status = internal_status("abc")
    _, info = unpacked(status)
    assert (status.code, info.metadata["incident"]) == (grpc.StatusCode.INTERNAL, "abc")


def test_no_status_outgrows_a_header() -> None:
    """Long texts are cut in the middle, and of many violations the first ones are told."""
    long = "start " + "ä" * 5000 + " end"
    violations = [FieldViolation(f"f{number}", long) for number in range(100)]
    status = status_of(InvalidRequestError(violations))
    assert status is not None
    assert status.details.startswith("f0: start")
    assert status.details.endswith("end")
    assert len(status.details.encode()) < 1000
    assert len(status.trailing_metadata[0][1]) < 6000
    _, info = unpacked(status)
    assert info.metadata["violations"] == "100"
