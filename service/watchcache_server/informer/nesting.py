"""Reads around what is nested deeper than msgspec follows, which is as deep as Python's own limit.

An API server takes objects nested ten times as deep, and one of them must not stop all others of
its kind. The outline of a text is the same text with a 0 in the place of each value that lies
deeper than some levels; it has all that is read of an object, and what it leaves out was checked in
pieces. Nothing here calls itself.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from watchcache_server.informer.errors import MalformedError

__all__ = ["DEPTH_LIMIT", "outline"]

# API servers refuse more than 10,000 levels, and lists and events add a few.
DEPTH_LIMIT: Final = 12_000
# So many levels are one piece: few enough wherever on the stack this is called.
_PIECE_LEVELS: Final = 128


def _stepping_over(levels: int) -> re.Pattern[bytes]:
    """Match whole strings, and arrays and objects that hold no more than so many levels.

    Possessive quantifiers: nothing is ever tried twice. Brackets need not match here; whoever
    decodes the pieces sees to that.
    """
    flat = rb'[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"'
    pattern = flat
    for _ in range(levels):
        pattern = rb"%s|[\[{](?:%s)*+[\]}]" % (flat, pattern)
    return re.compile(rb"(?:%s)*+" % pattern, re.DOTALL)


_BEFORE_BRACKET = _stepping_over(6)
_QUOTE = 0x22
_OPENERS = b"{["

_check = msgspec.json.Decoder(msgspec.Raw).decode


def outline(data: bytes) -> bytes:
    """Return a text without its deep values, of which each is valid; the outline itself may not be.

    Raises:
        MalformedError: not JSON, or nested deeper than `DEPTH_LIMIT`.
    """
    # The parts of each piece that is open, and where the next part begins.
    open_pieces: list[list[bytes]] = [[]]
    start = position = depth = 0
    while (position := _skip(data, position)) < len(data):
        byte = data[position]
        if byte == _QUOTE:
            raise MalformedError("a string without its end")
        is_opening = byte in _OPENERS
        depth -= not is_opening
        if is_opening and _is_edge(depth):
            open_pieces[-1].append(data[start:position])
            open_pieces.append([])
            start = position
        position += 1
        if not is_opening and _is_edge(depth):
            piece = b"".join((*open_pieces.pop(), data[start:position]))
            _check_piece(piece)
            open_pieces[-1].append(b"0")
            start = position
        depth += is_opening
        if not 0 <= depth <= DEPTH_LIMIT:
            too_many = f"more than {DEPTH_LIMIT} levels" if depth > 0 else "a bracket too many"
            raise MalformedError(f"nested too deeply or not JSON: {too_many}")
    if depth:
        raise MalformedError("a bracket without its end")
    return b"".join((*open_pieces[0], data[start:]))


def _is_edge(depth: int) -> bool:
    return depth > 0 and depth % _PIECE_LEVELS == 0


def _skip(data: bytes, position: int) -> int:
    match = _BEFORE_BRACKET.match(data, position)
    assert match is not None, "it also matches nothing"
    return match.end()


def _check_piece(piece: bytes) -> None:
    try:
        _check(piece)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedError(f"not JSON: {error}") from error
