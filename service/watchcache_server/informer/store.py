"""The store of one extension: its sources, one revision for all of them, and the history.

Everything that changes a source goes through here, so that each visible change gets the next
revision, in the one order that all subscribers see. Nothing here waits: a change is applied and
recorded in one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from watchcache_server.informer.compaction import Compaction, Remaining, is_latest
from watchcache_server.informer.entries import Entry
from watchcache_server.informer.fields import DEFAULT_MOST_VALUES
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.history import Change, History
from watchcache_server.informer.interest import Interest
from watchcache_server.informer.objects import Delta
from watchcache_server.informer.source import Effect, Source, Unverified
from watchcache_server.informer.succession import pass_on, take_over
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import EventKind, LeftReason

__all__ = ["Found", "Position", "Store"]

# What a change takes beside the body of its object.
_CHANGE_BYTES = 200


class Found(NamedTuple):
    """An object and the source that holds it."""

    source: Source
    entry: Entry


class Position(NamedTuple):
    """A place in the order of a list: behind this object of this source, given by its order key."""

    source: tuple[str, ...]
    namespace: str
    name: str


def _order(source: Source) -> tuple[str, ...]:
    spec = source.spec
    return (
        source.group,
        source.resource or source.kind,
        spec.cluster,
        source.namespace,
        spec.label_selector,
        spec.field_selector,
        spec.version,
        spec.projection,
        # While a source retires, its successor may differ in nothing else.
        f"{source.number:020d}",
    )


def _reindexed(source: Source, predecessors: Iterable[Source]) -> frozenset[str]:
    """Return the index paths that a source or one of its predecessors has, and not the other."""
    own = frozenset(source.spec.indexes)
    return frozenset().union(*(own.symmetric_difference(p.spec.indexes) for p in predecessors))


class Store:
    """All objects of an extension. `epoch` tells it from every other store there ever was."""

    def __init__(
        self,
        epoch: bytes,
        *,
        max_changes: int,
        max_history_bytes: int,
        max_ends: int = 65_536,
        most_index_values: int = DEFAULT_MOST_VALUES,
    ) -> None:
        self.epoch = epoch
        self.revision = 0
        self.interest = Interest()
        self.compaction = Compaction(max_ends=max_ends)
        self.history = History(
            max_changes=max_changes, max_bytes=max_history_bytes, dropped=self.compaction.add
        )
        self._sources: dict[int, Source] = {}
        self._most_index_values = most_index_values
        self._next_number = 1
        # The revision by which the last source was removed.
        self._removal_revision = 0

    # Sources

    def add_source(self, spec: SourceSpec) -> Source:
        """Add an empty source."""
        source = Source(self._next_number, spec, most_index_values=self._most_index_values)
        self._next_number += 1
        self._sources[source.number] = source
        return source

    def remove_source(self, source: Source, reason: LeftReason, read_at: float) -> None:
        """Remove a source; each of its objects has LEFT for `reason`."""
        self.purge(source, reason, read_at)
        del self._sources[source.number]
        self._removal_revision = self.revision

    def drop(self) -> None:
        """Let go of everything: the extension has ended.

        Whoever still has a source in hand, such as a task that is being cancelled, keeps no object
        alive by it.
        """
        for source in self._sources.values():
            source.forget()
        self._sources.clear()
        self._forget()

    def source(self, number: int) -> Source | None:
        """Return a source by number; None when it was removed."""
        return self._sources.get(number)

    def sources(self, wanted: Filter | None = None) -> list[Source]:
        """Return the sources, or those that pass a filter, in the order of lists."""
        found = (s for s in self._sources.values() if wanted is None or wanted.passes_source(s))
        return sorted(found, key=_order)

    def bind(self, source: Source, served: ServedResource) -> Source | None:
        """Set what discovery found for a source.

        Returns, instead of setting it, another source that already holds the same objects: two
        specs named one resource in two ways.
        """
        before, source.served = source.served, served
        for other in self._sources.values():
            if (
                other is not source
                and other.served is not None
                and not (source.is_retiring or other.is_retiring)
                and other.may_share_objects(source)
            ):
                source.served = before
                return other
        return None

    # Changes

    def apply(self, source: Source, deltas: Iterable[Delta], read_at: float) -> None:
        """Apply changes of a live stream."""
        successors = self._successors(source)
        predecessors = self.predecessors(source)
        # One by one where a predecessor may know the object: what a change is depends on that.
        for part in ([delta] for delta in deltas) if predecessors else (deltas,):
            self._record(source, source.apply(part, successors), predecessors, read_at)

    def commit(self, source: Source, read_at: float, resource_version: str = "") -> None:
        """End a sync that read the objects as they were at `resource_version`.

        After a first one, objects of retiring sources pass over to this one. A source that retires
        before its first one has none any more: its successors have begun to stand in.
        """
        if source.is_retiring and not source.is_synced:
            source.discard()
            return
        effects = source.commit(resource_version, self._successors(source))
        predecessors = self.predecessors(source)
        if effects is not None:
            self._record(source, effects, predecessors, read_at)
        elif any(predecessor.table.count for predecessor in predecessors):
            self._mark(source, EventKind.MODIFIED, read_at, _reindexed(source, predecessors))
            self._append(source, take_over(source, predecessors, resource_version), read_at)
        elif source.table.count:
            self._mark(source, EventKind.ADDED, read_at)
            for entry in source.table:
                entry.revision = entry.first_revision = self.revision

    def note_position(self, source: Source, version: str) -> None:
        """Take that a source reflects everything up to an upstream version."""
        if source.is_synced:
            source.note_position(version, self.revision)

    def positions(self, wanted: Filter, revision: int) -> dict[bytes, str] | None:
        """Return the upstream versions that a reader at `revision` was told everything up to.

        By the identities of the sources. None when they would not say all: a source hands over, or
        lost its objects or was removed after that revision.
        """
        if revision < self._removal_revision:
            return None
        found: dict[bytes, str] = {}
        for source in self._sources.values():
            if not wanted.passes_source(source):
                continue
            version = source.position_at(revision)
            is_known = bool(version) if source.is_synced else self.revision == revision
            if source.is_retiring or not is_known:
                return None
            if version:
                found[source.identity] = version
        return found

    def resolve(
        self, source: Source, subject: Unverified, read_at: float, *, is_deleted: bool
    ) -> None:
        """Say what became of an unverified object."""
        self._append(source, source.resolve(subject, is_deleted=is_deleted), read_at)

    def purge(self, source: Source, reason: LeftReason, read_at: float) -> None:
        """Drop all objects of a source.

        After a right was revoked nothing that was read with it is sent any more: the history goes
        too, who is behind begins anew, and the others are told of the objects without their bodies.
        """
        effects = source.purge(reason)
        if reason is LeftReason.RIGHTS_REVOKED:
            self._forget()
            effects = [each._replace(entry=each.entry.without_body()) for each in effects]
        self._append(source, effects, read_at)

    def _forget(self) -> None:
        self.history.forget()
        self.compaction.forget(self.revision)
        self.interest.changed_generally(self.revision)

    def predecessors(self, source: Source) -> list[Source]:
        """Return the retiring sources whose objects this one takes over."""
        return [
            other
            for other in self._sources.values()
            if other.is_retiring
            and other.number < source.number
            and other.may_share_objects(source)
        ]

    def _successors(self, source: Source) -> list[Source]:
        """Return the sources that take over the objects of this one, if it retires."""
        return [
            other
            for other in (self._sources.values() if source.is_retiring else ())
            if other.number > source.number and other.may_share_objects(source)
        ]

    def _record(
        self, source: Source, effects: list[Effect], predecessors: list[Source], read_at: float
    ) -> None:
        """Record what was read from the API server, of which a predecessor may know already."""
        told, has_moved = pass_on(source, predecessors, effects)
        if has_moved:
            self._mark(source, EventKind.MODIFIED, read_at, _reindexed(source, predecessors))
        self._append(source, told, read_at)

    def _mark(
        self,
        source: Source,
        kind: EventKind,
        read_at: float,
        reindexed: frozenset[str] = frozenset(),
    ) -> None:
        """Record something about a whole source: see `Change`."""
        self.revision += 1
        self.interest.changed_generally(self.revision)
        self.history.append(
            Change(
                self.revision,
                kind,
                source,
                None,
                (),
                None,
                False,
                read_at,
                _CHANGE_BYTES,
                reindexed=reindexed,
            )
        )

    def _companions(self, source: Source) -> list[Source]:
        """Return the sources that read the same objects while one of the two retires."""
        return [
            other
            for other in self._sources.values()
            if other is not source
            and (other.is_retiring or source.is_retiring)
            and other.may_share_objects(source)
        ]

    def _append(self, source: Source, effects: Iterable[Effect], read_at: float) -> None:
        companions: list[Source] | None = None
        for effect in effects:
            if effect.kind is EventKind.DELETED:
                companions = self._companions(source) if companions is None else companions
                for companion in companions:
                    companion.bury(effect.entry)
            self.revision += 1
            entry, before = effect.entry, effect.before
            entry.revision = self.revision
            entry.first_revision = self.revision if before is None else before.first_revision
            labels_before = () if before is None else before.labels
            self.interest.changed(
                entry.namespace, labels_before, entry.labels, revision=self.revision
            )
            self.history.append(
                Change(
                    self.revision,
                    effect.kind,
                    source,
                    entry,
                    labels_before,
                    effect.left_reason,
                    effect.final_state_unknown,
                    read_at,
                    _CHANGE_BYTES + len(entry.stored),
                    () if before is None else before.fields,
                )
            )

    # Reads

    def covers(self, revision: int) -> bool:
        """Tell whether who was told everything up to `revision` can go on from there."""
        return self.compaction.floor <= revision <= self.revision

    def concerns(self, wanted: Filter, revision: int) -> bool:
        """Tell whether anything after a revision may concern a reader with this filter."""
        return revision > self.revision or self.interest.concerns(wanted.topics, revision)

    def latest_since(self, revision: int) -> Iterator[Remaining]:
        """Yield the latest change of each object that changed after a covered revision.

        Void ones are yielded as None. The store may not change meanwhile.
        """
        if not self.history.covers(revision):
            yield from self.compaction.since(revision)
            revision = self.history.first_revision - 1
        for change in self.history.since(revision):
            is_void = change.entry is not None and not is_latest(change)
            yield Remaining(change.revision, None if is_void else change)

    def find(
        self, cluster: str, group: str, resource: str, namespace: str, name: str
    ) -> tuple[list[Source], Found | None]:
        """Look an object up; also return the sources that could hold it."""
        candidates = [
            source
            for source in self._sources.values()
            if source.spec.cluster == cluster
            and source.group == group
            and source.resource == resource
            and source.namespace in ("", namespace)
        ]
        for source in candidates:
            entry = source.table.get(namespace, name)
            if entry is not None:
                return candidates, Found(source, entry)
        return candidates, None

    def objects(self, wanted: Filter, after: Position | None = None) -> Iterator[Found]:
        """Yield the objects that pass, in the order of lists, behind a position.

        The store may not change meanwhile.
        """
        for found in self.candidates(wanted, after):
            entry = found.entry
            if wanted.passes(entry.namespace, entry.labels, entry.fields):
                yield found

    def candidates(self, wanted: Filter, after: Position | None = None) -> Iterator[Found]:
        """Yield at least those, and not many more where an index tells them."""
        for source in self.sources(wanted):
            order = _order(source)
            if after is not None and order < after.source:
                continue
            start = ("", "")
            if after is not None and order == after.source:
                start = (after.namespace, after.name)
            for entry in source.candidates(wanted.field_groups, *start):
                if wanted.passes_namespace(entry.namespace):
                    yield Found(source, entry)

    def owned(
        self, wanted: Filter, owner_uid: str, after: Position | None = None
    ) -> Iterator[Found]:
        """Yield the objects that pass and name this owner, in that order, behind a position."""
        for source in self.sources(wanted):
            order = _order(source)
            for entry in source.owners.owned_by(owner_uid):
                place = Position(order, entry.namespace, entry.name)
                if (after is None or place > after) and wanted.passes(
                    entry.namespace, entry.labels, entry.fields
                ):
                    yield Found(source, entry)

    def position(self, found: Found) -> Position:
        """Return the place of an object in the order of lists."""
        return Position(_order(found.source), found.entry.namespace, found.entry.name)

    @property
    def object_count(self) -> int:
        """Number of objects held."""
        return sum(source.table.count for source in self._sources.values())
