"""The selectors of the subscribers whose cost is compared."""

from __future__ import annotations

import pytest

from bench.figures.selectors import selectors


@pytest.mark.parametrize("different", [1, 8, 1000])
def test_there_are_as_many_selectors_as_asked_for(different: int) -> None:
    """Each asks for the label of one of the subscribers, and no two for the same."""
    found = selectors(different, 1000)
    assert len(set(found)) == len(found) == different
    assert set(found) <= {f"subscriber=s{number}" for number in range(1000)}


def test_few_selectors_are_spread_over_all_labels() -> None:
    """The labels go round, so what matches comes as evenly as with many selectors."""
    assert selectors(4, 100) == [
        "subscriber=s0",
        "subscriber=s25",
        "subscriber=s50",
        "subscriber=s75",
    ]
