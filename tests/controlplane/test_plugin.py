"""The pytest side of the control plane, tried in a pytest of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import pytest

from tests.controlplane import plugin
from tests.controlplane.build import Binaries

pytest_plugins = ["pytester"]


class FakeControlPlane:
    """A control plane without any process."""

    url = "https://127.0.0.1:1"

    def __init__(self, folder: Path, **options: object) -> None:
        self.folder = folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def log_tail(self, lines: int) -> str:
        return "the server's last words"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the list of builds, which are not real ones."""
    found: list[str] = []

    def build(say: object) -> Binaries:
        found.append("built")
        return Binaries(Path("/nowhere"))

    monkeypatch.setattr(plugin, "ensure_binaries", build)
    monkeypatch.setattr(plugin, "ControlPlane", FakeControlPlane)
    monkeypatch.setattr(plugin, "_RUNNING", [])
    return found


def run(pytester: pytest.Pytester, body: str, *arguments: str) -> pytest.RunResult:
    """Run one test module with the plugin."""
    pytester.makepyfile(f"import pytest\n{body}")
    options = ["-p", "no:randomly", "-o", "asyncio_default_fixture_loop_scope=function"]
    return pytester.runpytest_inprocess("-p", "tests.controlplane.plugin", *options, *arguments)


@pytest.mark.parametrize(
    ("test", "times"),
    [
        ("def test_it(control_plane): pass", 1),
        ("def test_it(own_control_plane): pass", 1),
        ("@pytest.mark.controlplane\ndef test_it(): pass", 1),
        ("def test_it(): pass", 0),
    ],
    ids=["shared", "own", "marked", "none"],
)
def test_the_programs_are_built_when_a_test_needs_them(
    pytester: pytest.Pytester, builds: list[str], test: str, times: int
) -> None:
    """A fixture or the marker makes the programs be built before the run, once; else nothing is."""
    result = run(pytester, test)
    result.assert_outcomes(passed=1)
    assert len(builds) == times


def test_collecting_builds_nothing(pytester: pytest.Pytester, builds: list[str]) -> None:
    """Only a run needs the programs."""
    run(pytester, "def test_it(control_plane): pass", "--collect-only")
    assert builds == []


def test_one_server_is_shared_and_own_ones_are_not(
    pytester: pytest.Pytester, builds: list[str]
) -> None:
    """Tests of one process share `control_plane`; each `own_control_plane` is another."""
    body = """
SEEN = {"shared": set(), "own": set()}
@pytest.mark.parametrize("turn", [1, 2])
def test_it(control_plane, own_control_plane, turn):
    SEEN["shared"].add(id(control_plane))
    SEEN["own"].add(str(own_control_plane.folder))
    assert (len(SEEN["shared"]), len(SEEN["own"])) == (1, turn)
"""
    run(pytester, body).assert_outcomes(passed=2)


def test_a_failure_shows_the_servers_logs(pytester: pytest.Pytester, builds: list[str]) -> None:
    """The report of a failed test holds the ends of the logs of the servers that it used."""
    result = run(pytester, "def test_it(control_plane): assert False")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*control plane https://127.0.0.1:1*", "the server's last words"])


def test_a_failure_elsewhere_does_not(pytester: pytest.Pytester, builds: list[str]) -> None:
    """A test that uses no server fails without their logs."""
    body = "def test_a(control_plane): pass\ndef test_b(): assert False"
    result = run(pytester, body)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("*the server's last words*")
