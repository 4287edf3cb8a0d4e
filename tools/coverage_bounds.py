"""A pytest plugin: a measured run fails if a file is covered less than its part demands.

The pure core is small enough to try every branch of it; elsewhere the bound leaves room for what
only a fault of the machine reaches. It is asked for by name (`-p tools.coverage_bounds --cov`),
since a run of a few tests says nothing about a file.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import coverage
import pytest

__all__ = ["bound_of", "find_misses"]

DEFAULT_BOUND: Final = 90.0
BOUNDS: Final = {
    "service/watchcache_server/informer/": 100.0,
    "service/watchcache_server/model/": 100.0,
}
_MISSES: Final = pytest.StashKey[list[str]]()


def bound_of(path: str) -> float:
    """Return the percentage of lines and branches that a file, named from the top, must reach."""
    return next((b for folder, b in BOUNDS.items() if path.startswith(folder)), DEFAULT_BOUND)


def find_misses(report: dict[str, Any]) -> list[str]:
    """Return a line for each file of a JSON coverage report that misses its bound."""
    return [
        f"{path}: {figures['summary']['percent_covered']:.1f} % of lines and branches, "
        f"at least {bound_of(path):.0f} % wanted; missing {_places(figures)}"
        for path, figures in sorted(report["files"].items())
        if figures["summary"]["percent_covered"] < bound_of(path)
    ]


def _places(figures: dict[str, Any]) -> str:
    """Name the lines and the branches (from->to) that no test reached, the first ones if many."""
    missed = set(figures["missing_lines"])
    places = [str(line) for line in sorted(missed)]
    places += [f"{a}->{b}" for a, b in figures["missing_branches"] if missed.isdisjoint((a, b))]
    return ", ".join(places[:12]) + (f" and {len(places) - 12} more" if len(places) > 12 else "")


def _read_report(config: pytest.Config) -> dict[str, Any]:
    measured = coverage.Coverage(config_file=str(config.rootpath / "pyproject.toml"))
    measured.load()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        measured.json_report(outfile=str(path))
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Read the coverage once pytest-cov, which this wraps, has combined it."""
    outcome = yield
    config = session.config
    if not hasattr(config, "workerinput") and config.getoption("--cov"):
        config.stash[_MISSES] = find_misses(_read_report(config))
        session.testsfailed += bool(config.stash[_MISSES])
    return outcome


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was missed, above pytest's own last line."""
    misses = terminalreporter.config.stash.get(_MISSES, [])
    if misses:
        terminalreporter.section("coverage below its bound", red=True)
        for miss in misses:
            terminalreporter.write_line(miss)
