"""What a soak calls flat, and what it calls growth."""

from __future__ import annotations

import random
from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest

from tests.chaos.soak.drawing import Panel, draw, ticks
from tests.chaos.soak.flatness import judge

_SAMPLES = 720
_SECONDS = [5.0 * number for number in range(_SAMPLES)]
_FLOOR = 4.0

# A part of the time in [0, 1] and a source of chance: what is sampled there.
Shape = Callable[[float, random.Random], float]


def _warming(at: float, chance: random.Random) -> float:
    return 140 - 60 * max(0.0, 1 - 4 * at) + chance.gauss(0, 1)


FLAT: dict[str, Shape] = {
    "level": lambda at, chance: 100.0,
    "nothing": lambda at, chance: 0.0,
    "noise": lambda at, chance: 100 + chance.gauss(0, 5),
    "grown before it is judged": _warming,
    "shrinking": lambda at, chance: 200 - 100 * at,
    "a saw, as a collector makes": lambda at, chance: 100 + 50 * (at * 40 % 1),
    "spikes": lambda at, chance: 100 + 400 * (chance.random() < 0.1),
    "busy and quiet in turn": lambda at, chance: (
        40 + 60 * (at * 100 % 1 < 0.7) + chance.gauss(0, 2)
    ),
    "a step down": lambda at, chance: 100 - 30 * (at > 0.7),
}
LEAKING: dict[str, Shape] = {
    "slowly": lambda at, chance: 100 + 10 * at,
    "slowly, in noise": lambda at, chance: 100 + 30 * at + chance.gauss(0, 5),
    "after warming up": lambda at, chance: _warming(at, chance) + 15 * at,
    "below a saw": lambda at, chance: 100 + 40 * at + 50 * (at * 40 % 1),
    "between spikes": lambda at, chance: 100 + 20 * at + 400 * (chance.random() < 0.1),
    "in steps": lambda at, chance: 100 + 4 * int(at * 12),
    "from nothing": lambda at, chance: 40 * at,
    "while busy and quiet in turn": lambda at, chance: (
        40 + 60 * (at * 100 % 1 < 0.7) + 40 * at + chance.gauss(0, 2)
    ),
}


def series(shape: Shape, seed: int) -> list[float]:
    """Return samples of a shape."""
    chance = random.Random(seed)
    return [shape(number / _SAMPLES, chance) for number in range(_SAMPLES)]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", FLAT)
def test_what_finds_its_level_is_flat(name: str, seed: int) -> None:
    """Noise, spikes, saws and a start are no growth."""
    found = judge(_SECONDS, series(FLAT[name], seed), floor=_FLOOR)
    assert found.is_flat, found


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", LEAKING)
def test_what_is_kept_is_growth(name: str, seed: int) -> None:
    """However slowly, and whatever lies above it."""
    found = judge(_SECONDS, series(LEAKING[name], seed), floor=_FLOOR)
    assert not found.is_flat, found


def test_growth_is_that_of_the_judged_time() -> None:
    """Of a straight line two thirds are judged, within the width of a sample."""
    found = judge(_SECONDS, [3.0 * at for at in _SECONDS], floor=_FLOOR)
    assert found.growth == pytest.approx(2 / 3 * 3.0 * _SECONDS[-1], rel=0.01)
    assert found.noise == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("count", [0, 1, 8])
def test_too_few_samples_are_no_verdict(count: int) -> None:
    """A run that was cut short is not called flat."""
    with pytest.raises(ValueError, match="too few"):
        judge(_SECONDS[:count], [1.0] * count, floor=_FLOOR)


@pytest.mark.parametrize(
    ("largest", "expected"),
    [
        (0.0, [0.0, 1.0]),
        (1.0, [0.0, 0.5, 1.0]),
        (60.0, [0.0, 20.0, 40.0, 60.0]),
        (143.2, [0.0, 50.0, 100.0, 150.0]),
        (0.004, [0.0, 0.001, 0.002, 0.003, 0.004]),
    ],
)
def test_axes_have_round_numbers(largest: float, expected: list[float]) -> None:
    """From zero to at least the largest value."""
    assert ticks(largest) == expected


def test_a_plot_is_an_svg_with_each_series_and_its_unit() -> None:
    """Also with signs that XML has a use for, and of a series that is nothing throughout."""
    minutes = [at / 60 for at in _SECONDS]
    panels = [
        Panel("Memory <all>", "growth & bound", "MiB", series(LEAKING["slowly"], 1)),
        Panel("Nothing", "", "things", [0.0] * _SAMPLES),
    ]
    text = draw("A soak", panels, minutes, judged_from=20, marks=[30.0])
    root = ET.fromstring(text)
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Memory <all>, MiB", "growth & bound", "Nothing, things", "minutes", "40"} <= {*words}
    lines = list(root.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(lines) == len(panels)
    for line in lines:
        points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        assert 300 <= len(points) <= 400
        assert all(52 <= x <= 326 and 50 <= y <= 184 for x, y in points)
