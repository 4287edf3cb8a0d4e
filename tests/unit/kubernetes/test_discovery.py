"""Rules of when discovery is read, and what an incomplete reading means."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any, cast

import pytest
from aiohttp import web

from tests.unit.kubernetes.api_double import ApiDouble
from tests.unit.kubernetes.clock import Clock, Recorder
from tests.unit.kubernetes.discovery_documents import USUAL, Kind, Version
from tests.unit.kubernetes.discovery_documents import Served as Documents
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.credentials import StaticToken
from watchcache_server.kubernetes.discovery import Discovery
from watchcache_server.kubernetes.errors import (
    ConnectionRefusedByServerError,
    DiscoveryUnreadableError,
    StatusError,
)
from watchcache_server.kubernetes.requests import Request
from watchcache_server.kubernetes.served import (
    DiscoveryFailed,
    NotServed,
    Served,
    VersionNotServed,
)

WIDGETS = Version("example.com", "v1", (Kind("widgets", "Widget"),))


def publish(api: ApiDouble, versions: Sequence[Version], *, is_legacy: bool = False) -> None:
    """Serve discovery documents for these versions."""
    documents = Documents(list(versions))
    if is_legacy:
        for path, body in documents.legacy().items():
            api.answer(path, body)
    else:
        api.answer("/api", documents.aggregated(is_core=True))
        api.answer("/apis", documents.aggregated(is_core=False))


@pytest.fixture
def clock() -> Clock:
    """Give the time."""
    return Clock()


@pytest.fixture
def recorder() -> Recorder:
    """Give a reporter."""
    return Recorder()


@pytest.fixture
def discovery(api: ApiDouble, clock: Clock, recorder: Recorder) -> Discovery:
    """Give the discovery of a cluster that serves the usual."""
    publish(api, USUAL)
    api.answer("/readyz", "ok")
    own = ApiAccess(api.transport(), StaticToken("own"), identity="the service")
    return Discovery(own, min_interval_seconds=0.0, clock=clock, reporter=recorder)


def is_served(found: object) -> bool:
    """Say whether something was found."""
    return isinstance(found, Served)


async def test_one_reading_serves_many_questions(
    discovery: Discovery, api: ApiDouble, recorder: Recorder
) -> None:
    """The catalog is read once, as the service itself."""
    for name in ("pods", "Node"):
        assert is_served(await discovery.resolve("", "v1", name))
    assert is_served(await discovery.resolve("apps", "", "Deployment"))
    assert (api.asked("/api"), api.asked("/apis")) == (1, 1)
    assert api.requests[0].headers["Authorization"] == "Bearer own"
    assert recorder.heard == [("discovery", "ok", 6)]


async def test_both_aggregated_versions_are_asked_for(discovery: Discovery, api: ApiDouble) -> None:
    """v2, v2beta1 for older servers, and plain JSON for those without."""
    await discovery.resolve("", "v1", "pods")
    accept = api.requests[0].headers["Accept"].split(",")
    assert [part for part in accept if "v=v2;" in part]
    assert [part for part in accept if "v=v2beta1;" in part]
    assert accept[-1] == "application/json"


async def test_a_server_without_aggregated_discovery_is_read_piece_by_piece(
    discovery: Discovery, api: ApiDouble
) -> None:
    """The legacy documents give the same."""
    publish(api, USUAL, is_legacy=True)
    found = await discovery.resolve("autoscaling", "", "HorizontalPodAutoscaler")
    assert isinstance(found, Served)
    assert found.resource.version == "v2"
    assert is_served(await discovery.resolve("", "", "pods"))
    assert api.asked("/apis/apps/v1") == 1


async def test_many_who_ask_at_once_cause_one_reading(discovery: Discovery, api: ApiDouble) -> None:
    """A thousand informers start with one discovery."""
    found = await asyncio.gather(*(discovery.resolve("", "v1", "pods") for _ in range(30)))
    assert all(map(is_served, found))
    assert api.asked("/apis") == 1


async def test_a_missing_kind_is_looked_for_again(
    discovery: Discovery, api: ApiDouble, clock: Clock
) -> None:
    """A CRD created since then is found with the first question for it."""
    await discovery.resolve("", "v1", "pods")
    publish(api, [*USUAL, WIDGETS])
    clock.advance(60)
    assert is_served(await discovery.resolve("example.com", "", "Widget"))


async def test_a_miss_is_believed_only_when_it_is_fresh(
    discovery: Discovery, api: ApiDouble, clock: Clock
) -> None:
    """And then it is believed for some seconds, however many kinds are missing."""
    for _ in range(20):
        assert await discovery.resolve("example.com", "", "Widget") == NotServed(())
    assert api.asked("/apis") == 1
    clock.advance(6)
    assert await discovery.resolve("apps", "v9", "Deployment") == VersionNotServed(("v1",))
    assert api.asked("/apis") == 2


async def test_a_fresh_look_can_be_demanded(
    discovery: Discovery, api: ApiDouble, clock: Clock
) -> None:
    """After a 404 the catalog that promised the resource is not enough."""
    publish(api, [*USUAL, WIDGETS])
    assert is_served(await discovery.resolve("example.com", "", "Widget"))
    publish(api, USUAL)
    clock.advance(1)
    assert is_served(await discovery.resolve("example.com", "", "Widget"))
    found = await discovery.resolve("example.com", "", "Widget", max_age_seconds=0)
    assert found == NotServed(())


async def test_who_demands_a_fresh_look_is_not_served_by_one_that_had_begun(
    discovery: Discovery, api: ApiDouble, clock: Clock
) -> None:
    """A reading that began before the question may not know the answer yet."""
    is_asked, may_answer = asyncio.Event(), asyncio.Event()
    publish(api, [*USUAL, WIDGETS])
    old = api.routes["/apis"]

    async def slow(request: web.Request) -> web.StreamResponse:
        is_asked.set()
        await may_answer.wait()
        return await old(request)

    api.routes["/apis"] = slow
    first = asyncio.create_task(discovery.resolve("example.com", "", "Widget"))
    await is_asked.wait()
    clock.advance(1)
    second = asyncio.create_task(discovery.resolve("example.com", "", "Widget", max_age_seconds=0))
    await asyncio.sleep(0)
    publish(api, USUAL)
    may_answer.set()
    assert is_served(await first)
    assert await second == NotServed(())


async def test_an_old_catalog_is_read_again(
    discovery: Discovery, api: ApiDouble, clock: Clock
) -> None:
    """Versions come and go without any question failing."""
    await discovery.resolve("", "v1", "pods")
    clock.advance(601)
    await discovery.resolve("", "v1", "pods")
    assert api.asked("/apis") == 2


class Canned:
    """Access to a server that answers at once, without a network, and keeps the times."""

    cluster = "dev"

    def __init__(self, versions: Sequence[Version]) -> None:
        documents = Documents(list(versions))
        self.bodies = {
            "/api": documents.aggregated(is_core=True),
            "/apis": documents.aggregated(is_core=False),
        }
        self.asked_at: list[float] = []

    async def call(self, request: Request, *, limit_bytes: int) -> Answer:
        if request.path == "/api":
            self.asked_at.append(asyncio.get_running_loop().time())
        return Answer(200, {}, json.dumps(self.bodies[request.path]).encode())


@pytest.mark.looptime
async def test_readings_keep_their_distance() -> None:
    """A flood of unknown kinds costs the API server one reading in each interval."""
    canned, loop = Canned(USUAL), asyncio.get_running_loop()
    discovery = Discovery(
        cast("ApiAccess", canned), min_interval_seconds=2, miss_seconds=0.5, clock=loop.time
    )
    for number in range(10):
        await discovery.resolve("example.com", "", f"Kind{number}")
        await asyncio.sleep(0.6)
    gaps = [after - before for before, after in itertools.pairwise(canned.asked_at)]
    assert len(gaps) > 3
    assert min(gaps) >= 2 - 1e-6


FAILURES: dict[str, tuple[str, dict[str, Any], type[Exception]]] = {
    "no rights": ("/api", {"status": 403}, StatusError),
    "overloaded": ("/apis", {"status": 429}, StatusError),
    "broken": ("/apis", {"status": 500}, StatusError),
    "not discovery": ("/apis", {"body": "<html>"}, DiscoveryUnreadableError),
    "another kind of document": ("/api", {"body": {"kind": "Pod"}}, DiscoveryUnreadableError),
    "the core documents are malformed": ("/api", {"body": "[]"}, DiscoveryUnreadableError),
    "nested without an end": (
        "/apis",
        {"body": '{"kind":"APIGroupList","x":' + "[" * 100_000},
        DiscoveryUnreadableError,
    ),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_failed_reading_is_never_a_missing_kind(
    discovery: Discovery, api: ApiDouble, case: str
) -> None:
    """What cannot be told is told so; it would empty a store."""
    path, parts, kind = FAILURES[case]
    api.answer(path, parts.get("body", {}), status=parts.get("status", 200))
    found = await discovery.resolve("example.com", "", "Widget")
    assert isinstance(found, DiscoveryFailed)
    assert isinstance(found.error, kind)
    assert "cluster dev" in str(found.error)


async def test_a_server_that_is_down_is_a_failure(clock: Clock, api: ApiDouble) -> None:
    """With the transport's own word for it."""
    down = ApiAccess(api.transport(url="https://127.0.0.1:1"), StaticToken("t"), identity="me")
    found = await Discovery(down, clock=clock).resolve("", "v1", "pods")
    assert isinstance(found, DiscoveryFailed)
    assert isinstance(found.error, ConnectionRefusedByServerError)


async def test_what_is_known_is_told_while_reading_fails(
    discovery: Discovery, api: ApiDouble, clock: Clock
) -> None:
    """A known kind needs no fresh look; an unknown one does, and so does who demands it."""
    await discovery.resolve("", "v1", "pods")
    api.refuse("/apis", 503)
    clock.advance(601)
    assert is_served(await discovery.resolve("", "v1", "pods"))
    assert isinstance(await discovery.resolve("example.com", "", "Widget"), DiscoveryFailed)
    demanded = await discovery.resolve("", "v1", "pods", max_age_seconds=0)
    assert isinstance(demanded, DiscoveryFailed)
    publish(api, USUAL)
    assert is_served(await discovery.resolve("", "v1", "pods", max_age_seconds=0))


@pytest.mark.parametrize("is_legacy", [False, True])
async def test_a_group_that_is_down_disturbs_no_other(
    discovery: Discovery, api: ApiDouble, clock: Clock, recorder: Recorder, *, is_legacy: bool
) -> None:
    """An aggregated API whose server is away keeps what was known, and is doubtful in the rest."""
    metrics = Version("metrics.k8s.io", "v1beta1", (Kind("pods", "PodMetrics"),))
    publish(api, [*USUAL, metrics], is_legacy=is_legacy)
    await discovery.resolve("", "v1", "pods")
    if is_legacy:
        api.refuse("/apis/metrics.k8s.io/v1beta1", 503)
    else:
        publish(api, [*USUAL, Version("metrics.k8s.io", "v1beta1", is_stale=True)])
    clock.advance(10)
    assert is_served(await discovery.resolve("apps", "", "Deployment", max_age_seconds=0))
    assert is_served(await discovery.resolve("metrics.k8s.io", "", "PodMetrics"))
    found = await discovery.resolve("metrics.k8s.io", "", "NodeMetrics")
    assert isinstance(found, DiscoveryFailed)
    assert "metrics.k8s.io/v1beta1" in str(found.error)
    assert recorder.heard[-1][:2] == ("discovery", "partial")


async def test_a_malformed_list_of_groups_is_a_failure(
    discovery: Discovery, api: ApiDouble
) -> None:
    """Without it nothing can be told of any group."""
    publish(api, USUAL, is_legacy=True)
    api.answer("/apis", {"kind": "APIResourceList"})
    found = await discovery.resolve("apps", "", "Deployment")
    assert isinstance(found, DiscoveryFailed)
    assert "/apis" in str(found.error)


async def test_a_malformed_piece_of_legacy_discovery_is_only_its_own(
    discovery: Discovery, api: ApiDouble
) -> None:
    """One broken aggregated API is not the cluster's."""
    publish(api, USUAL, is_legacy=True)
    api.answer("/apis/autoscaling/v2", "<html>")
    assert is_served(await discovery.resolve("apps", "", "Deployment"))
    assert isinstance(
        await discovery.resolve("autoscaling", "v2", "HorizontalPodAutoscaler"), DiscoveryFailed
    )


async def test_kinds_that_vanish_while_the_server_starts_are_doubted(
    discovery: Discovery, api: ApiDouble, clock: Clock
) -> None:
    """A restarted API server publishes its CRDs last: they are not gone."""
    publish(api, [*USUAL, WIDGETS])
    await discovery.resolve("", "v1", "pods")
    publish(api, USUAL)
    clock.advance(1)
    api.answer("/readyz", "no", status=500)
    found = await discovery.resolve("example.com", "", "Gadget", max_age_seconds=0)
    assert isinstance(found, DiscoveryFailed)
    assert "not ready" in str(found.error)
    assert is_served(await discovery.resolve("example.com", "", "Widget"))
    api.answer("/readyz", "ok")
    clock.advance(10)
    found = await discovery.resolve("example.com", "", "Widget", max_age_seconds=0)
    assert found == NotServed(())


@pytest.mark.parametrize("code", [401, 403, 404])
async def test_who_may_not_ask_for_readiness_believes(
    discovery: Discovery, api: ApiDouble, clock: Clock, code: int
) -> None:
    """A server that hides /readyz says nothing against its discovery."""
    publish(api, [*USUAL, WIDGETS])
    await discovery.resolve("", "v1", "pods")
    publish(api, USUAL)
    clock.advance(1)
    api.refuse("/readyz", code)
    found = await discovery.resolve("example.com", "", "Widget", max_age_seconds=0)
    assert found == NotServed(())
