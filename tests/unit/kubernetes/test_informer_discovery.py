"""What an informer does with the answers of discovery."""

from __future__ import annotations

from typing import Any

import pytest

from tests.items import source_spec
from tests.unit.kubernetes.informer_double import (
    PODS,
    bookmark,
)
from tests.unit.kubernetes.informer_world import World
from watchcache_server.kubernetes.errors import (
    DiscoveryUnreadableError,
)
from watchcache_server.kubernetes.served import (
    DiscoveryFailed,
    NotServed,
    Served,
    VersionNotServed,
)
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.states import LeftReason, SourceState

pytestmark = pytest.mark.looptime

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
    """A 404 alone proves nothing; discovery does in time, and the objects have left."""
    watch = await world.live()
    watch.end()
    world.discovery.resolution = NotServed()
    (await world.api.asked()).refuse(404, "NotFound")
    await world.sink.until(SourceState.GONE)
    assert world.discovery.asked[:2] == [None, 0.0]
    assert len(world.discovery.asked) > 3, "not at once: one of several servers may lag behind"
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
