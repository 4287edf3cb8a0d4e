"""Rules of waiting for a source to be fresh: who is woken when, and what is asked for whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.items import item, served, source_spec
from watchcache_server.informer.comparison import Listed, Scope
from watchcache_server.informer.objects import Upsert
from watchcache_server.informer.source import Source
from watchcache_server.kubernetes.freshness import Freshness, Question

pytestmark = pytest.mark.looptime

WEB = Listed("team-a", "web", "uid-1", "5")
ALL = Scope()


class World:
    """A source at version 10, and readers of it."""

    def __init__(self) -> None:
        self.source = Source(1, source_spec())
        self.source.served = served()
        self.source.stage([item(version="5")])
        self.source.commit("10")
        self.source.note_position("10", 0)
        self.freshness = Freshness(self.source)
        self.readers: list[asyncio.Task[str]] = []

    async def read(self, version: str = "", scope: Scope = ALL) -> asyncio.Task[str]:
        """Let a reader begin to wait."""
        reader = asyncio.create_task(self.freshness.wait(scope, version))
        self.readers.append(reader)
        await asyncio.sleep(0)
        return reader

    def move(self, version: str) -> None:
        """Let the stream bring the source to a version, without a change."""
        self.source.note_position(version, 0)
        self.freshness.moved()

    def take(self) -> Question:
        """Return the question that is to be sent now."""
        question = self.freshness.take(8)
        assert question is not None
        return question


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give a source; its readers end with the test."""
    world = World()
    yield world
    for reader in world.readers:
        reader.cancel()
    await asyncio.gather(*world.readers, return_exceptions=True)


async def settle() -> None:
    """Let everybody run who can."""
    for _ in range(4):
        await asyncio.sleep(0)


# A version


async def test_a_version_that_is_reached_is_not_waited_for(world: World) -> None:
    """Nobody is asked."""
    assert await world.freshness.wait(ALL, "10") == ""
    assert await world.freshness.wait(ALL, "9") == ""
    assert world.freshness.take(8) is None


async def test_the_stream_wakes_those_whose_version_it_has_reached(world: World) -> None:
    """In whatever order they came, and nobody else."""
    readers = [await world.read(version) for version in ("30", "12", "9999", "13", "12")]
    world.move("13")
    await settle()
    assert [reader.done() for reader in readers] == [False, True, False, True, True]
    world.move("100")
    await settle()
    assert [reader.done() for reader in readers] == [True, True, False, True, True]
    assert world.freshness.waiting_count == 1


async def test_a_version_is_first_left_to_the_stream(world: World) -> None:
    """It mostly brings it at once; then the API server is asked."""
    await world.read("12")
    assert world.freshness.take(8) is None
    await asyncio.sleep(0.2)
    assert world.take().scope == ALL


async def test_an_answer_that_is_older_than_the_version_is_none(world: World) -> None:
    """The question is asked again, until the API server itself has come there."""
    reader = await world.read("12")
    await asyncio.sleep(0.2)
    world.freshness.answer(world.take(), "11", [WEB])
    await asyncio.sleep(0.2)
    assert not reader.done()
    assert world.freshness.newest == "11"
    await asyncio.sleep(1.0)
    world.freshness.answer(world.take(), "12", [WEB])
    assert await reader == ""


# As fresh as the API server


async def test_what_shows_the_same_objects_is_as_fresh(world: World) -> None:
    """Though the version is one that no event will bring."""
    reader = await world.read()
    world.freshness.answer(world.take(), "20", [WEB])
    assert await reader == ""


async def test_what_differs_is_waited_for(world: World) -> None:
    """Until its event has come."""
    reader = await world.read()
    world.freshness.answer(world.take(), "20", [Listed("team-a", "web", "uid-1", "15")])
    await settle()
    assert not reader.done()
    world.source.apply([Upsert(item(version="15"))])
    world.freshness.moved()
    assert await reader == ""


async def test_of_many_objects_the_version_has_to_be_reached(world: World) -> None:
    """By an event or a bookmark at it or behind it."""
    reader = await world.read()
    world.freshness.answer(world.take(), "20", None)
    world.move("19")
    await settle()
    assert not reader.done()
    world.move("21")
    assert await reader == ""


async def test_readers_that_came_before_a_question_was_sent_share_it(world: World) -> None:
    """Those who come while it is under way are asked for anew, and share that."""
    early = [await world.read() for _ in range(100)]
    first = world.take()
    late = [await world.read() for _ in range(100)]
    assert world.freshness.take(8) is None, "one at a time"
    world.freshness.answer(first, "20", [WEB])
    await settle()
    assert all(reader.done() for reader in early)
    assert not any(reader.done() for reader in late), "it may be of before they came"
    world.freshness.answer(world.take(), "21", [WEB])
    await settle()
    assert all(reader.done() for reader in late)
    assert world.freshness.take(8) is None


async def test_single_objects_are_asked_for_by_name(world: World) -> None:
    """A few at a time; many with one question about all of them."""
    for number in range(8):
        await world.read(scope=Scope("team-a", f"object-{number}"))
    taken = [world.freshness.take(3) for _ in range(4)]
    assert [each.scope.name for each in taken if each] == ["object-0", "object-1", "object-2"]
    for number in range(8, 20):
        await world.read(scope=Scope("team-a", f"object-{number}"))
    whole = world.take()
    assert (whole.scope, len(whole.readers)) == (ALL, 17)
    await world.read(scope=Scope("team-a", "late"))
    assert world.freshness.take(8) is None, "the next one is left to the next question"
    world.freshness.answer(whole, "20", [WEB])
    assert world.take().scope.name == "late"


async def test_nothing_is_asked_for_those_who_have_left(world: World) -> None:
    """Their time was over, or they were cancelled."""
    reader = await world.read()
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    assert world.freshness.take(8) is None
    assert world.freshness.waiting_count == 0


async def test_one_who_leaves_takes_nothing_from_the_others(world: World) -> None:
    """They share the question, not their fate."""
    leaving, staying = await world.read(), await world.read()
    question = world.take()
    leaving.cancel()
    await settle()
    world.freshness.answer(question, "20", [WEB])
    assert await staying == ""


async def test_a_question_without_an_answer_is_asked_again(world: World) -> None:
    """With those who came meanwhile; why there was none is kept for whoever asks."""
    await world.read()
    question = world.take()
    world.freshness.fail("connection refused")
    await world.read()
    assert world.freshness.take(8) is None, "not before it is time"
    world.freshness.again(question)
    assert len(world.take().readers) == 2
    assert world.freshness.trouble == "connection refused"


async def test_who_is_refused_need_not_wait(world: World) -> None:
    """All of those that share the question are told why."""
    readers = [await world.read(), await world.read("99")]
    await asyncio.sleep(0.2)
    world.freshness.refuse(world.take(), "needs list")
    assert [await reader for reader in readers] == ["needs list", "needs list"]


async def test_an_older_answer_than_what_is_known_proves_nothing(world: World) -> None:
    """The storage of the cluster was set back: what is held is of a future that never comes."""
    reader = await world.read()
    question = world.take()
    assert not world.freshness.answer(question, "9", [WEB])
    await settle()
    assert not reader.done()
    assert "set back" in world.freshness.trouble
    world.freshness.again(question)
    world.source.commit("9")
    world.move("9")
    assert world.freshness.answer(world.take(), "9", [])
    assert await reader == ""


async def test_a_version_that_moved_on_while_it_was_asked_for_is_no_step_back(
    world: World,
) -> None:
    """The answer is older than the source by the time that it comes."""
    reader = await world.read()
    question = world.take()
    world.move("30")
    assert world.freshness.answer(question, "20", None)
    assert await reader == ""


async def test_an_answer_is_late_when_the_stream_should_have_come_to_it(world: World) -> None:
    """Events take a while; of a version alone only a bookmark tells."""
    await world.read()
    await world.read(scope=Scope("team-b"))
    whole, some = world.take(), world.take()
    world.freshness.answer(whole, "20", None)
    world.freshness.answer(some, "20", [Listed("team-b", "web", "uid-2", "15")])
    await asyncio.sleep(0.2)
    assert (whole.is_late, some.is_late) == (True, False)
    await asyncio.sleep(1.0)
    assert some.is_late
    world.move("20")
    assert not whole.is_late
    assert not some.is_late


async def test_those_who_are_released_go_on(world: World) -> None:
    """The informer has ended: they look for themselves what there is."""
    readers = [await world.read(), await world.read("99")]
    world.freshness.release()
    assert [await reader for reader in readers] == ["", ""]


async def test_another_prober_asks_everything_again(world: World) -> None:
    """What was under way with the one before it, and what was answered and not yet met."""
    sent, answered = await world.read(), await world.read(scope=Scope("team-b"))
    first, second = world.take(), world.take()
    world.freshness.answer(second, "20", None)
    world.freshness.restart()
    again = [world.take(), world.take()]
    assert {question.scope for question in again} == {first.scope, second.scope}
    for question in again:
        world.freshness.answer(question, "21", [WEB] if question.scope == ALL else [])
    assert [await sent, await answered] == ["", ""]


async def test_readers_that_left_are_not_kept(world: World) -> None:
    """However many there were."""
    for _ in range(10):
        readers = [await world.read("99") for _ in range(50)]
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    assert world.freshness.waiting_count == 0
    assert len(world.freshness._by_version) <= 16
