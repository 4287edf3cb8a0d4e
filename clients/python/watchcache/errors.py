"""The errors of the client: one tree, a class for each thing that a caller does differently.

`WatchCacheError` is the root. Each error has a `reason` that is stable (programs branch on the
class or on it), a text for people, and what the service sent beside it. `from_rpc_error` is the
only place where a gRPC status becomes one; whoever raises it chains the original.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from watchcache.details import FieldViolation, StatusDetails, Violation, parse_status_details

if TYPE_CHECKING:
    import grpc

__all__ = [
    "AlreadyExistsError",
    "CancelledByServiceError",
    "ConnectionSettingsError",
    "DeadlineExceededError",
    "DeregisteredError",
    "FailedPreconditionError",
    "FieldViolation",
    "InternalError",
    "InvalidArgumentError",
    "MirrorClosedError",
    "NotFoundError",
    "NotSyncedError",
    "NotWatchedError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "StaleError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "Violation",
    "Violations",
    "WatchCacheError",
    "from_rpc_error",
]

_CONNECTING = re.compile(
    r"failed to connect to all addresses; last error: \w+: (ipv[46]:\S+ |unix:\S+ )?"
    r"(Failed to connect to remote host: |connect: )?"
)
"""What gRPC puts before the cause, which is all that helps."""

_DETAILS_TRAILER = "grpc-status-details-bin"


class WatchCacheError(Exception):
    """Base of everything that this package raises on purpose.

    `reason` is one word for programs, `field_violations` the broken rules of a request,
    `violations` the preconditions not met or limits reached, `metadata` the changing parts of the
    text, `retry_delay_seconds` the wait that the service asks for.
    """

    is_retriable: ClassVar[bool] = False
    """Whether the same call may succeed later without anybody mending anything."""

    def __init__(
        self, message: str, *, reason: str = "", details: StatusDetails | None = None
    ) -> None:
        super().__init__(message)
        details = details or StatusDetails()
        self.reason = reason or details.reason
        self.metadata = details.metadata
        self.field_violations = details.field_violations
        self.violations = details.violations
        self.retry_delay_seconds = details.retry_delay_seconds


class ConnectionSettingsError(WatchCacheError):
    """The address, the CA file or another setting of `connect` cannot be used."""


class InvalidArgumentError(WatchCacheError):
    """The request breaks a rule; `field_violations` says which. Sending it again is useless."""

    @classmethod
    def of(
        cls, field: str, description: str, *, reason: str = "INVALID_ARGUMENT"
    ) -> InvalidArgumentError:
        """Make one about a single field, for a rule that the client checks by itself."""
        return cls.of_all([FieldViolation(field, description)], reason=reason)

    @classmethod
    def of_all(
        cls, violations: Sequence[FieldViolation], *, reason: str = "INVALID_ARGUMENT"
    ) -> InvalidArgumentError:
        """Make one about every field that breaks a rule."""
        details = StatusDetails(field_violations=tuple(violations))
        told = "; ".join(f"{each.field}: {each.description}" for each in violations)
        return cls(told, reason=reason, details=details)


class Violations:
    """Collects broken rules, so that a caller is told of all of them at once."""

    def __init__(self) -> None:
        self._found: list[FieldViolation] = []

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Take the broken rules that are raised inside."""
        try:
            yield
        except InvalidArgumentError as error:
            self._found += error.field_violations

    def finish(self) -> None:
        """Raise InvalidArgumentError with all of them, if there are any."""
        if self._found:
            raise InvalidArgumentError.of_all(self._found)


class NotFoundError(WatchCacheError):
    """No such extension or object."""


class DeregisteredError(NotFoundError):
    """Somebody deregistered the extension, so the client does not register it again by itself."""


class AlreadyExistsError(WatchCacheError):
    """The thing exists already."""


class FailedPreconditionError(WatchCacheError):
    """The extension cannot answer until something is mended, such as a missing right."""


class OutOfRangeError(WatchCacheError):
    """A page token no longer fits the list. Begin the list again."""


class PermissionDeniedError(WatchCacheError):
    """The caller may not do this."""


class UnauthenticatedError(WatchCacheError):
    """The service does not know the caller."""


class UnimplementedError(WatchCacheError):
    """What answers at the address is no watchcache service, or an older one."""


class ResourceExhaustedError(WatchCacheError):
    """A limit is reached; `violations` names it."""

    is_retriable = True


class UnavailableError(WatchCacheError):
    """The service cannot be reached, is starting or draining, or has not synced yet."""

    is_retriable = True


class DeadlineExceededError(WatchCacheError):
    """The answer did not come in the time that the call allowed."""

    is_retriable = True


class CancelledByServiceError(WatchCacheError):
    """Something between here and the service ended the call."""

    is_retriable = True


class InternalError(WatchCacheError):
    """A fault of the service; its log has more under the id in the text."""

    is_retriable = True


class StaleError(WatchCacheError):
    """The mirror's data is older than the reader allows. `age_seconds` says how old it is."""

    def __init__(self, message: str, *, age_seconds: float, reason: str = "STALE") -> None:
        super().__init__(message, reason=reason)
        self.age_seconds = age_seconds


class NotSyncedError(StaleError):
    """The mirror holds no data to read: nothing has been loaded yet, or it may not be loaded."""

    def __init__(self, message: str) -> None:
        super().__init__(message, age_seconds=float("inf"), reason="NOT_SYNCED")


class NotWatchedError(WatchCacheError):
    """The resource that is read is not among those that the extension watches."""


class MirrorClosedError(WatchCacheError):
    """The mirror is not running: it was not entered yet, or it was left."""


_BY_CODE: dict[str, type[WatchCacheError]] = {
    "ABORTED": UnavailableError,
    "ALREADY_EXISTS": AlreadyExistsError,
    "CANCELLED": CancelledByServiceError,
    "DEADLINE_EXCEEDED": DeadlineExceededError,
    "FAILED_PRECONDITION": FailedPreconditionError,
    "INVALID_ARGUMENT": InvalidArgumentError,
    "NOT_FOUND": NotFoundError,
    "OUT_OF_RANGE": OutOfRangeError,
    "PERMISSION_DENIED": PermissionDeniedError,
    "RESOURCE_EXHAUSTED": ResourceExhaustedError,
    "UNAUTHENTICATED": UnauthenticatedError,
    "UNAVAILABLE": UnavailableError,
    "UNIMPLEMENTED": UnimplementedError,
}
_BY_REASON: dict[str, type[WatchCacheError]] = {"EXTENSION_DEREGISTERED": DeregisteredError}


def from_rpc_error(error: grpc.aio.AioRpcError, *, address: str) -> WatchCacheError:
    """Translate a failed call to the service at `address`.

    Codes without a class of their own (UNKNOWN, DATA_LOSS, INTERNAL) are InternalError. Details
    that cannot be read are left out: they must not hide the error that they belong to.
    """
    code = error.code().name
    details = _details_of(error)
    message = error.details() or code
    if details.reason:
        kind = _BY_REASON.get(details.reason) or _BY_CODE.get(code, InternalError)
        return kind(message, details=details)
    kind = _BY_CODE.get(code, InternalError)
    if kind is UnavailableError:
        message = _CONNECTING.sub("", message)
        message = (
            f"cannot reach watchcache at {address}: {message}; see that it runs there, or give "
            "another address (WATCHCACHE_ADDRESS, unless one was given)"
        )
    elif kind is UnimplementedError:
        message = f"what answers at {address} does not serve watchcache.v1alpha1: {message}"
    elif kind is DeadlineExceededError:
        message = f"no answer from watchcache at {address} in time: {message}"
    return kind(message, reason=code, details=details)


def _details_of(error: grpc.aio.AioRpcError) -> StatusDetails:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_TRAILER and isinstance(value, bytes):
            try:
                return parse_status_details(value)
            except ValueError:
                break
    return StatusDetails()
