"""Rules of the limit on waiting for more, in virtual time."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from watchcache_server.kubernetes.errors import BodyIdleError
from watchcache_server.kubernetes.response import Response


class Content:
    """A body that a test feeds."""

    def __init__(self) -> None:
        self.chunks: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    async def readany(self) -> bytes:
        chunk = await self.chunks.get()
        if isinstance(chunk, Exception):
            raise chunk
        return chunk


class Answer:
    """Stands in for aiohttp's answer; closing it wakes its reader, as there."""

    status = 200
    connection = None

    def __init__(self) -> None:
        self.content = Content()
        self.closed = False

    def close(self) -> None:
        self.closed = True
        self.content.chunks.put_nowait(aiohttp.ClientConnectionError("Connection closed"))


def respond(answer: Answer, idle_seconds: float) -> Response:
    """Return a response that waits so long at most."""
    return Response(
        answer,  # type: ignore[arg-type]
        cluster="dev",
        server="host:6443",
        idle_seconds=idle_seconds,
        authorization=None,
        on_close=lambda response: None,
    )


@pytest.mark.looptime
async def test_each_chunk_starts_the_wait_anew() -> None:
    """A stream that says something every nine seconds is alive under a limit of ten."""
    answer, loop = Answer(), asyncio.get_running_loop()
    response = respond(answer, 10)
    for _ in range(20):
        loop.call_later(9, answer.content.chunks.put_nowait, b"x")
        assert await response.read_chunk() == b"x"
    quiet_since = loop.time()
    with pytest.raises(BodyIdleError, match="nothing arrived for 10 s"):
        await response.read_chunk()
    assert loop.time() - quiet_since == pytest.approx(10)


@pytest.mark.looptime
async def test_a_pause_of_the_reader_costs_nothing() -> None:
    """A minute of work between two reads is not the peer's silence; the wait after it is."""
    answer, loop = Answer(), asyncio.get_running_loop()
    response = respond(answer, 10)
    answer.content.chunks.put_nowait(b"x")
    assert await response.read_chunk() == b"x"
    await asyncio.sleep(60)
    loop.call_later(9, answer.content.chunks.put_nowait, b"y")
    assert await response.read_chunk() == b"y"
    with pytest.raises(BodyIdleError):
        await response.read_chunk()


@pytest.mark.looptime
async def test_a_closed_answer_leaves_no_timer_behind() -> None:
    """Closing ends the limit with the answer."""
    answer = Answer()
    response = respond(answer, 10)
    answer.content.chunks.put_nowait(b"x")
    await response.read_chunk()
    response.close()
    assert response._idle._timer is None
