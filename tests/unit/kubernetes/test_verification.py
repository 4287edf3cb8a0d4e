"""Rules of finding out what became of objects that left a selector."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.kubernetes.informer_double import PODS, REFUSED, Api, Sink, pod
from watchcache_server.informer.source import Unverified
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.requests import ACCEPT_METADATA, Request
from watchcache_server.kubernetes.verification import Verifier

pytestmark = pytest.mark.looptime


def answer(code: int, body: dict[str, Any] | None = None) -> Answer:
    """Make an answer."""
    return Answer(code, {}, b"" if body is None else json.dumps(body).encode())


class World:
    """A verifier, the API server that it asks, and the objects in doubt."""

    def __init__(self) -> None:
        self.api = Api()
        self.api.answer_call = self.answer
        self.sink = Sink()
        self.outcomes: list[Answer | Exception | None] = []
        self.waiting = 0
        self.most_waiting = 0
        parts: list[Any] = [self.api, self.sink]
        self.verifier = Verifier(*parts)
        self.task = asyncio.create_task(self.verifier.run())

    async def answer(self, request: Request) -> Answer:
        """Answer with the next outcome, the last of which stays; None never answers."""
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

    async def verify(self, *names: str) -> dict[str, bool]:
        """Have these objects looked into; return which were deleted."""
        self.sink.doubts = [Unverified("team-a", name, f"uid-{name}") for name in names]
        self.verifier.look(PODS)
        await self.sink.until_sure()
        return dict(self.sink.resolved)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give a verifier that ends with the test."""
    world = World()
    yield world
    world.task.cancel()
    await asyncio.wait([world.task])


OUTCOMES: dict[str, tuple[Answer, bool]] = {
    "there is none": (answer(404), True),
    "it is there": (answer(200, pod("a", "12")), False),
    "another one has its name": (answer(200, pod("a", "12", uid="uid-new")), True),
    "it may not be read": (answer(403), False),
    "no object came": (answer(200, {"kind": "Nonsense"}), False),
}


@pytest.mark.parametrize("name", OUTCOMES)
async def test_only_a_get_proves_a_deletion(world: World, name: str) -> None:
    """By 404 or another uid; anything else is no proof."""
    outcome, is_deleted = OUTCOMES[name]
    world.outcomes = [outcome]
    assert await world.verify("a") == {"a": is_deleted}
    (request,) = world.api.called
    assert request.path == "/api/v1/namespaces/team-a/pods/a"
    assert request.accept == ACCEPT_METADATA


TRANSIENT: dict[str, Answer | Exception | None] = {
    "throttled": answer(429),
    "broken server": answer(503),
    "out of reach": REFUSED,
    "no answer": None,
}


@pytest.mark.parametrize("name", TRANSIENT)
async def test_what_may_pass_is_tried_again(world: World, name: str) -> None:
    """A server that is busy for a moment hides no deletion."""
    world.outcomes = [TRANSIENT[name], answer(404)]
    assert await world.verify("a") == {"a": True}


async def test_what_does_not_pass_is_no_deletion(world: World) -> None:
    """After a few attempts, each of which has a limit."""
    world.outcomes = [None]
    before = asyncio.get_running_loop().time()
    assert await world.verify("a") == {"a": False}
    assert len(world.api.called) == 3
    assert asyncio.get_running_loop().time() - before < 20.0


async def test_a_name_that_no_path_can_hold_is_no_deletion(world: World) -> None:
    """Whatever a server calls its objects, the informer goes on."""
    world.outcomes = [answer(404)]
    assert await world.verify("a%b", "c") == {"a%b": False, "c": True}


async def test_only_a_few_are_asked_for_at_once(world: World) -> None:
    """However many there are."""
    world.outcomes = [answer(404)]
    names = [f"p{number}" for number in range(50)]
    assert await world.verify(*names) == dict.fromkeys(names, True)
    assert world.most_waiting == 8


async def test_what_comes_into_doubt_meanwhile_is_looked_into_next(world: World) -> None:
    """Nothing is forgotten, and nothing asked without need."""
    world.outcomes = [answer(404)]
    world.sink.doubts = [Unverified("team-a", "a", "uid-a")]
    world.verifier.look(PODS)
    await asyncio.sleep(0.005)
    world.sink.doubts.append(Unverified("team-a", "b", "uid-b"))
    world.verifier.look(PODS)
    await asyncio.sleep(1.0)
    assert world.sink.resolved == [("a", True), ("b", True)]
    world.verifier.look(PODS)
    await asyncio.sleep(1.0)
    assert len(world.api.called) == 2


async def test_an_end_in_the_middle_resolves_nothing(world: World) -> None:
    """The doubts stay for whoever comes next."""
    world.outcomes = [None]
    world.sink.doubts = [Unverified("team-a", "a", "uid-a")]
    world.verifier.look(PODS)
    await asyncio.sleep(1.0)
    world.task.cancel()
    await asyncio.wait([world.task])
    assert world.sink.resolved == []
    assert world.waiting == 0
