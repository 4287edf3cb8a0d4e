"""Rules of when a mismatch is worth a list."""

from __future__ import annotations

import pytest

from watchcache_server.informer.audit import Finding
from watchcache_server.informer.remedy import Remedy

WEB, DB = ("team-a", "web"), ("team-a", "db")


def found(*objects: tuple[str, str], surplus: int = 0) -> Finding:
    """Return a mismatch."""
    return Finding(
        "20", held=2, listed=2, missing=len(objects), surplus=surplus, objects=frozenset(objects)
    )


# name: two mismatches, and whether the second may be the first one again
PAIRS = {
    "the same object": (found(WEB), found(WEB, DB), True),
    "other objects": (found(WEB), found(DB), False),
    "some that are not listed": (found(surplus=1), found(surplus=2), True),
    "a number that nothing explains": (found(), found(), True),
    "a number, then some that are not listed": (found(), found(surplus=1), False),
    "one that is not listed, then one that is missing": (found(surplus=1), found(WEB), False),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_mismatch_that_may_be_the_one_before_is_not_listed_for(name: str) -> None:
    """Listing anew was of no use; whatever else has been lost since is mended."""
    first, second, is_again = PAIRS[name]
    remedy = Remedy()
    assert remedy.is_due(first)
    assert remedy.is_due(second) is not is_again


def test_what_lists_do_not_mend_is_tried_ever_less_often() -> None:
    """And never given up."""
    remedy = Remedy()
    due = [number for number in range(1, 300) if remedy.is_due(found(WEB))]
    assert due == [1, 4, 8, 16, 32, 64, 128, 192, 256]
    assert remedy.is_due(found(DB))
