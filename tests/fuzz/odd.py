"""Messages that are well-formed and odd, drawn from the descriptors of the contract alone.

A field is left out, or has a value that means something (a name that exists, a selector, a token),
one at a bound, or anything of its type. A new field of the contract is drawn without a word here.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

__all__ = ["EXTENSIONS", "NAMESPACE", "PLACEHOLDERS", "encodings", "messages"]

NAMESPACE = "fuzz"
EXTENSIONS = ("shop", "other")
#: What stands for a token that only the running service can give; `wire.py` puts it in, also
#: spoiled.
PLACEHOLDERS = ("@token", "@flipped", "@cut", "@forged")

_MOST_ENTRIES = 3
# Without these nearly every request would be refused for the same reason.
_NEEDED = ("namespace", "name", "spec", "key", "resource", "service_account")
_DEPTH = 6
_INT32, _INT64 = 2**31, 2**63

_MEANT: dict[str, tuple[str, ...]] = {
    "namespace": (NAMESPACE, NAMESPACE, NAMESPACE, "default"),
    "namespaces": (NAMESPACE, NAMESPACE, "default"),
    "name": (*EXTENSIONS, *EXTENSIONS, *EXTENSIONS, "c0"),
    "ObjectKey.name": ("c0", "c1", "nothing"),
    "service_account": ("shop", "shop", "nobody"),
    "cluster": ("hub", ""),
    "clusters": ("hub", "mars"),
    "group": ("", "", "apps"),
    "version": ("", "v1", "v9"),
    "resource": ("configmaps", "secrets", "pods", "nonsense"),
    "kind": ("ConfigMap", "Secret"),
    "label_selector": ("", "a=b", "a in (b,c),!d", "a in (b", "a!=b,a=b"),
    "field_selector": ("", "metadata.name=c0", "metadata.name!=c0", "a\\,b=c"),
    "path": ("data.n", "metadata.ownerReferences[].uid", "a[].b[]"),
    "index_paths": ("data.n", "metadata.name", "spec[]"),
    "value": ("0", "1", "true"),
    "min_resource_version": ("1", "007", str(2**64), "x"),
    "page_token": ("", *PLACEHOLDERS),
    "resume_token": ("", *PLACEHOLDERS),
    "known": ("", *PLACEHOLDERS),
    "manifests": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c0}",
        '{"kind":"List","items":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a,b"}}]}',
        "&a [*a]",
        "!!timestamp x",
    ),
    "objects": ("x" * 24, "y" * 48, "x" * 24 + "z" * 24, "z" * 25),
}
_TEXTS = (
    *("", "x" * 300, "../..", "%2F", "a\nb", "\0", "é", "\U0001f600", "a/b?c#d", "*", "-", "."),
    *("true", "null", "0", "{}", "${x}"),
)
_SECONDS = st.sampled_from((0, 0, 1, -1, 5, 2**31, _INT64 - 1, -_INT64))
_NANOS = st.sampled_from((0, 0, 1, 999_999_999, 10**9, -1, -_INT32))


def messages(
    descriptor: Descriptor, *, is_odd: bool = True, depth: int = _DEPTH
) -> st.SearchStrategy[Message]:
    """Draw messages of a type; those that are not odd have only values that mean something."""
    drawn = {field.name: _field(field, depth, is_odd=is_odd) for field in descriptor.fields}
    needed = {} if is_odd else {name: drawn.pop(name) for name in _NEEDED if name in drawn}
    return st.fixed_dictionaries(needed, optional=drawn).map(
        lambda fields: _made(descriptor, fields)
    )


def encodings(descriptor: Descriptor) -> st.SearchStrategy[bytes]:
    """Draw what may come in the place of a message: one, one that is cut or altered, or noise."""
    plain, odd = (
        messages(descriptor, is_odd=is_odd).map(lambda message: message.SerializeToString())
        for is_odd in (False, True)
    )
    place = st.integers(0, 1 << 16)
    return st.one_of(
        plain,
        plain,
        st.tuples(plain, odd).map(b"".join),  # Both, merged: as a decoder of protobuf has it.
        odd,
        st.tuples(plain, place).map(lambda drawn: _cut(*drawn)),
        st.tuples(plain, place, st.integers(1, 255)).map(lambda drawn: _altered(*drawn)),
        st.tuples(plain, st.binary(max_size=20)).map(b"".join),
        st.binary(max_size=60),
    )


def _made(descriptor: Descriptor, fields: dict[str, Any]) -> Message:
    message = GetMessageClass(descriptor)()
    for name, value in fields.items():
        if isinstance(value, list):
            held = getattr(message, name)
            held.extend(value)
        elif isinstance(value, Message):
            getattr(message, name).CopyFrom(value)
        else:
            setattr(message, name, value)
    return message


def _field(field: FieldDescriptor, depth: int, *, is_odd: bool) -> st.SearchStrategy[Any]:
    one = _value(field, depth, is_odd=is_odd)
    return st.lists(one, max_size=_MOST_ENTRIES) if field.is_repeated else one


def _value(field: FieldDescriptor, depth: int, *, is_odd: bool) -> st.SearchStrategy[Any]:
    message_type = field.message_type
    if message_type is not None and message_type.full_name == "google.protobuf.Duration":
        seconds = _SECONDS if is_odd else st.integers(0, 2)
        lasting = st.fixed_dictionaries({"seconds": seconds}, optional={"nanos": _NANOS})
        return lasting.map(lambda parts: _made(message_type, parts))
    if message_type is not None:
        return messages(message_type, is_odd=is_odd, depth=depth - 1) if depth else st.nothing()
    meant = st.sampled_from(_meant(field))
    return meant | _any(field) if is_odd else meant


def _meant(field: FieldDescriptor) -> tuple[Any, ...]:
    """Return values of a field that mean something."""
    own_name = f"{field.containing_type.name}.{field.name}"
    texts = _MEANT.get(own_name) or _MEANT.get(field.name, ("", "u1"))
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return tuple(text.encode() for text in texts)
        case FieldDescriptor.CPPTYPE_STRING:
            return texts
        case FieldDescriptor.CPPTYPE_BOOL:
            return (False, True)
        case FieldDescriptor.CPPTYPE_ENUM:
            return tuple(value.number for value in field.enum_type.values)
    return (0, 1, 2)


def _any(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Draw anything of a field's type."""
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return st.binary(max_size=80)
        case FieldDescriptor.CPPTYPE_STRING:
            return st.sampled_from(_TEXTS) | st.text(max_size=20)
        case FieldDescriptor.CPPTYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.CPPTYPE_INT64:
            return st.integers(-_INT64, _INT64 - 1)
        case FieldDescriptor.CPPTYPE_ENUM | FieldDescriptor.CPPTYPE_INT32:
            return st.integers(-_INT32, _INT32 - 1)
    raise AssertionError(f"draw values of {field.full_name} too")


def _cut(encoded: bytes, place: int) -> bytes:
    return encoded[: place % (len(encoded) + 1)]


def _altered(encoded: bytes, place: int, by: int) -> bytes:
    if not encoded:
        return bytes((by,))
    place %= len(encoded)
    return encoded[:place] + bytes((encoded[place] ^ by,)) + encoded[place + 1 :]
