"""Finds where a JSON value ends, by structure alone.

The fallback for whatever the quick ways of `decoding` and `bodies` do not recognise: any legal
JSON, at a cost linear in its size and without building anything. It does not check what it passes
over; msgspec does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Member", "ValueScanner", "members", "skip_whitespace"]

# Possessive quantifiers: nothing is ever tried twice. Whole strings are stepped over, brackets are
# not.
_BEFORE_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_STRING_REST = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SCALAR = re.compile(rb"[^,\]}\s]*+")
_WHITESPACE = re.compile(rb"[ \t\r\n]*+")

_QUOTE = 0x22
_COMMA = 0x2C
_OPENERS = b"{["


class Member(NamedTuple):
    """One member of an object: the offsets of its key (quotes included) and of its value."""

    key_start: int
    key_end: int
    value_start: int
    value_end: int


class ValueScanner:
    """Finds the end of one value in a buffer that may still grow; goes on where it stopped."""

    __slots__ = ("_depth", "_is_in_string", "_offset")

    def __init__(self) -> None:
        self._offset = 0
        self._depth = 0
        self._is_in_string = False

    def find_end(self, data: bytes | bytearray, start: int) -> int:
        """Return the offset just past the value at `start`, or -1 if it is not all there.

        After -1, call again with the same value and more data behind it. A number or literal needs
        one byte behind it to be known to be complete. After a result, the scanner is ready for
        another value.
        """
        end = self._go_on(data, start + self._offset)
        if end >= 0:
            self._offset = 0
            return end
        self._offset = ~end - start
        return -1

    def _go_on(self, data: bytes | bytearray, position: int) -> int:
        # Not complete is the complement of where to go on, which is negative.
        size = len(data)
        while position < size:
            if self._is_in_string:
                position = _end_of(_STRING_REST, data, position)
                if position >= size or data[position] != _QUOTE:
                    return ~position
                self._is_in_string = False
                position += 1
                if self._depth == 0:
                    return position
            if self._depth:
                position = _end_of(_BEFORE_BRACKET, data, position)
                if position >= size:
                    break
            byte = data[position]
            if byte == _QUOTE:
                self._is_in_string = True
            elif byte in _OPENERS:
                self._depth += 1
            elif self._depth:
                self._depth -= 1
                if self._depth == 0:
                    return position + 1
            else:
                end = _end_of(_SCALAR, data, position)
                return end if end < size else ~position
            position += 1
        return ~position


def members(data: bytes, start: int = 0) -> Iterator[Member]:
    """Yield the members of the object at `start` of a text known to be valid JSON."""
    scanner = ValueScanner()
    # The opening brace first, then the comma before each further member.
    separator = skip_whitespace(data, start)
    while data[key_start := skip_whitespace(data, separator + 1)] == _QUOTE:
        key_end = scanner.find_end(data, key_start)
        value_start = skip_whitespace(data, skip_whitespace(data, key_end) + 1)
        value_end = scanner.find_end(data, value_start)
        yield Member(key_start, key_end, value_start, value_end)
        separator = skip_whitespace(data, value_end)
        if data[separator] != _COMMA:
            return


def skip_whitespace(data: bytes | bytearray, position: int) -> int:
    """Return the offset of the first byte at or after `position` that is not whitespace."""
    return _end_of(_WHITESPACE, data, position)


def _end_of(pattern: re.Pattern[bytes], data: bytes | bytearray, position: int) -> int:
    match = pattern.match(data, position)
    assert match is not None, "every pattern here also matches nothing"
    return match.end()
