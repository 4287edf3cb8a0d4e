"""Index paths are written in one way, and what is none is refused with the rule and the mend."""

from __future__ import annotations

import pytest

from watchcache_server.model.index_paths import held_value, path_problem, path_segments
from watchcache_server.model.states import Projection


@pytest.mark.parametrize(
    ("path", "segments"),
    [
        ("kind", ("kind",)),
        ("spec.nodeName", ("spec", "nodeName")),
        (
            "metadata.ownerReferences[].uid",
            ("metadata", "ownerReferences", "[]", "uid"),
        ),
        ("spec.x-y.$ref", ("spec", "x-y", "$ref")),
        ("spec.rows[][]", ("spec", "rows", "[]", "[]")),
    ],
)
def test_a_path_is_keys_and_entries(path: str, segments: tuple[str, ...]) -> None:
    """Each key is a step, and so is each entry of a list."""
    assert path_problem(path) is None
    assert path_segments(path) == segments


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param(".spec", "is no field path", id="a point before it"),
        pytest.param("spec.", "is no field path", id="a point behind it"),
        pytest.param("spec..nodeName", "is no field path", id="an empty key"),
        pytest.param("spec.containers[0].image", "is no field path", id="an index"),
        pytest.param("spec.containers[*].image", "is no field path", id="a star"),
        pytest.param("[].spec", "is no field path", id="a list at the top"),
        pytest.param("metadata.labels['app']", "is no field path", id="a key in quotes"),
        pytest.param("{.spec.nodeName}", "is no field path", id="jsonpath of kubectl"),
        pytest.param("spec.größe", "is no field path", id="not ASCII"),
        pytest.param("spec.nodeName\n", "is no field path", id="a line end"),
        pytest.param("a" * 201, "201 characters long; use at most 200", id="too long"),
        pytest.param(".".join("a" * 17), "has 17 steps; use at most 16", id="too many steps"),
    ],
)
def test_what_is_no_path_is_refused(path: str, rule: str) -> None:
    """With the rule that it breaks."""
    assert rule in (path_problem(path) or "")


@pytest.mark.parametrize(
    ("path", "projection", "is_kept"),
    [
        ("spec.nodeName", Projection.FULL, True),
        ("spec.nodeName", Projection.WITHOUT_MANAGED_FIELDS, True),
        ("spec.nodeName", Projection.METADATA, False),
        ("metadata.ownerReferences[].uid", Projection.METADATA, True),
        ("metadata.managedFields[].manager", Projection.FULL, True),
        ("metadata.managedFields[].manager", Projection.WITHOUT_MANAGED_FIELDS, False),
        ("metadata.managedFields[].manager", Projection.METADATA, False),
    ],
)
def test_a_path_has_to_be_kept(path: str, projection: Projection, is_kept: bool) -> None:
    """What the projection cuts away has no values ever, so it is refused."""
    assert (path_problem(path, projection) is None) is is_kept


def test_a_very_long_value_is_held_by_its_digest() -> None:
    """So a value costs little, and different ones stay different."""
    assert held_value("node-1") == "node-1"
    assert held_value("a" * 256) == "a" * 256
    assert held_value("a" * 257) != held_value("a" * 258)
    assert len(held_value("a" * 10_000)) < 80
