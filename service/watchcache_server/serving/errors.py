"""The one place that turns errors into gRPC statuses.

Each status carries exactly one ErrorInfo (domain "watchcache", a stable reason) and, where they
help, details of other kinds; the table is in watch_cache_service.proto. A fault of ours is told
as INTERNAL with a number under which it is logged, and nothing of what went wrong.

A status travels in HTTP/2 trailers, of which peers take 8 KiB at most, so its texts are cut to what
fits in any encoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from watchcache_server.model.errors import (
    ConnectionAgedError,
    ExtensionNotFoundError,
    InvalidRequestError,
    KnownNotFoundError,
    LimitExceededError,
    NotFreshEnoughError,
    NotSyncedError,
    ObjectNotFoundError,
    ResumeLostError,
    ServiceAccountGoneError,
    ServiceDrainingError,
)

__all__ = ["DOMAIN", "RpcStatus", "internal_status", "status_of"]

DOMAIN: Final = "watchcache"
_RETRY_SECONDS: Final = 1
# Worst case on the wire: the message takes three times its bytes and the details 4/3 of theirs.
_TEXT_BYTES: Final = 600
_VIOLATIONS_BYTES: Final = 1600


# Has a channel with a retry policy leave it (gRFC A6, pushback).
_NO_RETRY: Final = ("grpc-retry-pushback-ms", "-1")


class RpcStatus(NamedTuple):
    """What `ServicerContext.abort` takes."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: tuple[tuple[str, str | bytes], ...]


def status_of(error: Exception) -> RpcStatus | None:
    """Return the status for an error that a caller may be told of; None for a fault of ours."""
    match error:
        case InvalidRequestError():
            return _invalid(error)
        case ExtensionNotFoundError():
            name = f"{error.namespace}/{error.name}"
            return _status(
                grpc.StatusCode.NOT_FOUND,
                error,
                error.reason,
                _missing("extension", name, str(error)),
                facts={"extension": name},
            )
        case ObjectNotFoundError():
            missing = _missing("object", "", error.description)
            return _status(grpc.StatusCode.NOT_FOUND, error, error.reason, missing)
        case KnownNotFoundError():
            missing = _missing("known", "", str(error))
            return _status(grpc.StatusCode.NOT_FOUND, error, error.reason, missing)
        case ResumeLostError():
            bad = error_details_pb2.BadRequest()
            bad.field_violations.add(field="resume_token", description=_cut(str(error)))
            return _status(grpc.StatusCode.OUT_OF_RANGE, error, error.reason, bad)
        case NotSyncedError() if error.is_transient:
            return _status(grpc.StatusCode.UNAVAILABLE, error, error.reason, _retry())
        case NotSyncedError():
            failed = _precondition("SOURCE", error.subject, error.description)
            return _status(grpc.StatusCode.FAILED_PRECONDITION, error, error.reason, failed)
        case NotFreshEnoughError():
            status = _status(
                grpc.StatusCode.UNAVAILABLE, error, error.reason, _retry(), facts=error.facts
            )
            # The caller has set how long to wait: its channel is not to try again by itself.
            return status._replace(trailing_metadata=(*status.trailing_metadata, _NO_RETRY))
        case ServiceAccountGoneError():
            subject = f"serviceaccount {error.namespace}/{error.name} in cluster {error.cluster}"
            failed = _precondition("SERVICE_ACCOUNT", subject, str(error))
            return _status(grpc.StatusCode.FAILED_PRECONDITION, error, error.reason, failed)
        case LimitExceededError():
            quota = error_details_pb2.QuotaFailure(
                violations=[
                    error_details_pb2.QuotaFailure.Violation(
                        subject=_cut(error.subject), description=_cut(error.description)
                    )
                ]
            )
            seconds = error.retry_seconds
            retry = () if seconds is None else (_retry(seconds),)
            facts = {"setting": error.setting}
            return _status(
                grpc.StatusCode.RESOURCE_EXHAUSTED, error, error.reason, quota, *retry, facts=facts
            )
        case ConnectionAgedError():
            return _status(grpc.StatusCode.UNAVAILABLE, error, error.reason, _retry(0))
        case ServiceDrainingError():
            return _status(grpc.StatusCode.UNAVAILABLE, error, error.reason, _retry())
        case _:
            return None


def internal_status(incident: str) -> RpcStatus:
    """Return the status for a fault of ours, logged under `incident`."""
    text = f"the service failed; its log tells why under incident {incident}"
    return _status(grpc.StatusCode.INTERNAL, text, "INTERNAL", facts={"incident": incident})


def _retry(seconds: float = _RETRY_SECONDS) -> error_details_pb2.RetryInfo:
    delay = duration_pb2.Duration()
    delay.FromMilliseconds(int(seconds * 1000))
    return error_details_pb2.RetryInfo(retry_delay=delay)


def _invalid(error: InvalidRequestError) -> RpcStatus:
    """Name each broken rule, or the first ones and how many there are."""
    bad = error_details_pb2.BadRequest()
    for each in error.violations:
        bad.field_violations.add(field=_cut(each.field), description=_cut(each.description))
        if bad.ByteSize() > _VIOLATIONS_BYTES:
            break
    facts = {}
    if len(bad.field_violations) < len(error.violations):
        facts["violations"] = str(len(error.violations))
    return _status(grpc.StatusCode.INVALID_ARGUMENT, error, error.reason, bad, facts=facts)


def _missing(kind: str, name: str, text: str) -> error_details_pb2.ResourceInfo:
    return error_details_pb2.ResourceInfo(
        resource_type=kind, resource_name=name, description=_cut(text)
    )


def _precondition(kind: str, subject: str, text: str) -> error_details_pb2.PreconditionFailure:
    return error_details_pb2.PreconditionFailure(
        violations=[
            error_details_pb2.PreconditionFailure.Violation(
                type=kind, subject=_cut(subject), description=_cut(text)
            )
        ]
    )


def _cut(text: str) -> str:
    """Return what fits of a text, in characters that can be sent."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= _TEXT_BYTES:
        return encoded.decode()
    # What is wrong stands at the start, and often the mend at the end.
    head, tail = encoded[: _TEXT_BYTES * 2 // 3], encoded[5 - _TEXT_BYTES // 3 :]
    return f"{head.decode(errors='ignore')} ... {tail.decode(errors='ignore')}"


def _status(
    code: grpc.StatusCode,
    error: Exception | str,
    reason: str,
    *details: Message,
    facts: Mapping[str, str] | None = None,
) -> RpcStatus:
    text = _cut(str(error))
    status = status_pb2.Status(code=code.value[0], message=text)
    info = error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=dict(facts or {}))
    for each in (info, *details):
        packed = any_pb2.Any()
        packed.Pack(each)
        status.details.append(packed)
    trailer = (("grpc-status-details-bin", status.SerializeToString()),)
    return RpcStatus(code, text, trailer)
