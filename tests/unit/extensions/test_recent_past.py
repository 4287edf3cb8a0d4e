"""Rules of what ended before an informer began."""

from __future__ import annotations

import asyncio

import pytest

from tests.items import item
from tests.unit.extensions.test_informer import World
from watchcache_server.extensions.recent_past import RecentPast
from watchcache_server.informer.objects import Upsert
from watchcache_server.informer.source import Source
from watchcache_server.kubernetes.past import Ended, PastLostError
from watchcache_server.model.states import EventKind, LeftReason


class Reader:
    """Says what a test wants, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.ended_now = Ended()
        self.error: PastLostError | None = None

    async def ended(self, source: Source, since: str, until: str) -> Ended:
        self.asked.append((since, until))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return self.ended_now


@pytest.fixture
def reader() -> Reader:
    """Give a reader of the API server's history."""
    return Reader()


@pytest.fixture
async def world() -> World:
    """Give an extension."""
    return World()


def past_of(world: World, reader: Reader, *names: str) -> RecentPast:
    """Make the past of an informer that has read these objects at version 10."""
    informer = world.synced(*names)
    informer.past = RecentPast(informer, reader)  # type: ignore[arg-type]
    return informer.past


async def test_ends_are_told_by_the_names_that_they_had(world: World, reader: Reader) -> None:
    """Deletions, and what left a selector, without their bodies."""
    past = past_of(world, reader, "a")
    reader.ended_now.deleted = [item("b", uid="uid-b", version="7")]
    reader.ended_now.left = [item("c", uid="uid-c", version="8")]
    since = await past.since("5")
    assert reader.asked == [("5", "10")]
    assert since.revision == world.extension.store.revision
    deleted, left = since.ends
    assert (deleted.kind, deleted.entry.name, deleted.left_reason) == (EventKind.DELETED, "b", None)
    assert (left.kind, left.entry.name) == (EventKind.LEFT, "c")
    assert left.left_reason is LeftReason.SELECTION
    assert deleted.final_state_unknown
    assert deleted.entry.raw_size == 0
    assert [end.entry.name for end in since.after("6")] == ["b", "c"]
    assert [end.entry.name for end in since.after("7")] == ["c"]


async def test_it_is_found_once_for_all(world: World, reader: Reader) -> None:
    """Who asks at the same moment, or from later on, gets the same."""
    past = past_of(world, reader, "a")
    found = await asyncio.gather(past.since("5"), past.since("6"), past.since("5"))
    assert len({id(each) for each in found}) == 1
    assert len(reader.asked) == 1


async def test_who_comes_from_before_has_it_found_again(world: World, reader: Reader) -> None:
    """What was found says nothing of that time."""
    past = past_of(world, reader, "a")
    await past.since("5")
    await past.since("4")
    assert [since for since, _ in reader.asked] == ["5", "4"]


async def test_what_the_history_has_lost_is_found_again(world: World, reader: Reader) -> None:
    """It tells what ended up to a revision, and the history has to tell the rest."""
    past = past_of(world, reader, "a")
    await past.since("5")
    informer = next(iter(world.extension.informers.values()))
    for version in range(11, 200):
        informer.apply([Upsert(item("a", uid="uid-a", version=str(version)))], 0.0, str(version))
    await past.since("5")
    assert reader.asked == [("5", "10"), ("5", "199")]


async def test_a_lost_past_is_not_kept(world: World, reader: Reader) -> None:
    """The next one asks again."""
    past = past_of(world, reader, "a")
    reader.error = PastLostError("410")
    with pytest.raises(PastLostError, match="410"):
        await past.since("5")
    reader.error = None
    assert (await past.since("5")).ends == ()


async def test_storage_that_was_set_back_has_another_past(world: World, reader: Reader) -> None:
    """Who comes from before it knows one that was lost, however its version compares by now."""
    past = past_of(world, reader, "a")
    informer = next(iter(world.extension.informers.values()))
    informer.stage([item("a", uid="uid-a", version="3")])
    informer.commit(0.0, "4")
    informer.advance("20")
    with pytest.raises(PastLostError, match="set back"):
        await past.since("5")


async def test_what_was_found_before_a_storage_was_set_back_serves_nobody(
    world: World, reader: Reader
) -> None:
    """Neither who comes after that, nor who waits for it while it happens."""
    past = past_of(world, reader, "a")
    await past.since("5")
    early = asyncio.ensure_future(past.since("4"))
    await asyncio.sleep(0)
    informer = next(iter(world.extension.informers.values()))
    informer.stage([item("a", uid="uid-a", version="3")])
    informer.commit(0.0, "4")
    for waiting in (early, past.since("6")):
        with pytest.raises(PastLostError, match="set back"):
            await waiting
    assert [since for since, _ in reader.asked] == ["5", "4"]


async def test_who_was_stopped_keeps_no_past(world: World, reader: Reader) -> None:
    """Hundreds of them are kept for their last status, where a set of namespaces changes much."""
    past_of(world, reader, "a")
    informer = next(iter(world.extension.informers.values()))
    world.extension.remove_informer(informer)
    assert informer.past is None


async def test_who_holds_nothing_knows_no_past(world: World, reader: Reader) -> None:
    """There is no version up to which it could be asked for."""
    informer = world.informer()
    past = RecentPast(informer, reader)  # type: ignore[arg-type]
    with pytest.raises(PastLostError, match="holds nothing"):
        await past.since("5")
