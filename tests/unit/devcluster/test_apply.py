"""Server-side apply and the ownership of fields."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache_devcluster.apply import apply_patch
from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.fieldsets import (
    from_fields_v1,
    leaves,
    record_update,
    to_fields_v1,
)

Tree = dict[str, Any]


def writer(manager: str, operation: str = "Apply", **more: str) -> Tree:
    """Return who writes."""
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "apps/v1",
        "time": "2026-01-01T00:00:00Z",
        "subresource": "",
        **more,
    }


def live(**more: Any) -> Tree:
    """Return an object that nobody owns yet."""
    return {"metadata": {"name": "a", "uid": "u", "managedFields": []}, **more}


def container(name: str, **more: Any) -> Tree:
    """Return a container."""
    return {"name": name, **more}


def managers(tree: Tree) -> dict[str, set[tuple[str, ...]]]:
    """Return who owns what."""
    return {
        entry["manager"]: from_fields_v1(entry["fieldsV1"])
        for entry in tree["metadata"]["managedFields"]
    }


def apply(tree: Tree, config: Tree, manager: str, *, force: bool = False) -> Tree:
    """Apply a configuration to a built-in kind."""
    return apply_patch(tree, config, writer(manager), force=force, is_custom=False)


def test_list_items_are_owned_by_their_keys() -> None:
    """Two managers share a list of containers; each removes only its own."""
    one = {"metadata": {}, "spec": {"containers": [container("a", image="1")]}}
    two = {"metadata": {}, "spec": {"containers": [container("b", image="2")]}}
    both = apply(apply(live(), one, "one"), two, "two")
    assert [item["name"] for item in both["spec"]["containers"]] == ["a", "b"]
    left = apply(both, {"metadata": {}}, "one")
    assert [item["name"] for item in left["spec"]["containers"]] == ["b"]
    assert set(managers(left)) == {"two"}
    assert both["spec"]["containers"][0] == {"name": "a", "image": "1"}, "the argument is kept"


def test_sets_are_owned_by_value() -> None:
    """Finalizers are shared as a set."""
    one = {"metadata": {"finalizers": ["x/1"]}}
    two = {"metadata": {"finalizers": ["x/2"]}}
    both = apply(apply(live(), one, "one"), two, "two")
    assert both["metadata"]["finalizers"] == ["x/1", "x/2"]
    left = apply(both, {"metadata": {}}, "two")
    assert left["metadata"]["finalizers"] == ["x/1"]
    assert "finalizers" not in apply(left, {"metadata": {}}, "one")["metadata"]


def test_conflicts_name_every_manager_and_field() -> None:
    """More than one conflict is listed line by line, with the list item that is meant."""
    config = {"metadata": {}, "spec": {"replicas": 1, "containers": [container("a", image="1")]}}
    tree = apply(live(), config, "one")
    entry = writer("scaler", "Update", subresource="scale")
    before = leaves(tree, is_custom=False)
    tree["spec"]["paused"] = True
    tree["metadata"]["managedFields"] = record_update(
        tree["metadata"]["managedFields"], entry, before, leaves(tree, is_custom=False)
    )
    changed = {
        "metadata": {},
        "spec": {"replicas": 2, "paused": False, "containers": [container("a", image="2")]},
    }
    with pytest.raises(ApiError) as caught:
        apply(tree, changed, "two")
    assert caught.value.message == (
        "Apply failed with 3 conflicts:\n"
        '- conflict with "one": .spec.containers[name=a].image\n'
        '- conflict with "one": .spec.replicas\n'
        '- conflict with "scaler" with subresource "scale" using apps/v1: .spec.paused'
    )
    forced = apply(tree, changed, "two", force=True)
    assert forced["spec"]["replicas"] == 2
    assert set(managers(forced)) == {"one", "two"}


def test_a_null_in_a_configuration_is_no_value() -> None:
    """What is null in what is applied is passed over."""
    tree = apply(live(data={"k": "v"}), {"metadata": {}, "data": {"k": None}}, "one")
    assert tree["data"] == {"k": "v"}


def test_lists_of_custom_kinds_are_atomic() -> None:
    """Without a schema that says otherwise a list is one value."""
    config = {"metadata": {}, "spec": {"containers": [container("a")]}}
    tree = apply_patch(live(), config, writer("one"), force=False, is_custom=True)
    assert managers(tree) == {"one": {("f:spec", "f:containers")}}


def test_an_update_moves_ownership() -> None:
    """What a writer changes becomes its own, what vanishes belongs to nobody."""
    first = leaves(live(data={"a": "1", "b": "1"}), is_custom=False)
    entries = record_update([], writer("one", "Update"), {}, first)
    second = leaves(live(data={"a": "2"}), is_custom=False)
    entries = record_update(entries, writer("two", "Update"), first, second)
    assert {entry["manager"]: entry["fieldsV1"] for entry in entries} == {
        "one": {"f:data": {".": {}}},
        "two": {"f:data": {"f:a": {}}},
    }
    assert record_update(entries, writer("two", "Update"), second, second) is entries
    again = record_update(entries, writer("one", "Update", time="later"), second, first)
    assert [entry["time"] for entry in again] == ["later"]
    gone = record_update(again, writer("two", "Update"), first, {})
    assert gone == []


PATHS = st.sets(
    st.lists(st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', "."]), min_size=1, max_size=3).map(
        tuple
    ),
    max_size=6,
)


@given(PATHS)
def test_field_sets_survive_their_written_form(paths: set[tuple[str, ...]]) -> None:
    """FieldsV1 keeps a set of leaves as it is."""
    only_leaves = {
        path
        for path in paths
        if not any(other != path and other[: len(path)] == path for other in paths)
    }
    written = to_fields_v1(only_leaves)
    assert from_fields_v1(copy.deepcopy(written)) == only_leaves
