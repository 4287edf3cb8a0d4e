"""Entries: objects as the store holds them, in tables by namespace and name.

Tables are nested (namespace, then name) and hold strings and structs that the garbage collector
does not follow, so that a million entries cost it a few milliseconds; see docs/performance.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from watchcache_server.informer.compression import Codec
from watchcache_server.informer.objects import Item
from watchcache_server.informer.texts import Texts
from watchcache_server.model.selectors import Labels

__all__ = ["Entry", "FieldIndex", "OwnerIndex", "Table", "flat_labels"]


class Entry(msgspec.Struct, gc=False, eq=False):
    """One object at one resourceVersion.

    `stored` is the body compressed by `codec`; both change together when the source changes its
    codec. `raw_size` is the length of the body in bytes, `version` the API version it is written
    in. `fields` are the values at the index paths, a flat tuple (path, value, path, value, ...).
    `revision` is the extension's revision at which it took this form, `first_revision` that at
    which its object became known; both are 0 before it is visible. The last entry of an object that
    is gone may have lost its body: its `raw_size` is 0 then.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    labels: Labels
    owners: tuple[str, ...]
    stored: bytes
    codec: Codec
    raw_size: int
    version: str
    fields: Labels = ()
    revision: int = 0
    first_revision: int = 0

    @classmethod
    def of(cls, item: Item, codec: Codec, version: str, texts: Texts, fields: Labels = ()) -> Entry:
        """Make an entry of a decoded object, with the values at its index paths."""
        texts.tidy()
        share = texts.share
        return cls(
            namespace=share(item.namespace, item.namespace),
            name=item.name,
            uid=item.uid,
            resource_version=item.resource_version,
            labels=flat_labels(item.labels, texts),
            owners=tuple(share(uid, uid) for uid in dict.fromkeys(item.owners)),
            stored=codec.compress(item.body),
            codec=codec,
            raw_size=len(item.body),
            version=version,
            fields=tuple([share(text, text) for text in fields]),
        )

    def without_body(self) -> Entry:
        """Return what is left to say of an object that is gone."""
        return msgspec.structs.replace(self, owners=(), fields=(), stored=b"", raw_size=0)

    def body(self) -> bytes:
        """Return the JSON object."""
        return self.codec.decompress(self.stored)

    def is_same_form(self, other: Entry) -> bool:
        """Tell whether both are one object at one resourceVersion in one API version."""
        return (self.uid, self.resource_version, self.version) == (
            other.uid,
            other.resource_version,
            other.version,
        )

    def recode(self, codec: Codec) -> int:
        """Compress the body with another codec; return by how many bytes it grew."""
        before = len(self.stored)
        self.stored = codec.compress(self.body())
        self.codec = codec
        return len(self.stored) - before


def flat_labels(labels: dict[str, str], texts: Texts) -> Labels:
    """Return labels as a flat tuple sorted by key; most of its strings repeat."""
    share = texts.share
    return tuple(share(text, text) for pair in sorted(labels.items()) for text in pair)


class Table:
    """The entries of one source: a mapping from (namespace, name), walked in that order."""

    __slots__ = ("_fresh", "_gone", "_names", "_namespaces", "_rows", "count")

    # Up to so many names are put into the sorted list, or taken out, one by one; more are at once.
    _FEW = 64

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Entry]] = {}
        self._names: dict[str, list[str]] = {}
        # Names that have yet to be put into the sorted list, and those to be taken out.
        self._fresh: dict[str, list[str]] = {}
        self._gone: dict[str, set[str]] = {}
        self._namespaces: list[str] = []
        self.count = 0

    def get(self, namespace: str, name: str) -> Entry | None:
        """Return the entry, or None."""
        row = self._rows.get(namespace)
        return None if row is None else row.get(name)

    def put(self, entry: Entry) -> Entry | None:
        """Set the entry; return the one that it replaces."""
        row = self._rows.get(entry.namespace)
        if row is None:
            row = self._rows[entry.namespace] = {}
            self._names[entry.namespace] = []
            self._fresh[entry.namespace] = []
            self._gone[entry.namespace] = set()
            insort(self._namespaces, entry.namespace)
        before = row.get(entry.name)
        row[entry.name] = entry
        if before is None:
            self.count += 1
            gone = self._gone[entry.namespace]
            if entry.name in gone:
                gone.remove(entry.name)
            else:
                self._fresh[entry.namespace].append(entry.name)
        return before

    def pop(self, namespace: str, name: str) -> Entry | None:
        """Remove and return the entry, or None."""
        row = self._rows.get(namespace)
        if row is None or name not in row:
            return None
        entry = row.pop(name)
        self.count -= 1
        if row:
            self._gone[namespace].add(name)
        else:
            del self._rows[namespace], self._names[namespace]
            del self._fresh[namespace], self._gone[namespace]
            del self._namespaces[bisect_left(self._namespaces, namespace)]
        return entry

    def missing_from(self, other: Table) -> list[Entry]:
        """Return the entries for whose names the other table has none, in order."""
        found: list[Entry] = []
        for namespace in self._namespaces:
            row = self._rows[namespace]
            missing = row.keys() - other._rows.get(namespace, {}).keys()
            found.extend(row[name] for name in sorted(missing))
        return found

    def unlike(self, other: Table) -> Iterator[tuple[Entry, Entry | None]]:
        """Yield each entry that the other table does not hold, and what it has in its place."""
        for namespace, row in self._rows.items():
            others = other._rows.get(namespace, {})
            for name, entry in row.items():
                before = others.get(name)
                if before is not entry:
                    yield entry, before

    def __iter__(self) -> Iterator[Entry]:
        """Yield every entry, in no order. The table may not change meanwhile."""
        for row in self._rows.values():
            yield from row.values()

    def after(self, namespace: str, name: str) -> Iterator[Entry]:
        """Yield the entries behind (namespace, name) in order. The table may not change meanwhile.

        ("", "") is before everything.
        """
        first = bisect_left(self._namespaces, namespace)
        for index in range(first, len(self._namespaces)):
            current = self._namespaces[index]
            names = self._sorted_names(current)
            start = bisect_right(names, name) if current == namespace else 0
            row = self._rows[current]
            for position in range(start, len(names)):
                yield row[names[position]]

    def _sorted_names(self, namespace: str) -> list[str]:
        names = self._names[namespace]
        fresh = self._fresh[namespace]
        gone = self._gone[namespace]
        if 0 < len(fresh) <= self._FEW:
            for name in fresh:
                insort(names, name)
        elif fresh:
            names.extend(fresh)
            names.sort()
        fresh.clear()
        if 0 < len(gone) <= self._FEW:
            for name in gone:
                del names[bisect_left(names, name)]
        elif gone:
            names[:] = [name for name in names if name not in gone]
        gone.clear()
        return names


_Key = TypeVar("_Key", bound=Hashable)


class _Index(ABC, Generic[_Key]):
    """Entries by keys of theirs. Most keys have few entries, so one entry is kept bare."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[_Key, Entry | set[Entry]] = {}

    @abstractmethod
    def _keys(self, entry: Entry) -> Iterable[_Key]:
        """Return the keys of an entry, each once."""

    def add(self, entry: Entry) -> None:
        """Index an entry."""
        for key in self._keys(entry):
            held = self._entries.get(key)
            if held is None:
                self._entries[key] = entry
            elif isinstance(held, Entry):
                self._entries[key] = {held, entry}
            else:
                held.add(entry)

    def discard(self, entry: Entry) -> None:
        """Forget an entry."""
        for key in self._keys(entry):
            held = self._entries.get(key)
            if held is entry:
                del self._entries[key]
            elif isinstance(held, set):
                held.discard(entry)
                if len(held) == 1:
                    self._entries[key] = held.pop()

    def _found(self, key: _Key) -> Collection[Entry]:
        held = self._entries.get(key)
        if held is None:
            return ()
        return (held,) if isinstance(held, Entry) else held

    def __len__(self) -> int:
        return len(self._entries)


class OwnerIndex(_Index[str]):
    """Entries by the uids of their owners."""

    __slots__ = ()

    def _keys(self, entry: Entry) -> Iterable[str]:
        return entry.owners

    def owned_by(self, uid: str) -> list[Entry]:
        """Return the entries that name this owner, sorted by namespace and name."""
        return sorted(self._found(uid), key=_place)


class FieldIndex(_Index[tuple[str, str]]):
    """Entries by index path and value."""

    __slots__ = ()

    def _keys(self, entry: Entry) -> Iterable[tuple[str, str]]:
        return zip(entry.fields[::2], entry.fields[1::2], strict=True)

    def count(self, pairs: Iterable[tuple[str, str]]) -> int:
        """Return how many entries `after` may have to look at."""
        return sum(len(self._found(pair)) for pair in pairs)

    def after(self, pairs: Iterable[tuple[str, str]], namespace: str, name: str) -> list[Entry]:
        """Return the entries with any of these values behind (namespace, name), in order."""
        place = (namespace, name)
        found = {entry for pair in pairs for entry in self._found(pair) if _place(entry) > place}
        return sorted(found, key=_place)


def _place(entry: Entry) -> tuple[str, str]:
    return entry.namespace, entry.name
