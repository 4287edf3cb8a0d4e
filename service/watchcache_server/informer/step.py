"""One step of a reader: what it is told next, until a limit is reached."""

from __future__ import annotations

from watchcache_server.informer.cursors import Cursor, Event, Limits, Walk
from watchcache_server.informer.entries import Entry
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.held import Held
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Store
from watchcache_server.model.states import EventKind, LeftReason

__all__ = ["Step"]


class Step:
    """What every step has: where it began, where it stands, and the events that were found.

    `held` is what the reader holds beside what its cursor says. `is_lost`: it has to begin anew.
    """

    def __init__(
        self, store: Store, wanted: Filter, cursor: Cursor, limits: Limits, held: Held | None = None
    ) -> None:
        self.store = store
        self.wanted = wanted
        self.limits = limits
        self.held = held
        self.start = cursor
        self.revision = cursor.revision
        self.walk = cursor.walk
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

    def may_scan(self) -> bool:
        """Count one more place that is looked at; False when it has to wait for the next step."""
        if self.scanned >= self.limits.scanned:
            return False
        self.scanned += 1
        return True

    def add(self, event: Event, read_at: float | None) -> None:
        """Take an event in. `read_at` is when its change was read, None if that says nothing."""
        self.events.append(event)
        if self.held is not None:
            self.held.came_across(event.source, event.entry)
        self.raw_bytes += event.entry.raw_size
        if read_at is not None and self.oldest_read_at is None:
            self.oldest_read_at = read_at

    def undoes(self, event: Event) -> bool:
        """Tell whether an event would make untrue what a reader's own token says that it holds.

        It could not be told apart later from one that has not heard of it: better it begins anew.
        """
        if self.held is None or event.left_reason is None:
            return False
        return self.held.is_undone_by(event.source, event.left_reason)

    def follow_walk(self) -> bool:
        """Deliver objects of the walk as they are now; return whether its end was reached."""
        while self.walk is not None:
            source = self.store.source(self.walk.sources[0])
            if source is not None and not self._walk_source(source, self.walk):
                return False
            rest = self.walk.sources[1:]
            self.walk = self.walk._replace(sources=rest, namespace="", name="") if rest else None
        return True

    def _walk_source(self, source: Source, walk: Walk) -> bool:
        for entry in source.table.after(walk.namespace, walk.name):
            if not self.may_scan():
                return False
            event = self._walked(source, entry, walk)
            if event is not None:
                if self.is_full(entry.raw_size):
                    return False
                self.add(event, None)
            elif self.held is not None:
                self.held.came_across(source, entry)
            self.walk = walk._replace(namespace=entry.namespace, name=entry.name)
        return True

    def _walked(self, source: Source, entry: Entry, walk: Walk) -> Event | None:
        """Return what to say of an object that the walk comes to."""
        if walk.up_to is not None and entry.revision > walk.up_to:
            return None
        kind, reason = EventKind.ADDED, None
        if self.wanted.passes(entry.namespace, entry.labels, entry.fields):
            if self.held is not None and self.held.has(source, entry):
                return None
        elif self._may_be_held(source, entry):
            kind, reason = EventKind.LEFT, LeftReason.SELECTION
        else:
            return None
        return Event(kind, source, entry, entry.revision, reason, False)

    def _may_be_held(self, source: Source, entry: Entry) -> bool:
        """Tell whether the reader may hold an object that does not pass."""
        return (
            self.held is not None
            and self.wanted.passes_namespace(entry.namespace)
            and self.held.may_know(source, entry)
        )
