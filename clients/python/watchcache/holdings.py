"""What is held of an extension, in the few bytes by which the service finds out what differs.

Pure. An object is named by its uid and its resourceVersion, 24 bytes; `UploadKnown` in the contract
says how.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from watchcache.keys import parse_resource
from watchcache.v1alpha1 import extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

__all__ = ["ID_BYTES", "HeldObject", "Holdings", "object_id", "uploads", "version_id"]

ID_BYTES = 16

_MESSAGE_BYTES = 512 * 1024
_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LONGEST_NUMBER = 20


class HeldObject(NamedTuple):
    """One object that is held, as the service told of it."""

    resource: str
    cluster: str
    namespace: str
    version: str
    projection: extension_pb2.Projection.ValueType
    uid: str
    resource_version: str


Holdings = Callable[[], Iterable[HeldObject]]
"""Gives what is held at this moment."""


def object_id(uid: str) -> bytes:
    """Return a uid in sixteen bytes."""
    if _UUID.fullmatch(uid):
        return bytes.fromhex(uid.replace("-", ""))
    return hashlib.sha256(uid.encode()).digest()[:ID_BYTES]


def version_id(resource_version: str) -> bytes:
    """Return a resourceVersion in eight bytes."""
    is_number = resource_version.isascii() and resource_version.isdigit()
    if is_number and resource_version[0] != "0" and len(resource_version) <= _LONGEST_NUMBER:
        number = int(resource_version)
        if number < 1 << 64:
            return number.to_bytes(8, "big")
    return hashlib.sha256(resource_version.encode()).digest()[:8]


def uploads(
    namespace: str, name: str, held: Iterable[HeldObject]
) -> Iterator[service_pb2.UploadKnownRequest]:
    """Yield the messages that tell of what is held; at least one."""
    message = service_pb2.UploadKnownRequest(namespace=namespace, name=name)
    size = 0
    for group, records in _grouped(held):
        message.groups.append(_message_of(group, records))
        size += message.groups[-1].ByteSize()
        if size >= _MESSAGE_BYTES:
            yield message
            message, size = service_pb2.UploadKnownRequest(), 0
    if size or message.name:
        yield message


_Group = tuple[str, str, str, str, extension_pb2.Projection.ValueType]


def _grouped(held: Iterable[HeldObject]) -> Iterator[tuple[_Group, bytes]]:
    """Yield runs of objects that have all but uid and resourceVersion in common."""
    current: _Group | None = None
    records = bytearray()
    for each in held:
        group = (each.resource, each.cluster, each.namespace, each.version, each.projection)
        if current is not None and (group != current or len(records) >= _MESSAGE_BYTES):
            yield current, bytes(records)
            records.clear()
        current = group
        records += object_id(each.uid) + version_id(each.resource_version)
    if current is not None:
        yield current, bytes(records)


def _message_of(group: _Group, records: bytes) -> service_pb2.KnownObjects:
    resource, cluster, namespace, version, projection = group
    name = parse_resource(resource)
    return service_pb2.KnownObjects(
        cluster=cluster,
        group=name.group,
        resource=name.plural,
        namespace=namespace,
        version=version,
        projection=projection,
        objects=records,
    )
