"""Rules of asking an API server how far it is: what is asked, how often, and what follows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.items import item, source_spec
from tests.unit.kubernetes.informer_double import PODS, REFUSED, Api, pod, pod_list
from watchcache_server.informer.comparison import Scope
from watchcache_server.informer.source import Source
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.errors import AnswerTooLargeError
from watchcache_server.kubernetes.freshness import Freshness
from watchcache_server.kubernetes.prober import Prober
from watchcache_server.kubernetes.requests import ACCEPT_METADATA, ACCEPT_METADATA_LIST, Request

pytestmark = pytest.mark.looptime

ALL = Scope()
WEB = Scope("team-a", "web")


def status(code: int, message: str = "") -> Answer:
    """Make an answer that is no success."""
    return Answer(code, {}, json.dumps({"kind": "Status", "message": message}).encode())


def same(version: str = "20", **more: str) -> Answer:
    """Make the list of what the source holds."""
    return Answer(200, {}, pod_list(version, pod("web", "5"), **more))


class World:
    """A prober of a source that holds a pod at version 10, and its API server."""

    def __init__(self) -> None:
        self.source = Source(1, source_spec(namespace="team-a", label_selector="app=web"))
        self.source.served = PODS
        self.hold("web")
        self.freshness = Freshness(self.source)
        self.api = Api()
        self.api.answer_call = self.answer
        self.got = status(404)
        self.gets = 0
        self.outcomes: list[Answer | Exception | None] = [same()]
        self.hastened: list[float] = []
        self.suspected: list[float] = []
        self.waiting = self.most_waiting = 0
        self.task: asyncio.Task[None] | None = None

    def hold(self, *names: str) -> None:
        """Let the source hold pods of these names."""
        self.source.stage(item(name, uid=f"uid-{name}", version="5") for name in names)
        self.source.commit("10")
        self.source.note_position("10", 0)

    def start(self) -> None:
        """Run the prober."""
        access: Any = self.api
        now = asyncio.get_running_loop().time
        prober = Prober(
            access,
            self.freshness,
            hasten=lambda: self.hastened.append(now()),
            suspect=lambda: self.suspected.append(now()),
        )
        self.task = asyncio.create_task(_run(prober))

    async def answer(self, request: Request) -> Answer:
        """Answer with the next outcome, the last of which stays; None never answers."""
        if request.path.endswith("/pods/web"):
            self.gets += 1
            return self.got
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        try:
            await asyncio.sleep(3600.0 if outcome is None else 0.01)
        finally:
            self.waiting -= 1
        if isinstance(outcome, Exception):
            raise outcome
        assert outcome is not None
        return outcome

    async def read(self, scope: Scope = ALL, version: str = "", *, limit: float = 60.0) -> str:
        """Wait as a reader does."""
        async with asyncio.timeout(limit):
            return await self.freshness.wait(scope, version)

    def move(self, version: str) -> None:
        """Let the stream bring the source to a version."""
        self.source.note_position(version, 0)
        self.freshness.moved()

    @property
    def queries(self) -> list[dict[str, str]]:
        """The parameters of all lists."""
        lists = (each for each in self.api.called if not each.path.endswith("/pods/web"))
        parsed = (parse_qs(request.query) for request in lists)
        return [{name: values[-1] for name, values in query.items()} for query in parsed]


async def _run(prober: Prober) -> None:
    news = asyncio.Event()
    prober.begin(news.set)
    async with asyncio.TaskGroup() as group:
        while True:
            await news.wait()
            news.clear()
            prober.ask(group)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give a prober that runs, and ends with the test."""
    world = World()
    world.start()
    yield world
    assert world.task is not None
    world.task.cancel()
    await asyncio.wait([world.task])


async def test_few_objects_are_listed_by_their_metadata(world: World) -> None:
    """The newest state, as the informer selects it, and all that is held."""
    assert await world.read() == ""
    (request,) = world.api.called
    assert request.path == "/api/v1/namespaces/team-a/pods"
    assert request.accept == ACCEPT_METADATA_LIST
    assert world.queries == [{"limit": "500", "labelSelector": "app=web"}]
    assert world.hastened == []


async def test_an_object_is_listed_by_its_name(world: World) -> None:
    """Whatever else there is."""
    world.hold("web", *(f"pod-{number}" for number in range(600)))
    assert await world.read(WEB) == ""
    assert world.queries == [
        {"limit": "500", "labelSelector": "app=web", "fieldSelector": "metadata.name=web"}
    ]


async def test_an_object_that_is_the_same_is_asked_for_itself(world: World) -> None:
    """The storage answers that at once; a list waits for the server's own cache."""
    world.got = Answer(200, {}, json.dumps(pod("web", "5")).encode())
    assert await world.read(WEB) == ""
    (request,) = world.api.called
    assert request.path == "/api/v1/namespaces/team-a/pods/web"
    assert request.accept == ACCEPT_METADATA
    assert world.queries == []


OTHERS: dict[str, Answer] = {
    "another version": Answer(200, {}, json.dumps(pod("web", "6")).encode()),
    "another object": Answer(200, {}, json.dumps(pod("web", "5", uid="uid-2")).encode()),
    "none": status(404),
    "nothing that may be seen": status(403),
    "nothing for now": status(503),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_of_an_object_that_is_not_the_same_a_list_says_more(world: World, name: str) -> None:
    """At which version it is so; a right to get that is missing is not used again."""
    world.got = OTHERS[name]
    assert await world.read(WEB) == ""
    assert await world.read(WEB) == ""
    assert len(world.queries) == 2
    assert world.gets == (1 if name == "nothing that may be seen" else 2)


async def test_a_version_is_not_proven_by_an_object_that_is_the_same(world: World) -> None:
    """It may be one that never was: only a list says where the server is."""
    world.got = Answer(200, {}, json.dumps(pod("web", "5")).encode())
    assert await world.read(WEB, "15") == ""
    assert world.gets == 0


async def test_nobody_is_asked_where_nobody_waits(world: World) -> None:
    """An informer at rest costs nothing."""
    await asyncio.sleep(600.0)
    assert world.api.called == []


async def test_many_readers_cost_one_request(world: World) -> None:
    """And those who come while it is under way one more."""
    async with asyncio.TaskGroup() as group:
        for _ in range(500):
            group.create_task(world.read())
        await asyncio.sleep(0.005)
        for _ in range(500):
            group.create_task(world.read())
    assert len(world.api.called) == 2


async def test_no_more_than_a_few_requests_are_under_way(world: World) -> None:
    """Single objects are asked for beside each other, many as one."""
    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(world.read(Scope("team-a", f"none-{number}"), version="15"))
        await asyncio.sleep(0.12)
        world.move("15")
    async with asyncio.TaskGroup() as group:
        for number in range(300):
            group.create_task(world.read(Scope("team-a", f"none-{number}")))
    assert world.most_waiting <= 8
    assert len(world.queries) <= 8 + 8 + 2


async def test_of_many_objects_only_the_version_is_asked_for(world: World) -> None:
    """The watch is opened again until its bookmark has brought the source there."""
    world.hold(*(f"pod-{number}" for number in range(501)))
    reading = asyncio.create_task(world.read())
    await asyncio.sleep(0.05)
    assert world.queries == [{"limit": "1", "labelSelector": "app=web"}]
    assert world.hastened == [], "a busy stream needs no bookmark"
    await asyncio.sleep(0.5)
    assert world.hastened
    world.move("20")
    assert await reading == ""
    world.hastened.clear()
    await asyncio.sleep(60.0)
    assert world.hastened == []


async def test_more_objects_than_are_held_are_not_compared(world: World) -> None:
    """A list with more pages shows only a part."""
    world.outcomes = [same(more="next")]
    reading = asyncio.create_task(world.read())
    await asyncio.sleep(0.05)
    assert not reading.done()
    world.move("20")
    assert await reading == ""


async def test_where_the_stream_is_late_the_watch_is_opened_again(world: World) -> None:
    """It may have died in silence; and what was answered is asked anew after a while."""
    world.outcomes = [Answer(200, {}, pod_list("20", pod("web", "15")))]
    reading = asyncio.create_task(world.read())
    await asyncio.sleep(0.5)
    assert world.hastened == [], "events take a moment"
    await asyncio.sleep(1.0)
    assert world.hastened
    world.outcomes = [same("21")]
    assert await reading == ""


TRANSIENT: dict[str, Answer | Exception | None] = {
    "throttled": status(429),
    "broken server": status(503),
    "token refused": status(401),
    "out of reach": REFUSED,
    "no answer": None,
    "no list": Answer(200, {}, b"{}"),
    "half a list": Answer(200, {}, same().body[:-20]),
}


@pytest.mark.parametrize("name", TRANSIENT)
async def test_what_may_pass_is_tried_again(world: World, name: str) -> None:
    """Whoever waits is told why it takes so long, if it does."""
    world.outcomes = [TRANSIENT[name], TRANSIENT[name], same()]
    reading = asyncio.create_task(world.read())
    await asyncio.sleep(1.05)
    assert world.freshness.trouble or reading.done()
    assert await reading == ""
    assert len(world.api.called) == 3
    assert world.freshness.trouble == ""


async def test_attempts_get_longer_and_further_apart(world: World) -> None:
    """A dead connection is noticed soon, a slow server gets its time, a broken one its rest."""
    world.outcomes = [None]
    with pytest.raises(TimeoutError):
        await world.read(limit=60.0)
    assert 10 <= len(world.api.called) <= 16
    world.outcomes = [status(500, "no leader")]
    await asyncio.sleep(10.0)
    world.api.called.clear()
    with pytest.raises(TimeoutError):
        await world.read(limit=60.0)
    assert len(world.api.called) <= 62
    assert "no leader" in world.freshness.trouble


async def test_a_right_that_is_missing_is_said_at_once(world: World) -> None:
    """Waiting is of no use."""
    world.outcomes = [status(403, "pods is forbidden")]
    assert "pods is forbidden" in await world.read(limit=1.0)


async def test_where_names_cannot_be_selected_everything_is_listed(world: World) -> None:
    """As with some aggregated APIs."""
    world.outcomes = [status(400, "field label not supported"), same()]
    reading = asyncio.create_task(world.read(WEB))
    await asyncio.sleep(0.5)
    world.move("20")
    assert await reading == ""
    assert [query.get("fieldSelector") for query in world.queries] == ["metadata.name=web", None]


async def test_what_is_too_much_to_list_is_not_compared(world: World) -> None:
    """From then on the version alone is asked for."""
    world.outcomes = [AnswerTooLargeError("hub", "api:443", "too large"), same()]
    reading = asyncio.create_task(world.read())
    await asyncio.sleep(0.5)
    world.move("20")
    assert await reading == ""
    assert [query["limit"] for query in world.queries] == ["500", "1"]


async def test_a_version_from_the_past_has_the_informer_look(world: World) -> None:
    """Not with every answer: some servers count in ways of their own."""
    world.outcomes = [same("9")]
    reading = asyncio.create_task(world.read())
    await asyncio.sleep(5.0)
    assert len(world.suspected) == 1
    assert not reading.done()
    world.source.note_position("9", 0)
    assert await reading == ""


async def test_a_kind_that_was_not_found_yet_is_waited_for(world: World) -> None:
    """The informer was started again, and holds what the one before it read."""
    world.source.served = None
    reading = asyncio.create_task(world.read())
    await asyncio.sleep(1.0)
    assert "yet to find" in world.freshness.trouble
    world.source.served = PODS
    assert await reading == ""


async def test_a_prober_goes_on_with_what_one_before_it_left(world: World) -> None:
    """It failed by a fault of ours, or the informer has new credentials."""
    world.outcomes = [None]
    reading = asyncio.create_task(world.read())
    await asyncio.sleep(0.5)
    assert world.task is not None
    world.task.cancel()
    await asyncio.wait([world.task])
    world.outcomes = [same()]
    world.start()
    assert await reading == ""


async def test_who_came_while_there_was_no_prober_is_asked_for_by_the_next(world: World) -> None:
    """Nothing else may happen for a while that would have it look."""
    assert world.task is not None
    world.task.cancel()
    await asyncio.wait([world.task])
    reading = asyncio.create_task(world.read())
    await asyncio.sleep(0.5)
    world.start()
    assert await reading == ""
