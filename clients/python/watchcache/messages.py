"""What a watch yields: one class for each message of a stream, and `Event` for one change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from watchcache.errors import WatchCacheError
from watchcache.objects import CachedObject, Decoder
from watchcache.states import (
    EVENT_TYPES,
    LEFT_REASONS,
    EventType,
    LeftReason,
    ResetReason,
    StartMode,
)
from watchcache.status import Source
from watchcache.v1alpha1 import event_pb2

__all__ = [
    "Batch",
    "Bookmark",
    "Disconnected",
    "Event",
    "KnownGone",
    "Message",
    "Reset",
    "SourceChanged",
    "Started",
    "Synced",
]

T = TypeVar("T")


class Event(CachedObject[T]):
    """One change of one object as this subscriber sees it.

    For DELETED and LEFT the body is the last content that was known, perhaps older than the last
    one that existed if `final_state_unknown`. `left_reason` is set for LEFT alone.
    """

    __slots__ = ("final_state_unknown", "left_reason", "revision", "type")

    def __init__(self, message: event_pb2.Event, decode: Decoder[T]) -> None:
        super().__init__(message.object, decode)
        self.type: EventType = EVENT_TYPES[message.type]
        self.revision: int = message.revision
        self.left_reason: LeftReason | None = (
            LEFT_REASONS[message.left_reason] if self.type is EventType.LEFT else None
        )
        self.final_state_unknown: bool = message.final_state_unknown

    def _told(self) -> str:
        reason = f" ({self.left_reason})" if self.left_reason else ""
        return f"{self.type}{reason} {super()._told()}"


@dataclass(frozen=True, slots=True)
class Started:
    """A stream has begun. After SNAPSHOT, collect up to `Synced`, then replace what was held.

    After RESUMED and DIFFERENCE what is held stays, and is changed by what follows. Revisions
    compare only under one `extension_uid`.
    """

    mode: StartMode
    extension_uid: str
    bookmark_interval_seconds: float


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """Changes to be applied together, or a part of a snapshot.

    `is_coalesced`: this watch is catching up, and each event stands for all that happened to its
    object. ADDED and MODIFIED both say how it is, held or not; DELETED and LEFT may be of one that
    is not held, and have no body.
    """

    events: tuple[Event[T], ...]
    is_snapshot: bool
    is_coalesced: bool = False

    def __iter__(self) -> Iterator[Event[T]]:
        return iter(self.events)


@dataclass(frozen=True, slots=True)
class Synced:
    """The snapshot is complete; after RESUMED, all that was missed has been sent."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing else happened; all before it was delivered."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The past is lost; a snapshot follows, ended by `Synced`."""

    reason: ResetReason


@dataclass(frozen=True, slots=True)
class KnownGone:
    """Objects that were said to be held are gone, or out of view: `ids` as `holdings` makes them.

    They are of one resource, in one namespace of one cluster.

    It comes to a watch that tells what it holds, after DIFFERENCE; a mirror does so by itself.
    """

    type: EventType
    left_reason: LeftReason | None
    resource: str
    cluster: str
    namespace: str
    ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SourceChanged:
    """An informer in view is in this state; sent for each at the start, then for changes."""

    source: Source


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The stream broke. The watch goes on by itself after `retry_seconds`, where it was."""

    error: WatchCacheError
    retry_seconds: float


Message = Started | Batch[T] | KnownGone | Synced | Bookmark | Reset | SourceChanged | Disconnected
"""Any of them. More may come: pass over what you do not know."""
