"""The step of a reader that keeps up: every change, and during a snapshot the objects as well.

A walk goes through the sources in order of namespace and name. Each step first delivers the changes
that came meanwhile to objects already walked past, then the next objects as they are now. So at
every step the reader has, of what was walked past, exactly the present state; and a walk needs no
copy of anything.

A reader that lost its stream in the walk of a late source repeats that walk, and may hold objects
of it that are gone by now. So a repeated walk also delivers the end of objects that it has not come
to; of some of them its reader never knew.
"""

from __future__ import annotations

from watchcache_server.informer.cursors import Event, Walk
from watchcache_server.informer.entries import Entry
from watchcache_server.informer.history import Change
from watchcache_server.informer.source import Source
from watchcache_server.informer.step import Step
from watchcache_server.model.states import EventKind, LeftReason

__all__ = ["LiveStep"]


class LiveStep(Step):
    """From a revision that the history covers."""

    def run(self) -> bool:
        """Go as far as the limits allow; return whether the present was reached."""
        return self.follow_history() and self.follow_walk()

    def follow_history(self) -> bool:
        """Deliver changes up to the present; return whether it was reached."""
        for change in self.store.history.since(self.revision):
            if not self.may_scan():
                return False
            if change.entry is None:
                self._follow_source(change)
                if self.is_lost:
                    return False
            else:
                event = self._seen(change, change.entry)
                if event is not None:
                    if self.undoes(event):
                        self.is_lost = True
                        return False
                    if self.is_full(event.entry.raw_size):
                        return False
                    self.add(event, change.read_at)
            self.revision = change.revision
        return True

    def _follow_source(self, change: Change) -> None:
        """Walk a source from its start, since it synced first; be lost if objects moved to it."""
        source = change.source
        if change.kind is EventKind.MODIFIED:
            has_moved = self.walk is not None or not change.reindexed.isdisjoint(self.wanted.paths)
            self.is_lost = has_moved and self.wanted.covers(source)
            return
        if not self.wanted.passes_source(source):
            return
        walk = self.walk or Walk((source.number,))
        if walk.sources[0] == source.number:
            walk = walk._replace(namespace="", name="")
        elif source.number not in walk.sources:
            walk = walk._replace(sources=(*walk.sources, source.number))
        may_hold = self.held is not None or change.revision <= self.start.told_revision
        is_repeated = walk.is_repeated or may_hold
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
                entry.namespace, change.labels_before, change.fields_before
            )
            if kind in (EventKind.DELETED, EventKind.LEFT):
                # In what state an earlier stream has told of what is not walked yet is not known.
                may_have_had = not is_walked and wanted.passes_namespace(entry.namespace)
                if not (had or may_have_had):
                    return None
            elif wanted.passes(entry.namespace, entry.labels, entry.fields):
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
