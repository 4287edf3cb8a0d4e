"""The side of an extension that one informer writes to: its source, and how it is doing.

It is called by the informer's task only, and waits for nothing. What it hears goes to the source,
to the status, and to whoever has to act on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from watchcache_server.extensions.observed import Observed
from watchcache_server.extensions.recent_past import RecentPast
from watchcache_server.informer.objects import Delta, Item
from watchcache_server.informer.source import Source, Unverified
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import LeftReason

if TYPE_CHECKING:
    from watchcache_server.extensions.extension import Extension

__all__ = ["Informer"]


class Informer(Observed):
    """One informer of an extension."""

    def __init__(self, extension: Extension, source: Source) -> None:
        super().__init__(extension, source)
        #: What ended before it began; None before it was started first.
        self.past: RecentPast | None = None

    @property
    def key(self) -> SourceSpec:
        """What it is known by in its extension."""
        return self.spec

    @property
    def version(self) -> int:
        """The extension's count of status changes when this one changed last."""
        return self.status.version

    # What the informer reads

    def unverified(self) -> list[Unverified]:
        """Return the objects that left a selector and may be deleted."""
        return self.source.unverified

    def bind(self, served: ServedResource) -> str | None:
        """Take what discovery found; return why it cannot be watched here, if so."""
        known = self.source.served
        if known is not None and known.resource != served.resource:
            self._begin_with_another_source()
        other = self.extension.store.bind(self.source, served)
        if other is None:
            self.extension.bound(self.source)
            return None
        return (
            f"{served.name} is watched by another entry of the spec already, named as "
            f"{other.spec.type_name}; remove one of the two"
        )

    def _begin_with_another_source(self) -> None:
        """Let the objects go whose plural name, which is part of their keys, the kind has lost.

        Whoever is still to be told something of them is told it under that name.
        """
        store, before = self.extension.store, self.source
        self.source = store.add_source(before.spec)
        self.source.is_retiring = before.is_retiring
        self.freshness.follow(self.source)
        store.remove_source(before, LeftReason.KIND_GONE, self._clock.now())
        self.extension.pulse.touch()

    def stage(self, items: Iterable[Item]) -> None:
        """Collect objects of a sync."""
        self.source.stage(items)
        self._consider_training()

    def unstage(self, items: Iterable[Item]) -> None:
        """Take objects out of the sync under way."""
        for item in items:
            self.source.unstage(item)

    def discard(self) -> None:
        """Forget the sync under way."""
        self.source.discard()

    def commit(self, read_at: float, resource_version: str = "") -> None:
        """End the sync: what was staged is what there is, as of `resource_version`."""
        self.extension.store.commit(self.source, read_at, resource_version)
        self._note_position(resource_version)
        self._note_sync()
        self.extension.pulse.touch()

    def apply(self, deltas: list[Delta], read_at: float, resource_version: str = "") -> None:
        """Apply changes of the live stream, which are all up to `resource_version`."""
        store = self.extension.store
        before = store.revision
        store.apply(self.source, deltas, read_at)
        self._note_position(resource_version)
        if store.revision != before:
            self.extension.pulse.touch()
            self._consider_training()

    def advance(self, resource_version: str) -> None:
        """Take that nothing changed up to `resource_version`."""
        self._note_position(resource_version)

    def _note_position(self, resource_version: str) -> None:
        self.extension.store.note_position(self.source, resource_version)
        self.freshness.moved()

    def _consider_training(self) -> None:
        if self.source.is_training_due:
            self.extension.training_due(self)

    def resolve(self, subject: Unverified, *, is_deleted: bool) -> None:
        """Say what became of an object that left an upstream selector."""
        store = self.extension.store
        store.resolve(self.source, subject, self._clock.now(), is_deleted=is_deleted)
        self.freshness.moved()
        self.extension.pulse.touch()

    def purge(self, reason: LeftReason) -> None:
        """Drop all objects."""
        self.extension.store.purge(self.source, reason, self._clock.now())
        if reason is LeftReason.RIGHTS_REVOKED:
            self.extension.rights_revoked()
        self.extension.pulse.touch()
