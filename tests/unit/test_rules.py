"""The page docs/rules.md names places and tests: each of them exists, so that it cannot rot."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (_ROOT / "docs/rules.md").read_text().splitlines()
    if line.startswith("| ") and "`" in line
]
_NAMED = re.compile(r"`([a-z0-9_/]+\.py)::([A-Za-z0-9_.]+)`")


def defined(path: Path) -> set[str]:
    """Return the functions and classes of a module; methods as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (ast.FunctionDef, ast.AsyncFunctionDef)
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, inner)}
    return found


def missing(column: int, folder: str) -> list[str]:
    """Return what this column names and what is not there."""
    named = {name for row in _ROWS for name in _NAMED.findall(row[column])}
    assert len(named) > 50, "the page was read"
    return [
        f"{file}::{name}"
        for file, name in sorted(named)
        if not (path := _ROOT / folder / file).is_file() or name not in defined(path)
    ]


def test_every_place_exists() -> None:
    """The second column of the rules names functions and classes of the service."""
    assert missing(1, "service/watchcache_server") == []


def test_every_test_exists() -> None:
    """The last column of both tables names tests."""
    assert missing(-1, "tests") == []


def test_every_row_names_a_test() -> None:
    """A rule without one would be a promise."""
    assert [row[0] for row in _ROWS if not _NAMED.search(row[-1])] == []


def test_every_test_of_a_report_is_on_the_page() -> None:
    """Whoever adds one says there which report it is of."""
    named = {name for row in _ROWS for _, name in _NAMED.findall(row[-1])}
    written = {
        name
        for path in (_ROOT / "tests/reports").glob("test_*.py")
        for name in defined(path)
        if name.startswith("test_")
    }
    assert written - named == set()
