"""Sets of namespaces: what is known of one, and what an extension watches in each of them.

A set is read by an informer of its own, through the same machinery as any other; it has a source of
its own too, which is no part of the extension's store. All that others see of it are the names, and
that they have changed. No error takes a namespace out of a set: only the API server does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from watchcache_server.extensions.observed import Observed
from watchcache_server.extensions.status import SourceStatus
from watchcache_server.informer.objects import Delta, Item
from watchcache_server.informer.source import Source, Unverified
from watchcache_server.informer.source_scope import SourceScope
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import Choice, NamespaceSet, SourceSpec
from watchcache_server.model.states import LeftReason, SourceState

if TYPE_CHECKING:
    from watchcache_server.extensions.extension import Extension

__all__ = ["ChosenScope", "NamespaceInformer"]

_REFUSED: Final = (SourceState.FORBIDDEN, SourceState.GONE)


class _Told(NamedTuple):
    """What the informer says of itself."""

    state: SourceState
    reason: str
    message: str
    missing_verbs: tuple[str, ...]
    next_attempt_seconds: float | None


class NamespaceInformer(Observed):
    """Follows one set; `changed` is called when other namespaces match, or none can be known."""

    def __init__(
        self, extension: Extension, namespaces: NamespaceSet, *, changed: Callable[[], None]
    ) -> None:
        super().__init__(extension, Source(0, namespaces.source))
        self.namespaces = namespaces
        self._changed = changed
        self._told: _Told | None = None
        self._crowding = ""

    @property
    def names(self) -> Collection[str] | None:
        """The namespaces that match; None while they are not known and may yet be."""
        if self.is_synced:
            return [entry.name for entry in self.source.table]
        return () if self.status.state in _REFUSED else None

    def crowded(self, why: str) -> None:
        """Say why not all that match are watched; empty when they are."""
        if why != self._crowding:
            self._crowding = why
            if self._told is not None:
                self._publish(self._told)

    def stop(self) -> None:
        """Take that the extension no longer asks for it."""
        self.is_stopped = True
        self.freshness.release()
        super().set_state(SourceState.STOPPED, "STOPPED", "the extension no longer asks for it")

    # What the informer reads

    def unverified(self) -> list[Unverified]:
        """Return nothing: why a namespace left the set does not matter."""
        return []

    def resolve(self, subject: Unverified, *, is_deleted: bool) -> None:
        """Do nothing; see `unverified`."""

    def bind(self, served: ServedResource) -> None:
        """Take what discovery found."""
        self.source.served = served

    def stage(self, items: Iterable[Item]) -> None:
        """Collect namespaces of a sync."""
        self.source.stage(items)

    def unstage(self, items: Iterable[Item]) -> None:
        """Take namespaces out of the sync under way."""
        for item in items:
            self.source.unstage(item)

    def discard(self) -> None:
        """Forget the sync under way."""
        self.source.discard()

    def commit(self, read_at: float, resource_version: str = "") -> None:  # noqa: ARG002
        """End the sync: what was staged is what matches."""
        before = self.names if self.is_synced else None
        self.source.commit(resource_version)
        self._settle(before, resource_version)
        self._note_sync()

    def apply(
        self,
        deltas: list[Delta],
        read_at: float,  # noqa: ARG002
        resource_version: str = "",
    ) -> None:
        """Apply changes of the live stream."""
        before = self.names
        self.source.apply(deltas)
        self._settle(before, resource_version)

    def advance(self, resource_version: str) -> None:
        """Take that nothing changed up to `resource_version`."""
        self._note_position(resource_version)

    def purge(self, reason: LeftReason) -> None:
        """Keep what is known: that it may not be read any more empties no set."""

    def _settle(self, before: Collection[str] | None, resource_version: str) -> None:
        for subject in self.source.unverified:
            self.source.resolve(subject, is_deleted=False)
        if before is None or set(before) != set(self.names or ()):
            self._changed()
        # Last: who waits for it to be fresh finds the informers that follow from it.
        self._note_position(resource_version)

    def _note_position(self, resource_version: str) -> None:
        if self.is_synced:
            self.source.note_position(resource_version, 0)
        self.freshness.moved()

    # How it is doing

    def set_state(
        self,
        state: SourceState,
        reason: str,
        message: str,
        *,
        missing_verbs: tuple[str, ...] = (),
        next_attempt_seconds: float | None = None,
    ) -> None:
        """Set state and reason; tell everybody if it is news."""
        before = self.names is None
        self._told = _Told(state, reason, message, missing_verbs, next_attempt_seconds)
        self._publish(self._told)
        if before != (self.names is None):
            self._changed()

    def _publish(self, told: _Told) -> None:
        state, reason, message = told[:3]
        if self._crowding and state is SourceState.LIVE:
            state, reason, message = SourceState.STALE, "MAX_SOURCES", self._crowding
        super().set_state(
            state,
            reason,
            message,
            missing_verbs=told.missing_verbs,
            next_attempt_seconds=told.next_attempt_seconds,
        )


class ChosenScope:
    """One resource in the namespaces of one set, as it is told of. It holds no objects."""

    def __init__(self, choice: Choice, informer: NamespaceInformer, version: int) -> None:
        """`version` is the extension's count of status changes by which it is there."""
        self.choice = choice
        self.informer = informer
        self.source = SourceScope(choice.scope)
        self._first_version = version
        self._end: SourceStatus | None = None

    @property
    def spec(self) -> SourceSpec:
        """What is watched in each namespace, without one."""
        return self.choice.scope

    @property
    def key(self) -> Choice:
        """What it is known by in its extension."""
        return self.choice

    @property
    def status(self) -> SourceStatus:
        """How the set is doing, or that it is no longer asked for."""
        return self._end or self.informer.status

    @property
    def version(self) -> int:
        """The extension's count of status changes when this one changed last."""
        return max(self._first_version, self.status.version)

    def end(self, status: SourceStatus) -> None:
        """Take that it is no longer asked for."""
        self._end = status
