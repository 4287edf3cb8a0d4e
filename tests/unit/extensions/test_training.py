"""Rules of training dictionaries beside everything else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from tests.items import item
from tests.realistic import pod
from tests.unit.extensions.test_informer import World
from watchcache_server.extensions import training
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.training import Trainer

_LIMIT_SECONDS = 30.0


class Guard:
    """Does work, keeps faults, and says when some is done."""

    def __init__(self) -> None:
        self.faults: list[Exception] = []
        self.done: list[Informer] = []
        self._news = asyncio.Event()

    async def __call__(self, informer: Informer, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except RuntimeError as error:
            self.faults.append(error)
        self.done.append(informer)
        self._news.set()

    async def until_done(self, count: int = 1) -> None:
        """Wait until so many informers were served."""
        async with asyncio.timeout(_LIMIT_SECONDS):
            while len(self.done) < count:
                self._news.clear()
                await self._news.wait()


@pytest.fixture
async def guard() -> Guard:
    """Give a guard."""
    return Guard()


@pytest.fixture
async def trainer(guard: Guard) -> AsyncIterator[Trainer]:
    """Give a trainer that runs."""
    trainer = Trainer(guard)
    task = asyncio.create_task(trainer.run())
    yield trainer
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture
async def world() -> World:
    """Give an extension."""
    return World()


def full(world: World, count: int = 300, **spec: str) -> Informer:
    """Return an informer that holds so many pods as they are in a real cluster."""
    informer = world.informer(**spec)
    informer.stage(
        item(f"p{number}", uid=f"u{number}", body=pod(number)) for number in range(count)
    )
    informer.commit(0.0, "10")
    return informer


async def test_what_is_held_is_compressed_anew(
    world: World, trainer: Trainer, guard: Guard
) -> None:
    """All of it, with the dictionary of its source, and reads as before."""
    informer = full(world)
    before = informer.source.stored_bytes
    trainer.request(informer)
    await guard.until_done()
    source = informer.source
    assert source.dictionary
    assert source.stored_bytes < before / 2
    codecs = {entry.codec for entry in source.table}
    assert [codec.dictionary for codec in codecs] == [source.dictionary]
    entry = source.table.get("team-a", "p7")
    assert entry is not None
    assert entry.body() == pod(7)


async def test_others_go_on_meanwhile(
    world: World, trainer: Trainer, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training is done in a thread; the loop does not wait for it."""
    loop, may_end = asyncio.get_running_loop(), threading.Event()
    begun: asyncio.Future[int] = loop.create_future()

    def train(samples: Sequence[bytes]) -> None:
        loop.call_soon_threadsafe(begun.set_result, threading.get_ident())
        may_end.wait(_LIMIT_SECONDS)

    monkeypatch.setattr(training, "train", train)
    trainer.request(full(world))
    assert await begun != threading.get_ident()
    assert not guard.done
    may_end.set()
    await guard.until_done()


async def test_sources_are_served_one_after_the_other(
    world: World, trainer: Trainer, guard: Guard
) -> None:
    """In the order of their requests, each once."""
    first, second = full(world), full(world, namespace="team-b")
    for informer in (first, second, first):
        trainer.request(informer)
    await guard.until_done(2)
    assert guard.done == [first, second]
    assert first.source.dictionary != b""
    assert second.source.dictionary != b""


async def test_a_source_that_needs_none_is_left_alone(
    world: World, trainer: Trainer, guard: Guard
) -> None:
    """Few objects are not worth a dictionary."""
    informer = full(world, 3)
    trainer.request(informer)
    await guard.until_done()
    assert informer.source.dictionary == b""


async def test_a_dictionary_that_does_not_help_is_not_used(
    world: World, trainer: Trainer, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held stays as it is."""
    monkeypatch.setattr(training, "train", lambda samples: None)
    informer = full(world)
    before = informer.source.stored_bytes
    trainer.request(informer)
    await guard.until_done()
    assert (informer.source.dictionary, informer.source.stored_bytes) == (b"", before)


async def test_a_source_that_ended_is_not_trained(
    world: World, trainer: Trainer, guard: Guard
) -> None:
    """Nobody would have any use of it."""
    gone, other = full(world), full(world, namespace="team-b")
    trainer.request(gone)
    trainer.request(other)
    world.extension.remove_informer(gone)
    await guard.until_done()
    assert guard.done == [other]


async def test_a_source_that_ends_meanwhile_is_not_compressed_anew(
    world: World, trainer: Trainer, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries are left to be freed."""
    train = training.train
    informer = full(world)
    entries = list(informer.source.table)
    loop = asyncio.get_running_loop()

    def end_and_train(samples: Sequence[bytes]) -> bytes | None:
        loop.call_soon_threadsafe(world.extension.end, "DEREGISTERED")
        return train(samples)

    monkeypatch.setattr(training, "train", end_and_train)
    trainer.request(informer)
    await guard.until_done()
    assert {entry.codec.dictionary for entry in entries} == {b""}


async def test_a_fault_harms_no_other_source(
    world: World, trainer: Trainer, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is served, and what failed is not tried again at once."""
    train = training.train
    broken, other = full(world), full(world, namespace="team-b")

    def fail_first(samples: Sequence[bytes]) -> bytes | None:
        monkeypatch.setattr(training, "train", train)
        raise RuntimeError("a fault")

    monkeypatch.setattr(training, "train", fail_first)
    trainer.request(broken)
    trainer.request(other)
    await guard.until_done(2)
    assert [str(fault) for fault in guard.faults] == ["a fault"]
    assert other.source.dictionary != b""
    assert not broken.source.is_training_due
