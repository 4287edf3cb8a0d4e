"""Rules of reading a body: as it comes, with the event loop left to others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.kubernetes.clock import Clock
from tests.unit.kubernetes.informer_double import CUT, Body
from watchcache_server.kubernetes.errors import BodyCutError
from watchcache_server.kubernetes.slices import SlicedReader


async def test_chunks_come_as_they_arrive_with_the_time_at_which_they_did() -> None:
    """The time is that of the bytes, not that at which others were done."""
    clock = Clock(100.0)
    reader = SlicedReader(clock)
    body: Any = Body(200, {}, None)
    body.send(b"one")
    assert await reader.chunk(body) == b"one"
    assert reader.read_at == 100.0
    clock.advance(7.0)
    body.end()
    assert await reader.chunk(body) == b""
    assert reader.read_at == 107.0


async def test_others_run_once_a_slice_is_over() -> None:
    """Chunks that are there already are read in one go, for two milliseconds at a time."""
    clock = Clock(100.0)
    reader = SlicedReader(clock)
    body: Any = Body(200, {}, None)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    for _ in range(10):
        body.send(b"x")
    task = asyncio.ensure_future(others())
    await reader.chunk(body)
    assert turns == 1, "the first slice begins with a turn of the others"
    for _ in range(4):
        await reader.chunk(body)
    assert turns == 1, "no time has passed"
    clock.advance(0.003)
    await reader.chunk(body)
    assert turns == 2
    task.cancel()


async def test_a_body_that_breaks_off_does_so_here() -> None:
    """The error of the transport is passed on."""
    body: Any = Body(200, {}, None)
    body.fail(CUT)
    with pytest.raises(BodyCutError):
        await SlicedReader(Clock()).chunk(body)
