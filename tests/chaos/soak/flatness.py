"""Tells whether a series of samples is flat, or grows.

The first third of a soak is left to caches and allocators that find their level. What is left is
cut into windows, and of each the lower quartile counts: what is kept shows there, what comes and
goes does not. The slope through them is Theil and Sen's, the median of all slopes between two of
them, so that a few windows that stand out move nothing. It is called growth if over the judged time
it comes to more than the noise explains, more than a small part of the level, and more than a floor
below which nothing is worth a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

__all__ = ["Verdict", "judge"]

#: The part of the time that is not judged.
WARM_UP = 1 / 3
_WINDOWS = 16
_LEAST_SAMPLES = 6
_PART_OF_LEVEL = 0.02
_TIMES_NOISE = 4.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """How much a series has grown within the judged time, and how much it may.

    `level` is the middle of it, `noise` how far a window usually lies from the line through them.
    """

    level: float
    growth: float
    noise: float
    bound: float

    @property
    def is_flat(self) -> bool:
        """Whether it has not grown; that it has shrunk is no fault."""
        return self.growth <= self.bound


def judge(seconds: Sequence[float], values: Sequence[float], *, floor: float) -> Verdict:
    """Judge a series of values at moments that ascend; `floor` has the unit of the values.

    Raises ValueError where there is too little to judge.
    """
    first = seconds[0] + (seconds[-1] - seconds[0]) * WARM_UP if seconds else 0.0
    judged = [(at, value) for at, value in zip(seconds, values, strict=True) if at >= first]
    if len(judged) < _LEAST_SAMPLES:
        raise ValueError(f"{len(judged)} samples are too few to judge; take {_LEAST_SAMPLES}")
    lows = _lows(judged)
    slope = median((b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(lows, 2) if b[0] > a[0])
    level = median(value for _, value in lows)
    middle = median(at for at, _ in lows)
    base = median(value - slope * (at - middle) for at, value in lows)
    noise = median(abs(value - base - slope * (at - middle)) for at, value in lows)
    return Verdict(
        level=level,
        growth=slope * (judged[-1][0] - judged[0][0]),
        noise=noise,
        bound=max(floor, _PART_OF_LEVEL * abs(level), _TIMES_NOISE * noise),
    )


def _lows(judged: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the middle moment and the lower quartile of each window."""
    windows = min(_WINDOWS, len(judged) // 2)
    lows = []
    for number in range(windows):
        window = judged[number * len(judged) // windows : (number + 1) * len(judged) // windows]
        values = sorted(value for _, value in window)
        lows.append((median(at for at, _ in window), values[len(values) // 4]))
    return lows
