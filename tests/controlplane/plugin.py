"""The pytest side of the real control plane: fixtures, and its logs beside a failure.

`control_plane` is one server for the whole pytest process (under xdist: for each worker), started
at its first use and shared, so tests leave it running and keep to namespaces of their own.
`own_control_plane` is a server for one test, which may kill, compact or wipe it. A test that asks
for a fixture only at run time says so by `@pytest.mark.controlplane`.

The programs are built if they are missing, never skipped: before the first test runs, so that no
test's time limit covers the build.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.build import ensure_binaries
from tests.controlplane.server import ControlPlane

__all__ = ["control_plane", "own_control_plane"]

_FIXTURES = frozenset({"control_plane", "own_control_plane"})
_LOG_LINES = 12
_RUNNING: list[ControlPlane] = []


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Give the control plane that all tests of this process share."""
    yield from _serve(ControlPlane(tmp_path_factory.mktemp("control-plane"), say=_say))


@pytest.fixture
def own_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Give a control plane of the test's own, already started."""
    yield from _serve(ControlPlane(tmp_path_factory.mktemp("own-control-plane"), say=_say))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs before the first test if any test needs them."""
    if not session.config.option.collectonly and any(map(_needs_programs, session.items)):
        ensure_binaries(_say)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Add the ends of the servers' logs to the report of a failed test that used one."""
    report: pytest.TestReport = yield
    if report.failed and _needs_programs(item):
        report.sections += [
            (f"control plane {running.url}", running.log_tail(_LOG_LINES)) for running in _RUNNING
        ]
    return report


def _needs_programs(item: pytest.Item) -> bool:
    used = _FIXTURES.intersection(getattr(item, "fixturenames", ()))
    return bool(used) or item.get_closest_marker("controlplane") is not None


def _serve(server: ControlPlane) -> Iterator[ControlPlane]:
    with server:
        _RUNNING.append(server)
        try:
            yield server
        finally:
            _RUNNING.remove(server)


def _say(text: str) -> None:
    # The true standard error, past pytest's capture: a build takes minutes and must not look like
    # a hang.
    stream = sys.__stderr__
    if stream is not None:
        stream.write(f"{text}\n")
        stream.flush()
