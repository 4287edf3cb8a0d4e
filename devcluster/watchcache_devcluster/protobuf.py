"""Reading objects that arrive as Kubernetes protobuf, which kubectl sends for built-in kinds.

The envelope is four magic bytes and a `runtime.Unknown`; what it holds is read by the fields of
`builtin_types`. Nothing is ever written in this format: whoever sends it also accepts JSON.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from watchcache_devcluster.builtin_types import Field, Message, message, message_of

__all__ = ["MAGIC", "ProtobufError", "decode_object"]

Tree = dict[str, Any]
MAGIC = b"k8s\0"


class ProtobufError(Exception):
    """The bytes are not an object of a known kind."""


def decode_object(data: bytes) -> Tree:
    """Decode one object, type included.

    Raises:
        ProtobufError: it is cut short, malformed, or of a kind that is not built in.
    """
    if not data.startswith(MAGIC):
        raise ProtobufError("the body does not begin with the magic bytes of the format")
    try:
        envelope = dict(_fields(memoryview(data)[len(MAGIC) :]))
        type_ = dict(_fields(envelope.get(1, memoryview(b""))))
        api_version, kind = _text(type_.get(1, b"")), _text(type_.get(2, b""))
        group, _, version = api_version.rpartition("/")
        shape = message_of(group, version, kind) or _option_shape(kind)
        if shape is None:
            raise ProtobufError(f"kind {kind} of {api_version} is not known in this format")
        return {"apiVersion": api_version, "kind": kind, **_decode(shape, envelope.get(2, b""))}
    except (IndexError, ValueError, TypeError, struct.error) as error:
        raise ProtobufError(f"the body is malformed: {error}") from error


def _option_shape(kind: str) -> Message | None:
    return message("meta.DeleteOptions") if kind == "DeleteOptions" else None


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _fields(data: Any) -> Iterator[tuple[int, Any]]:
    """Yield the number and raw value of each field of a message."""
    view = memoryview(data)
    position = 0
    while position < len(view):
        tag, position = _varint(view, position)
        number, wire = tag >> 3, tag & 7
        match wire:
            case 0:
                value, position = _varint(view, position)
                yield number, value
            case 1:
                yield number, view[position : position + 8]
                position += 8
            case 2:
                length, position = _varint(view, position)
                if position + length > len(view):
                    raise ValueError("a field is longer than its message")
                yield number, view[position : position + length]
                position += length
            case 5:
                yield number, view[position : position + 4]
                position += 4
            case _:
                raise ValueError(f"unknown wire type {wire}")


def _decode(shape: Message, data: Any) -> Tree:
    tree: Tree = {}
    for number, raw in _fields(data):
        field = shape.by_number.get(number)
        if field is None:
            continue
        if field.is_inline:
            tree |= _decode(message(field.message), raw)
        elif field.kind == "list":
            assert field.inner is not None
            tree.setdefault(field.name, []).append(_value(field.inner, raw))
        elif field.kind == "map":
            assert field.inner is not None
            entry = dict(_fields(raw))
            empty = 0 if field.inner.kind in {"i", "b"} else b""
            value = _value(field.inner, entry.get(2, empty))
            tree.setdefault(field.name, {})[_text(entry.get(1, b""))] = value
        else:
            value = _value(field, raw)
            is_empty = value in ("", 0, {}, None)
            if not is_empty or field.is_pointer or field.is_always_written:
                tree[field.name] = value
    return tree


def _value(field: Field, raw: Any) -> Any:
    match field.kind:
        case "s":
            return _text(raw)
        case "i":
            return raw - (1 << 64) if raw >> 63 else raw
        case "b":
            return bool(raw)
        case "f":
            return struct.unpack("<d", raw)[0]
        case "y":
            return base64.b64encode(raw).decode()
        case "message":
            return _decode(message(field.message), raw)
        case "slice":
            assert field.inner is not None
            return [_value(field.inner, item) for _, item in _fields(raw)]
    inner = dict(_fields(raw))
    match field.kind:
        case "T" | "U":
            return _time(inner, with_micros=field.kind == "U")
        case "D":
            return f"{inner.get(1, 0) / 1e9:g}s"
        case "I":
            return _text(inner.get(3, b"")) if inner.get(1, 0) else _signed(inner.get(2, 0))
        case "Q":
            return _text(inner.get(1, b""))
        case "R" | "F":
            content = bytes(inner.get(1, b""))
            return msgspec.json.decode(content) if content else None
    raise ValueError(f"field {field.name} cannot be read in this format")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _time(inner: dict[int, Any], *, with_micros: bool) -> str | None:
    if not inner:
        return None
    moment = datetime.fromtimestamp(_signed(inner.get(1, 0)), UTC)
    if with_micros:
        return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{inner.get(2, 0) // 1000:06d}Z"
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(raw: Any) -> str:
    return bytes(raw).decode()
