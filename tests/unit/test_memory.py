"""The allocator and the collector are set where they can be."""

from __future__ import annotations

import asyncio
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


def test_a_crowd_has_gone_when_an_eighth_of_it_is_left() -> None:
    """It is told once; few that come and go are no crowd."""
    crowd = memory.Crowd()
    told = [crowd.has_gone(count) for count in (400, 0, 499, 0)]
    assert not any(told)
    told = [crowd.has_gone(count) for count in (800, 4000, 501, 500, 0, 600, 80, 75, 0)]
    assert told == [False, False, False, True, True, False, False, True, False]


@pytest.mark.looptime
async def test_what_a_crowd_leaves_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """And given back, soon after it has gone."""
    counts = iter([1000, 1000, 0, 0, 0, 0])
    done: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: done.append("collected"))
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, 0))
    monkeypatch.setattr(memory, "give_back", lambda: done.append("given back"))
    task = asyncio.ensure_future(memory.tidy_forever(lambda: next(counts)))
    await asyncio.sleep(26.0)
    task.cancel()
    assert done == ["collected", "given back"]


@pytest.mark.looptime
async def test_what_grows_old_is_collected_where_no_crowd_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Left to itself the collector would look at it after millions of objects."""
    moments = iter([(10, 1), (600, 2), (10, 2), (10, 0)])
    passes = 0

    def count() -> int:
        nonlocal passes
        running, passes = next(moments)
        return running

    done: list[float] = []
    now = asyncio.get_running_loop().time
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, passes))
    monkeypatch.setattr(gc, "collect", lambda: done.append(now()))
    monkeypatch.setattr(memory, "give_back", lambda: None)
    task = asyncio.ensure_future(memory.tidy_forever(count))
    began = now()
    await asyncio.sleep(21.0)
    task.cancel()
    assert [round(moment - began) for moment in done] == [15]
