"""Compaction: what is left of the changes that the history has dropped.

Of each object that is there, the place of its latest change; of each that is gone, its end; of each
source, its first sync. By that a reader from before the history learns the present state of all
that changed since, in the order of revisions, at a cost that does not grow with how often it did.

What later changes have made void goes in passing: each new segment has two old ones looked through.
So what is kept stays below a small multiple of what counts, and nothing takes long.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from watchcache_server.informer.history import Change
from watchcache_server.informer.source import Source
from watchcache_server.model.states import EventKind

__all__ = ["Compaction", "Remaining", "is_latest"]

_SEGMENT = 512


class _Place(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Where to look for an object whose latest change was this one."""

    revision: int
    source: Source
    namespace: str
    name: str


class Remaining(NamedTuple):
    """A revision, and its change if it still counts."""

    revision: int
    change: Change | None


def is_latest(change: Change) -> bool:
    """Tell whether a change still says how things are; the end of an object always does."""
    entry = change.entry
    if entry is None:
        return change.source.is_synced
    if change.kind in (EventKind.DELETED, EventKind.LEFT):
        return True
    present = change.source.table.get(entry.namespace, entry.name)
    return present is not None and present.revision == change.revision


_Item = _Place | Change


class _Segment:
    """A run of items in the order of revisions, `start` being at or before the first."""

    __slots__ = ("end_count", "items", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.items: list[_Item] = []
        self.end_count = 0

    def add(self, item: _Item) -> None:
        self.items.append(item)
        self.end_count += _is_end(item)

    def tidy(self) -> None:
        """Let go of what is void; the end of an object never is."""
        self.items = [item for item in self.items if _resolved(item) is not None]

    def drop_ends(self) -> int:
        """Let go of the ends; return the revision of the last one."""
        last = max(item.revision for item in self.items if _is_end(item))
        self.items = [item for item in self.items if not _is_end(item)]
        self.end_count = 0
        return last

    def merge(self, following: _Segment) -> None:
        self.items += following.items
        self.end_count += following.end_count


class Compaction:
    """Changes by revision, older than the history. Readers at `floor` or later miss nothing.

    About `max_ends` ends of objects are kept, never more.
    """

    __slots__ = ("_end_count", "_max_ends", "_segments", "_turn", "floor")

    def __init__(self, *, max_ends: int) -> None:
        self._max_ends = max_ends
        self._segments: list[_Segment] = []
        self._end_count = 0
        self._turn = 0
        self.floor = 0

    def add(self, change: Change) -> None:
        """Keep what counts of the change that is next to leave the history."""
        if change.entry is None and change.kind is EventKind.MODIFIED:
            # Objects have moved to another source: their places are wrong.
            self.forget(change.revision)
            return
        if not is_latest(change):
            return
        if not self._segments or len(self._segments[-1].items) >= _SEGMENT:
            self._tidy()
            self._segments.append(_Segment(change.revision))
        item = _item(change)
        self._segments[-1].add(item)
        self._end_count += _is_end(item)
        if self._end_count > self._max_ends:
            self._drop_oldest_ends()

    def forget(self, revision: int) -> None:
        """Keep nothing: who is behind this revision begins anew."""
        self._segments.clear()
        self._end_count = 0
        self.floor = revision

    def since(self, revision: int) -> Iterator[Remaining]:
        """Yield what remains after a revision, void ones included: to pass over them takes time."""
        first = max(0, bisect_right(self._segments, revision, key=_start_of) - 1)
        for segment in self._segments[first:]:
            items = segment.items
            for index in range(bisect_right(items, revision, key=_revision_of), len(items)):
                yield Remaining(items[index].revision, _resolved(items[index]))

    def __len__(self) -> int:
        return sum(len(segment.items) for segment in self._segments)

    def _drop_oldest_ends(self) -> None:
        oldest = next(segment for segment in self._segments if segment.end_count)
        self._end_count -= oldest.end_count
        self.floor = oldest.drop_ends()

    def _tidy(self) -> None:
        """Look through two segments, those whose turn it is; join small neighbours."""
        for _ in range(min(2, len(self._segments))):
            self._turn = (self._turn + 1) % len(self._segments)
            segment = self._segments[self._turn]
            segment.tidy()
            before = self._segments[self._turn - 1] if self._turn else None
            if before is not None and len(before.items) + len(segment.items) <= _SEGMENT:
                before.merge(segment)
                del self._segments[self._turn]
                self._turn -= 1


def _item(change: Change) -> _Item:
    entry = change.entry
    if entry is None:
        return change
    if change.kind in (EventKind.DELETED, EventKind.LEFT):
        return msgspec.structs.replace(
            change, entry=entry.without_body(), labels_before=(), cost_bytes=0
        )
    return _Place(change.revision, change.source, entry.namespace, entry.name)


def _start_of(segment: _Segment) -> int:
    return segment.start


def _revision_of(item: _Item) -> int:
    return item.revision


def _is_end(item: _Item) -> bool:
    return isinstance(item, Change) and item.entry is not None


def _resolved(item: _Item) -> Change | None:
    """Return the change that an item stands for, None when it is void."""
    if isinstance(item, Change):
        return item if is_latest(item) else None
    entry = item.source.table.get(item.namespace, item.name)
    if entry is None or entry.revision != item.revision:
        return None
    return Change(
        revision=item.revision,
        kind=EventKind.MODIFIED,
        source=item.source,
        entry=entry,
        labels_before=(),
        left_reason=None,
        final_state_unknown=False,
        read_at=0.0,
        cost_bytes=0,
    )
