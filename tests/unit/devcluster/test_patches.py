"""The three formats of patch, as functions of a tree."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.patches import json_patch, merge_patch, strategic_merge_patch

TREE: dict[str, Any] = {"a": {"b": [1, 2, 3]}, "c": "d", "e/f": {"g~h": 1}}

APPLIED: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "add to an object": ([{"op": "add", "path": "/x", "value": 1}], {**TREE, "x": 1}),
    "add into a list": (
        [{"op": "add", "path": "/a/b/1", "value": 9}],
        {**TREE, "a": {"b": [1, 9, 2, 3]}},
    ),
    "add at the end of a list": (
        [{"op": "add", "path": "/a/b/-", "value": 9}],
        {**TREE, "a": {"b": [1, 2, 3, 9]}},
    ),
    "replace in a list": (
        [{"op": "replace", "path": "/a/b/0", "value": 9}],
        {**TREE, "a": {"b": [9, 2, 3]}},
    ),
    "replace the whole": ([{"op": "replace", "path": "", "value": {"n": 1}}], {"n": 1}),
    "add as the whole": ([{"op": "add", "path": "", "value": {"n": 1}}], {"n": 1}),
    "remove from a list": ([{"op": "remove", "path": "/a/b/1"}], {**TREE, "a": {"b": [1, 3]}}),
    "remove a key": ([{"op": "remove", "path": "/c"}], {"a": TREE["a"], "e/f": TREE["e/f"]}),
    "escapes": (
        [{"op": "replace", "path": "/e~1f/g~0h", "value": 2}],
        {**TREE, "e/f": {"g~h": 2}},
    ),
    "copy": ([{"op": "copy", "from": "/c", "path": "/x"}], {**TREE, "x": "d"}),
    "move": (
        [{"op": "move", "from": "/c", "path": "/x"}],
        {"a": TREE["a"], "e/f": TREE["e/f"], "x": "d"},
    ),
    "test": ([{"op": "test", "path": "/c", "value": "d"}], TREE),
}


@pytest.mark.parametrize(("operations", "expected"), APPLIED.values(), ids=APPLIED.keys())
def test_a_json_patch_is_applied_in_order(
    operations: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    """Each operation does what RFC 6902 says, on a copy."""
    before = copy.deepcopy(TREE)
    assert json_patch(TREE, operations) == expected
    assert before == TREE


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ({"op": "add"}, 400),
        (["add"], 400),
        ([{"op": "add"}], 422),
        ([{"op": "frobnicate", "path": "/a"}], 422),
        ([{"op": "add", "path": "a", "value": 1}], 422),
        ([{"op": "add", "path": "/a/b/9", "value": 1}], 422),
        ([{"op": "add", "path": "/absent/x", "value": 1}], 422),
        ([{"op": "add", "path": "/c/x", "value": 1}], 422),
        ([{"op": "remove", "path": ""}], 422),
        ([{"op": "remove", "path": "/absent"}], 422),
        ([{"op": "remove", "path": "/a/b/x"}], 422),
        ([{"op": "replace", "path": "/a/b/7", "value": 1}], 422),
        ([{"op": "test", "path": "/c", "value": "x"}], 422),
        ([{"op": "replace", "path": "", "value": []}], 422),
    ],
)
def test_a_json_patch_that_does_not_fit_is_refused(operations: Any, code: int) -> None:
    """What is no patch is 400, what cannot be applied 422; nothing is changed."""
    before = copy.deepcopy(TREE)
    with pytest.raises(ApiError) as caught:
        json_patch(TREE, operations)
    assert caught.value.code == code
    assert before == TREE


def test_a_merge_patch_replaces_what_is_no_object() -> None:
    """A null removes, an object merges, anything else replaces."""
    patch = {"a": {"b": None, "x": 1}, "c": {"y": 2}, "z": [1]}
    merged = merge_patch(TREE, patch)
    assert merged == {"a": {"x": 1}, "c": {"y": 2}, "e/f": TREE["e/f"], "z": [1]}
    assert merge_patch("text", 5) == 5


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=2), JSON), JSON)
def test_a_merge_patch_is_idempotent(target: dict[str, Any], patch: Any) -> None:
    """Applying the same patch again changes nothing, and no argument is changed."""
    before = copy.deepcopy((target, patch))
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
    assert (target, patch) == before


def container(name: str, **more: Any) -> dict[str, Any]:
    """Return a container."""
    return {"name": name, **more}


def test_a_strategic_patch_merges_lists_by_key() -> None:
    """Containers and their ports and environment merge by their keys, others stay."""
    target = {"containers": [container("a", image="1", env=[{"name": "X", "value": "1"}])]}
    patch = {
        "containers": [
            container("a", env=[{"name": "Y", "value": "2"}]),
            container("b", ports=[{"containerPort": 80, "protocol": "TCP"}]),
        ]
    }
    first, second = strategic_merge_patch(target, patch)["containers"]
    assert first["image"] == "1"
    assert [entry["name"] for entry in first["env"]] == ["X", "Y"]
    assert second["name"] == "b"
    ports = {"containers": [container("b", ports=[{"containerPort": 80, "hostPort": 8}])]}
    merged = strategic_merge_patch({"containers": [second]}, ports)
    assert merged["containers"][0]["ports"] == [
        {"containerPort": 80, "protocol": "TCP", "hostPort": 8}
    ]


def test_the_directives_of_a_strategic_patch() -> None:
    """`$patch`, `$retainKeys`, `$setElementOrder` and `$deleteFromPrimitiveList` are obeyed."""
    target = {
        "containers": [container("a"), container("b"), container("c")],
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "finalizers": ["x/1", "x/2"],
        "gone": {"k": 1},
        "swapped": {"k": 1},
        "args": ["1", "2"],
    }
    patch = {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
        "containers": [{"name": "b", "$patch": "delete"}, {"name": "absent", "$patch": "delete"}],
        "strategy": {"$retainKeys": ["type"], "type": "Recreate"},
        "$deleteFromPrimitiveList/finalizers": ["x/1"],
        "gone": {"$patch": "delete"},
        "swapped": {"$patch": "replace", "n": 2},
        "args": ["3"],
        "added": {"inner": {"x": None, "y": 1}},
        "missing": None,
    }
    merged = strategic_merge_patch(target, patch)
    assert [item["name"] for item in merged["containers"]] == ["c", "a"]
    assert merged["strategy"] == {"type": "Recreate"}
    assert merged["finalizers"] == ["x/2"]
    assert merged["gone"] == {}
    assert merged["swapped"] == {"n": 2}
    assert merged["args"] == ["3"]
    assert merged["added"] == {"inner": {"y": 1}}
    whole = {"containers": [{"$patch": "replace"}, container("z")]}
    assert strategic_merge_patch(target, whole)["containers"] == [container("z")]
    more = strategic_merge_patch({"finalizers": ["a/1"]}, {"finalizers": ["a/1", "a/2"]})
    assert more["finalizers"] == ["a/1", "a/2"]
