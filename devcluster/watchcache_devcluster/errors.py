"""The answers an API server gives when it refuses: one exception, one maker per cause.

`ApiError` carries everything that a `Status` body needs; the makers below write their messages in
the form that kube-apiserver uses, because clients and people match on it. Turning an `ApiError`
into bytes and headers is left to the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "PRODUCED",
    "ApiError",
    "Cause",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "field_invalid",
    "forbidden",
    "internal",
    "invalid",
    "invalid_options",
    "method_not_allowed",
    "no_such_path",
    "no_such_resource",
    "not_acceptable",
    "not_found",
    "qualified",
    "too_large_resource_version",
    "unauthorized",
    "unsupported_media_type",
]

Cause = dict[str, str]
PRODUCED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
"""The media types that a real server names when it can produce none that was asked for."""


class ApiError(Exception):
    """A refusal with an HTTP code, a machine-readable reason and a message for people."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        list_metadata: Mapping[str, Any] | None = None,
        retry_after_seconds: int | None = None,
        plain_text: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details: dict[str, Any] | None = None if details is None else dict(details)
        self.list_metadata = dict(list_metadata or {})
        self.retry_after_seconds = retry_after_seconds
        self.plain_text = plain_text

    def to_status(self) -> dict[str, Any]:
        """Return the `Status` object of this refusal, keys in the order the real server uses."""
        details = self.details
        if self.retry_after_seconds is not None:
            details = {**(details or {}), "retryAfterSeconds": self.retry_after_seconds}
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if details is not None:
            status["details"] = details
        status["code"] = self.code
        if not self.reason:
            del status["reason"]
        return status


def qualified(name: str, group: str) -> str:
    """Return `deployments.apps` or, for the core group, `pods`."""
    return f"{name}.{group}" if group else name


def _about(group: str, kind: str, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details


def bad_request(message: str) -> ApiError:
    """400: the request itself makes no sense."""
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """401: no valid credentials."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(
    group: str, resource: str, name: str, why: str, causes: Sequence[Cause] = ()
) -> ApiError:
    """403 about one resource: `why` follows the usual `... is forbidden:`."""
    about = _about(group, resource, name)
    if causes:
        about["causes"] = list(causes)
    if not resource:
        return ApiError(403, "Forbidden", f"forbidden: {why}", details=about)
    target = qualified(resource, group)
    head = f'{target} "{name}" is forbidden' if name else f"{target} is forbidden"
    return ApiError(403, "Forbidden", f"{head}: {why}", details=about)


def no_such_path() -> ApiError:
    """404 of a path that no handler serves; the real server answers it in plain text."""
    return ApiError(404, "NotFound", "404 page not found", plain_text=True)


def no_such_resource() -> ApiError:
    """404 of a path in a built-in group that serves no such version or resource."""
    message = "the server could not find the requested resource"
    return ApiError(404, "NotFound", message, details={})


def not_found(group: str, resource: str, name: str) -> ApiError:
    """404: there is no such object."""
    return ApiError(
        404,
        "NotFound",
        f'{qualified(resource, group)} "{name}" not found',
        details=_about(group, resource, name),
    )


def method_not_allowed() -> ApiError:
    """405: this resource does not serve this verb."""
    return ApiError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        details={},
    )


def not_acceptable(accepted: Sequence[str]) -> ApiError:
    """406: none of the media types in Accept can be produced."""
    return ApiError(
        406,
        "NotAcceptable",
        "only the following media types are accepted: " + ", ".join(accepted),
    )


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """415: the body's media type cannot be read."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - "
        "accepted media types include: " + ", ".join(accepted),
    )


def already_exists(group: str, resource: str, name: str) -> ApiError:
    """409: create of a name that is taken."""
    return ApiError(
        409,
        "AlreadyExists",
        f'{qualified(resource, group)} "{name}" already exists',
        details=_about(group, resource, name),
    )


def conflict(
    group: str, resource: str, name: str, why: str, causes: Sequence[Cause] = ()
) -> ApiError:
    """409: the write was based on something that is no longer so."""
    details = _about(group, resource, name)
    if causes:
        details["causes"] = list(causes)
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}',
        details=details,
    )


def expired(message: str, *, continue_token: str = "", resource_version: str = "") -> ApiError:
    """410: the history that was asked for is gone."""
    metadata = {}
    if continue_token:
        metadata = {"resourceVersion": resource_version, "continue": continue_token}
    return ApiError(410, "Expired", message, list_metadata=metadata)


def field_invalid(
    field: str, message: str, *, value: str | None = None, reason: str = "FieldValueInvalid"
) -> Cause:
    """Build one cause of a 422; `value` is already formatted as the server would print it."""
    words = {
        "FieldValueInvalid": "Invalid value",
        "FieldValueRequired": "Required value",
        "FieldValueForbidden": "Forbidden",
        "FieldValueNotSupported": "Unsupported value",
        "FieldValueDuplicate": "Duplicate value",
        "FieldValueTypeInvalid": "Invalid value",
    }
    text = words[reason] if value is None else f"{words[reason]}: {value}"
    return {"reason": reason, "message": f"{text}: {message}" if message else text, "field": field}


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422: the object breaks one or more rules, each named in `causes`."""
    lines = [f"{cause['field']}: {cause['message']}" for cause in causes]
    text = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    details = _about(group, kind, name)
    details["causes"] = list(causes)
    return ApiError(
        422,
        "Invalid",
        f'{qualified(kind, group)} "{name}" is invalid: {text}',
        details=details,
    )


def invalid_options(kind: str, causes: Sequence[Cause]) -> ApiError:
    """422 about the query parameters of a request (`ListOptions` and its siblings)."""
    return invalid("meta.k8s.io", kind, "", causes)


def internal(message: str) -> ApiError:
    """500: the server failed."""
    return ApiError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        details={"causes": [{"message": message}]},
    )


def too_large_resource_version(asked: int, current: int) -> ApiError:
    """504: a resourceVersion from the future was still not reached after the wait."""
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={
            "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            ]
        },
        retry_after_seconds=1,
    )
