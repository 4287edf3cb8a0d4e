"""The body of a list: chunks in, items out while it streams.

An item ends where the separator comes that was seen between the first two (`separators`), provided
that what lies before it decodes: a complete JSON object is never the beginning of another. Where
that does not hold, structure alone decides (`scanning`). Neither way parses the body as a whole,
builds a tree, or keeps more than one item and one chunk.

A body that ends early, a Status, or anything else that is not a list is a fault, never an empty
list.
"""

from __future__ import annotations

import enum

import msgspec

from watchcache_server.informer.decoding import ItemDecoder
from watchcache_server.informer.errors import (
    MalformedError,
    NotAListError,
    OverLimitError,
    StatusAnswerError,
    TruncatedListError,
    UnexpectedError,
)
from watchcache_server.informer.nesting import outline
from watchcache_server.informer.objects import Item
from watchcache_server.informer.scanning import ValueScanner, skip_whitespace
from watchcache_server.informer.separators import Separator
from watchcache_server.informer.statuses import read_status

__all__ = ["DEFAULT_ITEM_LIMIT_BYTES", "ListBody", "ListMetadata"]

DEFAULT_ITEM_LIMIT_BYTES = 64 * 1024 * 1024

# So often may one item contain the separator before structure decides where it ends.
_TRIES = 3
# So much is waited for before structure decides: no separator comes behind the last item.
_PATIENCE_BYTES = 256 * 1024
# A longer member of the list itself is nothing that is read here.
_MEMBER_LIMIT_BYTES = 64 * 1024


class ListMetadata(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a list says about itself; `remaining_count` is None where the server does not say it."""

    resource_version: str
    continue_token: str = ""
    remaining_count: int | None = None


class _Metadata(msgspec.Struct, gc=False):
    resourceVersion: str = ""  # noqa: N815 (the names of the wire)
    continue_: str | None = msgspec.field(default=None, name="continue")
    remainingItemCount: int | None = None  # noqa: N815


_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_decode_text = msgspec.json.Decoder(str).decode
_check_value = msgspec.json.Decoder(msgspec.Raw).decode


class _Place(enum.Enum):
    """What must come next."""

    LIST = enum.auto()
    FIRST_KEY = enum.auto()
    KEY = enum.auto()
    COLON = enum.auto()
    VALUE = enum.auto()
    AFTER_VALUE = enum.auto()
    FIRST_ITEM = enum.auto()
    ITEM = enum.auto()
    AFTER_ITEM = enum.auto()
    NOTHING = enum.auto()


# Places where one character decides: what may come, and the place after it.
_NEXT = {
    (_Place.FIRST_KEY, "}"): _Place.NOTHING,
    (_Place.COLON, ":"): _Place.VALUE,
    (_Place.AFTER_VALUE, ","): _Place.KEY,
    (_Place.AFTER_VALUE, "}"): _Place.NOTHING,
    (_Place.FIRST_ITEM, "]"): _Place.AFTER_VALUE,
    (_Place.AFTER_ITEM, ","): _Place.ITEM,
    (_Place.AFTER_ITEM, "]"): _Place.AFTER_VALUE,
}


class ListBody:
    """Decodes one answer to a list."""

    def __init__(
        self, decoder: ItemDecoder, item_limit_bytes: int = DEFAULT_ITEM_LIMIT_BYTES
    ) -> None:
        self._decode_item = decoder.decode
        self._limit_bytes = item_limit_bytes
        self._buffer = bytearray()
        self._position = 0
        self._place = _Place.LIST
        self._scanner = ValueScanner()
        self._is_scanning = False
        self._is_ended = False
        self._separator = Separator()
        self._gap = b""
        self._key = ""
        self._has_items = False
        self._members: dict[str, bytes] = {}

    def feed(self, chunk: bytes) -> list[Item]:
        """Return the items that this chunk completes.

        Raises:
            DataError: one of its kinds; the list has failed as a whole.
        """
        self._buffer += chunk
        items: list[Item] = []
        while self._step(items):
            pass
        del self._buffer[: self._position]
        self._separator.shift(self._position)
        self._position = 0
        if len(self._buffer) > self._limit_bytes:
            raise OverLimitError(
                f"an item of a list is longer than {self._limit_bytes} bytes; "
                "raise the limit of one object"
            )
        return items

    def finish(self) -> tuple[list[Item], ListMetadata]:
        """Return the last items and the metadata of the list; call it at the end of the body.

        Raises:
            DataError: one of its kinds; the list has failed as a whole.
        """
        self._is_ended = True
        items: list[Item] = []
        while self._step(items):
            pass
        if self._place is _Place.LIST:
            raise NotAListError("an empty body instead of a list")
        if self._place is not _Place.NOTHING:
            raise TruncatedListError("the body of a list ended before its closing brace")
        return items, self._metadata()

    def _step(self, items: list[Item]) -> bool:
        """Read the next part; False if it is not all there."""
        start = skip_whitespace(self._buffer, self._position)
        if start == len(self._buffer):
            return False
        character = chr(self._buffer[start])
        place = _NEXT.get((self._place, character))
        if place is not None:
            if self._place is _Place.AFTER_ITEM:
                self._gap = bytes(self._buffer[self._position : start + 1])
            self._position = start + 1
            self._place = place
            return True
        if self._place in (_Place.FIRST_ITEM, _Place.ITEM) and character == "{":
            return self._read_item(start, items)
        if self._place in (_Place.FIRST_KEY, _Place.KEY) and character == '"':
            return self._read_key(start)
        if self._place is _Place.VALUE:
            return self._read_value(start, character)
        if self._place is _Place.LIST:
            if character != "{":
                raise NotAListError(
                    "the body of a list is not a JSON object; is a proxy answering?"
                )
            self._position = start + 1
            self._place = _Place.FIRST_KEY
            return True
        raise MalformedError(f"the body of a list is not JSON: unexpected {character!r}")

    def _read_key(self, start: int) -> bool:
        end = self._scanner.find_end(self._buffer, start)
        if end < 0:
            return False
        try:
            self._key = _decode_text(bytes(self._buffer[start:end]))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedError(f"a key of a list cannot be read: {error}") from error
        if self._key in self._members or (self._key == "items" and self._has_items):
            raise UnexpectedError(f"a list with {self._key[:32]!r} more than once")
        self._position = end
        self._place = _Place.COLON
        return True

    def _read_value(self, start: int, character: str) -> bool:
        if self._key == "items" and character == "[":
            self._has_items = True
            self._position = start + 1
            self._place = _Place.FIRST_ITEM
            return True
        end = self._scanner.find_end(self._buffer, start)
        if end < 0:
            return False
        value = bytes(self._buffer[start:end])
        try:
            value = _checked(value)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedError(f"a member of a list cannot be read: {error}") from error
        if self._key == "items":
            if value != b"null":
                raise UnexpectedError("the items of a list are not an array")
            self._has_items = True
        elif len(value) <= _MEMBER_LIMIT_BYTES:
            self._members[self._key] = value
        self._position = end
        self._place = _Place.AFTER_VALUE
        return True

    def _read_item(self, start: int, items: list[Item]) -> bool:
        if not self._is_scanning and self._separator.is_known:
            for _ in range(_TRIES):
                end = self._separator.find(self._buffer, start)
                if end < 0:
                    if len(self._buffer) - start < _PATIENCE_BYTES and not self._is_ended:
                        return False
                    break
                try:
                    items.append(self._decode_item(self._take(start, end)))
                except MalformedError:
                    # The separator occurs within the item.
                    continue
                self._position = self._separator.next_start(end)
                self._place = _Place.ITEM
                return True
        return self._scan_item(start, items)

    def _scan_item(self, start: int, items: list[Item]) -> bool:
        self._is_scanning = True
        end = self._scanner.find_end(self._buffer, start)
        if end < 0:
            return False
        self._is_scanning = False
        data = self._take(start, end)
        items.append(self._decode_item(data))
        if self._separator.is_known:
            self._separator.miss()
        elif self._place is _Place.ITEM:
            self._separator.learn(self._gap + bytes(self._buffer[self._position : start]), data)
        self._position = end
        self._place = _Place.AFTER_ITEM
        return True

    def _take(self, start: int, end: int) -> bytes:
        with memoryview(self._buffer) as view:
            return bytes(view[start:end])

    def _metadata(self) -> ListMetadata:
        kind = self._members.get("kind", b"")
        if kind == b'"Status"':
            raise StatusAnswerError(read_status(self._as_object()))
        if not self._has_items or "metadata" not in self._members:
            shown = kind[:64].decode(errors="replace")
            raise NotAListError(f"an object of kind {shown} without items or metadata")
        try:
            metadata = _decode_metadata(self._members["metadata"])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UnexpectedError(f"the metadata of a list cannot be read: {error}") from error
        if not metadata.resourceVersion:
            raise UnexpectedError("a list without a resourceVersion cannot be followed by a watch")
        return ListMetadata(
            resource_version=metadata.resourceVersion,
            continue_token=metadata.continue_ or "",
            remaining_count=metadata.remainingItemCount,
        )

    def _as_object(self) -> bytes:
        pairs = [msgspec.json.encode(key) + b":" + value for key, value in self._members.items()]
        return b"{" + b",".join(pairs) + b"}"


def _checked(value: bytes) -> bytes:
    """Return a value that is valid, or its outline if it is nested very deeply."""
    try:
        _check_value(value)
    except RecursionError:
        value = outline(value)
        _check_value(value)
    return value
