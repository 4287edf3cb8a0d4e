"""The allocator and the collector are set where they can be."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator

import pytest

from watchcache_server import memory


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Leave the collector as it was."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_it_is_tuned_on_glibc() -> None:
    """Every parameter is taken, and the collector runs less often."""
    assert memory.tune()
    assert gc.get_threshold()[0] > 700
    memory.give_back()


class _Bare:
    """A library without glibc's functions."""


def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without glibc, or without its functions, nothing fails."""
    monkeypatch.setattr(ctypes, "CDLL", lambda _: _Bare())
    assert not memory.tune()
    memory.give_back()

    def missing(_: str) -> ctypes.CDLL:
        raise OSError("no such library")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert not memory.tune()
    memory.give_back()
