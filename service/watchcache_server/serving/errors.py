"""The one place that turns errors into gRPC statuses, and the boundary that every RPC runs in.

Each status carries exactly one ErrorInfo (domain "watchcache", a stable reason) and, where they
help, one detail of another kind; the table is in watch_cache_service.proto. A fault of ours is told
as INTERNAL with a number under which it is logged, and nothing of what went wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from watchcache_server.clusters.errors import UnknownClusterError
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    NotSyncedError,
    ObjectNotFoundError,
    ServiceAccountGoneError,
    ServiceDrainingError,
    ServiceError,
)

__all__ = ["DOMAIN", "RpcStatus", "internal_status", "status_of"]

DOMAIN: Final = "watchcache"
_RETRY_SECONDS: Final = 1


class RpcStatus(NamedTuple):
    """What `ServicerContext.abort_with_status` takes (grpc.Status)."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: tuple[tuple[str, bytes], ...]


def status_of(error: ServiceError | UnknownClusterError) -> RpcStatus:
    """Return the status for an error that a caller may be told of."""
    match error:
        case InvalidRequestError():
            bad = error_details_pb2.BadRequest(
                field_violations=[
                    error_details_pb2.BadRequest.FieldViolation(
                        field=each.field, description=each.description
                    )
                    for each in error.violations
                ]
            )
            return _status(grpc.StatusCode.INVALID_ARGUMENT, error, error.reason, bad)
        case ExtensionNotFoundError():
            name = f"{error.namespace}/{error.name}"
            missing = error_details_pb2.ResourceInfo(
                resource_type="extension", resource_name=name, description=str(error)
            )
            facts = {"extension": name}
            return _status(grpc.StatusCode.NOT_FOUND, error, error.reason, missing, facts)
        case ObjectNotFoundError():
            missing = error_details_pb2.ResourceInfo(
                resource_type="object", description=error.description
            )
            return _status(grpc.StatusCode.NOT_FOUND, error, error.reason, missing)
        case NotSyncedError() if error.is_transient:
            return _status(grpc.StatusCode.UNAVAILABLE, error, error.reason, _retry())
        case NotSyncedError():
            failed = _precondition("SOURCE", error.subject, error.description)
            return _status(grpc.StatusCode.FAILED_PRECONDITION, error, error.reason, failed)
        case ServiceAccountGoneError():
            subject = f"serviceaccount {error.namespace}/{error.name} in cluster {error.cluster}"
            failed = _precondition("SERVICE_ACCOUNT", subject, str(error))
            return _status(grpc.StatusCode.FAILED_PRECONDITION, error, error.reason, failed)
        case LimitExceededError():
            quota = error_details_pb2.QuotaFailure(
                violations=[
                    error_details_pb2.QuotaFailure.Violation(
                        subject=error.subject, description=error.description
                    )
                ]
            )
            facts = {"setting": error.setting}
            return _status(grpc.StatusCode.RESOURCE_EXHAUSTED, error, error.reason, quota, facts)
        case ServiceDrainingError():
            return _status(grpc.StatusCode.UNAVAILABLE, error, error.reason, _retry())
        case UnknownClusterError():
            return _status(grpc.StatusCode.INVALID_ARGUMENT, error, "UNKNOWN_CLUSTER")
        case _:
            return _status(grpc.StatusCode.INTERNAL, error, "INTERNAL")


def internal_status(incident: str) -> RpcStatus:
    """Return the status for a fault of ours, logged under `incident`."""
    text = f"the service failed; its log tells why under incident {incident}"
    return _status(grpc.StatusCode.INTERNAL, text, "INTERNAL", facts={"incident": incident})


def _retry() -> error_details_pb2.RetryInfo:
    return error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=_RETRY_SECONDS))


def _precondition(kind: str, subject: str, text: str) -> error_details_pb2.PreconditionFailure:
    return error_details_pb2.PreconditionFailure(
        violations=[
            error_details_pb2.PreconditionFailure.Violation(
                type=kind, subject=subject, description=text
            )
        ]
    )


def _status(
    code: grpc.StatusCode,
    error: Exception | str,
    reason: str,
    detail: Message | None = None,
    facts: Mapping[str, str] | None = None,
) -> RpcStatus:
    text = str(error)
    status = status_pb2.Status(code=code.value[0], message=text)
    info = error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=dict(facts or {}))
    for each in (info, detail):
        if each is not None:
            packed = any_pb2.Any()
            packed.Pack(each)
            status.details.append(packed)
    trailer = (("grpc-status-details-bin", status.SerializeToString()),)
    return RpcStatus(code, text, trailer)
