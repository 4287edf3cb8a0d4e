"""Reads the details that a gRPC error carries, without the generated classes of google.rpc.

The service puts a serialized `google.rpc.Status` into the trailer `grpc-status-details-bin`
(https://google.aip.dev/193). Five of its detail messages matter to a caller; each is a handful of
strings, so a reader of the wire format is all that is needed, and the client has one dependency
less. Bytes that do not follow the format raise ValueError: the caller decides what that means.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["FieldViolation", "StatusDetails", "Violation", "parse_status_details"]


class FieldViolation(NamedTuple):
    """One broken rule: the path of the field in the request, what is wrong and how to mend it."""

    field: str
    description: str


class Violation(NamedTuple):
    """A precondition that is not met, or a limit that is reached."""

    type: str
    subject: str
    description: str


@dataclass(frozen=True, slots=True)
class StatusDetails:
    """What the details of one error say; whatever was not sent is empty."""

    reason: str = ""
    domain: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    field_violations: tuple[FieldViolation, ...] = ()
    violations: tuple[Violation, ...] = ()
    resource_name: str = ""
    retry_delay_seconds: float | None = None


def parse_status_details(serialized: bytes) -> StatusDetails:
    """Read a serialized `google.rpc.Status`. Raises ValueError for malformed bytes."""
    details = {}
    for packed in _Fields(serialized).many(3):
        any_fields = _Fields(packed)
        name = any_fields.text(1).rpartition("/")[2]
        details[name] = _Fields(any_fields.one(2))
    nothing = _Fields(b"")
    info = details.get("google.rpc.ErrorInfo", nothing)
    retry = details.get("google.rpc.RetryInfo")
    violations = [
        Violation(entry.text(1), entry.text(2), entry.text(3))
        for entry in details.get("google.rpc.PreconditionFailure", nothing).messages(1)
    ]
    violations += [
        Violation("", entry.text(1), entry.text(2))
        for entry in details.get("google.rpc.QuotaFailure", nothing).messages(1)
    ]
    return StatusDetails(
        reason=info.text(1),
        domain=info.text(2),
        metadata={entry.text(1): entry.text(2) for entry in info.messages(3)},
        field_violations=tuple(
            FieldViolation(entry.text(1), entry.text(2))
            for entry in details.get("google.rpc.BadRequest", nothing).messages(1)
        ),
        violations=tuple(violations),
        resource_name=details.get("google.rpc.ResourceInfo", nothing).text(2),
        retry_delay_seconds=None if retry is None else _duration_seconds(retry.one(1)),
    )


def _duration_seconds(serialized: bytes) -> float:
    fields = _Fields(serialized)
    return fields.number(1) + fields.number(2) / 1e9


class _Fields:
    """The fields of one serialized message: numbers and length-delimited bytes by field number."""

    def __init__(self, serialized: bytes) -> None:
        self._bytes: defaultdict[int, list[bytes]] = defaultdict(list)
        self._numbers: dict[int, int] = {}
        position = 0
        while position < len(serialized):
            tag, position = _varint(serialized, position)
            number, wire_type = tag >> 3, tag & 7
            if wire_type == 0:
                self._numbers[number], position = _varint(serialized, position)
                continue
            if wire_type == 2:
                length, position = _varint(serialized, position)
            elif wire_type in (1, 5):
                length = 8 if wire_type == 1 else 4
            else:
                raise ValueError(f"wire type {wire_type} has no place in google.rpc.Status")
            end = position + length
            if end > len(serialized):
                raise ValueError("google.rpc.Status ends in the middle of a field")
            if wire_type == 2:
                self._bytes[number].append(serialized[position:end])
            position = end

    def one(self, number: int) -> bytes:
        values = self._bytes.get(number)
        return values[-1] if values else b""

    def many(self, number: int) -> list[bytes]:
        return self._bytes.get(number, [])

    def text(self, number: int) -> str:
        return self.one(number).decode()

    def number(self, number: int) -> int:
        return self._numbers.get(number, 0)

    def messages(self, number: int) -> Iterable[_Fields]:
        return [_Fields(value) for value in self.many(number)]


def _varint(serialized: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(serialized) or shift > 63:
            raise ValueError("google.rpc.Status holds a malformed number")
        byte = serialized[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
