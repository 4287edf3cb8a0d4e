"""Writing protobuf messages of the Watch stream by hand, once for all subscribers.

A protobuf message is a run of fields, so messages can be put together from parts that were encoded
before: the key of a source, an event, a batch. The result is byte for byte what the generated
classes would write (tested), at a hundredth of the time.
"""

from __future__ import annotations

from collections.abc import Iterable

from watchcache_server.informer.entries import Entry
from watchcache_server.informer.source import Source
from watchcache_server.informer.subscription import Event
from watchcache_server.informer.views import metadata_of
from watchcache_server.model.states import EventKind, LeftReason, View

__all__ = ["batch_message", "event_field", "object_field"]

_EVENT_TYPES = {
    EventKind.ADDED: 1,
    EventKind.MODIFIED: 2,
    EventKind.DELETED: 3,
    EventKind.LEFT: 4,
}
_LEFT_REASONS = {
    LeftReason.SELECTION: 1,
    LeftReason.SCOPE: 2,
    LeftReason.RIGHTS_REVOKED: 3,
    LeftReason.KIND_GONE: 4,
}


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _text(tag: int, value: str) -> bytes:
    """Encode a string field; none when it is empty."""
    if not value:
        return b""
    encoded = value.encode()
    return b"%c%b%b" % (tag, _varint(len(encoded)), encoded)


def _tag(number: int, kind: int) -> int:
    return number << 3 | kind


_LENGTH = 2
_VARINT = 0

_OBJECT_KEY = _tag(1, _LENGTH)
_OBJECT_UID = _tag(2, _LENGTH)
_OBJECT_RESOURCE_VERSION = _tag(3, _LENGTH)
_OBJECT_VERSION = _tag(4, _LENGTH)
_OBJECT_JSON = _tag(5, _LENGTH)
_OBJECT_METADATA_JSON = _tag(6, _LENGTH)
_KEY_NAMESPACE = _tag(4, _LENGTH)
_KEY_NAME = _tag(5, _LENGTH)
_EVENT_TYPE = _tag(1, _VARINT)
_EVENT_OBJECT = _tag(2, _LENGTH)
_EVENT_REVISION = _tag(3, _VARINT)
_EVENT_LEFT_REASON = _tag(4, _VARINT)
_EVENT_FINAL_STATE_UNKNOWN = _tag(5, _VARINT)
_BATCH_EVENTS = _tag(1, _LENGTH)
_BATCH_RESUME_TOKEN = _tag(2, _LENGTH)
_RESPONSE_BATCH = _tag(2, _LENGTH)


def object_field(source: Source, entry: Entry, view: View) -> list[bytes]:
    """Encode the content of an Object message, as parts to be joined."""
    key = b"".join(
        (
            _text(_tag(1, _LENGTH), source.spec.cluster),
            _text(_tag(2, _LENGTH), source.group),
            _text(_tag(3, _LENGTH), source.resource),
            _text(_KEY_NAMESPACE, entry.namespace),
            _text(_KEY_NAME, entry.name),
        )
    )
    parts = [
        b"%c%b%b" % (_OBJECT_KEY, _varint(len(key)), key),
        _text(_OBJECT_UID, entry.uid),
        _text(_OBJECT_RESOURCE_VERSION, entry.resource_version),
        _text(_OBJECT_VERSION, entry.version),
    ]
    if view is View.FULL:
        body = entry.body()
        parts += (b"%c%b" % (_OBJECT_JSON, _varint(len(body))), body)
    elif view is View.METADATA:
        body = metadata_of(entry.body())
        parts += (b"%c%b" % (_OBJECT_METADATA_JSON, _varint(len(body))), body)
    return parts


def event_field(event: Event, view: View) -> bytes:
    """Encode an event as one entry of EventBatch.events, tag and length included."""
    parts = object_field(event.source, event.entry, view)
    size = sum(map(len, parts))
    head = b"%c%c%c%b" % (
        _EVENT_TYPE,
        _EVENT_TYPES[event.kind],
        _EVENT_OBJECT,
        _varint(size),
    )
    tail = b"%c%b" % (_EVENT_REVISION, _varint(event.revision))
    if event.left_reason is not None:
        tail += b"%c%c" % (_EVENT_LEFT_REASON, _LEFT_REASONS[event.left_reason])
    if event.final_state_unknown:
        tail += b"%c\x01" % _EVENT_FINAL_STATE_UNKNOWN
    total = len(head) + size + len(tail)
    return b"".join((b"%c%b" % (_BATCH_EVENTS, _varint(total)), head, *parts, tail))


def batch_message(events: Iterable[bytes], resume_token: bytes) -> bytes:
    """Put a WatchResponse together from encoded events and a resume token, which may be empty."""
    parts = list(events)
    if resume_token:
        parts.append(b"%c%b%b" % (_BATCH_RESUME_TOKEN, _varint(len(resume_token)), resume_token))
    size = sum(map(len, parts))
    return b"".join((b"%c%b" % (_RESPONSE_BATCH, _varint(size)), *parts))
