"""The values at index paths, read from bytes: the same as from a tree of the object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache_server.informer.fields import FieldReader
from watchcache_server.model.index_paths import path_segments


def pairs(body: bytes, *paths: str, most_values: int = 64) -> list[tuple[str, str]]:
    """Read the values at some paths."""
    found = FieldReader(paths, most_values).read(body).pairs
    return list(zip(found[::2], found[1::2], strict=True))


@pytest.mark.parametrize(
    ("body", "path", "values"),
    [
        pytest.param('{"spec":{"nodeName":"n1"}}', "spec.nodeName", ["n1"], id="a text"),
        pytest.param(' \n{"spec" : {"nodeName": "n1"} }', "spec.nodeName", ["n1"], id="spaces"),
        pytest.param('{"spec":{"n":3,"x":[1]}}', "spec.n", ["3"], id="a number"),
        pytest.param('{"spec":{"n":-1.50e2}}', "spec.n", ["-1.50e2"], id="as it is written"),
        pytest.param('{"spec":{"n":true}}', "spec.n", ["true"], id="a boolean"),
        pytest.param('{"spec":{"n":null}}', "spec.n", [], id="null is no value"),
        pytest.param('{"spec":{"n":""}}', "spec.n", [""], id="an empty text is one"),
        pytest.param('{"spec":{"n":{}}}', "spec.n", [], id="an object is none"),
        pytest.param('{"spec":{"n":["a"]}}', "spec.n", [], id="a list is none without []"),
        pytest.param('{"spec":{"n":"a"}}', "spec.n[]", [], id="a text has no entries"),
        pytest.param('{"spec":"n"}', "spec.n", [], id="a text has no members"),
        pytest.param('{"spec":null}', "spec.n", [], id="null has no members"),
        pytest.param("{}", "spec.n", [], id="not there"),
        pytest.param('{"l":["b","a","b"]}', "l[]", ["a", "b"], id="each entry once"),
        pytest.param('{"l":[["a"],["b","c"]]}', "l[][]", ["a", "b", "c"], id="lists of lists"),
        pytest.param(
            '{"l":[{"u":"a"},{"v":"x"},"u",null,{"u":"b"}]}', "l[].u", ["a", "b"], id="of entries"
        ),
        pytest.param('{"k":"a","k":"b"}', "k", ["b"], id="the last of one key counts"),
        pytest.param('{"k":"\\u00e9\\n"}', "k", ["é\n"], id="escapes"),
    ],
)
def test_values_are_read(body: str, path: str, values: list[str]) -> None:
    """Texts, numbers and booleans at the end of a path; everything else has no value."""
    assert pairs(body.encode(), path) == [(path, value) for value in values]


def test_paths_may_begin_alike() -> None:
    """Each is read for itself, whatever lies on the way of another."""
    body = b'{"a":{"b":"x","c":[{"d":"y"}]},"e":"z"}'
    assert pairs(body, "a", "a.b", "a.c", "a.c[]", "a.c[].d", "e") == [
        ("a.b", "x"),
        ("a.c[].d", "y"),
        ("e", "z"),
    ]


def test_values_beyond_the_limit_are_left_out_and_counted() -> None:
    """Those that sort first are kept, in whatever order they come."""
    body = json.dumps({"l": ["d", "b", "a", "c"]}).encode()
    found = FieldReader(("l[]",), 3).read(body)
    assert found.pairs == ("l[]", "a", "l[]", "b", "l[]", "c")
    assert found.left_out == 1


def test_what_is_nested_very_deeply_does_not_hide_the_rest() -> None:
    """Deeper than msgspec follows."""
    deep = b"[" * 5000 + b"]" * 5000
    body = b'{"spec":{"deep":' + deep + b',"nodeName":"n1"}}'
    assert pairs(body, "spec.nodeName", "spec.deep") == [("spec.nodeName", "n1")]


PATHS = ("a", "a.b", "a[]", "a[].b", "a[][]", "b.a.b", "b[].a[].b", "c")
KEYS = st.sampled_from("abc")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=3)
LEAVES = st.none() | st.booleans() | st.integers() | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES), st.sets(st.sampled_from(PATHS)), st.booleans())
def test_it_is_as_a_walk_through_the_tree(
    document: dict[str, Any], paths: set[str], is_ascii: bool
) -> None:
    """For every object and every set of paths."""
    body = json.dumps(document, ensure_ascii=is_ascii).encode()
    expected = {(path, value) for path in paths for value in _walk(document, path_segments(path))}
    assert pairs(body, *paths, most_values=10_000) == sorted(expected)


def _walk(value: Any, segments: tuple[str, ...]) -> Iterator[str]:
    if not segments:
        if isinstance(value, str):
            yield value
        elif isinstance(value, bool | int):
            yield json.dumps(value)
    elif segments[0] == "[]":
        for entry in value if isinstance(value, list) else ():
            yield from _walk(entry, segments[1:])
    elif isinstance(value, dict):
        yield from _walk(value.get(segments[0]), segments[1:])
