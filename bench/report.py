"""Figures: what was measured, what it had to be, and how that is printed and kept.

A figure is met when its value is at most its bound, or at least, for those that say so. The bound
is in the unit of the value; where it depends on something measured in the same run, that is the
peer. `python -m bench.report` prints results.json as the table of docs/performance.md.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import linear_regression, median
from typing import Any, Final, Self

from rich.console import Console
from rich.table import Table

__all__ = [
    "Figure",
    "Spread",
    "as_json",
    "as_markdown",
    "machine",
    "percentile",
    "print_table",
    "slope",
    "versions",
]

# A table is read from logs too, where nothing says how wide a line may be.
_WIDTH: Final = 160
_DISTRIBUTIONS: Final = (
    "watchcache-server",
    "aiohttp",
    "grpcio",
    "msgspec",
    "protobuf",
    "uvloop",
    "zstandard",
)


@dataclass(frozen=True, slots=True)
class Spread:
    """The rounds of one measurement."""

    least: float
    middle: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Sum up the values of all rounds."""
        return cls(min(values), median(values), max(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure. `spread` is of the rounds, `peer` what it is compared with."""

    name: str
    value: float
    unit: str
    bound: float
    peer: float | None = None
    is_least: bool = False
    spread: Spread | None = None

    @property
    def is_met(self) -> bool:
        """Whether the value keeps to the bound."""
        return self.value >= self.bound if self.is_least else self.value <= self.bound

    @property
    def ratio(self) -> float | None:
        """The value over its peer."""
        return None if not self.peer else self.value / self.peer


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of the values do not exceed; always one of them."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return by how much the values grow in one unit of time: the line of least squares."""
    return linear_regression(times, values).slope


def as_json(figures: Sequence[Figure], kubernetes: str) -> str:
    """Return the content of results.json."""
    content = {
        "figures": [
            {
                "name": figure.name,
                "value": _short(figure.value),
                "unit": figure.unit,
                "bound": _short(figure.bound),
                "peer": _short(figure.peer),
                "ratio": _short(figure.ratio),
                "met": figure.is_met,
            }
            for figure in figures
        ],
        "machine": machine(),
        "versions": versions(kubernetes),
    }
    return json.dumps(content, indent=2) + "\n"


def machine() -> dict[str, Any]:
    """Describe the machine: what it can do, not which one it is."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions(kubernetes: str) -> dict[str, str]:
    """Return the versions that took part."""
    found = {name: version(name) for name in _DISTRIBUTIONS}
    return {"python": platform.python_version(), "kubernetes": kubernetes, **found}


def print_table(figures: Sequence[Figure]) -> None:
    """Print the figures."""
    table = Table(box=None, pad_edge=False)
    for heading in ("FIGURE", "VALUE", "UNIT", "BOUND", "PEER", "RATIO", "ROUNDS", ""):
        table.add_column(heading, justify="left" if heading in ("FIGURE", "UNIT", "") else "right")
    for figure in figures:
        spread = figure.spread
        table.add_row(
            figure.name,
            _text(figure.value),
            figure.unit,
            f"{'>=' if figure.is_least else '<='} {_text(figure.bound)}",
            _text(figure.peer),
            _text(figure.ratio),
            "" if spread is None else f"{_text(spread.least)} .. {_text(spread.most)}",
            "met" if figure.is_met else "NOT MET",
        )
    Console(width=_WIDTH, highlight=False).print(table)


def as_markdown(results: dict[str, Any]) -> str:
    """Return the content of results.json as a table of a page."""
    lines = ["| figure | value | bound | compared with | |", "|---|---|---|---|---|"]
    for each in results["figures"]:
        unit = each["unit"]
        peer = "" if each["peer"] is None else f"{each['peer']:g} {unit} ({each['ratio']:g} times)"
        met = "met" if each["met"] else "not met"
        value, bound = f"{each['value']:g} {unit}", f"{each['bound']:g} {unit}"
        lines.append(f"| {each['name']} | {value} | {bound} | {peer} | {met} |")
    return "\n".join(lines) + "\n"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _text(value: float | None) -> str:
    return "" if value is None else f"{_short(value):g}"


if __name__ == "__main__":
    print(as_markdown(json.loads((Path(__file__).parent / "results.json").read_text())), end="")
