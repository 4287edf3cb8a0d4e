"""Rules of finding the end of a value by structure."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache_server.informer.scanning import ValueScanner, members, skip_whitespace

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
_INDENTS = st.sampled_from([None, 0, 3])
_ASCII = st.booleans()


@given(_VALUES, _INDENTS, _ASCII, st.integers(1, 9))
def test_the_end_of_any_value_is_found_in_any_pieces(
    value: Any, indent: int | None, is_ascii: bool, size: int
) -> None:
    """The end is where the value ends, not earlier, whatever the formatting and the chunks."""
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode()
    whole = b"  " + text + b' ,"next"'
    scanner = ValueScanner()
    data = bytearray(whole[:2])
    end = -1
    for at in range(2, len(whole), size):
        data += whole[at : at + size]
        end = scanner.find_end(data, 2)
        if end >= 0:
            break
    assert end == 2 + len(text)
    assert scanner.find_end(b'"x"', 0) == 3, "ready for another value"


@given(st.dictionaries(st.text(), _VALUES), _INDENTS, _ASCII)
def test_members_are_those_of_the_object(
    value: dict[str, Any], indent: int | None, is_ascii: bool
) -> None:
    """Keys and values come with the offsets of exactly their text."""
    data = b" " + json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode() + b" "
    found = [
        (json.loads(data[m.key_start : m.key_end]), json.loads(data[m.value_start : m.value_end]))
        for m in members(data)
    ]
    assert found == list(value.items())


@pytest.mark.parametrize(
    ("data", "end"),
    [
        pytest.param(b'"a\\"b"', 6, id="an escaped quote"),
        pytest.param(b'"a\\\\"', 5, id="an escaped backslash"),
        pytest.param(b'{"a":"}]{["}', 12, id="brackets in a string"),
        pytest.param(b"12", -1, id="a number may go on"),
        pytest.param(b"12 ", 2, id="a number has ended"),
        pytest.param(b"null}", 4, id="a literal has ended"),
        pytest.param(b"}", 0, id="no value at all"),
        pytest.param(b"", -1, id="nothing yet"),
        pytest.param(b'{"a":[1}]', 9, id="kinds of brackets are not told apart"),
    ],
)
def test_structure_is_all_that_counts(data: bytes, end: int) -> None:
    """It finds ends; whether what lies before them is valid is for the decoder to say."""
    assert ValueScanner().find_end(data, 0) == end


def test_whitespace_is_that_of_json() -> None:
    """Four characters, and no others."""
    assert skip_whitespace(b" \t\r\n\x0b", 0) == 4
    assert skip_whitespace(b"x", 1) == 1


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param(b"x", id="one long string"),
        pytest.param(b'\\"', id="a string of escapes"),
        pytest.param(b'"],["', id="many brackets"),
    ],
)
def test_growing_values_cost_linear_time(unit: bytes) -> None:
    """Eight times as much in small pieces is about eight times the work."""

    def seconds(count: int) -> float:
        whole = b'{"a":["' + unit * count + b'"]}'
        best = 9.0
        for _ in range(2):
            scanner, data, end = ValueScanner(), bytearray(), -1
            start = time.process_time()
            for at in range(0, len(whole), 4096):
                data += whole[at : at + 4096]
                end = scanner.find_end(data, 0)
            best = min(best, time.process_time() - start)
            assert end == len(whole)
        return best

    assert seconds(800_000 // len(unit)) < 30 * max(seconds(100_000 // len(unit)), 0.0005)
