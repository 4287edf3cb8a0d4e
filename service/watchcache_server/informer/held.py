"""What a reader holds already when its stream begins: so that it is sent the difference only.

There are two ways to know it. A reader may say what it holds (`Known`). Or it holds a state that
some service, perhaps another one, has given it, of which the token names the upstream version
(`Past`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from watchcache_server.informer.entries import Entry
from watchcache_server.informer.source import Source
from watchcache_server.informer.versions import Order, compare_versions
from watchcache_server.model.states import LeftReason

__all__ = ["RECORD_BYTES", "Held", "Known", "KnownGroup", "Past", "object_id", "version_id"]

_ID_BYTES = 16
_VERSION_BYTES = 8
RECORD_BYTES = _ID_BYTES + _VERSION_BYTES
_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Held(Protocol):
    """What a reader holds."""

    def has(self, source: Source, entry: Entry) -> bool:
        """Tell whether the reader holds the object in exactly this form."""
        ...

    def may_know(self, source: Source, entry: Entry) -> bool:
        """Tell whether the reader may hold the object in some form."""
        ...

    def came_across(self, source: Source, entry: Entry) -> None:
        """Take that the reader was told what there is to say of the object."""
        ...

    def is_undone_by(self, source: Source, reason: LeftReason, /) -> bool:
        """Tell whether objects that left a view for such a reason may come back as they were held.

        A reader that is told so, and comes again with the same token, holds less than that says.
        """
        ...


def object_id(uid: str) -> bytes:
    """Return a uid in sixteen bytes: a UUID as it is, anything else as a digest."""
    if _UUID.fullmatch(uid):
        return bytes.fromhex(uid.replace("-", ""))
    return hashlib.sha256(uid.encode()).digest()[:_ID_BYTES]


def version_id(resource_version: str) -> bytes:
    """Return a resourceVersion in eight bytes: a number as it is, anything else as a digest."""
    if resource_version.isascii() and resource_version.isdigit() and resource_version[0] != "0":
        number = int(resource_version) if len(resource_version) <= 20 else 1 << 64
        if number < 1 << 64:
            return number.to_bytes(_VERSION_BYTES, "big")
    return hashlib.sha256(resource_version.encode()).digest()[:_VERSION_BYTES]


class KnownGroup(NamedTuple):
    """What the objects of one upload have in common, as their reader was told it."""

    cluster: str
    group: str
    resource: str
    namespace: str
    version: str
    projection: str


_Place = tuple[str, str, str, str]


class _Records:
    """Ids with their versions, in many small heaps: found in a microsecond, packed as they came."""

    __slots__ = ("_heaps", "count")

    def __init__(self) -> None:
        self._heaps: dict[bytes, bytearray] = {}
        self.count = 0

    def add(self, packed: bytes) -> None:
        for start in range(0, len(packed), RECORD_BYTES):
            record = packed[start : start + RECORD_BYTES]
            heap = self._heaps.get(record[:1] + record[15:16])
            if heap is None:
                heap = self._heaps[record[:1] + record[15:16]] = bytearray()
            heap += record
            self.count += 1

    def find(self, wanted: bytes) -> bytes | None:
        """Return the version of an id, or None."""
        heap = self._heaps.get(wanted[:1] + wanted[15:16])
        if heap is None:
            return None
        start = _find(heap, wanted)
        return None if start < 0 else bytes(heap[start + _ID_BYTES : start + RECORD_BYTES])

    def discard(self, wanted: bytes) -> None:
        """Forget an id that is here."""
        heap = self._heaps[wanted[:1] + wanted[15:16]]
        start = _find(heap, wanted)
        heap[start : start + RECORD_BYTES] = heap[-RECORD_BYTES:]
        del heap[-RECORD_BYTES:]
        self.count -= 1

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        for heap in self._heaps.values():
            for start in range(0, len(heap), RECORD_BYTES):
                record = bytes(heap[start : start + RECORD_BYTES])
                yield record[:_ID_BYTES], record[_ID_BYTES:]


def _find(heap: bytearray, wanted: bytes) -> int:
    start = heap.find(wanted)
    while start % RECORD_BYTES and start >= 0:
        start = heap.find(wanted, start + 1)
    return start


class Known:
    """What a reader has said that it holds. What was come across is forgotten; the rest is gone."""

    def __init__(self) -> None:
        self._groups: dict[KnownGroup, _Records] = {}
        self._by_place: dict[_Place, list[KnownGroup]] = {}
        #: Sources that were as fresh as their API server since this was said: what they do not hold
        #: is gone, whatever its version.
        self.proven: set[Source] = set()

    def add(self, group: KnownGroup, packed: bytes) -> None:
        """Take in records of `RECORD_BYTES` each: object_id, then version_id."""
        records = self._groups.get(group)
        if records is None:
            records = self._groups[group] = _Records()
            self._by_place.setdefault(group[:4], []).append(group)
        records.add(packed)

    @property
    def count(self) -> int:
        """How many objects are left."""
        return sum(records.count for records in self._groups.values())

    def has(self, source: Source, entry: Entry) -> bool:
        """Tell whether the object is held in exactly this form."""
        found = self._find(source, entry)
        if found is None:
            return False
        group, _, version = found
        return (
            version == version_id(entry.resource_version)
            and group.version == entry.version
            and group.projection == source.spec.projection
        )

    def may_know(self, source: Source, entry: Entry) -> bool:
        """Tell whether the object is held."""
        return self._find(source, entry) is not None

    def came_across(self, source: Source, entry: Entry) -> None:
        """Forget the object."""
        found = self._find(source, entry)
        if found is not None:
            self._groups[found[0]].discard(found[1])

    def is_undone_by(self, _source: Source, _reason: LeftReason, /) -> bool:
        """Never: who comes again says anew what is held."""
        return False

    def _find(self, source: Source, entry: Entry) -> tuple[KnownGroup, bytes, bytes] | None:
        place = (source.spec.cluster, source.group, source.resource, entry.namespace)
        groups = self._by_place.get(place)
        if groups is None:
            return None
        wanted = object_id(entry.uid)
        for group in groups:
            version = self._groups[group].find(wanted)
            if version is not None:
                return group, wanted, version
        return None

    @property
    def groups(self) -> list[KnownGroup]:
        """The groups of which something is left."""
        return [group for group, records in self._groups.items() if records.count]

    def take(self, group: KnownGroup, up_to: int | None = None) -> list[bytes]:
        """Return the ids that are left of a group, and forget them.

        With `up_to` only those that are held at this version or an older one.
        """
        records = self._groups[group]
        if up_to is None:
            del self._groups[group]
            self._by_place[group[:4]].remove(group)
            return [wanted for wanted, _ in records]
        last = up_to.to_bytes(_VERSION_BYTES, "big")
        found = [wanted for wanted, version in records if version <= last]
        for wanted in found:
            records.discard(wanted)
        return found


class Past:
    """What a reader holds whom another store has told everything up to these upstream versions.

    Once a storage was set back, its versions say nothing of what was told before.
    """

    def __init__(self, versions: Mapping[Source, str]) -> None:
        self._versions = dict(versions)

    def has(self, source: Source, entry: Entry) -> bool:
        """Tell whether the object has not changed since."""
        version = self._versions.get(source)
        if version is None or source.was_set_back:
            return False
        order = compare_versions(entry.resource_version, version)
        return order in (Order.OLDER, Order.EQUAL)

    def may_know(self, source: Source, entry: Entry) -> bool:
        """Tell whether the object has changed since, so that it may have been held before."""
        return source in self._versions and not self.has(source, entry)

    def came_across(self, source: Source, entry: Entry) -> None:
        """Nothing: what is held is given by versions."""

    def is_undone_by(self, source: Source, reason: LeftReason, /) -> bool:
        """Of a told source, unless the object has changed: no version tells such a return."""
        return source in self._versions and reason is not LeftReason.SELECTION
