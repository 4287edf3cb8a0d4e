"""Cursors: where a reader stands, and what it is told there."""

from __future__ import annotations

import enum
from typing import NamedTuple

from watchcache_server.informer.entries import Entry
from watchcache_server.informer.source import Source
from watchcache_server.model.states import EventKind, LeftReason

__all__ = ["Advance", "Cursor", "Event", "Limits", "Outcome", "Walk"]


class Walk(NamedTuple):
    """What is left of a snapshot: source numbers, and where in the first of them it stands.

    `is_repeated`: an earlier stream may have told of objects that it has not come to. `up_to`: only
    objects that took their form up to this revision count, the others come by their changes.
    """

    sources: tuple[int, ...]
    namespace: str = ""
    name: str = ""
    is_repeated: bool = False
    up_to: int | None = None


class Cursor(NamedTuple):
    """A place in the life of a store.

    An earlier stream of the same reader may have told of changes up to `told_revision`, which is 0
    once this one has come so far. `behind_since`: the reader catches up, and was told everything up
    to this revision, and of later ones only what was the latest of each object.
    """

    revision: int
    walk: Walk | None = None
    told_revision: int = 0
    behind_since: int | None = None


class Event(NamedTuple):
    """A change of one object as a reader with some filter sees it."""

    kind: EventKind
    source: Source
    entry: Entry
    revision: int
    left_reason: LeftReason | None
    final_state_unknown: bool


class Limits(NamedTuple):
    """How much one step may return (events, bytes of bodies) and look at (entries and changes)."""

    events: int = 512
    raw_bytes: int = 1024 * 1024
    scanned: int = 4096


class Outcome(enum.Enum):
    """How a step ended."""

    MORE = "more"
    AT_HEAD = "at_head"
    EXPIRED = "expired"


class Advance(NamedTuple):
    """One step. `oldest_read_at` is when the first of its changes was read, None without any.

    `is_coalesced`: its events stand for several changes each, where there were several.
    """

    events: tuple[Event, ...]
    cursor: Cursor
    outcome: Outcome
    oldest_read_at: float | None
    is_coalesced: bool = False
