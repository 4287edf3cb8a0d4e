"""Rules of asking an API server whether a source holds what it holds: how, and what follows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.items import item, source_spec
from tests.unit.kubernetes.informer_double import PODS, REFUSED, Api, pod, pod_list
from watchcache_server.informer.audit import Finding
from watchcache_server.informer.objects import Upsert
from watchcache_server.informer.source import Source
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.checking import Checked, check
from watchcache_server.kubernetes.errors import AnswerTooLargeError
from watchcache_server.kubernetes.requests import ACCEPT_METADATA_LIST, Request
from watchcache_server.model.states import CheckOutcome

pytestmark = pytest.mark.looptime

CONSISTENT, MISMATCH, UNCLEAR, FAILED = CheckOutcome
MANY = [f"pod-{number:03}" for number in range(150)]


def shown(version: str, *names: str, more: str = "", remaining: int | None = None) -> Answer:
    """Make a list of pods at version 5."""
    told = json.loads(pod_list(version, *(pod(name, "5") for name in names), more=more))
    told["metadata"]["remainingItemCount"] = remaining
    return Answer(200, {}, json.dumps(told).encode())


def status(code: int, message: str = "") -> Answer:
    """Make an answer that is no success."""
    return Answer(code, {}, json.dumps({"kind": "Status", "message": message}).encode())


class World:
    """A source at version 10, its API server, and what is asked of its informer."""

    def __init__(self, *names: str, **spec: Any) -> None:
        self.source = Source(1, source_spec(namespace="team-a", **spec))
        self.source.served = PODS
        self.source.stage(item(name, uid=f"uid-{name}", version="5") for name in names)
        self.source.commit("10")
        self.source.note_position("10", 0)
        self.api = Api()
        self.api.answer_call = self.answer
        self.outcomes: list[Answer | Exception | None] = []
        self.hastened: list[float] = []
        self.suspected = 0
        #: What happens while an answer is on its way.
        self.meanwhile: Callable[[], None] | None = None

    async def answer(self, _: Request) -> Answer:
        """Answer with the next outcome; None never answers."""
        outcome = self.outcomes.pop(0)
        await asyncio.sleep(3600.0 if outcome is None else 1.0)
        if self.meanwhile is not None:
            self.meanwhile()
        if isinstance(outcome, Exception):
            raise outcome
        assert outcome is not None
        return outcome

    def hasten(self) -> None:
        """Note that a bookmark is wanted."""
        self.hastened.append(asyncio.get_running_loop().time())

    def suspect(self) -> None:
        """Note that it should be looked whether the storage was set back."""
        self.suspected += 1

    async def check(self, *outcomes: Answer | Exception | None) -> Checked:
        """Check, with these answers in this order."""
        self.outcomes = list(outcomes)
        access: Any = self.api
        found = await check(access, self.source, self)
        assert self.source.ledger is None, "nothing is recorded any more"
        assert self.outcomes == [], "every answer was asked for"
        return found

    @property
    def queries(self) -> list[dict[str, str]]:
        """The parameters of all lists."""
        parsed = (parse_qs(request.query) for request in self.api.called)
        return [{name: values[-1] for name, values in query.items()} for query in parsed]


async def test_few_objects_are_listed_at_once() -> None:
    """Their metadata, in one request."""
    world = World("web", "db")
    assert await world.check(shown("10", "db", "web")) == Checked(outcome=CONSISTENT)
    (request,) = world.api.called
    assert (request.path, request.accept) == (
        "/api/v1/namespaces/team-a/pods",
        ACCEPT_METADATA_LIST,
    )
    assert world.queries == [{"limit": "500"}]


async def test_many_objects_are_counted() -> None:
    """A list of one tells how many there are; if that is right, it was all."""
    world = World(*MANY)
    checked = await world.check(shown("20", MANY[0], more="t", remaining=149))
    assert checked == Checked(outcome=CONSISTENT)
    assert world.queries == [{"limit": "1"}]
    assert world.hastened == []


async def test_a_number_that_differs_has_all_of_them_listed() -> None:
    """In pages, with pauses as long as they took; what is found then counts."""
    world = World(*MANY)
    world.source.note_position("20", 0)
    began = asyncio.get_running_loop().time()
    checked = await world.check(
        shown("20", MANY[0], more="t", remaining=148),
        shown("20", *MANY[:70], more="next"),
        shown("20", *MANY[71:]),
    )
    assert checked == Checked(
        outcome=MISMATCH, finding=Finding("20", held=150, listed=149, surplus=1), is_costly=True
    )
    assert world.queries == [{"limit": "1"}, {"limit": "500"}, {"limit": "500", "continue": "next"}]
    assert asyncio.get_running_loop().time() - began == pytest.approx(4.0)


async def test_a_number_that_differs_is_no_proof() -> None:
    """All of them are the same, so nothing was lost."""
    world = World(*MANY)
    world.source.note_position("20", 0)
    checked = await world.check(shown("20", MANY[0], more="t", remaining=148), shown("20", *MANY))
    assert checked == Checked(outcome=CONSISTENT)


async def test_where_no_number_is_told_all_are_listed() -> None:
    """As by an aggregated API."""
    world = World(*MANY)
    checked = await world.check(shown("10", MANY[0], more="t"), shown("10", *MANY))
    assert checked == Checked(outcome=CONSISTENT)


async def test_a_server_that_knows_no_limit_has_told_the_number() -> None:
    """By all of the objects."""
    assert (await World(*MANY).check(shown("10", *MANY))).outcome is CONSISTENT


# name: the spec, what is asked, and whether that costs the API server much
SELECTED: dict[str, tuple[dict[str, Any], dict[str, str], bool]] = {
    "labels": (
        {"label_selector": "app=web"},
        {"limit": "500", "labelSelector": "app=web"},
        True,
    ),
    "fields": (
        {"field_selector": "spec.nodeName=a"},
        {"limit": "500", "fieldSelector": "spec.nodeName=a"},
        True,
    ),
    "one name": (
        {"field_selector": "metadata.name=pod-000"},
        {"limit": "500", "fieldSelector": "metadata.name=pod-000"},
        False,
    ),
    "names": ({"names": [("team-a", name) for name in MANY]}, {"limit": "500"}, True),
}


@pytest.mark.parametrize("name", SELECTED)
async def test_what_is_selected_is_never_counted(name: str) -> None:
    """The server tells no number of it."""
    spec, query, is_costly = SELECTED[name]
    world = World(*MANY, **spec)
    assert await world.check(shown("10", *MANY)) == Checked(outcome=CONSISTENT, is_costly=is_costly)
    assert world.queries == [query]


async def test_what_differs_is_waited_for() -> None:
    """It is on its way: whoever is right comes to it."""
    world = World("web", "db")
    checking = asyncio.create_task(world.check(shown("20", "db", "web", "new")))
    await asyncio.sleep(2.5)
    assert not checking.done()
    world.source.apply([Upsert(item("new", uid="uid-new", version="5"), is_addition=True)])
    world.source.note_position("20", 0)
    assert (await checking).outcome is CONSISTENT
    assert world.hastened == []


async def test_a_quiet_stream_is_brought_forward() -> None:
    """By a bookmark, without which nothing could be told."""
    world = World("web", "db")
    checking = asyncio.create_task(world.check(shown("20", "db", "web", "lost")))
    await asyncio.sleep(4.0)
    assert len(world.hastened) == 1
    assert not checking.done()
    world.source.note_position("20", 0)
    checked = await checking
    assert checked.outcome is MISMATCH
    assert checked.finding is not None
    assert checked.finding.objects == {("team-a", "lost")}


async def test_a_stream_that_does_not_come_there_proves_nothing() -> None:
    """It is brought forward a few times, and then left alone."""
    world = World("web")
    assert (await world.check(shown("20"))).outcome is UNCLEAR
    assert len(world.hastened) == 4
    assert asyncio.get_running_loop().time() < 30.0


async def test_a_list_of_the_past_has_the_informer_look() -> None:
    """The storage may have been set back."""
    world = World("web")
    assert (await world.check(shown("9"))).outcome is UNCLEAR
    assert world.suspected == 1


FAILURES: dict[str, Answer | Exception | None] = {
    "forbidden": status(403, "pods is forbidden"),
    "expired": status(410, "too old"),
    "throttled": status(429),
    "broken server": status(500),
    "out of reach": REFUSED,
    "no answer": None,
    "no list": Answer(200, {}, b"{}"),
    "half a list": Answer(200, {}, shown("20", "web").body[:-20]),
    "a Status": Answer(200, {}, status(500).body),
}


@pytest.mark.parametrize("is_second", [False, True], ids=["at first", "at the second page"])
@pytest.mark.parametrize("name", FAILURES)
async def test_a_check_that_fails_says_nothing_of_the_source(name: str, is_second: bool) -> None:
    """Why is said."""
    world = World("web", "lost")
    world.source.note_position("20", 0)
    pages = [shown("20", "web", more="t")] if is_second else []
    checked = await world.check(*pages, FAILURES[name])
    assert (checked.outcome, checked.finding, checked.is_costly) == (FAILED, None, is_second)
    assert checked.problem


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones() -> None:
    """Of objects with very large metadata."""
    world = World("web", "db")
    too_large = AnswerTooLargeError("hub", "api:443", "too large")
    checked = await world.check(too_large, shown("10", "db", more="t"), shown("10", "web"))
    assert checked.outcome is CONSISTENT
    assert [query["limit"] for query in world.queries] == ["500", "25", "25"]
    assert (await world.check(too_large, too_large)).outcome is FAILED


async def test_pages_of_two_versions_are_no_list() -> None:
    """The rest of an expired list is of another moment."""
    world = World("web", "db")
    world.source.note_position("30", 0)
    checked = await world.check(shown("30", "db", more="t"), shown("31"))
    assert checked.outcome is UNCLEAR


async def test_what_was_dropped_meanwhile_is_not_listed_to_the_end() -> None:
    """Rights were revoked, or the extension has ended."""
    world = World("web", "db")
    world.meanwhile = world.source.forget
    assert (await world.check(shown("20", "db", more="t"))).outcome is UNCLEAR


async def test_a_list_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the server answers, a check has a bound."""
    monkeypatch.setattr("watchcache_server.kubernetes.checking._MOST_PAGES", 3)
    world = World("web")
    pages = [shown("20", more=f"page-{number}") for number in range(3)]
    assert (await world.check(*pages)).outcome is UNCLEAR
