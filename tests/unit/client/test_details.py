"""The details of a gRPC error are read as google.rpc defines them."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2 as details_pb2
from google.rpc import status_pb2
from hypothesis import given
from hypothesis import strategies as st

from watchcache.details import FieldViolation, StatusDetails, Violation, parse_status_details


def _packed(*details: Any) -> bytes:
    status = status_pb2.Status(code=3, message="no")
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status.SerializeToString()


def test_every_detail_is_read() -> None:
    """A reader gets what each detail message says, whatever else stands beside it."""
    retry = details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1500)
    serialized = _packed(
        details_pb2.ErrorInfo(reason="BAD", domain="watchcache", metadata={"a": "1", "b": ""}),
        details_pb2.BadRequest(
            field_violations=[
                details_pb2.BadRequest.FieldViolation(field="spec.ttl", description="too short"),
                details_pb2.BadRequest.FieldViolation(field="name", description="é"),
            ]
        ),
        details_pb2.PreconditionFailure(
            violations=[
                details_pb2.PreconditionFailure.Violation(
                    type="RBAC", subject="pods", description="needs list"
                )
            ]
        ),
        details_pb2.QuotaFailure(
            violations=[details_pb2.QuotaFailure.Violation(subject="x", description="full")]
        ),
        details_pb2.ResourceInfo(resource_type="extension", resource_name="team-a/shop"),
        details_pb2.DebugInfo(detail="of no interest"),
        retry,
    )

    assert parse_status_details(serialized) == StatusDetails(
        reason="BAD",
        domain="watchcache",
        metadata={"a": "1", "b": ""},
        field_violations=(
            FieldViolation("spec.ttl", "too short"),
            FieldViolation("name", "é"),
        ),
        violations=(Violation("RBAC", "pods", "needs list"), Violation("", "x", "full")),
        resource_name="team-a/shop",
        retry_delay_seconds=1.5,
    )


def test_nothing_sent_is_nothing_read() -> None:
    """A status without details is no error, and gives empty values."""
    assert parse_status_details(b"") == StatusDetails()
    assert parse_status_details(_packed()) == StatusDetails()


def test_fields_of_other_types_are_passed_over() -> None:
    """Fixed-width fields of a newer Status do not disturb the reading."""
    known = _packed(details_pb2.ErrorInfo(reason="BAD"))
    fixed64, fixed32 = b"\x79" + b"\0" * 8, b"\x7d" + b"\0" * 4
    assert parse_status_details(fixed64 + known + fixed32).reason == "BAD"


@pytest.mark.parametrize(
    "serialized",
    [
        pytest.param(b"\x1a", id="no length"),
        pytest.param(b"\x1a\x05ab", id="cut off"),
        pytest.param(b"\x1a\xff", id="length cut off"),
        pytest.param(b"\x08" + b"\xff" * 11, id="endless number"),
        pytest.param(b"\x1b", id="a group"),
        pytest.param(b"\x79\0", id="fixed width cut off"),
    ],
)
def test_malformed_bytes_raise_value_error(serialized: bytes) -> None:
    """Bytes that are no Status raise ValueError and nothing else."""
    with pytest.raises(ValueError, match=r"google\.rpc\.Status"):
        parse_status_details(serialized)


@given(st.binary(max_size=80))
def test_no_bytes_do_worse_than_value_error(serialized: bytes) -> None:
    """Whatever a server sends, reading it ends in details or in ValueError."""
    try:
        details = parse_status_details(serialized)
    except ValueError:
        return
    assert isinstance(details, StatusDetails)


@given(
    reason=st.text(),
    metadata=st.dictionaries(st.text(), st.text(), max_size=3),
    seconds=st.integers(0, 2**40),
    nanos=st.integers(0, 999_999_999),
)
def test_what_the_official_classes_write_is_read(
    reason: str, metadata: dict[str, str], seconds: int, nanos: int
) -> None:
    """Any text and any delay survive the way over the wire."""
    retry = details_pb2.RetryInfo()
    retry.retry_delay.seconds, retry.retry_delay.nanos = seconds, nanos
    info = details_pb2.ErrorInfo(reason=reason, metadata=metadata)
    details = parse_status_details(_packed(info, retry))
    assert details.reason == reason
    assert details.metadata == metadata
    assert details.retry_delay_seconds == seconds + nanos / 1e9
