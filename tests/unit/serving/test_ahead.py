"""While a batch of a snapshot is written, the next one is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.items import item
from tests.unit.serving.watched import Reader, Watched, change
from watchcache_server.informer.objects import Upsert

pytestmark = pytest.mark.looptime

_BATCH_BYTES = 16 * 1024


@pytest.fixture
async def world() -> AsyncIterator[Watched]:
    """Give an extension that is watched in the smallest batches."""
    world = Watched(batch_bytes=_BATCH_BYTES)
    yield world
    await world.close()


def fill(world: Watched, *names: str) -> None:
    """Let an informer hold objects of more than half a batch each, so that each is a batch."""
    informer = world.live()
    body = b'{"x":"%s"}' % (b"x" * (_BATCH_BYTES * 3 // 4))
    informer.apply([Upsert(item(name, uid=f"uid-{name}", body=body)) for name in names], 0.0)


async def _stuck_in_the_first_batch(world: Watched) -> Reader:
    """Open a stream whose reader takes Started and the states, and no batch."""
    reader = world.watch(Reader(patience=2))
    await reader.until("source_status")
    for _ in range(10):
        await asyncio.sleep(0)
    assert reader.kinds == ["started", "source_status"]
    return reader


async def test_one_batch_is_made_while_another_is_written(world: Watched) -> None:
    """One and no more, however long the reader takes; then all come, each once."""
    fill(world, "a", "b", "c", "d")
    reader = await _stuck_in_the_first_batch(world)
    assert _BATCH_BYTES < world.watching.cached_bytes < 2 * _BATCH_BYTES
    reader.go_on()
    await reader.until("synced")
    assert [name for _, name in reader.events] == ["a", "b", "c", "d"]


async def test_a_change_during_the_write_is_neither_lost_nor_doubled(world: Watched) -> None:
    """Whether the batch that was made ahead has it or the one after: the last state comes last."""
    fill(world, "a", "b", "c")
    reader = await _stuck_in_the_first_batch(world)
    [informer] = world.extension.informers.values()
    change(informer, "a", "99")
    change(informer, "c", "100")
    reader.go_on()
    await reader.until("synced")
    last = {
        event.object.key.name: event.object.resource_version
        for batch in reader.of("batch")
        for event in batch.events
    }
    assert (last["a"], last["c"]) == ("99", "100")
    assert sorted(name for _, name in reader.events) == ["a", "a", "b", "c"]


class _EndingReader(Reader):
    """Ends the extension while it is sent the first batch, which it never takes."""

    def __init__(self, world: Watched) -> None:
        super().__init__(patience=2)
        self._world = world

    async def write(self, message: bytes) -> None:
        if len(self.messages) == 2:
            self._world.extension.ended = "DEREGISTERED"
        await super().write(message)


async def test_nothing_is_made_of_an_extension_that_has_ended(world: Watched) -> None:
    """What was kept of it is dropped when it ends, and nothing may come after."""
    fill(world, "a", "b", "c", "d")
    reader = world.watch(_EndingReader(world))
    for _ in range(10):
        await asyncio.sleep(0)
    assert reader.kinds == ["started", "source_status"]
    assert 0 < world.watching.cached_bytes < _BATCH_BYTES
