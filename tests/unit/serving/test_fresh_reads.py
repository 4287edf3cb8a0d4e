"""Rules of calls that ask how fresh their answer has to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.items import item, served, source_spec
from tests.unit.serving.watched import Watched
from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.comparison import Listed, Scope
from watchcache_server.informer.objects import Upsert
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    InvalidRequestError,
    NotFreshEnoughError,
    NotSyncedError,
    ObjectNotFoundError,
    ServiceDrainingError,
    ServiceError,
)
from watchcache_server.model.states import SourceState
from watchcache_server.serving.reading import Reading

pytestmark = pytest.mark.looptime

CONSISTENT = pb.ReadConsistency(consistent=True)


class World(Watched):
    """An extension whose reads can be asked to be fresh; a live informer is at version 10."""

    def __init__(self) -> None:
        super().__init__(max_freshness_wait_seconds=20.0)
        parts: list[Any] = [self]
        self.reading = Reading(*parts, default_cluster="hub", longest_wait_seconds=20.0)

    async def read(
        self, consistency: pb.ReadConsistency, name: str = "web", **key: str
    ) -> pb.GetObjectResponse:
        """Read one object."""
        whole = {"resource": "pods", "namespace": "team-a", "name": name} | key
        return await self.reading.get(
            pb.GetObjectRequest(
                namespace="team-a",
                name="shop",
                key=event_pb2.ObjectKey(**whole),
                consistency=consistency,
            )
        )

    async def page(self, consistency: pb.ReadConsistency, **request: Any) -> list[str]:
        """Return the names in a page of a list."""
        page = await self.reading.list(
            pb.ListObjectsRequest(
                namespace="team-a", name="shop", consistency=consistency, **request
            )
        )
        return [each.key.name for each in page.objects]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give an extension."""
    world = World()
    yield world
    await world.close()


def at_least(version: str, wait: float | None = None) -> pb.ReadConsistency:
    """Ask for a version."""
    asked = pb.ReadConsistency(min_resource_version=version)
    if wait is not None:
        asked.wait.FromMilliseconds(int(wait * 1000))
    return asked


def now() -> float:
    """Return the time of the loop."""
    return asyncio.get_running_loop().time()


def write(informer: Informer, name: str, version: str) -> None:
    """Let an informer read a write."""
    informer.apply([Upsert(item(name, uid=f"uid-{name}", version=version))], 0.0, version)


def answer(informer: Informer, version: str, *listed: Listed) -> Scope:
    """Answer the next question about an informer; return what it was about."""
    question = informer.freshness.take(8)
    assert question is not None
    informer.freshness.answer(question, version, listed)
    return question.scope


async def settle() -> None:
    """Let everybody run who can."""
    for _ in range(6):
        await asyncio.sleep(0)


async def started(work: Awaitable[Any]) -> asyncio.Task[Any]:
    """Begin a call; it waits by then, if it does."""
    task = asyncio.ensure_future(work)
    await settle()
    assert isinstance(task, asyncio.Task)
    return task


# Read your own write


async def test_a_write_is_read_once_the_informer_has_it(world: World) -> None:
    """Not before, and at once then."""
    informer = world.live("web")
    reading = await started(world.read(at_least("15")))
    write(informer, "other", "14")
    await settle()
    assert not reading.done()
    write(informer, "web", "15")
    assert (await reading).object.resource_version == "15"
    assert (await world.read(at_least("15", wait=0.0))).object.resource_version == "15"


async def test_a_bookmark_is_as_good_as_a_write(world: World) -> None:
    """The version of a deletion, or of an object that the informer does not select."""
    informer = world.live("web")
    reading = await started(world.read(at_least("15"), "gone"))
    informer.advance("16")
    with pytest.raises(ObjectNotFoundError):
        await reading


async def test_what_does_not_come_in_time_is_named(world: World) -> None:
    """Informer, position, age, state and its reason: what somebody needs to look further."""
    informer = world.live("web")
    informer.contact()
    informer.set_state(SourceState.STALE, "NO_CONTACT", "watch failed: reset")
    world.time.advance(7.0)
    began = now()
    with pytest.raises(NotFreshEnoughError) as caught:
        await world.read(at_least("15", wait=2.0))
    assert now() - began == pytest.approx(2.0)
    text = str(caught.value)
    for part in ("pods in namespace team-a on cluster hub", "resourceVersion 15", "within 2 s"):
        assert part in text
    for part in ("at 10", "7.0 s ago", "stale: watch failed: reset"):
        assert part in text
    assert caught.value.facts == {
        "cluster": "hub",
        "group": "",
        "resource": "pods",
        "namespace": "team-a",
        "state": "STALE",
        "state_reason": "NO_CONTACT",
        "resource_version": "10",
    }
    assert informer.freshness.waiting_count == 0


@pytest.mark.parametrize(
    ("wait", "expected"), [(None, 5.0), (1.0, 1.0), (0.0, 0.0), (3600.0, 20.0)]
)
async def test_the_wait_is_bounded(world: World, wait: float | None, expected: float) -> None:
    """By the caller, and for everybody by a setting."""
    world.live("web")
    began = now()
    with pytest.raises(NotFreshEnoughError):
        await world.read(at_least("15", wait))
    assert now() - began == pytest.approx(expected)


VERSIONS: dict[str, tuple[str, str]] = {
    "none": ("", "is empty"),
    "a word": ("abc", "does not compare with '10'"),
    "a leading zero": ("015", "does not compare"),
    "zero, which means any": ("0", "does not compare"),
    "a fraction": ("1.5", "does not compare"),
    "other digits": ("\u0661\u0665", "does not compare"),
}


@pytest.mark.parametrize("name", VERSIONS)
async def test_a_version_that_does_not_compare_is_refused(world: World, name: str) -> None:
    """At once: no wait makes it comparable."""
    world.live("web")
    version, told = VERSIONS[name]
    began = now()
    with pytest.raises(InvalidRequestError, match=told) as caught:
        await world.read(at_least(version))
    assert caught.value.violations[0].field == "consistency.min_resource_version"
    assert now() == began


async def test_an_opaque_version_is_met_by_itself(world: World) -> None:
    """Equality is all that is known of it."""
    informer = world.live("web")
    informer.advance("abc")
    assert (await world.read(at_least("abc"))).object.uid == "uid-web"
    with pytest.raises(InvalidRequestError):
        await world.read(at_least("15"))


# As fresh as the API server


async def test_a_consistent_read_waits_for_the_word_of_the_server(world: World) -> None:
    """However live the informer is."""
    informer = world.live("web")
    reading = await started(world.read(CONSISTENT))
    assert not reading.done()
    assert answer(informer, "20", Listed("team-a", "web", "uid-web", "1")) == ("team-a", "web")
    assert (await reading).object.uid == "uid-web"


async def test_a_consistent_list_waits_for_every_informer_in_view(world: World) -> None:
    """Each is asked for by itself; those out of view are left alone."""
    first, second = world.live("web"), world.live("db", namespace="team-b")
    third = world.live("out", namespace="team-c")
    wanted = pb.Filter(namespaces=["team-a", "team-b"])
    listing = await started(world.page(CONSISTENT, filter=wanted))
    assert answer(first, "20", Listed("team-a", "web", "uid-web", "1")) == Scope()
    await settle()
    assert not listing.done()
    assert third.freshness.take(8) is None
    assert answer(second, "20", Listed("team-a", "db", "uid-db", "1")) == Scope()
    assert sorted(await listing) == ["db", "web"]


async def test_of_a_wide_informer_only_the_namespaces_in_view_are_asked_for(world: World) -> None:
    """Up to a few; beyond, as a whole."""
    informer = world.live("web", namespace="")
    few = await started(world.page(CONSISTENT, filter=pb.Filter(namespaces=["team-a", "team-b"])))
    assert answer(informer, "20", Listed("team-a", "web", "uid-web", "1")) == Scope("team-a")
    await settle()
    assert answer(informer, "20") == Scope("team-b")
    assert await few == ["web"]
    names = [f"team-{letter}" for letter in "abcdef"]
    many = await started(world.page(CONSISTENT, filter=pb.Filter(namespaces=names)))
    assert answer(informer, "20", Listed("team-a", "web", "uid-web", "1")) == Scope()
    assert await many == ["web"]


async def test_only_the_first_page_waits(world: World) -> None:
    """The others come later, and are no older."""
    informer = world.live("web", "db", "app")
    request = pb.ListObjectsRequest(
        namespace="team-a", name="shop", page_size=2, consistency=CONSISTENT
    )
    first = await started(world.reading.list(request))
    answer(informer, "20")
    informer.advance("20")
    page = await first
    request.page_token = page.next_page_token
    assert [each.key.name for each in (await world.reading.list(request)).objects] == ["web"]


async def test_a_refusal_of_the_server_is_told_at_once(world: World) -> None:
    """No wait grants a right."""
    informer = world.live("web")
    reading = await started(world.read(CONSISTENT))
    question = informer.freshness.take(8)
    assert question is not None
    informer.freshness.refuse(question, "pods is forbidden")
    with pytest.raises(NotFreshEnoughError, match="pods is forbidden"):
        await reading


async def test_of_several_informers_one_that_is_late_is_named(world: World) -> None:
    """The answer would be as old as that."""
    first, _ = world.live("web"), world.live("db", namespace="team-b")
    listing = await started(world.page(CONSISTENT))
    answer(first, "20", Listed("team-a", "web", "uid-web", "1"))
    with pytest.raises(NotFreshEnoughError, match="team-b"):
        await listing


# What has not been loaded


async def test_a_first_sync_is_waited_for(world: World) -> None:
    """It may be over in time."""
    informer = world.informer()
    reading = await started(world.read(at_least("10")))
    informer.stage([item("web", uid="uid-web")])
    informer.commit(0.0, "12")
    informer.set_state(SourceState.LIVE, "SYNCED", "")
    assert (await reading).object.uid == "uid-web"


async def test_a_first_sync_that_is_not_over_in_time_is_said(world: World) -> None:
    """As it is where nobody asks for freshness."""
    informer = world.informer()
    informer.set_state(SourceState.SYNCING, "STARTING", "the first sync has begun")
    with pytest.raises(NotSyncedError) as caught:
        await world.read(CONSISTENT)
    assert caught.value.is_transient


async def test_what_cannot_be_loaded_is_not_waited_for(world: World) -> None:
    """It says why."""
    world.informer().set_state(SourceState.FORBIDDEN, "VERBS_MISSING", "needs list")
    began = now()
    for work in (world.read(CONSISTENT), world.page(CONSISTENT)):
        with pytest.raises(NotSyncedError, match="needs list"):
            await work
    assert now() == began


async def test_what_is_not_watched_is_not_waited_for(world: World) -> None:
    """It says so."""
    world.live("web")
    with pytest.raises(NotSyncedError, match="does not watch it"):
        await world.read(CONSISTENT, resource="secrets")


# What ends a wait


async def drained(world: World) -> type[ServiceError]:
    """Shut down."""
    world.drain()
    return ServiceDrainingError


async def ended(world: World) -> type[ServiceError]:
    """End the extension."""
    world.extension.end("DEREGISTERED")
    return ExtensionNotFoundError


@pytest.mark.parametrize("end", [drained, ended])
async def test_an_end_ends_the_wait(world: World, end: Any) -> None:
    """Of reads and of streams, for whatever they wait."""
    world.live("web")
    world.informer(namespace="team-b")
    calls = [
        await started(world.read(at_least("15"))),
        await started(world.read(CONSISTENT)),
        await started(world.read(CONSISTENT, namespace="team-b")),
        await started(world.page(CONSISTENT)),
    ]
    world.watch(consistency=CONSISTENT)
    await settle()
    error = await end(world)
    for call in calls:
        with pytest.raises(error):
            await call
    assert isinstance(await world.error(), error)


async def test_an_informer_that_stops_is_waited_for_no_longer(world: World) -> None:
    """What remains decides; what has come meanwhile counts too."""
    informer = world.live("web")
    listing = await started(world.page(CONSISTENT))
    world.extension.remove_informer(informer)
    later = world.live("db", namespace="team-b")
    await settle()
    answer(later, "20", Listed("team-a", "db", "uid-db", "1"))
    assert await listing == ["db"]


async def test_one_who_waits_keeps_the_ttl_from_running(world: World) -> None:
    """Somebody is using the extension."""
    world.live("web")
    assert world.extension._holds == 0
    reading = await started(world.read(CONSISTENT))
    assert world.extension._holds == 1
    reading.cancel()
    await asyncio.wait([reading])
    assert world.extension._holds == 0


async def test_others_are_not_held_up(world: World) -> None:
    """Who asks for nothing gets what there is."""
    world.live("web")
    waiting = [await started(world.read(CONSISTENT)) for _ in range(100)]
    assert (await world.read(pb.ReadConsistency())).object.uid == "uid-web"
    no = pb.ReadConsistency(consistent=False, wait=Duration(seconds=1))
    assert await world.page(no) == ["web"]
    assert not any(reading.done() for reading in waiting)
    for reading in waiting:
        reading.cancel()


# Streams


async def test_a_stream_begins_when_it_is_fresh(world: World) -> None:
    """So that its snapshot is."""
    informer = world.live("web")
    reader = world.watch(consistency=at_least("15"))
    await asyncio.sleep(0.05)
    assert reader.kinds == []
    write(informer, "late", "15")
    await reader.until("synced")
    assert [name for _, name in reader.events] == ["late", "web"]


async def test_a_stream_that_cannot_be_fresh_does_not_begin(world: World) -> None:
    """It ends with the reason, and takes no room."""
    world.live("web")
    reader = world.watch(consistency=at_least("15", wait=1.0))
    assert isinstance(await world.error(), NotFreshEnoughError)
    assert reader.kinds == []
    assert world.watching.stream_count == 0


async def test_a_stream_with_a_bad_token_is_refused_before_it_waits(world: World) -> None:
    """Waiting would not mend it."""
    world.live("web")
    began = now()
    world.watch(consistency=CONSISTENT, resume_token=b"nonsense")
    assert isinstance(await world.error(), InvalidRequestError)
    assert now() == began


@pytest.mark.parametrize("call", ["page", "watch"])
async def test_a_version_of_several_resources_is_refused(world: World, call: str) -> None:
    """Versions of two resources do not compare; a filter that lets one through mends it."""
    world.live("web")
    world.live("x", namespace="team-z")
    other = world.extension.add_informer(source_spec("secrets", namespace="team-a"))
    assert other.bind(served("secrets", "Secret")) is None
    asked = at_least("10")
    if call == "page":
        with pytest.raises(InvalidRequestError, match="2 resources"):
            await world.page(asked)
    else:
        world.watch(consistency=asked)
        error = await world.error()
        assert isinstance(error, InvalidRequestError)
        assert "2 resources" in str(error)
    wanted = pb.Filter(resources=[pb.ResourceRef(resource="pods")])
    assert sorted(await world.page(asked, filter=wanted)) == ["web", "x"]
