"""A source: the objects of one informer.

It applies what the informer reads and says what changed, by these rules:

- an object is known by namespace and name and identified by its uid: another uid under the same name is
  always the end of one object and the beginning of another;
- the same uid at the same resourceVersion is no change;
- a first sync and a relist are collected beside the live objects and swapped in at once, as a
  difference; nothing else ever empties a source but `purge`;
- where the API server selects, its DELETED does not prove a deletion: such an object stays until
  `resolve` says what became of it.

A source compresses bodies with a codec of its own and knows when a better one is worth training.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from watchcache_server.informer.compression import PLAIN, Codec
from watchcache_server.informer.entries import Entry, OwnerIndex, Table
from watchcache_server.informer.objects import Delta, Item, Remove
from watchcache_server.informer.versions import Order, compare_versions
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.selectors import Labels
from watchcache_server.model.specs import SourceSpec, overlap
from watchcache_server.model.states import EventKind, LeftReason

__all__ = ["Effect", "Source", "Unverified"]

# A dictionary is worth training from so many objects on,
_FIRST_TRAINING = 256
# again when the objects have become so many times more,
_GROWTH = 8
# and when the recent objects compress so much worse than those it was trained on.
_WORSE = 0.6
_RECENT = 2048
_SAMPLES = 256
_SAMPLE_BYTES = 8 * 1024 * 1024


class Effect(NamedTuple):
    """One visible change of a source: what the history will hold."""

    kind: EventKind
    entry: Entry
    labels_before: Labels = ()
    left_reason: LeftReason | None = None
    final_state_unknown: bool = False


class Unverified(NamedTuple):
    """An object of which the stream said DELETED under a selector: ask for it by name."""

    namespace: str
    name: str
    uid: str


class _Staging:
    """The objects of a sync under way."""

    __slots__ = ("changed", "owners", "raw_bytes", "stored_bytes", "table")

    def __init__(self) -> None:
        self.table = Table()
        self.owners = OwnerIndex()
        self.changed: dict[tuple[str, str], Entry] = {}
        self.raw_bytes = 0
        self.stored_bytes = 0


class Source:
    """The objects of one informer; `number` is unique within the extension."""

    def __init__(self, number: int, spec: SourceSpec) -> None:
        self.number = number
        self.spec = spec
        # A retiring source goes on until those that take its objects over have synced.
        self.is_retiring = False
        self.served: ServedResource | None = None
        self.is_synced = False
        self.table = Table()
        self.owners = OwnerIndex()
        self.raw_bytes = 0
        self.stored_bytes = 0
        self._staging: _Staging | None = None
        self._version = ""
        self._names = frozenset(spec.names)
        self._unverified: dict[tuple[str, str], bool] = {}
        self._codec = PLAIN
        self._is_training = False
        self._trained_count = 0
        self._trained_ratio = 1.0
        self._recent_raw = 0
        self._recent_stored = 0
        self._recent_count = 0
        self.going_back_count = 0

    # Identity

    @property
    def group(self) -> str:
        """API group."""
        return self.spec.group

    @property
    def resource(self) -> str:
        """Plural name; empty while only the kind is known."""
        return self.served.resource if self.served else self.spec.resource

    @property
    def namespace(self) -> str:
        """Namespace of the scope; empty for the whole cluster."""
        if self.spec.is_scope_open and self.served is not None and not self.served.is_namespaced:
            return ""
        return self.spec.namespace

    @property
    def version(self) -> str:
        """API version of the bodies."""
        return self.served.version if self.served else self.spec.version

    @property
    def kind(self) -> str:
        """Kind; empty while only the plural name is known."""
        return self.served.kind if self.served else self.spec.kind

    @property
    def is_secret(self) -> bool:
        """Whether the objects are Secrets, which never share a dictionary."""
        return self.group == "" and (self.resource == "secrets" or self.kind == "Secret")

    @property
    def dictionary(self) -> bytes:
        """The dictionary that new bodies are compressed with; empty when there is none."""
        return self._codec.dictionary

    # The live stream

    def apply(self, deltas: Iterable[Delta]) -> list[Effect]:
        """Apply changes of the live stream, in order; return what became visible.

        Objects whose end has to be looked into are in `unverified` afterwards.
        """
        effects: list[Effect] = []
        for delta in deltas:
            item = delta.item
            if self._names and (item.namespace, item.name) not in self._names:
                continue
            if isinstance(delta, Remove):
                effects.extend(self._remove(item))
            else:
                effects.extend(self._upsert(item, is_addition=delta.is_addition))
        return effects

    def _upsert(self, item: Item, *, is_addition: bool) -> Iterator[Effect]:
        live = self.table.get(item.namespace, item.name)
        if live is not None and live.uid == item.uid:
            self._unverified.pop((item.namespace, item.name), None)
            order = compare_versions(item.resource_version, live.resource_version)
            if order is Order.EQUAL or (order is Order.OLDER and is_addition):
                return
            if order is Order.OLDER:
                # The stream is the order, whatever the numbers say.
                self.going_back_count += 1
            entry = self._entry(item)
            self._set(entry)
            yield Effect(EventKind.MODIFIED, entry, live.labels)
            return
        if live is not None:
            yield self._drop(live, EventKind.DELETED, final_state_unknown=True)
        entry = self._entry(item)
        self._set(entry)
        yield Effect(EventKind.ADDED, entry)

    def _remove(self, item: Item) -> Iterator[Effect]:
        live = self.table.get(item.namespace, item.name)
        if live is None:
            return
        if live.uid != item.uid:
            # The end of an object that came and went unseen; ours must have gone before it.
            order = compare_versions(live.resource_version, item.resource_version)
            if order is Order.OLDER:
                yield self._drop(live, EventKind.DELETED, final_state_unknown=True)
            return
        if self.spec.is_selecting:
            self._unverified[(item.namespace, item.name)] = False
            return
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
        self.table.pop(live.namespace, live.name)
        self.owners.discard(live)
        self.raw_bytes -= live.raw_size
        self.stored_bytes -= len(live.stored)
        self._unverified.pop((live.namespace, live.name), None)
        return Effect(kind, last or live, live.labels, reason, final_state_unknown)

    def _set(self, entry: Entry) -> None:
        before = self.table.put(entry)
        if before is not None:
            self.owners.discard(before)
            self.raw_bytes -= before.raw_size
            self.stored_bytes -= len(before.stored)
        self.owners.add(entry)
        self.raw_bytes += entry.raw_size
        self.stored_bytes += len(entry.stored)

    def _entry(self, item: Item) -> Entry:
        entry = Entry.of(item, self._codec)
        self._recent_raw += entry.raw_size
        self._recent_stored += len(entry.stored)
        self._recent_count += 1
        if self._recent_count > 2 * _RECENT:
            self._recent_raw //= 2
            self._recent_stored //= 2
            self._recent_count //= 2
        return entry

    # Objects whose end is not proven

    @property
    def unverified(self) -> list[Unverified]:
        """Objects that `resolve` has to be called for."""
        found = []
        for namespace, name in self._unverified:
            live = self.table.get(namespace, name)
            if live is not None:
                found.append(Unverified(namespace, name, live.uid))
        return found

    def resolve(self, subject: Unverified, *, is_deleted: bool) -> list[Effect]:
        """Say what became of an unverified object: deleted, or only no longer selected.

        Does nothing when the object has come back meanwhile.
        """
        unknown = self._unverified.pop((subject.namespace, subject.name), None)
        live = self.table.get(subject.namespace, subject.name)
        if unknown is None or live is None or live.uid != subject.uid:
            return []
        if is_deleted:
            return [self._drop(live, EventKind.DELETED, final_state_unknown=unknown)]
        return [
            self._drop(
                live, EventKind.LEFT, reason=LeftReason.SELECTION, final_state_unknown=unknown
            )
        ]

    # Syncs

    def stage(self, items: Iterable[Item]) -> None:
        """Collect objects of a sync beside the live ones. An object that did not change is kept as it is."""
        staging = self._staging
        if staging is None:
            staging = self._staging = _Staging()
        is_same_version = self._version == self.version
        for item in items:
            key = (item.namespace, item.name)
            if self._names and key not in self._names:
                continue
            live = self.table.get(item.namespace, item.name)
            if (
                live is not None
                and live.uid == item.uid
                and live.resource_version == item.resource_version
                and is_same_version
            ):
                entry = live
                staging.changed.pop(key, None)
            else:
                entry = self._entry(item)
                if self.is_synced:
                    staging.changed[key] = entry
            before = staging.table.put(entry)
            if before is not None:
                staging.owners.discard(before)
                staging.raw_bytes -= before.raw_size
                staging.stored_bytes -= len(before.stored)
            staging.owners.add(entry)
            staging.raw_bytes += entry.raw_size
            staging.stored_bytes += len(entry.stored)

    def unstage(self, item: Item) -> None:
        """Take an object out of the sync under way: it was deleted before the sync ended."""
        staging = self._staging
        entry = None if staging is None else staging.table.pop(item.namespace, item.name)
        if staging is None or entry is None:
            return
        staging.changed.pop((item.namespace, item.name), None)
        staging.owners.discard(entry)
        staging.raw_bytes -= entry.raw_size
        staging.stored_bytes -= len(entry.stored)

    def discard(self) -> None:
        """Forget the sync under way."""
        self._staging = None

    def may_share_objects(self, other: Source) -> bool:
        """Tell whether both could hold the same object, as far as is known of their types."""
        return (
            self.spec.cluster == other.spec.cluster
            and self.group == other.group
            and (
                (self.resource == other.resource and self.resource != "")
                or (self.kind == other.kind and self.kind != "")
            )
            and overlap(self.spec, other.spec)
        )

    def covers(self, entry: Entry) -> bool:
        """Tell whether this source would hold the object if it existed, whatever its labels."""
        return (
            not self.spec.is_selecting
            and self.namespace in ("", entry.namespace)
            and self.spec.pinned_name in ("", entry.name)
            and (not self._names or (entry.namespace, entry.name) in self._names)
        )

    def take_over(self, predecessors: Iterable[Source]) -> list[Effect]:
        """Take objects over from retiring sources after the first sync; return the difference.

        What they held and this source does not is gone if this source covers it.
        """
        olds = {
            (old.namespace, old.name): (source, old)
            for source in predecessors
            for old in source.table
        }
        effects: list[Effect] = []
        for entry in self.table.after("", ""):
            source, old = olds.pop((entry.namespace, entry.name), (None, None))
            if source is None or old is None:
                effects.append(Effect(EventKind.ADDED, entry))
                continue
            source.release(old)
            if old.uid != entry.uid:
                effects.append(Effect(EventKind.DELETED, old, old.labels, None, True))
                effects.append(Effect(EventKind.ADDED, entry))
            elif (
                old.resource_version != entry.resource_version
                or source.version != self.version
                or source.spec.projection != self.spec.projection
            ):
                effects.append(Effect(EventKind.MODIFIED, entry, old.labels))
            else:
                entry.revision = old.revision
        for source, old in olds.values():
            if self.covers(old):
                source.release(old)
                effects.append(Effect(EventKind.DELETED, old, old.labels, None, True))
        return effects

    def release(self, entry: Entry) -> None:
        """Let go of an entry without a word: another source has it now."""
        self._drop(entry, EventKind.LEFT)

    def commit(self) -> list[Effect] | None:
        """Swap in what was staged; return the difference, or None when this was the first sync.

        After a first sync every entry of the table is new. An empty sync is a sync.
        """
        staging = self._staging or _Staging()
        self._staging = None
        effects = self._difference(staging) if self.is_synced else None
        kept = [key for key in self._unverified if staging.table.get(*key) is None]
        live_kept = [live for key in kept if (live := self.table.get(*key)) is not None]
        self._unverified = dict.fromkeys(kept, True)
        self.table = staging.table
        self.owners = staging.owners
        self.raw_bytes = staging.raw_bytes
        self.stored_bytes = staging.stored_bytes
        for live in live_kept:
            self._set(live)
        self._version = self.version
        self.is_synced = True
        return effects

    def _difference(self, staging: _Staging) -> list[Effect]:
        effects: list[Effect] = []
        for namespace in self.table.namespaces():
            missing = self.table.names(namespace) - staging.table.names(namespace)
            for name in sorted(missing):
                live = self.table.get(namespace, name)
                if live is None:  # pragma: no cover - the names are those of the table
                    continue
                if self.spec.is_selecting:
                    self._unverified[(namespace, name)] = True
                else:
                    effects.append(
                        Effect(EventKind.DELETED, live, live.labels, final_state_unknown=True)
                    )
        for (namespace, name), entry in staging.changed.items():
            live = self.table.get(namespace, name)
            if live is None:
                effects.append(Effect(EventKind.ADDED, entry))
            elif live.uid == entry.uid:
                effects.append(Effect(EventKind.MODIFIED, entry, live.labels))
            else:
                effects.append(
                    Effect(EventKind.DELETED, live, live.labels, final_state_unknown=True)
                )
                effects.append(Effect(EventKind.ADDED, entry))
        return effects

    def purge(self, reason: LeftReason) -> list[Effect]:
        """Drop every object; the source is unsynced again."""
        effects = [
            Effect(EventKind.LEFT, entry, entry.labels, reason)
            for entry in self.table.after("", "")
        ]
        self.table = Table()
        self.owners = OwnerIndex()
        self.raw_bytes = self.stored_bytes = 0
        self._unverified.clear()
        self._staging = None
        self.is_synced = False
        self._codec = PLAIN
        self._is_training = False
        self._trained_count = 0
        return effects

    # Compression

    @property
    def is_training_due(self) -> bool:
        """Whether `training_samples` would return some."""
        table = self._staging.table if self._staging is not None else self.table
        return not self._is_training and not self.is_secret and self._is_training_due(table.count)

    def training_samples(self) -> list[bytes] | None:
        """Return sample bodies when a new dictionary is worth training, else None.

        Once samples were returned, none are until `adopt` was called. Samples are spread over all
        objects, so over all namespaces.
        """
        table = self._staging.table if self._staging is not None else self.table
        if not self.is_training_due:
            return None
        self._is_training = True
        self._trained_count = table.count
        step = max(1, table.count // _SAMPLES)
        samples: list[bytes] = []
        size = 0
        for index, entry in enumerate(table):
            if index % step == 0:
                samples.append(entry.body())
                size += entry.raw_size
                if size > _SAMPLE_BYTES:
                    break
        return samples

    def _is_training_due(self, count: int) -> bool:
        if count < _FIRST_TRAINING:
            return False
        if self._trained_count == 0 or count >= _GROWTH * self._trained_count:
            return True
        if self._recent_count < _RECENT or not self._codec.dictionary:
            return False
        return self._recent_raw < _WORSE * self._trained_ratio * self._recent_stored

    def adopt(self, dictionary: bytes | None, samples: list[bytes]) -> bool:
        """Use a trained dictionary from now on if it is clearly better than what is in use.

        Returns whether entries are left to be compressed anew by `recode`.
        """
        self._is_training = False
        self._recent_raw = self._recent_stored = self._recent_count = 0
        if dictionary is None or self.is_secret:
            return False
        codec = Codec(dictionary)
        probe = samples[:: max(1, len(samples) // 16)]
        size = sum(map(len, probe))
        new = sum(len(codec.compress(body)) for body in probe)
        old = sum(len(self._codec.compress(body)) for body in probe)
        if new > 0.9 * old:
            self._trained_ratio = size / old
            return False
        self._trained_ratio = size / new
        self._codec = codec
        return True

    def recode(self, entries: Iterator[Entry], limit: int) -> bool:
        """Bring up to `limit` entries to the present codec; return whether `entries` is not exhausted."""
        for _ in range(limit):
            entry = next(entries, None)
            if entry is None:
                return False
            if entry.codec is not self._codec:
                grown = entry.recode(self._codec)
                if self.table.get(entry.namespace, entry.name) is entry:
                    self.stored_bytes += grown
                if (
                    self._staging is not None
                    and self._staging.table.get(entry.namespace, entry.name) is entry
                ):
                    self._staging.stored_bytes += grown
        return True

    def recodable(self) -> Iterator[Entry]:
        """Yield the entries of other codecs, as they are now, live and staged."""
        tables = [self.table] if self._staging is None else [self.table, self._staging.table]
        for table in tables:
            outdated = [entry for entry in table if entry.codec is not self._codec]
            yield from outdated
