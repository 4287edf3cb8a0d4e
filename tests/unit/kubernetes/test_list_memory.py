"""Rules of what is remembered of resources that have to be listed."""

from __future__ import annotations

from tests.unit.kubernetes.clock import Clock
from watchcache_server.kubernetes.list_memory import ListMemory


def test_what_is_noted_is_known_until_its_time_is_over() -> None:
    """For each cluster and resource by itself."""
    clock = Clock()
    memory = ListMemory(clock)
    memory.remember("hub", "apps", "deployments", 60.0)
    clock.advance(20.0)
    assert memory.seconds_left("hub", "apps", "deployments") == 40.0
    assert memory.seconds_left("edge", "apps", "deployments") == 0.0
    assert memory.seconds_left("hub", "", "deployments") == 0.0
    clock.advance(40.0)
    assert memory.seconds_left("hub", "apps", "deployments") == 0.0


def test_it_can_be_noted_again() -> None:
    """The newest note counts."""
    clock = Clock()
    memory = ListMemory(clock)
    memory.remember("hub", "", "pods", 10.0)
    clock.advance(100.0)
    assert memory.seconds_left("hub", "", "pods") == 0.0
    memory.remember("hub", "", "pods", 10.0)
    assert memory.seconds_left("hub", "", "pods") == 10.0
