"""The history of an extension: its latest changes, by revision.

Revisions grow by one with each change. The history keeps a window of them, bounded by count and by
bytes; what it drops goes to whoever was named for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from watchcache_server.informer.entries import Entry
from watchcache_server.model.selectors import Labels
from watchcache_server.model.states import EventKind, LeftReason

if TYPE_CHECKING:
    from watchcache_server.informer.source import Source

__all__ = ["Change", "History"]


class Change(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One change of one object; or, with `entry` None, something about a whole source.

    That is ADDED for its first sync: all that it holds is new. And MODIFIED when it has taken
    objects over from other sources: a reader in the middle of a snapshot has to begin anew, since
    they moved; and so has one whose filter names one of the index paths in `reindexed`, which are
    those that only one of the sources has.

    For DELETED and LEFT `entry` is the last content. `labels_before` and `fields_before` are those
    of the form that this change replaced or removed, empty for ADDED. `read_at` is when the bytes
    that caused it were read, in seconds of the caller's clock. `cost_bytes` is what it counts for
    in the history.
    """

    revision: int
    kind: EventKind
    source: Source
    entry: Entry | None
    labels_before: Labels
    left_reason: LeftReason | None
    final_state_unknown: bool
    read_at: float
    cost_bytes: int
    fields_before: Labels = ()
    reindexed: frozenset[str] = frozenset()


class History:
    """A window of changes with consecutive revisions."""

    __slots__ = (
        "_changes",
        "_dropped",
        "_max_bytes",
        "_max_changes",
        "_start",
        "bytes",
        "first_revision",
    )

    def __init__(
        self,
        *,
        max_changes: int,
        max_bytes: int,
        dropped: Callable[[Change], None] | None = None,
    ) -> None:
        self._dropped = dropped
        # Dropped changes are None until the list is cut, so that they are freed at once.
        self._changes: list[Any] = []
        self._start = 0
        self._max_changes = max_changes
        self._max_bytes = max_bytes
        self.bytes = 0
        self.first_revision = 1

    def append(self, change: Change) -> None:
        """Add the next change; drop old ones beyond the bounds."""
        self._changes.append(change)
        self.bytes += change.cost_bytes
        while len(self) > self._max_changes or (self.bytes > self._max_bytes and len(self) > 1):
            oldest = self._changes[self._start]
            self.bytes -= oldest.cost_bytes
            self._changes[self._start] = None
            self._start += 1
            self.first_revision += 1
            if self._dropped is not None:
                self._dropped(oldest)
        if self._start > 1024 and self._start * 2 > len(self._changes):
            del self._changes[: self._start]
            self._start = 0

    def forget(self) -> None:
        """Drop all changes; revisions go on."""
        self.first_revision += len(self)
        self._changes.clear()
        self._start = 0
        self.bytes = 0

    def covers(self, revision: int) -> bool:
        """Tell whether `revision` has been, and everything after it is still here."""
        return 0 <= revision - (self.first_revision - 1) <= len(self)

    def since(self, revision: int) -> Iterator[Change]:
        """Yield the changes after a covered revision. None may be added meanwhile."""
        first = self._start + revision + 1 - self.first_revision
        for index in range(first, len(self._changes)):
            yield self._changes[index]

    def __len__(self) -> int:
        return len(self._changes) - self._start
