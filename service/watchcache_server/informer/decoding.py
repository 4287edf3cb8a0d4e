"""Decodes one watch event, or one item of a list, without building a tree of it.

msgspec reads the few fields of an `Item` in one pass over the bytes; everything else stays bytes.
Of what is nested too deeply for that, it reads the outline (`nesting`). With Projection.FULL the
body is the object exactly as it was sent. WITHOUT_MANAGED_FIELDS cuts one member out and leaves
every other byte as it was sent, so that numbers of any size, unknown fields and escapes survive.
METADATA keeps apiVersion, kind and metadata without managedFields, whether the server sent
PartialObjectMetadata or the whole object, and always says the real kind.

Where an object has one key twice, the last one counts, here as in encoding/json; in the frame of an
event it is a fault. Every bad input raises a `DataError`; what to do then is the reflector's
business.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from watchcache_server.informer.cutting import (
    cut_from_metadata,
    cut_from_object,
    value_of,
    without_members,
)
from watchcache_server.informer.errors import DataError, MalformedError, UnexpectedError
from watchcache_server.informer.nesting import outline
from watchcache_server.informer.objects import Item
from watchcache_server.informer.scanning import members
from watchcache_server.informer.statuses import StatusFields, read_status
from watchcache_server.model.states import Projection

__all__ = [
    "Added",
    "Bookmark",
    "Broken",
    "Deleted",
    "EventDecoder",
    "ItemDecoder",
    "Modified",
    "StreamError",
    "WatchEvent",
]

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_METADATA_KIND = "PartialObjectMetadata"
_TYPE_NAMES = ("apiVersion", "kind")

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Added(msgspec.Struct, frozen=True, gc=False):
    """ADDED: the object exists, or, while the initial events last, existed when they began."""

    item: Item


class Modified(msgspec.Struct, frozen=True, gc=False):
    """MODIFIED: the object has changed."""

    item: Item


class Deleted(msgspec.Struct, frozen=True, gc=False):
    """DELETED: the stream no longer has the object; the resourceVersion is that of the deletion."""

    item: Item


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """BOOKMARK: everything up to this resourceVersion has been sent."""

    resource_version: str
    is_initial_end: bool = False


class StreamError(msgspec.Struct, frozen=True, gc=False):
    """ERROR: the server ends the watch, for this cause."""

    status: StatusFields


class Broken(msgspec.Struct, frozen=True, gc=False):
    """Not an event: what followed could not be used, and the rest of the stream is not read."""

    error: DataError


WatchEvent = Added | Modified | Deleted | Bookmark | StreamError | Broken

_ITEM_EVENTS: dict[str, type[Added | Modified | Deleted]] = {
    "ADDED": Added,
    "MODIFIED": Modified,
    "DELETED": Deleted,
}
# What an API server writes before the object, so that the frame need not be parsed.
_FRAMES = tuple(
    (b'{"type":"%s","object":' % name.encode(), event) for name, event in _ITEM_EVENTS.items()
)


class _Owner(msgspec.Struct, gc=False):
    uid: str = ""


class _Metadata(msgspec.Struct, gc=False):
    name: _Text
    resourceVersion: _Text  # noqa: N815 (the names of the wire)
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    ownerReferences: list[_Owner] | None = None  # noqa: N815


class _MetadataWithManaged(_Metadata, gc=False):
    managedFields: msgspec.Raw | UnsetType = UNSET  # noqa: N815


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata
    apiVersion: str | UnsetType = UNSET  # noqa: N815
    kind: str | UnsetType = UNSET


class _ObjectWithManaged(msgspec.Struct, gc=False):
    metadata: _MetadataWithManaged
    apiVersion: str | UnsetType = UNSET  # noqa: N815
    kind: str | UnsetType = UNSET


class _ObjectWithRawMetadata(msgspec.Struct, gc=False):
    metadata: msgspec.Raw
    apiVersion: str | UnsetType = UNSET  # noqa: N815
    kind: str | UnsetType = UNSET


class _Frame(msgspec.Struct, gc=False):
    type: str
    # An ERROR without one is still an ERROR.
    object: msgspec.Raw = msgspec.Raw()


class _BookmarkMetadata(msgspec.Struct, gc=False):
    resourceVersion: _Text  # noqa: N815
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct, gc=False):
    metadata: _BookmarkMetadata


_decode_object = msgspec.json.Decoder(_Object).decode
_decode_object_with_managed = msgspec.json.Decoder(_ObjectWithManaged).decode
_decode_raw_metadata = msgspec.json.Decoder(_ObjectWithRawMetadata).decode
_decode_metadata = msgspec.json.Decoder(_MetadataWithManaged).decode
_decode_frame = msgspec.json.Decoder(_Frame).decode
_decode_bookmark = msgspec.json.Decoder(_BookmarkObject).decode


class ItemDecoder:
    """Makes an `Item` of the JSON of one object of one kind."""

    __slots__ = ("_api_version", "_injection", "_kind", "_project")

    def __init__(self, *, api_version: str, kind: str, projection: Projection) -> None:
        self._api_version = api_version
        self._kind = kind
        self._injection = b'{"apiVersion":%s,"kind":%s,' % (
            msgspec.json.encode(api_version),
            msgspec.json.encode(kind),
        )
        self._project = {
            Projection.FULL: self._whole,
            Projection.WITHOUT_MANAGED_FIELDS: self._without_managed_fields,
            Projection.METADATA: self._metadata_only,
        }[projection]

    def decode(self, data: bytes) -> Item:
        """Decode one object; `data` must hold nothing else and may become the body of the item.

        Raises:
            MalformedError: not JSON, not UTF-8, or nested too deeply.
            UnexpectedError: no usable metadata, or another kind.
        """
        if not data.isascii():
            _check_utf8(data)
        try:
            return self._read(data)
        except msgspec.ValidationError as error:
            raise UnexpectedError(f"not an object of kind {self._kind}: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedError(f"an object is not JSON: {error}") from error

    def _read(self, data: bytes) -> Item:
        try:
            return self._project(data, data)
        except RecursionError:
            return self._project(data, outline(data))

    # The fields are read from `shallow`, which is `data` itself or its outline.

    def _whole(self, data: bytes, shallow: bytes) -> Item:
        decoded = _decode_object(shallow)
        return _item(decoded.metadata, self._with_type(data, decoded.apiVersion, decoded.kind))

    def _without_managed_fields(self, data: bytes, shallow: bytes) -> Item:
        decoded = _decode_object_with_managed(shallow)
        managed = decoded.metadata.managedFields
        body = data if managed is UNSET else cut_from_object(data, bytes(managed))
        return _item(decoded.metadata, self._with_type(body, decoded.apiVersion, decoded.kind))

    def _metadata_only(self, data: bytes, shallow: bytes) -> Item:
        decoded = _decode_raw_metadata(shallow)
        if decoded.kind != _METADATA_KIND:
            self._check_type(decoded.apiVersion, decoded.kind)
        raw = bytes(decoded.metadata)
        metadata = _decode_metadata(raw)
        if shallow is not data:
            raw = value_of(data, "metadata")
        managed = metadata.managedFields
        kept = raw if managed is UNSET else cut_from_metadata(raw, bytes(managed))
        return _item(metadata, b'%s"metadata":%s}' % (self._injection, kept))

    def _with_type(self, body: bytes, api_version: str | UnsetType, kind: str | UnsetType) -> bytes:
        self._check_type(api_version, kind)
        if api_version and kind:
            return body
        # Items of the lists of built-in kinds have neither.
        if api_version is not UNSET or kind is not UNSET:
            body = without_members(body, _TYPE_NAMES)
        return self._injection + body[body.index(b"{") + 1 :]

    def _check_type(self, api_version: str | UnsetType, kind: str | UnsetType) -> None:
        if (kind and kind != self._kind) or (api_version and api_version != self._api_version):
            raise UnexpectedError(
                f"an object of kind {kind or 'unnamed'} in {api_version or 'no version'} where "
                f"{self._kind} in {self._api_version} was asked for"
            )


class EventDecoder:
    """Makes a `WatchEvent` of one line of a watch."""

    __slots__ = ("_decode_item",)

    def __init__(self, *, api_version: str, kind: str, projection: Projection) -> None:
        self._decode_item = ItemDecoder(
            api_version=api_version, kind=kind, projection=projection
        ).decode

    def decode(self, line: bytes) -> WatchEvent:
        """Decode one line, without its line end; the event keeps no reference to it.

        Raises:
            MalformedError: not JSON, not UTF-8, or nested too deeply.
            UnexpectedError: an unknown type, no object, no metadata, a Table, or another kind.
        """
        for frame, event in _FRAMES:
            # If what lies between the frame and the last brace is one object, the line is what it
            # seems.
            if line.startswith(frame) and line.endswith(b"}"):
                try:
                    return event(self._decode_item(line[len(frame) : -1]))
                except MalformedError:
                    break
        return self._decode_unusual(line)

    def _decode_unusual(self, line: bytes) -> WatchEvent:
        _check_utf8(line)
        try:
            decoded, is_whole = _read_frame(line)
        except msgspec.ValidationError as error:
            raise UnexpectedError(f"not a watch event: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedError(f"a watch event cannot be read: {error}") from error
        _check_no_repeated_key(line)
        body = bytes(decoded.object)
        if decoded.type == "ERROR":
            return StreamError(read_status(body))
        if not body:
            raise UnexpectedError("a watch event without an object")
        event = _ITEM_EVENTS.get(decoded.type)
        if event is not None:
            return event(self._decode_item(body if is_whole else value_of(line, "object")))
        if decoded.type == "BOOKMARK":
            return _bookmark(body)
        raise UnexpectedError(f"a watch event of the unknown type {decoded.type[:32]!r}")


def _read_frame(line: bytes) -> tuple[_Frame, bool]:
    """Return the frame of an event, and whether it has the object itself or only its outline."""
    try:
        return _decode_frame(line), True
    except RecursionError:
        return _decode_frame(outline(line)), False


def _bookmark(body: bytes) -> Bookmark:
    # Of a bookmark only the version counts; kind and the rest may be nearly empty.
    try:
        metadata = _decode_bookmark(body).metadata
    except msgspec.ValidationError as error:
        raise UnexpectedError(f"a bookmark without a resourceVersion: {error}") from error
    annotations = metadata.annotations or {}
    return Bookmark(metadata.resourceVersion, annotations.get(INITIAL_EVENTS_END) == "true")


def _item(metadata: _Metadata, body: bytes) -> Item:
    owners = metadata.ownerReferences
    return Item(
        metadata.namespace,
        metadata.name,
        metadata.uid,
        metadata.resourceVersion,
        metadata.labels or {},
        tuple([owner.uid for owner in owners if owner.uid]) if owners else (),
        body,
    )


def _check_utf8(data: bytes) -> None:
    # msgspec does not look into what it skips.
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError(f"not UTF-8 at byte {error.start}") from error


def _check_no_repeated_key(line: bytes) -> None:
    keys = [line[member.key_start : member.key_end] for member in members(line)]
    for key in (b'"type"', b'"object"'):
        if keys.count(key) > 1:
            raise UnexpectedError(f"a watch event with {key.decode()} more than once")
