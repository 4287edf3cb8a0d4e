"""The data of one cluster: every version of every object, one counter for all of them.

`Storage` hands out the single resourceVersion counter and keeps one `Table` per kind. A table knows
the newest version of each object, older versions for as long as history lasts, and the log of
changes from which watches are served. A body is encoded once, when it is committed, and shared by
every list and watch that shows it. Nothing here knows rules of the API: callers decide what may be
written. Nothing here awaits: a commit is atomic, and watchers are woken by their events.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

__all__ = ["Change", "Key", "Record", "Storage", "Table", "Watcher"]

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

FIRST_RESOURCE_VERSION = 100
"""Where a new cluster's counter starts, so that small versions are always too old."""


class Record:
    """One version of one object.

    `rest` is the JSON of the object without `apiVersion` and `kind`, and without its opening
    brace, so that any version of the API can put its own head before it.
    """

    __slots__ = ("fields", "is_deleted", "key", "labels", "previous", "resource_version", "rest")

    def __init__(
        self,
        key: Key,
        resource_version: int,
        rest: bytes,
        labels: dict[str, str],
        fields: dict[str, str],
        previous: Record | None,
        *,
        is_deleted: bool = False,
    ) -> None:
        self.key = key
        self.resource_version = resource_version
        self.rest = rest
        self.labels = labels
        self.fields = fields
        self.previous = previous
        self.is_deleted = is_deleted

    @property
    def namespace(self) -> str:
        """The namespace, empty for a cluster-scoped object."""
        return self.key[0]

    @property
    def name(self) -> str:
        """The name, unique in its namespace."""
        return self.key[1]

    def value_of(self, label: str) -> str:
        """Return the value of a field label, for field selectors."""
        if label == "metadata.name":
            return self.key[1]
        if label == "metadata.namespace":
            return self.key[0]
        return self.fields.get(label, "")

    def decode(self) -> dict[str, Any]:
        """Return a fresh tree of the object, without `apiVersion` and `kind`."""
        tree: dict[str, Any] = _decode(b"{" + self.rest)
        return tree

    def at_version(self, resource_version: int) -> Record | None:
        """Return this object as it was then, or None if it did not exist."""
        record: Record | None = self
        while record is not None and record.resource_version > resource_version:
            record = record.previous
        return None if record is None or record.is_deleted else record


class Change:
    """One entry of a table's log: what an object became, and what it was."""

    __slots__ = ("previous", "record")

    def __init__(self, record: Record, previous: Record | None) -> None:
        self.record = record
        self.previous = previous

    @property
    def resource_version(self) -> int:
        """The version that this change made."""
        return self.record.resource_version


def encode_rest(tree: dict[str, Any]) -> bytes:
    """Encode an object for `Record.rest`: metadata first, no `apiVersion`, no `kind`."""
    typeless = {key: value for key, value in tree.items() if key not in {"apiVersion", "kind"}}
    return _encode({"metadata": None, **typeless})[1:]


def with_resource_version(record: Record, resource_version: int) -> bytes:
    """Return the body of `record` carrying another resourceVersion."""
    tree = record.decode()
    tree["metadata"]["resourceVersion"] = str(resource_version)
    return encode_rest(tree)


class Watcher(Protocol):
    """Whoever follows a table's log."""

    waker: asyncio.Event

    def drain(self) -> None:
        """Take what is not read yet, because the log is about to be compacted."""


class Table:
    """The objects of one kind, with their history.

    `history_limit` bounds the log; what falls out of it is compacted, and asking for it is answered
    by the 410 of the layers above, by way of `compacted`.
    """

    def __init__(self, name: str, resource_version: int, history_limit: int) -> None:
        self.name = name
        self.compacted = resource_version
        self.is_closed = False
        self._namespaces: dict[str, dict[str, Record]] = {}
        self._log: list[Change] = []
        self._log_start = 0
        self._history_limit = history_limit
        self._watchers: set[Watcher] = set()

    def get(self, key: Key) -> Record | None:
        """Return the newest version of an object, or None if it does not exist."""
        record = self._namespaces.get(key[0], {}).get(key[1])
        return None if record is None or record.is_deleted else record

    def __len__(self) -> int:
        return sum(1 for _ in self.scan())

    def namespaces(self) -> list[str]:
        """Return the namespaces that hold something, in the order of keys."""
        return sorted(self._namespaces, key=lambda namespace: f"{namespace}/")

    def scan(
        self,
        namespace: str | None = None,
        *,
        start: Key | None = None,
        resource_version: int | None = None,
    ) -> Iterator[Record]:
        """Yield objects in the order of their keys, optionally as they were at some version.

        `start` is the first key that may be yielded. The set of keys is fixed when a namespace is
        entered, so a scan must not be suspended across a commit.
        """
        names_of = self._namespaces
        wanted = self.namespaces() if namespace is None else [namespace]
        for space in wanted:
            if start is not None and f"{space}/" < f"{start[0]}/":
                continue
            first = start[1] if start is not None and space == start[0] else ""
            held = names_of.get(space, {})
            for name in sorted(held):
                if name < first:
                    continue
                record: Record | None = held[name]
                if resource_version is not None and record is not None:
                    record = record.at_version(resource_version)
                if record is not None and not record.is_deleted:
                    yield record

    def apply(self, record: Record) -> Change:
        """Make `record` the newest version of its object and log the change."""
        previous = record.previous
        change = Change(record, None if previous is None or previous.is_deleted else previous)
        self._namespaces.setdefault(record.key[0], {})[record.key[1]] = record
        self._log.append(change)
        if len(self._log) - self._log_start > self._history_limit:
            self.compact(self._log[self._log_start].resource_version)
        self.wake()
        return change

    def head(self, key: Key) -> Record | None:
        """Return the newest version, a deletion included, for linking the next one to it."""
        return self._namespaces.get(key[0], {}).get(key[1])

    def changes_after(self, resource_version: int, limit: int) -> list[Change] | None:
        """Return up to `limit` changes after a version, or None if they are no longer known."""
        if resource_version < self.compacted:
            return None
        first = bisect_right(
            self._log,
            resource_version,
            lo=self._log_start,
            key=lambda change: change.resource_version,
        )
        return self._log[first : first + limit]

    def compact(self, resource_version: int) -> None:
        """Forget everything that was overwritten at or before this version."""
        while self._log_start < len(self._log):
            record = self._log[self._log_start].record
            if record.resource_version > resource_version:
                break
            record.previous = None
            if record.is_deleted and self.head(record.key) is record:
                held = self._namespaces[record.key[0]]
                del held[record.key[1]]
                if not held:
                    del self._namespaces[record.key[0]]
            self._log_start += 1
        if self._log_start > 64 and self._log_start * 2 > len(self._log):
            del self._log[: self._log_start]
            self._log_start = 0
        self.compacted = max(self.compacted, resource_version)

    def close(self) -> None:
        """Serve no more: watches end, as when a CustomResourceDefinition is deleted."""
        self.is_closed = True
        self.wake()

    def wake(self) -> None:
        """Wake every watcher of this table."""
        for watcher in self._watchers:
            watcher.waker.set()

    def add_watcher(self, watcher: Watcher) -> None:
        """Wake `watcher` at every change from now on."""
        self._watchers.add(watcher)

    def remove_watcher(self, watcher: Watcher) -> None:
        """Undo `add_watcher`."""
        self._watchers.discard(watcher)

    def drain_watchers(self) -> None:
        """Let every watcher take the changes that it has not read yet."""
        for watcher in self._watchers:
            watcher.drain()


Observer = Callable[[Table, Change], None]


class Storage:
    """All tables of one cluster and the counter they share."""

    def __init__(self, history_limit: int = 10_000) -> None:
        self.resource_version = FIRST_RESOURCE_VERSION
        self.compacted = FIRST_RESOURCE_VERSION
        self._history_limit = history_limit
        self._tables: dict[str, Table] = {}
        self._observers: list[Observer] = []
        self._advanced = asyncio.Event()

    def table(self, name: str) -> Table:
        """Return the table of one kind; its history begins when it is first asked for."""
        table = self._tables.get(name)
        if table is None:
            table = Table(name, self.resource_version, self._history_limit)
            self._tables[name] = table
        return table

    def tables(self) -> list[Table]:
        """Return every table that was ever used."""
        return list(self._tables.values())

    def drop(self, name: str) -> None:
        """Close a table and forget what it held."""
        table = self._tables.pop(name, None)
        if table is not None:
            table.close()

    def observe(self, observer: Observer) -> None:
        """Call `observer` in the middle of every commit, after the data has changed."""
        self._observers.append(observer)

    def put(
        self, table: Table, key: Key, tree: dict[str, Any], fields: dict[str, str] | None = None
    ) -> Record:
        """Commit a new version of an object; sets its resourceVersion in `tree`."""
        self.resource_version += 1
        metadata = tree["metadata"]
        metadata["resourceVersion"] = str(self.resource_version)
        record = Record(
            key,
            self.resource_version,
            encode_rest(tree),
            dict(metadata.get("labels") or {}),
            fields or {},
            table.head(key),
        )
        self._publish(table, record)
        return record

    def delete(self, table: Table, key: Key) -> Record | None:
        """Commit the deletion of an object; the record holds its last content, or None if absent.

        The content carries the resourceVersion of the deletion, as a DELETED event must.
        """
        last = table.get(key)
        if last is None:
            return None
        self.resource_version += 1
        record = Record(
            key,
            self.resource_version,
            with_resource_version(last, self.resource_version),
            last.labels,
            last.fields,
            last,
            is_deleted=True,
        )
        self._publish(table, record)
        return record

    def _publish(self, table: Table, record: Record) -> None:
        change = table.apply(record)
        self._advanced.set()
        self._advanced.clear()
        for observer in self._observers:
            observer(table, change)

    def compact(self, resource_version: int | None = None) -> int:
        """Forget history up to a version (by default, all of it); return that version.

        Running watches keep what they have not read yet, as over a compaction of etcd.
        """
        limit = self.resource_version if resource_version is None else resource_version
        self.compacted = max(self.compacted, min(limit, self.resource_version))
        for table in self._tables.values():
            table.drain_watchers()
            table.compact(self.compacted)
        return self.compacted

    async def reached(self, resource_version: int, timeout_seconds: float) -> bool:
        """Wait until the counter is at least this high; say whether it came to that in time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while self.resource_version < resource_version:
                    await self._advanced.wait()
        except TimeoutError:
            return False
        return True
