"""Rules of the task of an informer: what it asks, in which order, and what it passes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.items import item as decoded
from tests.items import source_spec
from tests.unit.kubernetes.informer_double import (
    CUT,
    PODS,
    REFUSED,
    Api,
    Body,
    Exchange,
    Found,
    Sink,
    added,
    bookmark,
    event,
    pod,
    pod_list,
)
from watchcache_server.informer.comparison import Scope
from watchcache_server.informer.effects import Effect
from watchcache_server.informer.reflector import Reflector
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.informer.source import Unverified
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.errors import (
    DiscoveryUnreadableError,
    ServiceAccountNotFoundError,
)
from watchcache_server.kubernetes.informer_runner import InformerRunner
from watchcache_server.kubernetes.list_memory import ListMemory
from watchcache_server.kubernetes.requests import Request
from watchcache_server.kubernetes.served import (
    DiscoveryFailed,
    NotServed,
    Served,
    VersionNotServed,
)
from watchcache_server.kubernetes.sync_turns import SyncTurns
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import LeftReason, SourceState

pytestmark = pytest.mark.looptime

NOBODY = ServiceAccountNotFoundError("hub", "team-a", "shop")
_NAMESPACED = source_spec(namespace="team-a")


class World:
    """An informer's task between an API server and a sink."""

    def __init__(self) -> None:
        self.api = Api()
        self.discovery = Found()
        self.sink = Sink()
        self.turns = SyncTurns(2)
        self.memory = ListMemory(self.now)
        self.settings = ReflectorSettings()
        self.spec = _NAMESPACED
        self.task: asyncio.Task[None] | None = None
        self._began = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since it was started."""
        return self.now() - self._began

    @staticmethod
    def now() -> float:
        """Return the time of the loop, which is the one that the test lets pass."""
        return asyncio.get_running_loop().time()

    def runner(self, sink: Sink | None = None, api: Api | None = None) -> InformerRunner:
        """Make an informer of these parts."""
        parts: Any = {
            "access": api or self.api,
            "discovery": self.discovery,
            "sink": sink or self.sink,
        }
        return InformerRunner(
            spec=self.spec,
            tenant="team-a/shop",
            service_account="team-a/shop",
            turns=self.turns,
            memory=self.memory,
            settings=self.settings,
            max_event_bytes=1024 * 1024,
            clock=self.now,
            jitter=lambda: 0.0,
            **parts,
        )

    def start(self) -> None:
        """Start it."""
        self._began = self.now()
        self.task = asyncio.create_task(self.runner().run())

    async def live(self, version: str = "10") -> Body:
        """Let it start and sync; return the watch that runs."""
        self.start()
        exchange = await self.api.asked()
        watch = exchange.accept(added("a", "3"), bookmark(version, is_initial_end=True))
        await self.sink.until(SourceState.LIVE)
        return watch

    async def stop(self) -> None:
        """Cancel it and wait for its end; a fault in it comes out here."""
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give an informer that ends with the test."""
    world = World()
    yield world
    await world.stop()


async def settle() -> None:
    """Let everything happen that can."""
    for _ in range(20):
        await asyncio.sleep(0)


# The good course


async def test_it_syncs_and_follows(world: World) -> None:
    """Objects of the beginning are collected and committed, later ones applied."""
    world.start()
    exchange = await world.api.asked()
    assert exchange.is_watch
    assert exchange.query["sendInitialEvents"] == "true"
    assert exchange.authorization == "Bearer t1"
    watch = exchange.accept(added("a", "3"), added("b", "7"))
    await settle()
    assert world.sink.staged == {"a": "3", "b": "7"}
    assert world.sink.objects == {}
    watch.send(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)
    assert world.sink.objects == {"a": "3", "b": "7"}
    assert world.sink.synced_at == "10"
    assert world.sink.events == 0, "what was there is no event"
    watch.send(event("MODIFIED", pod("a", "11")), bookmark("12"))
    await settle()
    assert world.sink.objects == {"a": "11", "b": "7"}
    assert world.sink.events == 2


async def test_the_position_is_passed_on(world: World) -> None:
    """With changes, and where a bookmark says that there are none."""
    watch = await world.live()
    watch.send(event("MODIFIED", pod("a", "11")))
    await settle()
    assert world.sink.position == "11"
    before = world.sink.contacts
    watch.send(bookmark("15"))
    await settle()
    assert world.sink.position == "15"
    assert world.sink.contacts == before + 1


async def test_a_reader_that_waits_for_what_is_fresh_has_the_server_asked(world: World) -> None:
    """For its version, and for a bookmark at it if no event says so."""
    watch = await world.live()
    source = world.sink.source
    source.served = PODS
    source.stage(decoded(f"pod-{number}") for number in range(501))
    source.commit("10")
    source.note_position("10", 0)
    asked: list[Request] = []

    async def answer(request: Request) -> Answer:
        asked.append(request)
        return Answer(200, {}, pod_list("20", more="next"))

    world.api.answer_call = answer
    reading = asyncio.create_task(world.sink.freshness.wait(Scope()))
    exchange = await world.api.asked()
    assert watch.is_closed
    assert (exchange.query["resourceVersion"], exchange.query["timeoutSeconds"]) == ("10", "3")
    exchange.accept(bookmark("20"))
    await settle()
    assert world.sink.position == "20"
    source.note_position("20", 0)
    world.sink.freshness.moved()
    assert await reading == ""
    assert [request.query for request in asked] == ["limit=1"]


async def test_a_storage_that_was_set_back_is_noticed_by_a_reader(world: World) -> None:
    """Long before the probe that looks for it in silence."""
    await world.live()
    source = world.sink.source
    source.served = PODS
    source.commit("10")
    source.note_position("10", 0)

    async def answer(request: Request) -> Answer:
        return Answer(200, {}, pod_list("7"))

    world.api.answer_call = answer
    reading = asyncio.create_task(world.sink.freshness.wait(Scope()))
    exchange = await world.api.asked()
    assert exchange.query == {"limit": "1"}
    assert not exchange.is_watch
    exchange.accept(pod_list("7")).end()
    relist = await world.api.asked()
    relist.accept(bookmark("7", is_initial_end=True))
    await settle()
    assert world.sink.synced_at == "7"
    reading.cancel()


async def test_a_deletion_before_the_end_of_a_sync_is_not_committed(world: World) -> None:
    """What came and went in between is not there."""
    world.start()
    watch = (await world.api.asked()).accept(added("a", "3"), added("b", "7"))
    watch.send(event("DELETED", pod("b", "8")), bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)
    assert world.sink.objects == {"a": "3"}


async def test_the_watch_goes_on_where_it_ended(world: World) -> None:
    """A clean end is followed by a watch from the last version."""
    watch = await world.live()
    watch.send(added("b", "11"))
    watch.end()
    exchange = await world.api.asked()
    assert exchange.query["resourceVersion"] == "11"
    assert watch.is_closed


async def test_the_last_event_may_lack_its_line_end(world: World) -> None:
    """It counts all the same."""
    watch = await world.live()
    watch.send(added("b", "11").rstrip())
    watch.end()
    assert (await world.api.asked()).query["resourceVersion"] == "11"
    assert world.sink.objects["b"] == "11"


async def test_a_watch_is_opened_again_in_time(world: World) -> None:
    """That is the check of its right; what still comes of the old one is not heard."""
    watch = await world.live()
    watch.send(bookmark("11"))
    exchange = await world.api.asked()
    assert 45.0 <= world.elapsed <= 60.0
    assert watch.is_closed
    assert exchange.query["resourceVersion"] == "11"
    exchange.accept(added("b", "12"))
    await settle()
    assert world.sink.objects["b"] == "12"


async def test_a_connection_that_carried_a_large_sync_is_left(world: World) -> None:
    """It keeps large buffers, so the watch goes on over a new one at once."""
    world.start()
    exchange = await world.api.asked()
    large = [added(f"p{n}", str(n), size=300_000) for n in range(1, 5)]
    first = exchange.accept(*large, bookmark("10", is_initial_end=True))
    exchange = await world.api.asked()
    assert world.elapsed < 1.0
    assert first.is_closed
    assert exchange.query["resourceVersion"] == "10"


async def test_a_connection_is_left_after_a_large_relist_too(world: World) -> None:
    """Also when objects were held before."""
    watch = await world.live()
    watch.send(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}))
    await world.sink.until(SourceState.STALE)
    exchange = await world.api.asked()
    assert exchange.query["sendInitialEvents"] == "true"
    before = world.sink.events
    large = [added(f"p{n}", str(n + 20), size=300_000) for n in range(1, 5)]
    second = exchange.accept(*large)
    await settle()
    assert world.sink.events == before, "what is listed again is no event"
    second.send(bookmark("30", is_initial_end=True))
    exchange = await world.api.asked()
    assert exchange.query["resourceVersion"] == "30"
    assert second.is_closed


# Lists


async def listing(world: World) -> Exchange:
    """Let it start where initial events are known to fail."""
    world.memory.remember("hub", "", "pods", 3600.0)
    world.start()
    exchange = await world.api.asked()
    assert not exchange.is_watch
    return exchange


async def test_a_resource_that_has_to_be_listed_is(world: World) -> None:
    """Page by page, and committed at the end of the last."""
    exchange = await listing(world)
    assert exchange.query["limit"] == "500"
    exchange.accept(pod_list("10", pod("a", "3"), more="next")).end()
    exchange = await world.api.asked()
    assert exchange.query["continue"] == "next"
    assert world.sink.objects == {}
    exchange.accept(pod_list("10", pod("b", "7"))).end()
    exchange = await world.api.asked()
    assert exchange.is_watch
    assert exchange.query["resourceVersion"] == "10"
    assert world.sink.objects == {"a": "3", "b": "7"}


async def test_what_has_to_be_listed_is_remembered_under_both_of_its_names(world: World) -> None:
    """Other specs may name it by its kind."""
    world.start()
    (await world.api.asked()).refuse(422, "Invalid", "sendInitialEvents is forbidden")
    assert not (await world.api.asked()).is_watch
    assert world.memory.seconds_left("hub", "", "pods") > 0
    assert world.memory.seconds_left("hub", "", "Pod") > 0


BROKEN_LISTS = {
    "cut": b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[',
    "no list": b"<html>",
    "a Status": b'{"kind":"Status","code":500,"reason":"InternalError"}',
}


@pytest.mark.parametrize("name", BROKEN_LISTS)
async def test_a_list_that_cannot_be_used_is_asked_for_again(world: World, name: str) -> None:
    """Nothing of it is kept."""
    exchange = await listing(world)
    exchange.accept(BROKEN_LISTS[name]).end()
    exchange = await world.api.asked()
    assert not exchange.is_watch
    assert world.sink.objects == {}
    exchange.accept(pod_list("10", pod("a", "3"))).end()
    await world.sink.until(SourceState.LIVE)


async def test_an_empty_page_is_one(world: World) -> None:
    """No object is a state of a cluster."""
    exchange = await listing(world)
    exchange.accept(pod_list("10")).end()
    await world.sink.until(SourceState.LIVE)
    assert world.sink.objects == {}


# Failures


async def test_a_server_that_cannot_be_reached_is_asked_again(world: World) -> None:
    """With growing waits, and the state says why."""
    world.start()
    for _ in range(3):
        (await world.api.asked()).fail(REFUSED)
    await world.sink.until(SourceState.UNREACHABLE)
    assert world.sink.state is not None
    assert "connection refused" in world.sink.state[2]
    assert world.sink.state[4] is not None
    (await world.api.asked()).accept(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)
    assert world.elapsed >= 0.8 + 1.6 + 3.2


async def test_a_watch_that_breaks_off_goes_on(world: World) -> None:
    """What came before the break is good."""
    watch = await world.live()
    watch.send(added("b", "11"))
    watch.fail(CUT)
    exchange = await world.api.asked()
    assert exchange.query["resourceVersion"] == "11"
    assert world.sink.objects == {"a": "3", "b": "11"}


async def test_an_event_that_cannot_be_read_ends_the_watch(world: World) -> None:
    """Nothing is ever skipped: it is asked for again."""
    watch = await world.live()
    watch.send(added("b", "11"), b"garbage\n", added("c", "13"))
    exchange = await world.api.asked()
    assert exchange.query["resourceVersion"] == "11"
    assert watch.is_closed
    assert "c" not in world.sink.objects


async def test_retry_after_is_heeded(world: World) -> None:
    """The server knows best when to come again."""
    world.start()
    (await world.api.asked()).refuse(429, "TooManyRequests", **{"Retry-After": "30"})
    await world.api.asked()
    assert world.elapsed >= 30.0


async def test_a_status_whose_body_breaks_off_is_still_a_status(world: World) -> None:
    """The code says what matters."""
    world.start()
    exchange = await world.api.asked()
    body = Body(403, {}, None)
    body.fail(CUT)
    exchange.outcome.set_result(body)
    (await world.api.asked()).refuse(403)
    await world.sink.until(SourceState.FORBIDDEN)


async def test_contact_is_noted_with_every_answer_and_event(world: World) -> None:
    """An answer that refuses is a sign of life too."""
    world.start()
    (await world.api.asked()).refuse(403, "Forbidden")
    await settle()
    assert world.sink.contacts == 1
    (await world.api.asked()).refuse(403, "Forbidden")
    watch = (await world.api.asked()).accept(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)
    before = world.sink.contacts
    watch.send(bookmark("11"))
    await settle()
    assert world.sink.contacts > before


# Discovery


DISCOVERIES: dict[str, tuple[Any, SourceState, str]] = {
    "not served": (NotServed(("pads",)), SourceState.GONE, "near names: pads"),
    "nothing near": (NotServed(), SourceState.GONE, "not served by the cluster"),
    "another version": (VersionNotServed(("v2", "v1beta1")), SourceState.GONE, "v2, v1beta1"),
    "not readable": (
        DiscoveryFailed(DiscoveryUnreadableError("hub", "metrics/v1", "503")),
        SourceState.UNREACHABLE,
        "metrics/v1",
    ),
}


@pytest.mark.parametrize("name", DISCOVERIES)
async def test_what_discovery_finds_is_said(world: World, name: str) -> None:
    """And it is looked for again, with an answer that is new."""
    world.discovery.resolution, state, words = DISCOVERIES[name]
    world.start()
    await world.sink.until(state)
    assert world.sink.state is not None
    assert words in world.sink.state[2]
    world.discovery.resolution = Served(PODS, ("v1",))
    (await world.api.asked()).accept(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)
    assert world.elapsed <= 15.0


async def test_a_kind_that_vanished_is_confirmed_by_a_fresh_look(world: World) -> None:
    """A 404 alone proves nothing; discovery does, and the objects have left."""
    watch = await world.live()
    watch.end()
    world.discovery.resolution = NotServed()
    (await world.api.asked()).refuse(404, "NotFound")
    await world.sink.until(SourceState.GONE)
    assert world.discovery.asked == [None, 0.0]
    assert world.sink.purged == [LeftReason.KIND_GONE]


async def test_a_resource_that_another_entry_watches_is_said(world: World) -> None:
    """Two entries of a spec may turn out to name one resource."""
    world.sink.conflict = "pods is watched by another entry of the spec already"
    world.start()
    await world.sink.until(SourceState.GONE)
    assert world.sink.state is not None
    assert world.sink.state[1] == "OVERLAPPING_WATCHES"
    assert "another entry" in world.sink.state[2]


async def test_a_scope_that_is_open_is_that_of_the_kind(world: World) -> None:
    """A kind without namespaces is watched, and spoken of, for the whole cluster."""
    world.spec = source_spec("", kind="Node", namespace="team-a", is_scope_open=True)
    nodes = ServedResource("", "v1", "nodes", "Node", False, PODS.verbs)
    world.discovery.resolution = Served(nodes, ("v1",))
    world.sink.namespace = ""
    world.start()
    exchange = await world.api.asked()
    assert exchange.request.path == "/api/v1/nodes"
    exchange.refuse(403, "Forbidden")
    (await world.api.asked()).refuse(403, "Forbidden")
    await world.sink.until(SourceState.FORBIDDEN)
    assert world.sink.state is not None
    assert "team-a of cluster" not in world.sink.state[2]
    assert "all namespaces of cluster hub" in world.sink.state[2]


async def test_a_namespace_of_a_kind_without_any_is_an_invalid_scope(world: World) -> None:
    """Where the spec asked for it by name."""
    nodes = ServedResource("", "v1", "pods", "Pod", False, PODS.verbs)
    world.discovery.resolution = Served(nodes, ("v1",))
    world.start()
    await world.sink.until(SourceState.GONE)
    assert world.sink.states[-1] == (SourceState.GONE, "INVALID_SCOPE")


# Credentials


async def test_a_refused_token_is_renewed_and_the_request_repeated(world: World) -> None:
    """The token that was refused is named, so that one renewed meanwhile is kept."""
    watch = await world.live()
    watch.end()
    (await world.api.asked()).refuse(401, "Unauthorized")
    world.api.credentials.header = "Bearer t2"
    exchange = await world.api.asked()
    assert world.api.credentials.refreshed == ["Bearer t1"]
    assert exchange.authorization == "Bearer t2"
    exchange.accept(bookmark("11"))
    await settle()
    assert [state for state, _ in world.sink.states][-1] is SourceState.LIVE


async def test_a_renewal_that_fails_is_tried_again_for_the_same_token(world: World) -> None:
    """Until there is another one; then it is forgotten."""
    world.start()
    exchange = await world.api.asked()
    world.api.credentials.error = NOBODY
    exchange.refuse(401, "Unauthorized")
    await world.sink.until(SourceState.UNAUTHENTICATED)
    await asyncio.sleep(2.0)
    refreshed = world.api.credentials.refreshed
    assert len(refreshed) >= 2
    assert set(refreshed) == {"Bearer t1"}
    world.api.credentials.error = None
    (await world.api.asked()).accept(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)


async def test_a_service_account_that_does_not_exist_is_reported_last(world: World) -> None:
    """The state is published first: whoever hears of it may end the extension."""
    states_at_report: list[Any] = []

    def heard(error: Exception) -> None:
        states_at_report.append(world.sink.state)

    world.sink.credentials_failed = heard  # type: ignore[method-assign]
    world.api.credentials.error = NOBODY
    world.start()
    await world.sink.until(SourceState.UNAUTHENTICATED)
    await settle()
    assert states_at_report
    assert states_at_report[0][1] == "SERVICE_ACCOUNT_NOT_FOUND"
    assert "team-a/shop does not exist" in states_at_report[0][2]


async def test_a_renewal_may_fail_for_want_of_the_server(world: World) -> None:
    """Then it is the server that is said to be out of reach."""
    world.start()
    exchange = await world.api.asked()
    world.api.credentials.error = REFUSED
    exchange.refuse(401, "Unauthorized")
    await world.sink.until(SourceState.UNREACHABLE)


# Turns


async def test_a_live_informer_holds_no_turn(world: World) -> None:
    """Only syncs are bounded."""
    world.turns = SyncTurns(1)
    await world.live()
    assert not world.turns.is_busy


async def test_whoever_waits_for_its_turn_says_so(world: World) -> None:
    """PENDING while it is queued, SYNCING once its turn has come."""
    world.turns = SyncTurns(1)
    other = await world.turns.take("another")
    world.start()
    await world.sink.until(SourceState.PENDING)
    assert world.sink.states[-1] == (SourceState.PENDING, "QUEUED")
    assert world.sink.state is not None
    assert "max_concurrent_syncs" in world.sink.state[2]
    assert world.api.is_quiet
    other.give_back()
    await world.sink.until(SourceState.SYNCING)
    (await world.api.asked()).accept(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)


WAITING = {
    "forbidden": (403, SourceState.FORBIDDEN),
    "throttled": (429, SourceState.SYNCING),
    "bad request": (400, SourceState.UNREACHABLE),
    "broken server": (500, SourceState.UNREACHABLE),
}


@pytest.mark.parametrize("name", WAITING)
async def test_an_informer_that_waits_to_try_again_holds_no_turn(world: World, name: str) -> None:
    """One kind that cannot be read never holds up another."""
    code, state = WAITING[name]
    world.turns = SyncTurns(1)
    world.start()
    (await world.api.asked()).refuse(code)
    if code in (400, 403):
        # It is tried in another way first.
        (await world.api.asked()).refuse(code)
    await settle()
    assert [each for each, _ in world.sink.states][-1] is state
    assert not world.turns.is_busy


async def test_a_forbidden_informer_does_not_flap_while_it_is_queued(world: World) -> None:
    """It has more to say than that it waits."""
    world.turns = SyncTurns(1)
    world.start()
    (await world.api.asked()).refuse(403)
    (await world.api.asked()).refuse(403)
    await world.sink.until(SourceState.FORBIDDEN)
    other = await world.turns.take("another")
    await asyncio.sleep(30.0)
    assert world.sink.states[-1][0] is SourceState.FORBIDDEN
    other.give_back()
    (await world.api.asked()).accept(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)


async def test_probing_a_live_cluster_needs_no_turn(world: World) -> None:
    """Whether the server was set back is asked beside every sync, so that the watch goes on."""
    world.turns = SyncTurns(1, counted_seconds=1e6)
    watch = await world.live()
    await world.turns.take("another")
    watch.end()
    # Watches that bring nothing for so long lead to a question where the server is.
    while (exchange := await world.api.asked()).is_watch:
        watch = exchange.accept()
        await asyncio.sleep(20.0)
        watch.end()
    assert exchange.query == {"limit": "1"}
    exchange.accept(pod_list("12", pod("a", "3"))).end()
    assert (await world.api.asked()).is_watch


async def test_a_turn_is_given_back_at_whatever_point_the_informer_ends(world: World) -> None:
    """While it waits for one, while the request is opened, and while its body is read."""
    for step in ("queued", "opening", "reading"):
        world.turns = SyncTurns(1)
        other = await world.turns.take("another") if step == "queued" else None
        world.api = Api()
        world.start()
        if step != "queued":
            exchange = await world.api.asked()
            if step == "reading":
                exchange.accept(added("a", "3"))
        await settle()
        assert world.turns.is_busy
        await world.stop()
        if other is not None:
            other.give_back()
        assert not world.turns.is_busy, step


# What comes of a request that was closed


async def purging(world: World) -> Exchange:
    """Return the watch that is being opened as the grace time of a lost right runs out."""
    watch = await world.live()
    watch.end()
    (await world.api.asked()).refuse(403)
    (await world.api.asked()).refuse(403)
    while True:
        exchange = await world.api.asked()
        if world.elapsed >= 45.0:
            return exchange
        exchange.refuse(403)
        (await world.api.asked()).refuse(403)


async def test_a_request_that_is_closed_while_it_is_opened_is_let_go(world: World) -> None:
    """What may no longer be read is dropped, and the next request is a sync."""
    exchange = await purging(world)
    assert exchange.query.get("resourceVersion") == "10"
    following = await world.api.asked()
    assert world.sink.purged == [LeftReason.RIGHTS_REVOKED]
    assert exchange.outcome.cancelled()
    assert following.query["sendInitialEvents"] == "true"
    following.accept(bookmark("20", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)


LATE = ("opened", "refused", "failed")


@pytest.mark.parametrize("how", LATE)
async def test_an_answer_in_the_moment_of_the_closing_is_not_heard(world: World, how: str) -> None:
    """It is an answer to nothing: the request that follows is asked and heard as ever."""
    exchange = await purging(world)
    loop = asyncio.get_running_loop()
    purge = world.sink.purge

    def answer_now(reason: LeftReason) -> None:
        purge(reason)
        # The answer is there before the cancellation of its reader.
        {
            "opened": exchange.accept,
            "refused": lambda: exchange.refuse(500),
            "failed": lambda: exchange.fail(REFUSED),
        }[how]()

    world.sink.purge = answer_now  # type: ignore[method-assign]
    following = await world.api.asked()
    assert following.query["sendInitialEvents"] == "true"
    before = loop.time()
    following.accept(bookmark("20", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)
    assert loop.time() == before, "there was nothing to wait for"


async def test_events_in_the_moment_of_a_reopening_are_not_applied(world: World) -> None:
    """They come again with the watch that follows, from the version before them."""
    watch = await world.live()
    counted = world.sink.counted

    def send_now(event_name: str, reason: str) -> None:
        counted(event_name, reason)
        if (event_name, reason) == ("watch_ended", "reopen"):
            watch.send(added("late", "11"))

    world.sink.counted = send_now  # type: ignore[method-assign]
    exchange = await world.api.asked()
    assert exchange.query["resourceVersion"] == "10"
    assert "late" not in world.sink.objects


async def test_an_end_in_the_moment_of_a_reopening_is_no_failure(world: World) -> None:
    """The watch that follows goes out at once."""
    watch = await world.live()
    counted = world.sink.counted

    def end_now(event_name: str, reason: str) -> None:
        counted(event_name, reason)
        if (event_name, reason) == ("watch_ended", "reopen"):
            watch.end()

    world.sink.counted = end_now  # type: ignore[method-assign]
    before = world.now()
    exchange = await world.api.asked()
    exchange.accept()
    await settle()
    assert world.now() - before <= 60.0
    assert world.sink.states[-1][0] is SourceState.LIVE


async def test_initial_events_that_stall_are_listed_instead(world: World) -> None:
    """The timer fires while the body is read."""
    world.start()
    stalled = (await world.api.asked()).accept(added("a", "3"))
    exchange = await world.api.asked()
    assert not exchange.is_watch
    assert stalled.is_closed
    assert world.elapsed == pytest.approx(30.0, abs=1.0)
    assert world.sink.staged == {}, "what had come is of no use"


# Restart and faults


async def test_a_new_task_goes_on_with_what_is_held(world: World) -> None:
    """After a fault of ours objects stay, the state says so, and a lost right drops them still."""
    world.sink.is_synced = True
    world.sink.objects = {"a": "3"}
    world.start()
    exchange = await world.api.asked()
    assert world.sink.states[0][0] is SourceState.STALE
    assert world.sink.objects == {"a": "3"}
    while not world.sink.purged:
        exchange.refuse(403)
        exchange = await world.api.asked()
    assert world.sink.purged == [LeftReason.RIGHTS_REVOKED]
    assert world.elapsed >= 60.0


def explode(*_: object, **__: object) -> list[Effect]:
    """Be a fault of ours."""
    raise RuntimeError("a fault")


FAULTS = ("on_opened", "on_events", "on_timer")


@pytest.mark.parametrize("where", FAULTS)
async def test_a_fault_ends_the_task_wherever_it_happens(
    world: World, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the timer: nothing is left that looks alive and is not."""
    monkeypatch.setattr(Reflector, where, explode)
    world.start()
    (await world.api.asked()).accept(added("a", "3"))
    task, world.task = world.task, None
    assert task is not None
    async with asyncio.timeout(100.0):
        with pytest.raises(ExceptionGroup) as caught:
            await task
    assert caught.group_contains(RuntimeError, match="a fault")
    assert not world.turns.is_busy


async def test_a_time_out_of_something_else_is_a_fault(world: World) -> None:
    """Only the closing of a request may end it so."""

    async def resolve(*_: object, **__: object) -> Any:
        raise TimeoutError("a limit of somebody else")

    world.discovery.resolve = resolve  # type: ignore[method-assign]
    world.start()
    task, world.task = world.task, None
    assert task is not None
    with pytest.raises(ExceptionGroup) as caught:
        await task
    assert caught.group_contains(TimeoutError, match="somebody else")


async def test_it_says_what_it_is(world: World) -> None:
    """In logs of faults."""
    assert repr(world.runner()).startswith("<InformerRunner <Reflector pods syncing")


# Objects that left a selector


async def test_what_left_a_selector_is_asked_for_by_name(world: World) -> None:
    """Each deletion of a live stream under a selector leads to a GET of the informer's own."""
    world.spec = selecting()
    watch = await world.live()

    async def answer(request: Request) -> Answer:
        return Answer(404, {}, b"")

    world.api.answer_call = answer
    world.sink.doubts = [Unverified("team-a", "a", "uid-a")]
    watch.send(event("DELETED", pod("a", "11")))
    await settle()
    assert [request.path for request in world.api.called] == ["/api/v1/namespaces/team-a/pods/a"]
    assert world.sink.resolved == [("a", True)]


async def test_what_a_sync_did_not_find_is_asked_for_too(world: World) -> None:
    """Behind a commit there may be doubts as well."""
    world.spec = selecting()

    async def answer(request: Request) -> Answer:
        return Answer(404, {}, b"")

    world.api.answer_call = answer
    world.sink.doubts = [Unverified("team-a", "gone", "uid-gone")]
    await world.live()
    await settle()
    assert world.sink.resolved == [("gone", True)]


def selecting() -> SourceSpec:
    """Return the spec of an informer for which the API server selects."""
    return source_spec(namespace="team-a", label_selector="app=web")
