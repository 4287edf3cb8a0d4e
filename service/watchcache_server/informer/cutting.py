"""Cuts members out of a JSON object and leaves every other byte as it was sent.

The quick way finds managedFields by one search and takes it if it can only be the one that was
decoded. The other way goes by structure and is right for whatever is legal JSON. All texts that
come here are known to be valid.
"""

from __future__ import annotations

import msgspec

from watchcache_server.informer.scanning import Member, members, skip_whitespace

__all__ = ["cut_from_metadata", "cut_from_object", "value_of", "without_members"]

_MANAGED_KEY = b'"managedFields":'
_MANAGED_NAMES = ("managedFields",)
# What an escape of any letter of managedFields begins with. Servers escape <, >, & and control
# characters only.
_ESCAPED_LETTERS = (b"\\u004", b"\\u006", b"\\u007")
_COMMA, _OPENING_BRACE, _CLOSING_BRACE = b",{}"


def cut_from_object(data: bytes, value: bytes) -> bytes:
    """Cut metadata.managedFields, whose value is known, out of an object."""
    cut = _cut_only_one(data, value)
    if cut is not None:
        return cut
    kept = data
    # From the last to the first, so that the offsets of those still to come stay right.
    for member in reversed(list(members(data))):
        if _key(data, member) == "metadata":
            kept = without_members(kept, _MANAGED_NAMES, member.value_start)
    return kept


def cut_from_metadata(metadata: bytes, value: bytes) -> bytes:
    """Cut managedFields, whose value is known, out of the metadata of an object."""
    cut = _cut_only_one(metadata, value)
    return without_members(metadata, _MANAGED_NAMES) if cut is None else cut


def _cut_only_one(data: bytes, value: bytes) -> bytes | None:
    """Cut the first managedFields if it must be the one whose value was decoded; None if in doubt.

    Behind a comma or an opening brace, the quoted name with its colon is a key and never part of a
    string. It is the right one if it has the value, and what is left neither has the name again nor
    could have it in another way of writing.
    """
    start = data.find(_MANAGED_KEY)
    end = start + len(_MANAGED_KEY) + len(value)
    if start < 1 or data[start + len(_MANAGED_KEY) : end] != value:
        return None
    before, after = data[start - 1], data[end]
    if before == _COMMA:
        kept = data[: start - 1] + data[end:]
    elif before == _OPENING_BRACE and after == _COMMA:
        kept = data[:start] + data[end + 1 :]
    elif before == _OPENING_BRACE and after == _CLOSING_BRACE:
        kept = data[:start] + data[end:]
    else:
        return None
    # The search for a single byte first: it is many times faster, and most objects have no
    # backslash.
    has_escapes = b"\\" in kept and any(escape in kept for escape in _ESCAPED_LETTERS)
    return None if has_escapes or b"managedFields" in kept else kept


def without_members(data: bytes, names: tuple[str, ...], start: int = 0) -> bytes:
    """Cut the members of these names out of the object at `start`, however they are written."""
    end = skip_whitespace(data, start) + 1
    pieces = [data[:end]]
    for member in members(data, start):
        if _key(data, member) not in names:
            gap = data[end : member.key_start]
            # Whitespace and the comma, which the first one does not need.
            pieces.append(gap if len(pieces) > 1 else gap.replace(b",", b""))
            pieces.append(data[member.key_start : member.value_end])
        end = member.value_end
    pieces.append(data[end:])
    return b"".join(pieces)


def value_of(data: bytes, name: str) -> bytes:
    """Return the value of a member that an object has; the last one, should there be several."""
    found = b""
    for member in members(data):
        if _key(data, member) == name:
            found = data[member.value_start : member.value_end]
    return found


def _key(data: bytes, member: Member) -> str:
    return msgspec.json.decode(data[member.key_start : member.key_end], type=str)
