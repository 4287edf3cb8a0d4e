"""Figures: when they are met, and how they are kept."""

from __future__ import annotations

import json

import pytest

from bench.report import Figure, Spread, as_json, as_markdown, percentile, print_table, slope


def figure(value: float, bound: float, *, is_least: bool = False) -> Figure:
    """Make a figure."""
    return Figure(name="time", value=value, unit="s", bound=bound, is_least=is_least)


@pytest.mark.parametrize(
    ("value", "is_least", "is_met"),
    [
        pytest.param(9.9, False, True, id="below a highest"),
        pytest.param(10.0, False, True, id="at a highest"),
        pytest.param(10.1, False, False, id="above a highest"),
        pytest.param(9.9, True, False, id="below a least"),
        pytest.param(10.0, True, True, id="at a least"),
        pytest.param(10.1, True, True, id="above a least"),
    ],
)
def test_a_figure_is_met_up_to_its_bound(value: float, is_least: bool, is_met: bool) -> None:
    """A bound is the most a value may be, or the least for those that say so."""
    assert figure(value, 10.0, is_least=is_least).is_met is is_met


def test_the_ratio_is_to_the_peer() -> None:
    """A figure without a peer has no ratio."""
    assert figure(3.0, 10.0).ratio is None
    assert Figure(name="a", value=3.0, unit="s", bound=2.4, peer=2.0).ratio == 1.5


def test_results_have_the_agreed_shape() -> None:
    """results.json has these keys, numbers cut to four digits, and null for none."""
    figures = [
        Figure(name="time", value=3.14159, unit="s", bound=2.4, peer=2.0),
        figure(500.0, 400.0, is_least=True),
    ]
    content = json.loads(as_json(figures, "v1.36.3"))
    assert list(content) == ["figures", "machine", "versions"]
    assert content["figures"] == [
        {
            "name": "time",
            "value": 3.142,
            "unit": "s",
            "bound": 2.4,
            "peer": 2.0,
            "ratio": 1.571,
            "met": False,
        },
        {
            "name": "time",
            "value": 500.0,
            "unit": "s",
            "bound": 400.0,
            "peer": None,
            "ratio": None,
            "met": True,
        },
    ]
    assert content["versions"]["kubernetes"] == "v1.36.3"
    assert content["machine"]["cores"] >= 1


def test_rounds_are_summed_up_by_their_middle() -> None:
    """One slow round changes the most, not the value."""
    assert Spread.of([2.0, 9.0, 1.0]) == Spread(1.0, 2.0, 9.0)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        pytest.param(0.0, 1.0, id="the least"),
        pytest.param(0.5, 51.0, id="the middle"),
        pytest.param(0.99, 100.0, id="all but the greatest"),
        pytest.param(1.0, 100.0, id="the greatest"),
    ],
)
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    """It is taken from the values in order, without anything in between."""
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_the_table_names_what_is_not_met(capsys: pytest.CaptureFixture[str]) -> None:
    """Each figure is a line of its own, whatever the width of the terminal."""
    print_table([figure(11.0, 10.0), figure(9.0, 10.0)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].endswith("NOT MET")
    assert lines[2].rstrip().endswith("met")


def test_the_page_has_a_row_for_each_figure() -> None:
    """A figure with a peer says what it is compared with; others leave that empty."""
    figures = [
        Figure(name="time", value=3.0, unit="s", bound=2.4, peer=2.0),
        figure(500.0, 400.0, is_least=True),
    ]
    rows = as_markdown(json.loads(as_json(figures, "v1.36.3"))).splitlines()[2:]
    assert rows == [
        "| time | 3 s | 2.4 s | 2 s (1.5 times) | not met |",
        "| time | 500 s | 400 s |  | met |",
    ]


def test_the_slope_is_that_of_the_line_through_the_values() -> None:
    """It is per unit of time, whatever the distances; noise around a level is no growth."""
    assert slope([0.0, 1.0, 3.0], [5.0, 7.0, 11.0]) == pytest.approx(2.0)
    assert slope([0.0, 1.0, 2.0], [5.0, 8.0, 5.0]) == pytest.approx(0.0)
