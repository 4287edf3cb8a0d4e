"""Texts as they are sent, spoiled: cut, doubled, and with pieces that a parser may stumble over."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["json_values", "spoiled"]

_PIECES = (
    *(b"", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xc0\x80", b"\xed\xa0\x80", b"\n", b"\r\n", b"\t"),
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\\u0000", b"\\ud800", b"null", b"-"),
    *(b"1e999", b"NaN", b"1" * 400, b"[" * 2000, b'{"a":' * 2000, b"\xe2\x80\xa8"),
    *(b"&a ", b"*a ", b"!!timestamp ", b"!!int ", b"!!bool ", b"!!float ", b"!!binary ", b"<<: "),
    *(b"!!python/name:os.system ", b"? ", b"- ", b"---\n", b"...\n", b"%YAML 9.9\n", b"#", b"|\n"),
)


def spoiled(*texts: bytes) -> st.SearchStrategy[bytes]:
    """Draw texts that begin as one of these, with up to a few things done to them."""
    place = st.floats(0, 1)
    change = st.tuples(place, place, st.sampled_from(_PIECES) | st.binary(max_size=6))
    return st.tuples(st.sampled_from(texts), st.lists(change, max_size=4)).map(_spoil)


def json_values() -> st.SearchStrategy[Any]:
    """Draw anything that JSON and YAML can say."""
    leaf = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    return st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )


def _spoil(drawn: tuple[bytes, list[tuple[float, float, bytes]]]) -> bytes:
    text, changes = drawn
    for start, end, piece in changes:
        first, last = sorted((int(start * len(text)), int(end * len(text))))
        # A short stretch is replaced, a long one only added to: most of the text stays.
        last = min(last, first + len(piece))
        text = text[:first] + piece + text[last:]
    return text


def dumped(value: Any) -> bytes:
    """Write a value as JSON."""
    return json.dumps(value).encode()
