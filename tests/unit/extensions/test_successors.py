"""Rules of who takes objects over from an informer that retires."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.items import served, source_spec
from tests.unit.extensions.test_informer import World
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.successors import Successors


@pytest.fixture
async def world() -> World:
    """Give an extension."""
    return World()


def retired(world: World, **spec: Any) -> Informer:
    """Return an informer that discovery has bound, and that retires."""
    informer = world.extension.add_informer(source_spec(**spec))
    informer.bind(served())
    world.extension.retire_informer(informer)
    return informer


# name: the retiring spec, that of another informer, whether that one may take objects over
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "the same": ({"namespace": "a"}, {"namespace": "a"}, True),
    "wider": ({"namespace": "a"}, {}, True),
    "narrower": ({}, {"namespace": "a"}, True),
    "another namespace": ({"namespace": "a"}, {"namespace": "b"}, False),
    "by its kind": ({"namespace": "a"}, {"resource": "", "kind": "Pod"}, True),
    "another kind": ({}, {"resource": "", "kind": "Node"}, False),
    "another resource": ({}, {"resource": "services"}, False),
    "another group": ({}, {"group": "apps"}, False),
    "another cluster": ({}, {"cluster": "edge"}, False),
    "another selector": ({}, {"label_selector": "a=b"}, True),
    "another version": ({}, {"version": "v2"}, True),
    "another name": (
        {"field_selector": "metadata.name=a"},
        {"field_selector": "metadata.name=b"},
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_successors_may_hold_the_same_objects(world: World, name: str) -> None:
    """By cluster, type and scope, as far as is known of them; each is named once."""
    old, new, expected = CASES[name]
    retiring = retired(world, **old)
    other = world.extension.add_informer(source_spec(**new))
    successors = Successors(world.extension.informers.values())
    assert successors.of(retiring) == ([other] if expected else [])


def test_hundreds_of_informers_find_their_successors_in_no_time(world: World) -> None:
    """A spec may be changed as a whole."""
    names = [f"n{number}" for number in range(2000)]
    retiring = [retired(world, namespace=name, projection="metadata") for name in names]
    for name in names:
        world.extension.add_informer(source_spec(namespace=name))
    began = time.monotonic()
    successors = Successors(world.extension.informers.values())
    found = [successors.of(each) for each in retiring]
    assert time.monotonic() - began < 5.0
    assert [each.spec.namespace for (each,) in found] == names
