"""The errors that the service itself raises, one class per cause.

Each has a stable `reason` for programs and a text for people that names the thing, the rule and the
mend. They hold no transport terms: serving/ alone turns them into gRPC statuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = [
    "ConnectionAgedError",
    "ExtensionNotFoundError",
    "FieldViolation",
    "InvalidRequestError",
    "KnownNotFoundError",
    "LimitExceededError",
    "NotFreshEnoughError",
    "NotSyncedError",
    "ObjectNotFoundError",
    "ResumeLostError",
    "ServiceAccountGoneError",
    "ServiceDrainingError",
    "ServiceError",
    "SettingsError",
]


class FieldViolation(NamedTuple):
    """One broken rule: the field's path in the request, and what is wrong and how to mend it."""

    field: str
    description: str


class ServiceError(Exception):
    """Base of all errors that a caller may be told of."""

    reason = "INTERNAL"


class InvalidRequestError(ServiceError):
    """The request breaks rules. `violations` holds at least one entry."""

    reason = "INVALID_REQUEST"

    def __init__(self, violations: Sequence[FieldViolation], *, reason: str | None = None) -> None:
        self.violations = tuple(violations)
        if reason is not None:
            self.reason = reason
        super().__init__("; ".join(f"{v.field}: {v.description}" for v in self.violations))

    @classmethod
    def of(cls, field: str, description: str, *, reason: str | None = None) -> InvalidRequestError:
        """Make one with a single violation."""
        return cls([FieldViolation(field, description)], reason=reason)


class ExtensionNotFoundError(ServiceError):
    """No such extension, or no longer."""

    reason = "EXTENSION_NOT_FOUND"

    def __init__(self, namespace: str, name: str, *, why: str = "") -> None:
        self.namespace = namespace
        self.name = name
        if why:
            self.reason = f"EXTENSION_{why}"
        told = {
            "": "is not registered; call Register first",
            "DEREGISTERED": "was deregistered; call Register to have it again",
            "TTL_EXPIRED": "was freed when its ttl ran out; call Register to have it again",
            "SERVICE_ACCOUNT_GONE": "was freed because its ServiceAccount was deleted; "
            "create the ServiceAccount and call Register",
        }[why]
        super().__init__(f"extension {namespace}/{name} {told}")


class ObjectNotFoundError(ServiceError):
    """The cache holds no such object, and is sure of it."""

    reason = "OBJECT_NOT_FOUND"

    def __init__(self, description: str) -> None:
        self.description = description
        super().__init__(description)


class ResumeLostError(ServiceError):
    """What happened since a resume token is no longer known."""

    reason = "RESUME_LOST"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the resume token leads no further: {why}; say by UploadKnown what you hold and watch "
            "with its handle, or watch without a token"
        )


class KnownNotFoundError(ServiceError):
    """A handle of UploadKnown is not known, or no longer."""

    reason = "KNOWN_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__(
            "there is no such upload of this extension: it was used, has expired, or the service "
            "has restarted; call UploadKnown again"
        )


class NotSyncedError(ServiceError):
    """The informer that would hold the answer cannot give it (yet)."""

    reason = "NOT_SYNCED"

    def __init__(self, subject: str, description: str, *, is_transient: bool) -> None:
        self.subject = subject
        self.description = description
        self.is_transient = is_transient
        super().__init__(f"{subject}: {description}")


class NotFreshEnoughError(ServiceError):
    """An informer did not become as fresh as a caller asked for in the time that it had.

    `facts` are the parts of the text for programs.
    """

    reason = "NOT_FRESH_ENOUGH"

    def __init__(self, description: str, facts: Mapping[str, str]) -> None:
        self.facts = dict(facts)
        super().__init__(description)


class LimitExceededError(ServiceError):
    """A limit of the service is reached. `retry_seconds` is how long to wait, where that helps."""

    reason = "LIMIT_EXCEEDED"

    def __init__(
        self,
        subject: str,
        description: str,
        *,
        setting: str,
        retry_seconds: float | None = None,
    ) -> None:
        self.subject = subject
        self.description = description
        self.setting = setting
        self.retry_seconds = retry_seconds
        super().__init__(f"{subject}: {description}")


class ServiceDrainingError(ServiceError):
    """The service is shutting down."""

    reason = "DRAINING"

    def __init__(self) -> None:
        super().__init__(
            "the service is shutting down; connect again, to another replica if there is one"
        )


class ConnectionAgedError(ServiceError):
    """A stream ends so that its client opens it again over a new connection."""

    reason = "CONNECTION_AGED"

    def __init__(self) -> None:
        super().__init__(
            "the connection has reached its age, and its streams move to a new one; open the "
            "stream again at once (a Watch with its last resume token)"
        )


class ServiceAccountGoneError(ServiceError):
    """The ServiceAccount of an extension does not exist."""

    reason = "SERVICE_ACCOUNT_GONE"

    def __init__(self, cluster: str, namespace: str, name: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.name = name
        super().__init__(
            f"ServiceAccount {namespace}/{name} does not exist in cluster {cluster}; create it"
        )


class SettingsError(ServiceError):
    """The service cannot start with these settings."""

    reason = "INVALID_SETTINGS"

    @classmethod
    def of_all(cls, problems: Sequence[str]) -> SettingsError:
        """Make one of everything that is wrong."""
        return cls("; also ".join(problems))
