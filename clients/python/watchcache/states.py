"""The words of the contract as enumerations, and how they are read from the wire and from people.

A newer service may know more words than this client. Such a word becomes `UNKNOWN` and never
takes the meaning of another; above all, an unknown reason for LEFT is no deletion.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Self, TypeVar

from watchcache.errors import InvalidArgumentError
from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

__all__ = [
    "CONSISTENCY_OUTCOMES",
    "EVENT_TYPES",
    "EXTENSION_STATES",
    "LEFT_REASONS",
    "PROJECTIONS",
    "REGISTER_OUTCOMES",
    "RESET_REASONS",
    "SOURCE_STATES",
    "START_MODES",
    "ConsistencyOutcome",
    "EventType",
    "ExtensionState",
    "LeftReason",
    "Projection",
    "RegisterOutcome",
    "ResetReason",
    "SourceState",
    "StartMode",
    "View",
    "WordTable",
]


class _Word(StrEnum):
    @classmethod
    def of(cls, word: str, *, field: str) -> Self:
        """Read a word as people write it. Raises InvalidArgumentError that names `field`."""
        name = word.upper().replace("-", "_")
        if name not in cls.__members__ or name == "UNKNOWN":
            words = (member for member in cls if member != "UNKNOWN")
            known = ", ".join(word.lower().replace("_", "-") for word in words)
            raise InvalidArgumentError.of(field, f"{word!r} is not known; it is one of {known}")
        return cls[name]


class SourceState(_Word):
    """State of one informer."""

    PENDING = "PENDING"
    SYNCING = "SYNCING"
    LIVE = "LIVE"
    STALE = "STALE"
    FORBIDDEN = "FORBIDDEN"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    GONE = "GONE"
    UNREACHABLE = "UNREACHABLE"
    STOPPED = "STOPPED"
    UNKNOWN = "UNKNOWN"


class ExtensionState(_Word):
    """All informers of an extension taken together."""

    SYNCING = "SYNCING"
    LIVE = "LIVE"
    DEGRADED = "DEGRADED"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"


class ConsistencyOutcome(_Word):
    """What came of comparing an informer with its API server."""

    CONSISTENT = "CONSISTENT"
    MISMATCH = "MISMATCH"
    UNCLEAR = "UNCLEAR"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"


class EventType(_Word):
    """What happened to an object as one subscriber sees it. Only DELETED says that it is gone."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    LEFT = "LEFT"
    UNKNOWN = "UNKNOWN"


class LeftReason(_Word):
    """Why an object left the view. None of these, UNKNOWN included, means that it was deleted."""

    SELECTION = "SELECTION"
    SCOPE = "SCOPE"
    RIGHTS_REVOKED = "RIGHTS_REVOKED"
    KIND_GONE = "KIND_GONE"
    UNKNOWN = "UNKNOWN"


class Projection(_Word):
    """How much of each object the service keeps."""

    FULL = "FULL"
    WITHOUT_MANAGED_FIELDS = "WITHOUT_MANAGED_FIELDS"
    METADATA = "METADATA"
    UNKNOWN = "UNKNOWN"


class View(_Word):
    """How much of each object an answer carries."""

    FULL = "FULL"
    METADATA = "METADATA"
    KEY = "KEY"


class StartMode(_Word):
    """How a stream begins."""

    SNAPSHOT = "SNAPSHOT"
    RESUMED = "RESUMED"
    DIFFERENCE = "DIFFERENCE"
    UNKNOWN = "UNKNOWN"


class ResetReason(_Word):
    """Why the past is lost."""

    HISTORY_EXPIRED = "HISTORY_EXPIRED"
    EPOCH_CHANGED = "EPOCH_CHANGED"
    UNKNOWN = "UNKNOWN"


class RegisterOutcome(_Word):
    """What a registration did."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    UNCHANGED = "UNCHANGED"
    UNKNOWN = "UNKNOWN"


_W = TypeVar("_W", bound=_Word)


class WordTable(dict[int, _W]):
    """The words of one enumeration by their numbers on the wire; any other number is UNKNOWN."""

    def __init__(self, words: type[_W], wire: Iterable[tuple[str, int]], prefix: str) -> None:
        names = {number: name.removeprefix(prefix) for name, number in wire}
        super().__init__(
            {number: words[name] for number, name in names.items() if name in words.__members__}
        )
        self._unknown = words("UNKNOWN")

    def __missing__(self, number: int) -> _W:
        return self._unknown


SOURCE_STATES = WordTable(SourceState, extension_pb2.SourceState.items(), "SOURCE_STATE_")
EXTENSION_STATES = WordTable(
    ExtensionState, extension_pb2.ExtensionState.items(), "EXTENSION_STATE_"
)
CONSISTENCY_OUTCOMES = WordTable(
    ConsistencyOutcome, extension_pb2.ConsistencyOutcome.items(), "CONSISTENCY_OUTCOME_"
)
PROJECTIONS = WordTable(Projection, extension_pb2.Projection.items(), "PROJECTION_")
EVENT_TYPES = WordTable(EventType, event_pb2.EventType.items(), "EVENT_TYPE_")
LEFT_REASONS = WordTable(LeftReason, event_pb2.LeftReason.items(), "LEFT_REASON_")
START_MODES = WordTable(StartMode, service_pb2.StartMode.items(), "START_MODE_")
RESET_REASONS = WordTable(ResetReason, service_pb2.ResetReason.items(), "RESET_REASON_")
REGISTER_OUTCOMES = WordTable(
    RegisterOutcome, service_pb2.RegisterOutcome.items(), "REGISTER_OUTCOME_"
)
