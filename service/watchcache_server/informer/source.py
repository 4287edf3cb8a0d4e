"""A source: the objects of one informer.

It applies what the informer reads and says what changed, by these rules:

- an object is known by namespace and name and identified by its uid: another uid under the same
  name is always the end of one object and the beginning of another;
- the same uid at the same resourceVersion is no change;
- a first sync and a relist are collected beside the live objects and swapped in at once, as a
  difference; nothing else ever empties a source but `purge`;
- a relist from before what was read so far means that the storage of the cluster was set back:
  nothing that was proven by its former future counts any more;
- where the API server selects, its DELETED does not prove a deletion: such an object stays until
  `resolve` says what became of it.

How its objects are found and compressed is up to `source_content`, which this adds and removes
them in. How objects pass from one source to another when a spec changes is up to `succession`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from watchcache_server.informer.entries import Entry, Table
from watchcache_server.informer.fields import DEFAULT_MOST_VALUES
from watchcache_server.informer.floors import Floors
from watchcache_server.informer.holding import Holding
from watchcache_server.informer.ledger import Ledger
from watchcache_server.informer.objects import Delta, Item, Remove
from watchcache_server.informer.source_content import SourceContent
from watchcache_server.informer.upstream import UpstreamVersions
from watchcache_server.informer.versions import Order, compare_versions
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import EventKind, LeftReason

__all__ = ["Effect", "Source", "Unverified"]

_MOST_DEAD: Final = 65_536

_Key = tuple[str, str]


class Effect(NamedTuple):
    """One visible change of a source: what the history will hold.

    `before` is what the change replaced or ended, None for ADDED.
    """

    kind: EventKind
    entry: Entry
    before: Entry | None = None
    left_reason: LeftReason | None = None
    final_state_unknown: bool = False


class Unverified(NamedTuple):
    """An object of which the stream said DELETED under a selector: ask for it by name."""

    namespace: str
    name: str
    uid: str


class _Doubt(NamedTuple):
    """An entry whose object may be gone, and whether changes of it may have gone unseen."""

    entry: Entry
    final_state_unknown: bool


class Source(SourceContent):
    """The objects of one informer; `number` is unique within the extension, and grows."""

    def __init__(
        self, number: int, spec: SourceSpec, *, most_index_values: int = DEFAULT_MOST_VALUES
    ) -> None:
        super().__init__(spec, most_index_values=most_index_values)
        self.number = number
        # A retiring source goes on until those that take its objects over have synced. It is never
        # called back: what it gave away does not return to it.
        self.is_retiring = False
        self.is_synced = False
        self.going_back_count = 0
        #: Whether the storage of its cluster was set back: who comes from before was told another
        #: past.
        self.was_set_back = False
        self._upstream = UpstreamVersions()
        # Objects of the sync under way that are passed over, unless the storage was set back.
        self._passed_over: dict[_Key, Item] = {}
        self._doubts: dict[_Key, _Doubt] = {}
        # Objects that are newer here than the stream, which will come to them.
        self._ahead: dict[_Key, Entry] = {}
        # Objects that were told as DELETED by another source, or since a GET found none, to which
        # the stream may have yet to come. The oldest are let go in time: it has passed them.
        self._dead: dict[str, None] = {}
        #: What lists have shown that the stream has yet to come to.
        self.floors = Floors()
        #: What happens while it is compared with its API server; None while it is not.
        self.ledger: Ledger | None = None

    # Upstream versions

    @property
    def position(self) -> str:
        """The upstream version that all this reflects; empty before the first sync."""
        return self._upstream.newest

    def note_position(self, version: str, revision: int) -> None:
        """Take that everything up to an upstream version was applied, by this revision."""
        if version:
            self.floors.move(self.position, version)
            # That objects have left their selector has yet to be told.
            self._upstream.note(version, revision, is_told=not self._doubts)

    def position_at(self, revision: int) -> str:
        """Return an upstream version up to which a reader at `revision` was told everything."""
        return self._upstream.at(revision)

    @property
    def certain_count(self) -> int:
        """How many objects are held, without those that have left a selector or are deleted."""
        return self.table.count - len(self._doubts)

    # The live stream

    def apply(self, deltas: Iterable[Delta], successors: Sequence[Source] = ()) -> list[Effect]:
        """Apply changes of the live stream, in order; return what became visible.

        Objects whose end has to be looked into are in `unverified` afterwards. What belongs to
        `successors` by now is left to them.
        """
        effects: list[Effect] = []
        for delta in deltas:
            item = delta.item
            if not self._keeps(item.namespace, item.name):
                continue
            live = self.table.get(item.namespace, item.name)
            if self.ledger is None:
                effects.extend(self._applied(delta, live, successors))
            else:
                count = self.certain_count
                effects.extend(self._applied(delta, live, successors))
                self.ledger.note(delta, live, self.certain_count - count)
        return effects

    def _applied(
        self, delta: Delta, live: Entry | None, successors: Sequence[Source]
    ) -> Iterable[Effect]:
        item = delta.item
        if isinstance(delta, Remove):
            self._dead.pop(item.uid, None)
            return () if live is None else self._remove(item, live)
        if item.uid in self._dead:
            return ()
        if live is not None:
            return self._replace(item, live, is_addition=delta.is_addition)
        is_elsewhere = self.floors.hide(item) or any(
            other.has_place(item.namespace, item.name) for other in successors
        )
        return () if is_elsewhere else (self._add(item),)

    def _add(self, item: Item) -> Effect:
        entry = self._entry(item)
        self._live.put(entry)
        return Effect(EventKind.ADDED, entry)

    def _replace(self, item: Item, live: Entry, *, is_addition: bool) -> Iterator[Effect]:
        key = (item.namespace, item.name)
        order = compare_versions(item.resource_version, live.resource_version)
        is_replay = order is Order.OLDER and (is_addition or key in self._ahead)
        if live.uid != item.uid:
            if not is_replay:
                yield self._drop(live, EventKind.DELETED, final_state_unknown=True)
                yield self._add(item)
            return
        self._doubts.pop(key, None)
        if is_replay:
            return
        self._ahead.pop(key, None)
        if order is Order.EQUAL:
            return
        if order is Order.OLDER:
            # The stream is the order, whatever the numbers say.
            self.going_back_count += 1
        entry = self._entry(item)
        self._live.put(entry)
        yield Effect(EventKind.MODIFIED, entry, live)

    def _remove(self, item: Item, live: Entry) -> Iterator[Effect]:
        if live.uid != item.uid:
            # The end of an object that came and went unseen; ours must have gone before it.
            order = compare_versions(live.resource_version, item.resource_version)
            if order is Order.OLDER:
                yield self._drop(live, EventKind.DELETED, final_state_unknown=True)
        elif self.spec.is_selecting:
            self._doubts[(item.namespace, item.name)] = _Doubt(live, final_state_unknown=False)
        else:
            yield self._drop(live, EventKind.DELETED, last=self._entry(item))

    def _drop(
        self,
        live: Entry,
        kind: EventKind,
        *,
        last: Entry | None = None,
        reason: LeftReason | None = None,
        final_state_unknown: bool = False,
    ) -> Effect:
        self.release(live)
        return Effect(kind, last or live, live, reason, final_state_unknown)

    # Objects whose end is not proven

    @property
    def unverified(self) -> list[Unverified]:
        """Objects that `resolve` has to be called for."""
        return [Unverified(*key, doubt.entry.uid) for key, doubt in self._doubts.items()]

    def resolve(self, subject: Unverified, *, is_deleted: bool) -> list[Effect]:
        """Say what became of an unverified object: deleted, or only no longer selected.

        Does nothing when the object has come back meanwhile, or another one in its place.
        """
        doubt = self._doubts.get((subject.namespace, subject.name))
        if doubt is None or doubt.entry.uid != subject.uid:
            return []
        if is_deleted:
            # The answer may be ahead of the stream.
            self.bury(doubt.entry)
        return [
            self._drop(
                doubt.entry,
                EventKind.DELETED if is_deleted else EventKind.LEFT,
                reason=None if is_deleted else LeftReason.SELECTION,
                final_state_unknown=doubt.final_state_unknown,
            )
        ]

    # Syncs

    def stage(self, items: Iterable[Item]) -> None:
        """Collect objects of a sync beside the live ones; what did not change is kept as it is."""
        if self._staged is None:
            self._staged = Holding()
        version = self.version
        for item in items:
            if not self._keeps(item.namespace, item.name):
                continue
            live = self.table.get(item.namespace, item.name)
            if item.uid in self._dead or (live is None and self.floors.hide(item)):
                self._passed_over[item.namespace, item.name] = item
                continue
            self._passed_over.pop((item.namespace, item.name), None)
            is_unchanged = (
                live is not None
                and live.uid == item.uid
                and live.resource_version == item.resource_version
                and live.version == version
            )
            self._staged.put(live if live is not None and is_unchanged else self._entry(item))

    def unstage(self, item: Item) -> None:
        """Take an object out of the sync under way: it was deleted before the sync ended."""
        self._passed_over.pop((item.namespace, item.name), None)
        if self._staged is not None:
            self._staged.pop(item.namespace, item.name)

    def discard(self) -> None:
        """Forget the sync under way."""
        self._staged = None
        self._passed_over.clear()

    def commit(
        self, resource_version: str = "", successors: Sequence[Source] = ()
    ) -> list[Effect] | None:
        """Swap in what was staged; return the difference, or None when this was the first sync.

        After a first sync every entry of the table is new. An empty sync is a sync.
        `resource_version` is that at which the objects were read. What belongs to `successors` by
        now is left to them.
        """
        staged = self._staged or Holding()
        if compare_versions(resource_version, self.position) is Order.OLDER:
            self._set_back(staged)
        self.discard()
        self._end_audit()
        if successors:
            self._leave(staged, successors)
        # What is newer than even this sync stays until the stream comes to it.
        self._ahead = {
            key: entry
            for key, entry in self._ahead.items()
            if compare_versions(resource_version, entry.resource_version) is Order.OLDER
        }
        for entry in self._ahead.values():
            staged.put(entry)
        effects = list(self._difference(staged.table)) if self.is_synced else None
        self._doubts = {
            key: doubt
            for key, doubt in self._doubts.items()
            if key in self._ahead or staged.table.get(*key) is None
        }
        for doubt in self._doubts.values():
            staged.put(doubt.entry)
        self._live = staged
        self.is_synced = True
        return effects

    def _set_back(self, staged: Holding) -> None:
        """Take back what only holds if the stream goes on from where it was: its past is another.

        What was deleted may be there again, under the same uid.
        """
        self.was_set_back = True
        for item in self._passed_over.values():
            staged.put(self._entry(item))
        self._ahead.clear()
        self._dead.clear()
        self.floors.clear()

    def _leave(self, staged: Holding, successors: Sequence[Source]) -> None:
        for entry in list(staged.table):
            place = (entry.namespace, entry.name)
            if self.table.get(*place) is None and any(o.has_place(*place) for o in successors):
                staged.pop(*place)

    def _difference(self, staged: Table) -> Iterator[Effect]:
        for live in self.table.missing_from(staged):
            if self.spec.is_selecting:
                doubt = _Doubt(live, final_state_unknown=True)
                self._doubts.setdefault((live.namespace, live.name), doubt)
            else:
                yield Effect(EventKind.DELETED, live, live, final_state_unknown=True)
        for entry, before in staged.unlike(self.table):
            if before is None:
                yield Effect(EventKind.ADDED, entry)
            elif before.uid != entry.uid:
                yield Effect(EventKind.DELETED, before, before, final_state_unknown=True)
                yield Effect(EventKind.ADDED, entry)
            elif before.is_same_form(entry):
                # The stream brought it after it was staged.
                entry.revision, entry.first_revision = before.revision, before.first_revision
            else:
                yield Effect(EventKind.MODIFIED, entry, before)

    def purge(self, reason: LeftReason) -> list[Effect]:
        """Drop every object and what was learned from them; the source is unsynced again."""
        effects = [
            Effect(EventKind.LEFT, entry, entry, reason) for entry in self.table.after("", "")
        ]
        self.forget()
        return effects

    def forget(self) -> None:
        """Let go of every object and of what was learned from them, without a word."""
        self._end_audit()
        self._let_go_of_all()
        self.discard()
        self._doubts.clear()
        self._ahead.clear()
        self._dead.clear()
        self._upstream.clear()
        self.floors.clear()
        self.is_synced = False

    # Succession

    def has_place(self, namespace: str, name: str) -> bool:
        """Tell whether it is this source that says whether such an object exists."""
        return self.is_synced and (
            self.covers(namespace, name) or self.table.get(namespace, name) is not None
        )

    def release(self, entry: Entry) -> None:
        """Let go of an entry without a word."""
        key = (entry.namespace, entry.name)
        if self.ledger is not None:
            self.ledger.touch(*key)
        self._live.pop(*key)
        self._doubts.pop(key, None)
        self._ahead.pop(key, None)

    def bury(self, entry: Entry) -> None:
        """Take that this object is told as DELETED ahead of the stream: it never comes back."""
        self._dead[entry.uid] = None
        if len(self._dead) > _MOST_DEAD:
            del self._dead[next(iter(self._dead))]
        if self._staged is not None:
            staged = self._staged.table.get(entry.namespace, entry.name)
            if staged is not None and staged.uid == entry.uid:
                self._staged.pop(entry.namespace, entry.name)

    def run_ahead(self, entry: Entry) -> None:
        """Hold the entry of another source, which is newer than what this one has read so far.

        Under a selector it may be one that this source will never read.
        """
        self._end_audit()
        own = msgspec.structs.replace(entry, fields=self._fields_of(entry.body()))
        own.recode(self._training.codec)
        self._live.put(own)
        key = (own.namespace, own.name)
        self._ahead[key] = own
        if self.spec.is_selecting:
            self._doubts[key] = _Doubt(own, final_state_unknown=True)

    def _end_audit(self) -> None:
        if self.ledger is not None:
            self.ledger.void()
