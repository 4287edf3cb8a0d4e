"""Rules of what is said of objects that a reader holds and that no informer has come across."""

from __future__ import annotations

from typing import Any

import pytest

from tests.items import served, source_spec
from tests.unit.extensions.test_informer import World
from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.held import Known, KnownGroup, object_id, version_id
from watchcache_server.model.states import SourceState
from watchcache_server.serving.known_gone import known_gone

GROUP = KnownGroup("hub", "", "pods", "team-a", "v1", "full")
DELETED, LEFT = event_pb2.EVENT_TYPE_DELETED, event_pb2.EVENT_TYPE_LEFT
NO_REASON = event_pb2.LEFT_REASON_UNSPECIFIED
SELECTION, SCOPE = event_pb2.LEFT_REASON_SELECTION, event_pb2.LEFT_REASON_SCOPE
KIND_GONE, REVOKED = event_pb2.LEFT_REASON_KIND_GONE, event_pb2.LEFT_REASON_RIGHTS_REVOKED


@pytest.fixture
async def world() -> World:
    """Give an extension."""
    return World()


def known(*names: str, **group: str) -> Known:
    """Return that these objects of one group are held."""
    made = Known()
    records = (object_id(f"uid-{name}") + version_id("7") for name in names)
    made.add(GROUP._replace(**group), b"".join(records))
    return made


def said(
    world: World, held: Known, wanted: Filter = EVERYTHING
) -> list[tuple[int, int, list[bytes]]]:
    """Return type, reason and ids of what is said."""
    places = {group[:4] for group in held.groups}
    messages = list(known_gone(world.extension, wanted, held))
    for each in messages:
        assert (each.cluster, each.group, each.resource, each.namespace) in places
    return [(each.type, each.left_reason, ids_of(each)) for each in messages]


def ids_of(message: pb.KnownGone) -> list[bytes]:
    """Take the ids apart."""
    return [message.ids[start : start + 16] for start in range(0, len(message.ids), 16)]


def ids(*names: str) -> list[bytes]:
    """Return the ids of objects."""
    return [object_id(f"uid-{name}") for name in names]


def add(world: World, state: SourceState, **spec: Any) -> None:
    """Add an informer that has synced, if it is live or stale, or holds nothing."""
    if spec.pop("is_nameless", False):
        informer = world.extension.add_informer(source_spec("", kind="Pod", **spec))
    elif state in (SourceState.LIVE, SourceState.STALE):
        informer = world.synced("other", **spec)
    else:
        informer = world.informer(**spec)
    informer.set_state(state, "REASON", "")


LIVE, STALE, PENDING = SourceState.LIVE, SourceState.STALE, SourceState.PENDING
FORBIDDEN, GONE = SourceState.FORBIDDEN, SourceState.GONE
NAMELESS = {"is_nameless": True}
NAME_X = {"names": [("team-a", "x")]}
NAME_Y = {"names": [("team-a", "y")]}

Informers = list[tuple[SourceState, dict[str, Any]]]

VERDICTS: dict[str, tuple[Informers, tuple[int, int] | None]] = {
    "all of a namespace are read": ([(LIVE, {})], (DELETED, NO_REASON)),
    "all of a cluster are read": ([(LIVE, {"namespace": ""})], (DELETED, NO_REASON)),
    "what was read is stale": ([(STALE, {})], (DELETED, NO_REASON)),
    "labels are selected": ([(LIVE, {"label_selector": "a=b"})], (LEFT, SELECTION)),
    "fields are selected": ([(LIVE, {"field_selector": "spec.x=y"})], (LEFT, SELECTION)),
    "one name is selected": ([(LIVE, {"field_selector": "metadata.name=x"})], (LEFT, SELECTION)),
    "some names are kept": ([(LIVE, {"names": [("team-a", "x")]})], (LEFT, SELECTION)),
    "nothing is read": ([], (LEFT, SCOPE)),
    "another namespace is read": ([(LIVE, {"namespace": "team-b"})], (LEFT, SCOPE)),
    "another cluster is read": ([(LIVE, {"cluster": "edge"})], (LEFT, SCOPE)),
    "another group is read": ([(LIVE, {"group": "apps"})], (LEFT, SCOPE)),
    "the kind is gone": ([(GONE, {})], (LEFT, KIND_GONE)),
    "the right is gone": ([(FORBIDDEN, {})], (LEFT, REVOKED)),
    "the right is gone here, and there is it read": (
        [(FORBIDDEN, {}), (LIVE, {"namespace": "team-b"})],
        (LEFT, REVOKED),
    ),
    "it is not loaded": ([(PENDING, {})], None),
    "it cannot be reached": ([(SourceState.UNREACHABLE, {})], None),
    "one of two is not loaded": ([(LIVE, NAME_X), (PENDING, NAME_Y)], None),
    "one is forbidden, one not loaded": ([(FORBIDDEN, NAME_X), (PENDING, NAME_Y)], None),
    "one is loaded, one forbidden": ([(LIVE, NAME_X), (FORBIDDEN, NAME_Y)], (LEFT, REVOKED)),
    "only the kind is known": ([(PENDING, NAMELESS)], None),
    "one of two may yet be of the kind": ([(LIVE, {}), (PENDING, NAMELESS)], None),
    "of one only the kind is known, which is gone": ([(GONE, NAMELESS)], (LEFT, KIND_GONE)),
    "a kind of another name is gone": ([(LIVE, {}), (GONE, NAMELESS)], (DELETED, NO_REASON)),
    "a kind of another group is not known": (
        [(LIVE, {}), (PENDING, NAMELESS | {"group": "apps"})],
        (DELETED, NO_REASON),
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_what_became_of_it_is_said_as_far_as_it_is_known(world: World, name: str) -> None:
    """Only who reads all of a place can say DELETED; what has yet to be loaded is waited for."""
    informers, verdict = VERDICTS[name]
    for state, spec in informers:
        add(world, state, **spec)
    held = known("a", "b")
    messages = said(world, held)
    if verdict is None:
        assert messages == []
        assert held.count == 2
        return
    ((kind, reason, named),) = messages
    assert (kind, reason) == verdict
    assert sorted(named) == sorted(ids("a", "b"))
    assert held.count == 0
    assert said(world, held) == [], "it is said once"


def test_another_resource_of_the_group_says_nothing_of_it(world: World) -> None:
    """Though its informer reads the same namespace."""
    informer = world.extension.add_informer(source_spec("secrets", namespace="team-a"))
    informer.bind(served("secrets", "Secret"))
    informer.commit(0.0, "10")
    assert said(world, known("a")) == [(LEFT, SCOPE, ids("a"))]


def test_while_objects_pass_to_another_informer_nothing_is_called_gone(world: World) -> None:
    """They are on their way; who is left in the end tells."""
    retiring = world.synced("other")
    world.extension.retire_informer(retiring)
    held = known("a")
    successor = world.informer(label_selector="a=b")
    successor.commit(0.0, "11")
    assert said(world, held) == []
    world.extension.remove_informer(retiring)
    assert said(world, held) == [(LEFT, SELECTION, ids("a"))]


def test_what_was_held_at_a_later_version_is_not_called_gone_yet(world: World) -> None:
    """The informer has yet to come to the moment when it was there."""
    informer = world.synced("other")
    held = known("a")
    held.add(GROUP, object_id("uid-b") + version_id("30"))
    assert said(world, held) == [(DELETED, NO_REASON, ids("a"))]
    informer.advance("29")
    assert said(world, held) == []
    informer.advance("30")
    assert said(world, held) == [(DELETED, NO_REASON, ids("b"))]


def test_what_an_informer_has_proven_to_be_gone_is_so_at_any_version(world: World) -> None:
    """It was as fresh as the API server since: the versions are of a storage that was set back."""
    informer = world.synced("other")
    held = known("a")
    held.add(GROUP, object_id("uid-b") + version_id("30"))
    held.proven.add(informer.source)
    assert said(world, held) == [(DELETED, NO_REASON, ids("a", "b"))]


def test_without_comparable_versions_no_deletion_is_proven(world: World) -> None:
    """So the objects are only out of view."""
    world.synced("other").commit(0.0, "odd")
    assert said(world, known("a")) == [(LEFT, SELECTION, ids("a"))]


FILTERS = {
    "another resource": Filter(resources=(("", "secrets"),)),
    "another cluster": Filter(clusters=("edge",)),
    "another namespace": Filter(namespaces=("team-b",)),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("state", [LIVE, PENDING])
def test_what_the_filter_keeps_out_has_left_and_is_not_deleted(
    world: World, name: str, state: SourceState
) -> None:
    """It may well be there: nobody has looked, and nobody will."""
    add(world, state)
    assert said(world, known("a"), FILTERS[name]) == [(LEFT, SELECTION, ids("a"))]


def test_each_group_has_its_own_verdict(world: World) -> None:
    """One that waits holds no other up."""
    add(world, LIVE)
    add(world, PENDING, namespace="team-b")
    held = known("a")
    for name, namespace in (("b", "team-b"), ("c", "team-c")):
        held.add(GROUP._replace(namespace=namespace), ids(name)[0] + version_id("7"))
    assert said(world, held) == [(DELETED, NO_REASON, ids("a")), (LEFT, SCOPE, ids("c"))]
    assert held.count == 1


def test_many_ids_are_split_into_messages(world: World) -> None:
    """Of 64 KiB at most; none is lost."""
    add(world, LIVE)
    names = [str(number) for number in range(4096 * 2 + 1)]
    messages = said(world, known(*names))
    assert [len(each) for _, _, each in messages] == [4096, 4096, 1]
    assert sorted(each for *_, some in messages for each in some) == sorted(ids(*names))
