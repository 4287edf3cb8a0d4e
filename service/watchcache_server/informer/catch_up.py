"""The step of a reader that catches up: the latest state of what has changed, no more.

It goes by revision, through what is left of the changes (`Store.latest_since`): an object comes
where its latest change is, whose revision it has passed by then is done, and what changes meanwhile
moves to the end. So it arrives at the present however slowly it goes, and its place is a revision
like that of any other reader. On the way it holds no state that ever was as a whole; at the present
it does.

A source that has synced first is walked by its place among the changes. A walk that was under way
when its reader fell behind goes on first. Both tell of what took its form up to their revision, for
the rest comes later.

What the reader holds of an object that it knew before is not known here: it may never have passed
the filter. So what does not pass has LEFT, and what does is told as it is.
"""

from __future__ import annotations

from functools import cached_property

from watchcache_server.informer.cursors import Cursor, Event, Walk
from watchcache_server.informer.history import Change
from watchcache_server.informer.step import Step
from watchcache_server.model.states import EventKind, LeftReason

__all__ = ["CatchUpStep", "fall_behind"]


def fall_behind(cursor: Cursor) -> Cursor:
    """Return the cursor of a reader that no longer keeps up, from where it stands."""
    walk = cursor.walk
    return cursor._replace(
        behind_since=cursor.revision,
        walk=None if walk is None else walk._replace(up_to=cursor.revision),
    )


class CatchUpStep(Step):
    """From any revision that the store covers; its cursor has `behind_since`."""

    @cached_property
    def _told_up_to(self) -> int:
        """Of an object that became known later the reader was not told before this step."""
        start = self.start
        since = self.store.revision if self.held is not None else start.behind_since or 0
        return max(since, start.told_revision, start.revision)

    def run(self) -> bool:
        """Go as far as the limits allow; return whether the present was reached."""
        while self.follow_walk():
            if self._follow_changes():
                return True
            if self.walk is None or self.is_lost:
                return False
        return False

    def _follow_changes(self) -> bool:
        """Deliver changes up to the present, or to a source that is to be walked."""
        for revision, change in self.store.latest_since(self.revision):
            if not self.may_scan():
                return False
            if change is not None and change.entry is None:
                if self._is_about_view(change):
                    return self._begin_walk(change)
            elif change is not None and self.wanted.passes_source(change.source):
                event = self._seen(change)
                if event is not None:
                    if self.undoes(event):
                        self.is_lost = True
                        return False
                    if self.is_full(event.entry.raw_size):
                        return False
                    self.add(event, None)
            self.revision = revision
        self.revision = self.store.revision
        return True

    def _is_about_view(self, mark: Change) -> bool:
        # A source that has taken objects over may no longer have the paths of the filter.
        is_move = mark.kind is EventKind.MODIFIED
        return (self.wanted.covers if is_move else self.wanted.passes_source)(mark.source)

    def _begin_walk(self, mark: Change) -> bool:
        if mark.kind is EventKind.MODIFIED:
            self.is_lost = True
        else:
            self.revision = mark.revision
            self.walk = Walk((mark.source.number,), up_to=mark.revision)
        return False

    def _seen(self, change: Change) -> Event | None:
        """Return the change as this reader sees it, or None."""
        entry = change.entry
        assert entry is not None, "it is about one object"
        kind, reason = change.kind, change.left_reason
        is_known = entry.first_revision <= self._told_up_to
        is_end = kind in (EventKind.DELETED, EventKind.LEFT)
        if not is_end and self.wanted.passes(entry.namespace, entry.labels, entry.fields):
            kind = EventKind.MODIFIED if is_known else EventKind.ADDED
        elif not is_known or not self.wanted.passes_namespace(entry.namespace):
            return None
        elif not is_end:
            kind, reason = EventKind.LEFT, LeftReason.SELECTION
        return Event(
            kind, change.source, entry, change.revision, reason, change.final_state_unknown
        )
