"""Subscriptions: how one reader goes through the objects and changes of a store.

A reader is a `Cursor`, a small immutable value, and nothing else. `advance` takes a cursor and
returns the next events and the next cursor; it depends on the store and the cursor only, so whoever
stands at the same place with the same filter can be given the very same answer, at any later time.

A cursor is a revision (everything up to it is delivered), and during a snapshot a `Walk` too. A
walk goes through the sources in order of namespace and name. Each step first delivers the changes
that came meanwhile to objects already walked past, then the next objects as they are now. So at
every step the reader has, of what was walked past, exactly the present state; and a walk needs no
copy of anything, however slow its reader is.

A reader that lost its stream in the walk of a late source repeats that walk, and may hold objects
of it that are gone by now. So a repeated walk also delivers the end of objects that it has not come
to; of some of them its reader never knew.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from watchcache_server.informer.entries import Entry
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.history import Change
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Store
from watchcache_server.model.states import EventKind, LeftReason

__all__ = [
    "Advance",
    "Cursor",
    "Event",
    "Limits",
    "Outcome",
    "Walk",
    "advance",
    "begin_snapshot",
    "resume",
]


class Walk(NamedTuple):
    """What is left of a snapshot: source numbers, and where in the first of them it stands."""

    sources: tuple[int, ...]
    namespace: str = ""
    name: str = ""
    is_repeated: bool = False


class Cursor(NamedTuple):
    """A place in the life of a store.

    An earlier stream of the same reader may have told of changes up to `told_revision`, which is 0
    once this one has come so far.
    """

    revision: int
    walk: Walk | None = None
    told_revision: int = 0


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
    """One step. `oldest_read_at` is when the first of its changes was read, None without any."""

    events: tuple[Event, ...]
    cursor: Cursor
    outcome: Outcome
    oldest_read_at: float | None


def resume(store: Store, revision: int) -> Cursor:
    """Return the cursor of a reader that comes back, to which all up to `revision` was told."""
    return Cursor(revision, told_revision=store.revision if store.revision > revision else 0)


def begin_snapshot(store: Store, wanted: Filter) -> Cursor:
    """Return the cursor from which the whole present state is delivered."""
    numbers = tuple(source.number for source in store.sources(wanted) if source.is_synced)
    return Cursor(store.revision, Walk(numbers) if numbers else None)


class _Step:
    """The making of one step."""

    def __init__(self, store: Store, wanted: Filter, cursor: Cursor, limits: Limits) -> None:
        self.store = store
        self.wanted = wanted
        self.limits = limits
        self.revision = cursor.revision
        self.walk = cursor.walk
        self.told_revision = cursor.told_revision
        self.events: list[Event] = []
        self.raw_bytes = 0
        self.scanned = 0
        self.is_lost = False
        self.oldest_read_at: float | None = None

    def is_full(self, upcoming: int) -> bool:
        """Tell whether an event with a body of `upcoming` bytes has to wait for the next step."""
        return bool(self.events) and (
            len(self.events) >= self.limits.events
            or self.raw_bytes + upcoming > self.limits.raw_bytes
        )

    def add(self, event: Event, read_at: float | None) -> None:
        self.events.append(event)
        self.raw_bytes += event.entry.raw_size
        if read_at is not None and self.oldest_read_at is None:
            self.oldest_read_at = read_at

    def follow_history(self) -> bool:
        """Deliver changes up to the present; return whether it was reached."""
        for change in self.store.history.since(self.revision):
            if self.scanned >= self.limits.scanned:
                return False
            self.scanned += 1
            if change.entry is None:
                self._follow_source(change)
                if self.is_lost:
                    return False
            else:
                event = self._seen(change, change.entry)
                if event is not None:
                    if self.is_full(event.entry.raw_size):
                        return False
                    self.add(event, change.read_at)
            self.revision = change.revision
        return True

    def _follow_source(self, change: Change) -> None:
        """Walk a source from its start, since it synced first; be lost if objects moved to it."""
        source = change.source
        if not self.wanted.passes_source(source):
            return
        if change.kind is EventKind.MODIFIED:
            self.is_lost = self.walk is not None
            return
        walk = self.walk or Walk((source.number,))
        if walk.sources[0] == source.number:
            walk = walk._replace(namespace="", name="")
        elif source.number not in walk.sources:
            walk = walk._replace(sources=(*walk.sources, source.number))
        is_repeated = walk.is_repeated or change.revision <= self.told_revision
        self.walk = walk._replace(is_repeated=is_repeated)

    def _seen(self, change: Change, entry: Entry) -> Event | None:
        """Return the change as this reader sees it, or None."""
        source = change.source
        wanted = self.wanted
        is_walked = self._is_walked(source, entry)
        is_repeated = self.walk is not None and self.walk.is_repeated
        if not (is_walked or is_repeated) or not wanted.passes_source(source):
            return None
        kind = change.kind
        reason = change.left_reason
        if not wanted.passes_all_objects:
            had = kind is not EventKind.ADDED and wanted.passes(
                entry.namespace, change.labels_before
            )
            if kind in (EventKind.DELETED, EventKind.LEFT):
                if not had:
                    return None
            elif wanted.passes(entry.namespace, entry.labels):
                kind = EventKind.MODIFIED if had else EventKind.ADDED
            elif had:
                kind, reason = EventKind.LEFT, LeftReason.SELECTION
            else:
                return None
        if not is_walked and kind not in (EventKind.DELETED, EventKind.LEFT):
            return None
        return Event(kind, source, entry, change.revision, reason, change.final_state_unknown)

    def _is_walked(self, source: Source, entry: Entry) -> bool:
        walk = self.walk
        if walk is None or source.number not in walk.sources:
            return True
        if source.number != walk.sources[0]:
            return False
        return (entry.namespace, entry.name) <= (walk.namespace, walk.name)

    def follow_walk(self) -> bool:
        """Deliver objects of the walk as they are now; return whether its end was reached."""
        while self.walk is not None:
            source = self.store.source(self.walk.sources[0])
            if source is not None and not self._walk_source(source, self.walk):
                return False
            rest = self.walk.sources[1:]
            self.walk = Walk(rest, is_repeated=self.walk.is_repeated) if rest else None
        return True

    def _walk_source(self, source: Source, walk: Walk) -> bool:
        for entry in source.table.after(walk.namespace, walk.name):
            if self.scanned >= self.limits.scanned:
                return False
            self.scanned += 1
            if self.wanted.passes(entry.namespace, entry.labels):
                if self.is_full(entry.raw_size):
                    return False
                self.add(Event(EventKind.ADDED, source, entry, entry.revision, None, False), None)
            self.walk = walk._replace(namespace=entry.namespace, name=entry.name)
        return True


_DEFAULT_LIMITS = Limits()


def advance(
    store: Store, wanted: Filter, cursor: Cursor, limits: Limits = _DEFAULT_LIMITS
) -> Advance:
    """Return the next events behind a cursor.

    EXPIRED: the history no longer reaches back to the cursor, or objects moved among sources during
    a snapshot; begin a snapshot. AT_HEAD: with these events the reader is at the present. MORE:
    call again.
    """
    if not store.history.covers(cursor.revision):
        return Advance((), cursor, Outcome.EXPIRED, None)
    step = _Step(store, wanted, cursor, limits)
    is_done = step.follow_history() and step.follow_walk()
    if step.is_lost:
        return Advance((), cursor, Outcome.EXPIRED, None)
    told_revision = cursor.told_revision if cursor.told_revision > step.revision else 0
    return Advance(
        tuple(step.events),
        Cursor(step.revision, step.walk, told_revision),
        Outcome.AT_HEAD if is_done else Outcome.MORE,
        step.oldest_read_at,
    )
