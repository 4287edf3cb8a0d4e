"""Rules of the coverage check that closes a run of all tests."""

from __future__ import annotations

from typing import Any

import pytest

from tools.coverage_bounds import bound_of, find_misses


def figures(
    percent: float, lines: list[int], branches: list[list[int]]
) -> dict[str, dict[str, Any] | list[int] | list[list[int]]]:
    """Return what coverage's JSON report says of one file."""
    return {
        "summary": {"percent_covered": percent},
        "missing_lines": lines,
        "missing_branches": branches,
    }


@pytest.mark.parametrize(
    ("path", "bound"),
    [
        pytest.param("service/watchcache_server/informer/store.py", 100, id="the store"),
        pytest.param("service/watchcache_server/model/errors.py", 100, id="the model"),
        pytest.param(
            "service/watchcache_server/serving/watch.py", 90, id="the rest of the service"
        ),
        pytest.param("clients/python/watchcache/mirror.py", 90, id="the client"),
        pytest.param("devcluster/watchcache_devcluster/model/x.py", 90, id="a namesake elsewhere"),
    ],
)
def test_the_pure_core_is_covered_whole_and_the_rest_nearly(path: str, bound: float) -> None:
    """Every branch of informer/ and model/ is tried; other files reach 90 %."""
    assert bound_of(path) == bound


def test_one_missed_branch_of_the_core_is_a_miss() -> None:
    """A branch counts like a line: full lines are not enough in the core."""
    core = "service/watchcache_server/informer/store.py"
    assert find_misses({"files": {core: figures(99.9, [], [[7, 9]])}}) == [
        f"{core}: 99.9 % of lines and branches, at least 100 % wanted; missing 7->9"
    ]


def test_a_file_at_its_bound_passes() -> None:
    """The bound itself is enough."""
    files = {
        "service/watchcache_server/informer/store.py": figures(100.0, [], []),
        "service/watchcache_server/app.py": figures(90.0, [3], []),
    }
    assert find_misses({"files": files}) == []


def test_each_place_is_named_once_and_only_the_first_ones() -> None:
    """A branch whose end was never reached is told by the line, and a long list is cut."""
    path = "service/watchcache_server/app.py"
    [miss] = find_misses({"files": {path: figures(10.0, list(range(1, 15)), [[20, 3], [20, 21]])}})
    assert miss.endswith("missing 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 3 more")
