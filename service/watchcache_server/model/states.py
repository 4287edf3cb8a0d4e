"""States: of informers and extensions; and the words for events, projections and views."""

from __future__ import annotations

import enum

__all__ = [
    "CheckOutcome",
    "EventKind",
    "ExtensionState",
    "LeftReason",
    "Projection",
    "SourceState",
    "View",
]


class SourceState(enum.Enum):
    """State of one informer. The values are the words used in metrics and logs."""

    PENDING = "pending"
    SYNCING = "syncing"
    LIVE = "live"
    STALE = "stale"
    FORBIDDEN = "forbidden"
    UNAUTHENTICATED = "unauthenticated"
    GONE = "gone"
    UNREACHABLE = "unreachable"
    STOPPED = "stopped"

    @property
    def is_settled(self) -> bool:
        """Whether a first sync has succeeded or cannot succeed for now: nothing to wait for."""
        return self not in (SourceState.PENDING, SourceState.SYNCING)


class ExtensionState(enum.Enum):
    """All informers of an extension taken together."""

    SYNCING = "syncing"
    LIVE = "live"
    DEGRADED = "degraded"
    FAILED = "failed"


class LeftReason(enum.Enum):
    """Why an object left a view. None of these ever means that it was deleted."""

    SELECTION = "selection"
    SCOPE = "scope"
    RIGHTS_REVOKED = "rights_revoked"
    KIND_GONE = "kind_gone"


class EventKind(enum.Enum):
    """What happened to an object, as a subscriber sees it."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    LEFT = "left"


class Projection(enum.Enum):
    """How much of each object is kept."""

    FULL = "full"
    WITHOUT_MANAGED_FIELDS = "without_managed_fields"
    METADATA = "metadata"


class View(enum.Enum):
    """How much of each object a subscriber is sent."""

    FULL = "full"
    METADATA = "metadata"
    KEY = "key"


class CheckOutcome(enum.Enum):
    """What came of comparing an informer with its API server."""

    CONSISTENT = "consistent"
    MISMATCH = "mismatch"
    # It could not be told.
    UNCLEAR = "unclear"
    # The API server could not be asked.
    FAILED = "failed"
