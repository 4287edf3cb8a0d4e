"""`python -m bench`: what it writes, and how it exits."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

import bench.__main__ as command
from bench.cluster import Cluster
from bench.figures import MEASUREMENTS
from bench.report import Figure
from tests.controlplane.credentials import Credentials


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the results go to a file of this test."""
    path = tmp_path / "results.json"
    monkeypatch.setattr(command, "_RESULTS", path)
    return path


def measured(monkeypatch: pytest.MonkeyPatch, *values: float) -> None:
    """Replace the measuring by figures with these values and a bound of 10."""
    figures = [Figure(name="time", value=value, unit="s", bound=10.0) for value in values]

    async def measure(arguments: argparse.Namespace) -> tuple[list[Figure], str]:
        return figures, "v1.36.3"

    monkeypatch.setattr(command, "_measure", measure)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        pytest.param((9.0, 10.0), 0, id="all met"),
        pytest.param((9.0, 11.0), 1, id="one not met"),
    ],
)
def test_a_bound_that_is_not_met_is_an_exit_code(
    results: Path, monkeypatch: pytest.MonkeyPatch, values: tuple[float, ...], code: int
) -> None:
    """Whoever runs it in a script sees it; the results are written in either case."""
    measured(monkeypatch, *values)
    assert command.main([]) == code
    assert [each["value"] for each in json.loads(results.read_text())["figures"]] == list(values)


@pytest.mark.parametrize(
    "words", [["--quick"], ["--only", "sync"], ["--pods", "100"]], ids=lambda words: words[0]
)
def test_a_part_does_not_replace_the_results(
    results: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """results.json is of whole runs only; a part can be written elsewhere."""
    measured(monkeypatch, 9.0)
    other = results.with_name("other.json")
    assert command.main([*words, "--output", str(other)]) == 0
    assert other.exists()
    assert command.main(words) == 0
    assert not results.exists()


def test_a_quick_run_judges_nothing(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few objects say nothing about figures that are for many."""
    measured(monkeypatch, 11.0)
    assert command.main(["--quick"]) == 0


def test_an_unknown_figure_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names those that there are."""
    with pytest.raises(SystemExit) as caught:
        command.main(["--only", "speed"])
    assert caught.value.code == 2
    assert "snapshot" in capsys.readouterr().err
    assert "snapshot" in MEASUREMENTS


def test_a_cluster_is_read_from_its_kubeconfig(tmp_path: Path) -> None:
    """What `python -m bench.cluster` writes is enough to reach it again."""
    made = Credentials(tmp_path)
    path = made.write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:6443")
    assert Cluster.of(path) == Cluster(
        path, "https://127.0.0.1:6443", made.ca_file, made.admin_token
    )
