"""The objects of a mirror: pure, so that every rule of applying a stream is a plain function call.

`Store` takes events in and returns the changes that they made. A snapshot is collected beside what
is held and takes its place at once; the difference is returned as changes, so that a listener sees
the same whether an object changed before its eyes or while nobody looked. Bodies stay JSON: a
Python tree of an object is many times its size, and a fresh one at each read cannot be spoiled by
a reader.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from watchcache.errors import InvalidArgumentError
from watchcache.holdings import object_id
from watchcache.index_paths import values_at
from watchcache.keys import Key
from watchcache.messages import Event, KnownGone
from watchcache.objects import Decoder
from watchcache.states import EventType, LeftReason

__all__ = ["Change", "Entry", "Store", "Version"]

T = TypeVar("T")
_I = TypeVar("_I")

_Table = dict[tuple[str, str], dict[str, "Entry"]]
"""The objects of one resource, by cluster and namespace, then by name."""


class Version(NamedTuple):
    """Which state of which incarnation of an object is held."""

    uid: str
    resource_version: str


class Entry:
    """One object that is held. Labels and owners are read from the body at their first use."""

    __slots__ = ("_metadata", "body", "resource_version", "revision", "uid", "version")

    def __init__(
        self,
        uid: str,
        resource_version: str,
        revision: int,
        body: bytes | None,
        version: str = "",
    ) -> None:
        self.uid = uid
        self.version = version
        self.resource_version = resource_version
        self.revision = revision
        self.body = body
        self._metadata: tuple[Mapping[str, str], tuple[str, ...]] | None = None

    @property
    def labels(self) -> Mapping[str, str]:
        """metadata.labels."""
        return self._read_metadata()[0]

    def values(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield each of these field paths with each value there."""
        return values_at(self.require_body(), paths)

    @property
    def owner_uids(self) -> tuple[str, ...]:
        """The uids in metadata.ownerReferences."""
        return self._read_metadata()[1]

    def _read_metadata(self) -> tuple[Mapping[str, str], tuple[str, ...]]:
        if self._metadata is None:
            metadata = json.loads(self.require_body()).get("metadata") or {}
            owners = metadata.get("ownerReferences") or ()
            self._metadata = (
                metadata.get("labels") or {},
                tuple(owner.get("uid", "") for owner in owners),
            )
        return self._metadata

    def require_body(self) -> bytes:
        """Return the body. Raises InvalidArgumentError where only keys were asked for."""
        if self.body is None:
            raise InvalidArgumentError.of(
                "view",
                "this mirror holds keys only; make it with view='full', or read by Extension.get",
            )
        return self.body


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What happened to one object of a mirror.

    Only DELETED says that the object is gone; LEFT says that it is no longer seen, and the reason
    is UNKNOWN where it was found missing from a snapshot. `old` and `new` are what was held before
    and after; for DELETED and LEFT, `old` is the last content that is known.
    """

    type: EventType
    resource: str
    key: Key
    old: Entry | None
    new: Entry | None
    left_reason: LeftReason | None
    decode: Decoder[T]

    @property
    def object(self) -> T:
        """The object as it is now, or as it was last known. Each call decodes it anew."""
        entry = self.new or self.old
        assert entry is not None, "a change has an object before or after it"
        return self.decode(entry.require_body())

    @property
    def entries(self) -> Iterator[Entry]:
        """What was held before and after, as far as there is either."""
        return (entry for entry in (self.old, self.new) if entry is not None)


class Store(Generic[T]):
    """Objects by resource and key, with indexes that are built when they are first asked for."""

    def __init__(self, decode: Decoder[T]) -> None:
        self._decode = decode
        self._tables: dict[str, _Table] = {}
        self._incoming: dict[str, _Table] | None = None
        self._by_label: dict[str, dict[tuple[str, str], set[Key]]] = {}
        self._by_owner: dict[str, dict[str, set[Key]]] = {}
        self._by_field: dict[str, dict[str, dict[str, set[Key]]]] = {}
        self._by_uid: dict[str, tuple[str, Key]] | None = None

    @property
    def is_collecting(self) -> bool:
        """Whether a snapshot is being collected."""
        return self._incoming is not None

    def begin_snapshot(self) -> None:
        """Collect from here on, beside what is held; an unfinished snapshot is dropped."""
        self._incoming = {}

    def abandon_snapshot(self) -> None:
        """Drop an unfinished snapshot, if there is one; what is held stays."""
        self._incoming = None

    def commit_snapshot(self) -> list[Change[T]]:
        """Put the collected snapshot in the place of what is held; return the difference.

        Without one that is collected, what is held stays.
        """
        if self._incoming is None:
            return []
        before, after = self._tables, self._incoming
        self._tables, self._incoming = after, None
        self._by_label.clear()
        self._by_owner.clear()
        self._by_field.clear()
        self._by_uid = None
        gone, present = [], []
        for resource, key, old in _walk(before):
            new = _find(after, resource, key)
            if new is None:
                gone.append(self._change(EventType.LEFT, resource, key, old, None))
            elif new.uid != old.uid:
                gone.append(self._change(EventType.DELETED, resource, key, old, None))
        for resource, key, new in _walk(after):
            held = _find(before, resource, key)
            if held is None or held.uid != new.uid:
                present.append(self._change(EventType.ADDED, resource, key, None, new))
            elif held.resource_version != new.resource_version:
                present.append(self._change(EventType.MODIFIED, resource, key, held, new))
        return gone + present

    def apply(self, events: Iterable[Event[T]]) -> list[Change[T]]:
        """Apply events in their order; return what changed, nothing while a snapshot is collected.

        An event that comes a second time changes nothing: it may after a reconnect.
        """
        if self._incoming is not None:
            for event in events:
                self._apply_to(self._incoming, event)
            return []
        changes = []
        for event in events:
            changes += self._apply_to(self._tables, event)
        return changes

    def forget_revisions(self) -> None:
        """Take that revisions begin anew: the service has restarted."""
        for _, _, entry in _walk(self._tables):
            entry.revision = 0

    def remove_ids(self, gone: KnownGone) -> list[Change[T]]:
        """Let go of objects that are named by their ids; return what changed."""
        changes = []
        resource = gone.resource
        others: dict[bytes, Key] | None = None
        for wanted in gone.ids:
            place = self.find_uid(str(uuid.UUID(bytes=wanted)))
            key = None if place is None else place[1]
            if place is None or key is None or not _is_of(gone, *place):
                # Its uid is no UUID in this form, or that of an object of another resource too, or
                # another object has taken its place.
                if others is None:
                    others = self._by_id(gone)
                key = others.pop(wanted, None)
            held = None if key is None else _find(self._tables, resource, key)
            if key is not None and held is not None:
                self._take_out(resource, key)
                changes.append(self._change(gone.type, resource, key, held, None, gone.left_reason))
        return changes

    def _by_id(self, gone: KnownGone) -> dict[bytes, Key]:
        return {
            object_id(entry.uid): key
            for key, entry in self.select(
                gone.resource, namespace=gone.namespace, cluster=gone.cluster
            )
        }

    def walk(self) -> Iterator[tuple[str, Key, Entry]]:
        """Iterate over everything, by resource, cluster and namespace."""
        return _walk(self._tables)

    def get(self, resource: str, key: Key) -> Entry | None:
        """Return the object of exactly this key, cluster included."""
        return _find(self._tables, resource, key)

    def select(
        self, resource: str, *, namespace: str | None = None, cluster: str | None = None
    ) -> Iterator[tuple[Key, Entry]]:
        """Iterate over a resource, or over one namespace or cluster of it."""
        table = self._tables.get(resource, {})
        for (in_cluster, in_namespace), entries in table.items():
            if namespace not in (None, in_namespace) or cluster not in (None, in_cluster):
                continue
            for name, entry in entries.items():
                yield Key(in_namespace, name, in_cluster), entry

    def by_labels(self, resource: str, labels: Mapping[str, str]) -> Iterator[tuple[Key, Entry]]:
        """Iterate over the objects that have all of these labels."""
        if not labels:
            yield from self.select(resource)
            return
        index = self._by_label.get(resource)
        if index is None:
            index = self._by_label[resource] = {}
            for key, entry in self.select(resource):
                for pair in entry.labels.items():
                    index.setdefault(pair, set()).add(key)
        matches = sorted((index.get(pair, set()) for pair in labels.items()), key=len)
        for key in set.intersection(*matches):
            yield key, self._tables[resource][key.cluster, key.namespace][key.name]

    def by_owner(self, resource: str, uid: str) -> Iterator[tuple[Key, Entry]]:
        """Iterate over the objects with an owner reference to this uid."""
        index = self._by_owner.get(resource)
        if index is None:
            index = self._by_owner[resource] = {}
            for key, entry in self.select(resource):
                for owner in entry.owner_uids:
                    index.setdefault(owner, set()).add(key)
        for key in index.get(uid, ()):
            yield key, self._tables[resource][key.cluster, key.namespace][key.name]

    def by_index(self, resource: str, path: str, value: str) -> Iterator[tuple[Key, Entry]]:
        """Iterate over the objects that have this value at a field path."""
        paths = self._by_field.setdefault(resource, {})
        index = paths.get(path)
        if index is None:
            index = {}
            for key, entry in self.select(resource):
                for _, found in entry.values((path,)):
                    index.setdefault(found, set()).add(key)
            paths[path] = index
        for key in index.get(value, ()):
            yield key, self._tables[resource][key.cluster, key.namespace][key.name]

    def find_uid(self, uid: str) -> tuple[str, Key] | None:
        """Return resource and key of the object with this uid."""
        if self._by_uid is None:
            self._by_uid = {
                entry.uid: (resource, key) for resource, key, entry in _walk(self._tables)
            }
        return self._by_uid.get(uid)

    def versions(self) -> dict[tuple[str, Key], Version]:
        """Return what is held of every object, to be compared with what should be."""
        return {(resource, key): _version(entry) for resource, key, entry in _walk(self._tables)}

    def _apply_to(self, tables: dict[str, _Table], event: Event[T]) -> list[Change[T]]:
        held = _find(tables, event.resource, event.key)
        if held is not None and event.revision < held.revision:
            return []  # It is from before what is held: sent again after a reconnect.
        if event.type in (EventType.ADDED, EventType.MODIFIED):
            return self._put(tables, event, held)
        if event.type in (EventType.DELETED, EventType.LEFT):
            return self._remove(tables, event, held)
        return []  # A type of a newer service: it cannot be about what this client knows.

    def _put(
        self, tables: dict[str, _Table], event: Event[T], held: Entry | None
    ) -> list[Change[T]]:
        resource, key = event.resource, event.key
        new = Entry(
            event.uid,
            event.resource_version,
            event.revision,
            event.body,
            sys.intern(event.version),
        )
        same = held
        if tables is self._incoming:
            # Most of a snapshot is what is held already; its bodies need not be there twice.
            same = _find(self._tables, resource, key)
        if same is not None and _version(same) == _version(new) and same.body == new.body:
            new.body = same.body
        table = tables.setdefault(resource, {})
        table.setdefault((key.cluster, key.namespace), {})[key.name] = new
        if tables is self._incoming:
            return []
        self._unindex(resource, key, held)
        self._index(resource, key, new)
        if held is None:
            return [self._change(EventType.ADDED, resource, key, None, new)]
        if held.uid != new.uid:
            return [
                self._change(EventType.DELETED, resource, key, held, None),
                self._change(EventType.ADDED, resource, key, None, new),
            ]
        if held.resource_version == new.resource_version:
            return []
        return [self._change(EventType.MODIFIED, resource, key, held, new)]

    def _remove(
        self, tables: dict[str, _Table], event: Event[T], held: Entry | None
    ) -> list[Change[T]]:
        resource, key = event.resource, event.key
        if held is None or held.uid != event.uid:
            return []  # Gone already, or of an earlier incarnation.
        if tables is self._incoming:
            _discard_entry(tables, resource, key)
            return []
        self._take_out(resource, key)
        body = held.body if event.body is None else event.body
        last = Entry(event.uid, event.resource_version, event.revision, body)
        return [self._change(event.type, resource, key, last, None, event.left_reason)]

    def _take_out(self, resource: str, key: Key) -> None:
        held = _find(self._tables, resource, key)
        _discard_entry(self._tables, resource, key)
        self._unindex(resource, key, held)

    def _index(self, resource: str, key: Key, entry: Entry) -> None:
        labels, owners = self._by_label.get(resource), self._by_owner.get(resource)
        if labels is not None:
            for pair in entry.labels.items():
                labels.setdefault(pair, set()).add(key)
        if owners is not None:
            for uid in entry.owner_uids:
                owners.setdefault(uid, set()).add(key)
        fields = self._by_field.get(resource)
        if fields:
            for path, value in entry.values(fields):
                fields[path].setdefault(value, set()).add(key)
        if self._by_uid is not None:
            self._by_uid[entry.uid] = (resource, key)

    def _unindex(self, resource: str, key: Key, entry: Entry | None) -> None:
        if entry is None:
            return
        labels, owners = self._by_label.get(resource), self._by_owner.get(resource)
        if labels is not None:
            for pair in entry.labels.items():
                _discard(labels, pair, key)
        if owners is not None:
            for uid in entry.owner_uids:
                _discard(owners, uid, key)
        fields = self._by_field.get(resource)
        if fields:
            for path, value in entry.values(fields):
                _discard(fields[path], value, key)
        if self._by_uid is not None:
            self._by_uid.pop(entry.uid, None)

    def _change(
        self,
        kind: EventType,
        resource: str,
        key: Key,
        old: Entry | None,
        new: Entry | None,
        left_reason: LeftReason | None = None,
    ) -> Change[T]:
        if kind is EventType.LEFT and left_reason is None:
            left_reason = LeftReason.UNKNOWN
        return Change(kind, resource, key, old, new, left_reason, self._decode)


def _version(entry: Entry) -> Version:
    return Version(entry.uid, entry.resource_version)


def _discard(index: dict[_I, set[Key]], value: _I, key: Key) -> None:
    keys = index.get(value)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[value]


def _find(tables: Mapping[str, _Table], resource: str, key: Key) -> Entry | None:
    table = tables.get(resource)
    entries = table.get((key.cluster, key.namespace)) if table is not None else None
    return entries.get(key.name) if entries is not None else None


def _is_of(gone: KnownGone, resource: str, key: Key) -> bool:
    return (gone.resource, gone.cluster, gone.namespace) == (resource, key.cluster, key.namespace)


def _discard_entry(tables: Mapping[str, _Table], resource: str, key: Key) -> None:
    group = tables[resource][key.cluster, key.namespace]
    del group[key.name]
    if not group:
        del tables[resource][key.cluster, key.namespace]


def _walk(tables: Mapping[str, _Table]) -> Iterator[tuple[str, Key, Entry]]:
    for resource, table in tables.items():
        for (cluster, namespace), entries in table.items():
            for name, entry in entries.items():
                yield resource, Key(namespace, name, cluster), entry
