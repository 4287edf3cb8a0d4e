"""Rules of writing to readers that take nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.serving.watched import Reader
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.model.errors import LimitExceededError
from watchcache_server.serving.writing import PatientWriter

pytestmark = pytest.mark.looptime

MESSAGE = pb.WatchResponse(bookmark=pb.Bookmark()).SerializeToString()


class Patience:
    """A writer that gives its reader a minute, and counts how often it stalled."""

    def __init__(self) -> None:
        self.reader = Reader()
        self.stalls = 0
        self.writer = PatientWriter(
            self.reader, limit_seconds=60.0, subject="Watch stream", stalled=self._note
        )

    def _note(self) -> None:
        self.stalls += 1


async def test_a_reader_that_is_slow_but_reads_is_served() -> None:
    """Each message has the whole time."""
    patience = Patience()
    for _ in range(3):
        patience.reader.hold()
        asyncio.get_running_loop().call_later(50.0, patience.reader.go_on)
        await patience.writer.write(MESSAGE)
    assert (len(patience.reader.messages), patience.stalls) == (3, 0)


async def test_a_stall_is_noticed_while_it_lasts_and_the_write_is_not_cut() -> None:
    """GRPC could end the RPC with no status then; so the end comes with the next read."""
    patience = Patience()
    patience.reader.hold()
    writing = asyncio.create_task(patience.writer.write(MESSAGE))
    await asyncio.sleep(61.0)
    assert patience.stalls == 1
    await asyncio.sleep(3600.0)
    assert not writing.done()
    patience.reader.go_on()
    with pytest.raises(LimitExceededError, match="took nothing for 60 s; read faster") as caught:
        await writing
    assert (caught.value.setting, caught.value.subject) == ("stalled_write_seconds", "Watch stream")
    assert (len(patience.reader.messages), patience.stalls) == (1, 1)


async def test_a_reader_that_goes_away_is_no_stall() -> None:
    """And no timer is left behind."""
    patience = Patience()
    patience.reader.hold()
    writing = asyncio.create_task(patience.writer.write(MESSAGE))
    await asyncio.sleep(1.0)
    writing.cancel()
    await asyncio.wait([writing])
    await asyncio.sleep(120.0)
    assert patience.stalls == 0
