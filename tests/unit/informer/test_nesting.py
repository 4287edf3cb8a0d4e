"""Rules of the outline of a text that is nested deeply."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache_server.informer import nesting
from watchcache_server.informer.errors import MalformedError
from watchcache_server.informer.nesting import DEPTH_LIMIT, outline

_check = msgspec.json.Decoder(msgspec.Raw).decode
_TEXTS = st.text(alphabet='a"\\[]{},:\n', max_size=4)
_TREES = st.recursive(
    st.none() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=20,
)


def is_valid(data: bytes) -> bool:
    """Tell whether msgspec takes a text as it is."""
    try:
        _check(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def is_valid_by_outline(data: bytes) -> bool:
    """Tell whether a text is valid by its outline."""
    try:
        return is_valid(outline(data))
    except MalformedError:
        return False


def cut(tree: Any, levels: int) -> Any:
    """Replace what is nested deeper."""
    if not isinstance(tree, list | dict):
        return tree
    if levels == 0:
        return 0
    if isinstance(tree, list):
        return [cut(each, levels - 1) for each in tree]
    return {key: cut(each, levels - 1) for key, each in tree.items()}


@given(tree=_TREES, levels=st.integers(1, 3), indent=st.sampled_from([None, 1]))
def test_an_outline_is_the_text_without_its_deep_values(
    tree: Any, levels: int, indent: int | None
) -> None:
    """Each is a 0; whatever lies higher is as it was sent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "_PIECE_LEVELS", levels)
        patch.setattr(nesting, "_BEFORE_BRACKET", nesting._stepping_over(0))
        data = json.dumps(tree, indent=indent).encode()
        assert json.loads(outline(data)) == cut(tree, levels)


@given(
    tree=_TREES,
    levels=st.integers(1, 3),
    at=st.integers(0, 200),
    put=st.sampled_from([b"", b"[", b"]", b"{", b"}", b",", b":", b'"', b"0", b"\\"]),
    length=st.integers(0, 2),
    stepped=st.integers(0, 2),
)
def test_a_text_is_as_valid_as_its_outline_and_what_that_leaves_out(
    tree: Any, levels: int, at: int, put: bytes, length: int, stepped: int
) -> None:
    """With any byte changed, too few or too many."""
    whole = json.dumps(tree).encode()
    at = min(at, len(whole))
    data = whole[:at] + put + whole[at + length :]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "_PIECE_LEVELS", levels)
        patch.setattr(nesting, "_BEFORE_BRACKET", nesting._stepping_over(stepped))
        assert is_valid_by_outline(data) == is_valid(data)


def test_there_is_a_limit() -> None:
    """Deeper than any API server takes an object."""
    assert outline(b"[" * DEPTH_LIMIT + b"]" * DEPTH_LIMIT)
    with pytest.raises(MalformedError, match=f"more than {DEPTH_LIMIT} levels"):
        # The innermost levels, which are stepped over, are not counted.
        outline(b"[" * (DEPTH_LIMIT + 7) + b"]" * (DEPTH_LIMIT + 7))
