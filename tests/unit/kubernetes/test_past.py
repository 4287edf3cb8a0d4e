"""Rules of reading what ended since an upstream version."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

import pytest

from tests.items import served, source_spec
from watchcache_server.informer.source import Source
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.errors import BodyCutError
from watchcache_server.kubernetes.pace import Pace
from watchcache_server.kubernetes.past import PastLostError, PastReader
from watchcache_server.kubernetes.requests import ACCEPT_METADATA, Request
from watchcache_server.kubernetes.verification import VerificationLimits

pytestmark = pytest.mark.looptime


def event(kind: str, name: str, version: str, uid: str = "") -> bytes:
    """Write an event of a watch."""
    metadata = {"name": name, "namespace": "team-a", "uid": uid or f"uid-{name}"}
    thing = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "resourceVersion": version},
    }
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


def bookmark(version: str) -> bytes:
    """Write a bookmark."""
    thing = {"apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": version}}
    return json.dumps({"type": "BOOKMARK", "object": thing}).encode() + b"\n"


GONE = (
    json.dumps(
        {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
    ).encode()
    + b"\n"
)
BROKEN = GONE.replace(b"410", b"500")


class Body:
    """An answer whose body is given."""

    def __init__(self, chunks: list[Any], status: int = 200) -> None:
        self.status = status
        self._chunks = list(chunks)
        self._left: list[Any] = []

    async def read_chunk(self) -> bytes:
        if not self._left:
            return b""
        chunk = self._left.pop(0)
        if isinstance(chunk, Exception):
            raise chunk
        if chunk is None:
            await asyncio.sleep(3600.0)
        return bytes(chunk)

    async def __aenter__(self) -> Self:
        self._left = list(self._chunks)
        return self

    async def __aexit__(self, *_: object) -> None:
        return


class Api:
    """Gives the bodies of its watches one after the other; the last one again and again."""

    def __init__(self, *bodies: Body, answers: dict[str, int] | None = None) -> None:
        self.bodies = list(bodies)
        self.requests: list[Request] = []
        self.answers = answers or {}

    async def open(self, request: Request) -> Body:
        self.requests.append(request)
        return self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]

    async def call(self, request: Request) -> Answer:
        await asyncio.sleep(0)
        return Answer(self.answers[request.path.rpartition("/")[2]], {}, b"")


def reader(api: Any, pace: Pace | None = None) -> PastReader:
    """Make a reader."""
    return PastReader(
        api,
        tenant="team-a/shop",
        pace=pace or Pace(1000),
        max_event_bytes=1 << 20,
        limits=VerificationLimits(),
        clock=asyncio.get_running_loop().time,
    )


def source(**spec: str) -> Source:
    """Make a source of pods in team-a."""
    made = Source(1, source_spec(namespace="team-a", **spec))
    made.served = served()
    return made


async def test_ends_are_kept_and_nothing_else() -> None:
    """Up to the version that is asked for, by a watch of metadata."""
    body = [
        event("ADDED", "a", "11") + event("DELETED", "b", "12"),
        event("MODIFIED", "a", "13"),
        event("DELETED", "a", "14") + bookmark("20"),
        None,
    ]
    api = Api(Body(body))
    ended = await reader(api).ended(source(), "10", "19")
    assert [(item.uid, item.resource_version) for item in ended.deleted] == [
        ("uid-b", "12"),
        ("uid-a", "14"),
    ]
    assert ended.left == []
    (request,) = api.requests
    assert request.path == "/api/v1/namespaces/team-a/pods"
    assert "resourceVersion=10" in request.query
    assert "timeoutSeconds=3" in request.query
    assert request.accept == ACCEPT_METADATA


async def test_what_ended_later_is_left_to_the_source() -> None:
    """It still holds the object, and would tell of it again after its end."""
    body = [
        event("DELETED", "a", "12") + event("DELETED", "b", "20"),
        event("DELETED", "c", "21") + event("ADDED", "a", "22") + event("DELETED", "d", "23"),
    ]
    ended = await reader(Api(Body([b"".join(body)]))).ended(source(), "10", "20")
    assert [item.uid for item in ended.deleted] == ["uid-a", "uid-b"]


async def test_a_watch_that_ends_too_early_is_followed_by_another() -> None:
    """From where it came to."""
    api = Api(Body([event("DELETED", "a", "12")]), Body([bookmark("20")]))
    ended = await reader(api).ended(source(), "10", "20")
    assert [item.uid for item in ended.deleted] == ["uid-a"]
    assert "resourceVersion=12" in api.requests[1].query


async def test_nothing_is_read_where_nothing_can_have_happened() -> None:
    """The store is where its reader was."""
    api = Api()
    ended = await reader(api).ended(source(), "10", "10")
    assert (ended.deleted, ended.left, api.requests) == ([], [], [])


async def test_what_left_a_selector_is_asked_for() -> None:
    """Only a GET tells a deletion; what has come back did not end."""
    body = [event("DELETED", name, str(11 + i)) for i, name in enumerate("abc")]
    api = Api(
        Body([*body, event("ADDED", "c", "15") + bookmark("20")]), answers={"a": 404, "b": 403}
    )
    ended = await reader(api).ended(source(label_selector="keep=yes"), "10", "20")
    assert [item.uid for item in ended.deleted] == ["uid-a"]
    assert [item.uid for item in ended.left] == ["uid-b"]
    assert "labelSelector=keep%3Dyes" in api.requests[0].query


LOST: dict[str, tuple[Body, str]] = {
    "forgotten": (Body([GONE]), "410 too old"),
    "forgotten at once": (Body([], status=410), "answered 410"),
    "forbidden": (Body([], status=403), "answered 403"),
    "garbage": (Body([b"garbage\n"]), "could not be read"),
    "cut": (Body([BodyCutError("hub", "server", "cut")]), "cut"),
    "silent": (Body([None]), "open and silent"),
    "busy": (Body([], status=429), "answered 429"),
    "never there": (Body([bookmark("15")]), "did not tell of it within 30 s"),
}


@pytest.mark.parametrize("name", LOST)
async def test_a_past_that_cannot_be_read_is_lost(name: str) -> None:
    """The error says why; nothing is taken for the whole that is not."""
    body, why = LOST[name]
    with pytest.raises(PastLostError, match=why):
        await reader(Api(body)).ended(source(), "10", "20")


PASSING = {
    "cut": Body([event("DELETED", "a", "12"), BodyCutError("hub", "server", "cut")]),
    "busy": Body([], status=429),
    "failing": Body([], status=503),
    "failing in the stream": Body([BROKEN]),
    "silent": Body([event("DELETED", "a", "12"), None]),
}


@pytest.mark.parametrize("name", PASSING)
async def test_what_fails_in_passing_is_read_again(name: str) -> None:
    """Whoever comes back need not begin anew for one broken connection."""
    whole = Body([event("DELETED", "a", "12") + bookmark("20")])
    api = Api(PASSING[name], whole)
    started = asyncio.get_running_loop().time()
    ended = await reader(api).ended(source(), "10", "20")
    assert [item.uid for item in ended.deleted] == ["uid-a"]
    assert [query.query.partition("resourceVersion=10")[1] for query in api.requests] == [
        "resourceVersion=10"
    ] * 2
    assert asyncio.get_running_loop().time() - started < 10.0


@pytest.mark.parametrize("since", ["30", "odd"])
async def test_a_past_that_is_ahead_is_lost(since: str) -> None:
    """The API server was set back, or is another one."""
    with pytest.raises(PastLostError, match="is behind what was told"):
        await reader(Api()).ended(source(), since, "20")


async def test_the_past_of_what_is_not_served_is_lost() -> None:
    """There is nobody to ask."""
    unserved = Source(1, source_spec())
    with pytest.raises(PastLostError, match="is not served"):
        await reader(Api()).ended(unserved, "10", "20")


async def test_many_pasts_are_read_at_the_pace_of_the_cluster() -> None:
    """After a restart whoever comes back asks for those of all informers at one moment."""
    pace = Pace(1.0)
    api = Api(Body([event("DELETED", "a", "11"), bookmark("12")]))
    loop = asyncio.get_running_loop()
    began = loop.time()
    reading = [reader(api, pace).ended(source(), "10", "12") for _ in range(60)]
    ended = await asyncio.gather(*reading)
    assert [len(each.deleted) for each in ended] == [1] * 60, "waiting counts towards no limit"
    assert 58.0 <= loop.time() - began <= 60.0
