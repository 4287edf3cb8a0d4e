"""A simulated API server and informers that read it late, for tests of what subscribers are told.

It keeps the whole past of one resource, so it knows of every uid whether it is deleted. An informer
follows it from a position of its own, is told DELETED when an object ceases to match its selector,
and can be made to list anew at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from tests.items import item
from tests.unit.model.selector_oracle import selects
from watchcache_server.informer.entries import flat_labels
from watchcache_server.informer.objects import Delta, Item, Remove, Upsert
from watchcache_server.informer.source import Source, Unverified
from watchcache_server.informer.store import Store
from watchcache_server.informer.texts import Texts
from watchcache_server.model.selectors import LabelSelector
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import LeftReason

__all__ = ["Cluster", "SimulatedInformer"]

_Key = tuple[str, str]


@dataclass
class Cluster:
    """One resource of one API server. Its first change gives the resourceVersion 1."""

    name: str
    changes: list[tuple[Item | None, Item | None]] = field(default_factory=list)
    now: dict[_Key, Item] = field(default_factory=dict)
    uid_count: int = 0

    def put(self, namespace: str, name: str, labels: dict[str, str]) -> None:
        """Create an object, or change its labels."""
        before = self.now.get((namespace, name))
        if before is None:
            self.uid_count += 1
        uid = before.uid if before is not None else f"{self.name}-{self.uid_count}"
        self._change(
            before,
            item(name, namespace=namespace, uid=uid, version=self._next_version, labels=labels),
        )

    def delete(self, namespace: str, name: str) -> None:
        """Delete an object, if there is one."""
        before = self.now.get((namespace, name))
        if before is not None:
            self._change(before, None)

    def is_deleted(self, uid: str) -> bool:
        """Tell whether no object has this uid."""
        return all(thing.uid != uid for thing in self.now.values())

    def at(self, position: int) -> dict[_Key, Item]:
        """Return the objects as they were after so many changes."""
        found: dict[_Key, Item] = {}
        for before, after in self.changes[:position]:
            if before is not None:
                del found[before.namespace, before.name]
            if after is not None:
                found[after.namespace, after.name] = after
        return found

    @property
    def _next_version(self) -> str:
        return str(len(self.changes) + 1)

    def _change(self, before: Item | None, after: Item | None) -> None:
        self.changes.append((before, after))
        if before is not None:
            del self.now[before.namespace, before.name]
        if after is not None:
            self.now[after.namespace, after.name] = after


class SimulatedInformer:
    """Feeds one source from a cluster, the way the reflector and its runner do."""

    def __init__(self, cluster: Cluster, store: Store, spec: SourceSpec) -> None:
        self.cluster = cluster
        self.store = store
        self.source: Source = store.add_source(spec)
        # A first list is a consistent read, so it is never older than the moment of its request.
        self.position = len(cluster.changes)
        self._listed: int | None = None
        self._answers: list[tuple[Unverified, bool]] = []
        self._selector = LabelSelector.parse(spec.label_selector)

    def selects(self, thing: Item | None) -> bool:
        """Tell whether the server would show an object to this informer."""
        return (
            thing is not None
            and self.source.spec.namespace in ("", thing.namespace)
            and selects(self._selector, flat_labels(thing.labels, Texts()))
        )

    def _form(self, thing: Item) -> Item:
        """Write an object as the projection of the source has it."""
        projection = self.source.spec.projection.encode()
        return msgspec.structs.replace(thing, body=b"%b of %b" % (projection, thing.body))

    @property
    def is_waiting(self) -> bool:
        """Whether answers have not come yet."""
        return bool(self._answers)

    @property
    def is_listing(self) -> bool:
        """Whether a sync is under way."""
        return self._listed is not None

    def list(self, lag: int) -> None:
        """Read the objects as they were up to `lag` changes ago, but never older than was seen."""
        self._listed = max(self.position, len(self.cluster.changes) - lag)
        found = self.cluster.at(self._listed).values()
        self.source.discard()
        self.source.stage(self._form(thing) for thing in found if self.selects(thing))

    def commit(self) -> None:
        """End the sync."""
        if self._listed is not None:
            self.position, self._listed = self._listed, None
            self.store.commit(self.source, 0.0, str(self.position))
            self.store.note_position(self.source, str(self.position))

    def follow(self, limit: int, replayed: int = 0) -> None:
        """Read up to `limit` changes, after replayed additions of what is still there."""
        if self.is_listing or not self.source.is_synced:
            return
        held = self.cluster.at(self.position)
        deltas: list[Delta] = []
        for before, after in self.cluster.changes[max(0, self.position - replayed) : self.position]:
            if before is None and after is not None and self.selects(after):
                now = held.get((after.namespace, after.name))
                if now is not None and now.uid == after.uid and self.selects(now):
                    deltas.append(Upsert(self._form(after), is_addition=True))
        for before, after in self.cluster.changes[self.position : self.position + limit]:
            self.position += 1
            if after is not None and self.selects(after):
                deltas.append(Upsert(self._form(after), is_addition=not self.selects(before)))
            elif before is not None and self.selects(before):
                # The last content, at the version of its end.
                version = str(self.position)
                last = msgspec.structs.replace(self._form(before), resource_version=version)
                deltas.append(Remove(last))
        self.store.apply(self.source, deltas, 0.0)
        self.store.note_position(self.source, str(self.position))

    def ended(self, since: int) -> Iterator[tuple[Item, bool]]:
        """Yield what ended between a position and the present one, and whether it was deleted."""
        for before, after in self.cluster.changes[since : self.position]:
            if before is not None and self.selects(before) and not self.selects(after):
                yield before, self.cluster.is_deleted(before.uid)

    def ask(self) -> None:
        """Ask the API server what became of the unverified objects; the answers come later."""
        for subject in self.source.unverified:
            self._answers.append((subject, self.cluster.is_deleted(subject.uid)))

    def answer(self) -> bool:
        """Receive the oldest answer, if one is left."""
        if not self._answers:
            return False
        subject, is_deleted = self._answers.pop(0)
        self.store.resolve(self.source, subject, 0.0, is_deleted=is_deleted)
        return True

    def purge(self, reason: LeftReason) -> None:
        """Lose the right, or the kind."""
        self.store.purge(self.source, reason, 0.0)
        self._listed = None
