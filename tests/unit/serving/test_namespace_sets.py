"""Rules of what is served of namespaces that a selector chooses, known or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.items import item, served, source_spec
from tests.unit.serving.test_known_gone import known
from tests.unit.serving.test_reading import World as Read
from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.namespaces import NamespaceInformer
from watchcache_server.informer.comparison import Listed
from watchcache_server.informer.filters import EVERYTHING
from watchcache_server.informer.objects import Remove, Upsert
from watchcache_server.model.errors import InvalidRequestError, NotSyncedError
from watchcache_server.model.specs import Choice, ExtensionKey, NamespaceSet
from watchcache_server.model.states import LeftReason, SourceState
from watchcache_server.serving.describing import source_message
from watchcache_server.serving.indexed import require_indexed
from watchcache_server.serving.known_gone import known_gone
from watchcache_server.serving.spec_conversion import extension_spec
from watchcache_server.settings import Settings

pytestmark = pytest.mark.looptime

GOLD = NamespaceSet("hub", "tier=gold")


class World(Read):
    """An extension with pods in the namespaces that match."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        self.set = NamespaceInformer(self.extension, GOLD, changed=self._changed)
        self.set.bind(served("namespaces", "Namespace", is_namespaced=False))

    def _changed(self) -> None:
        self.changes += 1

    def choose(self, resource: str = "pods", **spec: Any) -> None:
        """Watch a resource there."""
        self.extension.choose(Choice(source_spec(resource, **spec), GOLD), self.set)

    def know(self, *names: str) -> None:
        """Let these match."""
        self.set.stage(item(name, namespace="", uid=f"uid-{name}") for name in names)
        self.set.commit(0.0, "10")
        self.set.set_state(SourceState.LIVE, "SYNCED", "up to date")

    def refuse(self) -> None:
        """Let the right be missing."""
        self.set.set_state(
            SourceState.FORBIDDEN,
            "VERBS_MISSING",
            "needs list on namespaces",
            missing_verbs=("list",),
        )


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give an extension."""
    made = World()
    made.choose()
    yield made
    await made.close()


# Reads


async def test_a_list_of_an_empty_set_is_empty(world: World) -> None:
    """That nothing matches is an answer, and as live as the set."""
    world.know()
    page = await world.page()
    assert not page.objects
    assert page.freshness.is_live
    world.set.set_state(SourceState.STALE, "RETRYING", "lost")
    assert not (await world.page()).freshness.is_live


async def test_a_list_of_a_set_that_is_not_known_is_refused(world: World) -> None:
    """An empty answer would say that there is nothing."""
    with pytest.raises(NotSyncedError) as early:
        await world.page()
    assert early.value.is_transient
    world.refuse()
    with pytest.raises(NotSyncedError, match="needs list on namespaces") as late:
        await world.page()
    assert not late.value.is_transient


async def test_what_is_not_watched_is_told_by_what_is(world: World) -> None:
    """A set counts as well as an informer does."""
    world.know()
    with pytest.raises(NotSyncedError, match="it watches pods"):
        await world.page(filter=pb.Filter(resources=[pb.ResourceRef(resource="secrets")]))


async def test_an_object_in_a_namespace_that_does_not_match_is_not_watched(world: World) -> None:
    """The text names the selector; while the set is not known, nobody can say."""
    with pytest.raises(NotSyncedError) as early:
        await world.read()
    assert early.value.is_transient
    world.know("team-b")
    with pytest.raises(NotSyncedError, match="does not match tier=gold"):
        await world.read()


async def test_an_object_in_a_namespace_without_room_is_told_so(world: World) -> None:
    """It matches, and is not watched for another reason."""
    world.know("team-a")
    world.set.crowded("too many")
    world.set.crowded("too many")
    assert world.set.status.reason == "MAX_SOURCES"
    with pytest.raises(NotSyncedError, match="too many"):
        await world.read()


async def test_a_consistent_list_waits_for_the_set(world: World) -> None:
    """That a namespace matches is part of what the API server holds."""
    world.know()
    asked = pb.ReadConsistency(consistent=True)
    reading = asyncio.ensure_future(world.page(consistency=asked))
    await asyncio.sleep(0.1)
    question = world.set.freshness.take(1)
    assert question is not None
    world.set.freshness.answer(question, "20", [Listed("", "team-a", "uid-team-a", "15")])
    await asyncio.sleep(0.1)
    assert not reading.done(), "the stream has yet to come to that"
    new = item("team-a", namespace="", uid="uid-team-a", version="15")
    world.set.apply([Upsert(new)], 0.0, "15")
    await asyncio.sleep(0.1)
    assert not (await reading).objects


async def test_a_consistent_get_waits_for_what_would_hold_it(world: World) -> None:
    """Where no informer would, it is the set that knows whether there is to be one."""
    world.know("team-b")
    key = event_pb2.ObjectKey(resource="pods", namespace="team-a", name="web")
    request = pb.GetObjectRequest(
        namespace="team-a", name="shop", key=key, consistency=pb.ReadConsistency(consistent=True)
    )
    reading = asyncio.ensure_future(world.reading.get(request))
    await asyncio.sleep(0.1)
    question = world.set.freshness.take(1)
    assert question is not None
    assert (question.scope.namespace, question.scope.name) == ("", "team-a")
    world.set.freshness.answer(question, "20", [])
    with pytest.raises(NotSyncedError, match="does not match"):
        await reading


# Streams


async def test_a_stream_tells_of_the_set_and_waits_for_it(world: World) -> None:
    """Synced comes once the set is known or refused."""
    reader = world.watch()
    status = await reader.until("source_status")
    assert (status.resource, status.namespace_selector) == ("pods", "tier=gold")
    await asyncio.sleep(1.0)
    assert not reader.of("synced")
    world.know("team-a", "team-b")
    await reader.until("synced")
    status = await reader.until("source_status", 2)
    assert status.state == extension_pb2.SOURCE_STATE_LIVE
    assert status.namespace_count == 2


async def test_a_refused_set_holds_up_no_stream(world: World) -> None:
    """What is missing is said, and the rest goes on."""
    world.refuse()
    reader = world.watch()
    await reader.until("synced")
    (status,) = reader.of("source_status")
    assert status.missing_access == extension_pb2.AccessRule(
        verbs=["list"], resource="namespaces", cluster="hub"
    )


async def test_a_set_out_of_view_holds_up_no_stream(world: World) -> None:
    """It can bring nothing that would pass."""
    reader = world.watch(filter=pb.Filter(resources=[pb.ResourceRef(resource="secrets")]))
    await reader.until("synced")
    assert not reader.of("source_status")


# What a reader holds


@pytest.mark.parametrize(
    ("prepare", "verdict"),
    [
        (lambda world: None, None),
        (
            lambda world: world.refuse(),
            (event_pb2.EVENT_TYPE_LEFT, event_pb2.LEFT_REASON_RIGHTS_REVOKED),
        ),
        (
            lambda world: world.know("team-b"),
            (event_pb2.EVENT_TYPE_LEFT, event_pb2.LEFT_REASON_SCOPE),
        ),
    ],
    ids=["not known", "refused", "known"],
)
def test_what_is_held_of_a_namespace_waits_for_the_set(
    world: World, prepare: Any, verdict: tuple[int, int] | None
) -> None:
    """Before the set is known, nobody can say that a namespace is out of scope."""
    prepare(world)
    said = list(known_gone(world.extension, EVERYTHING, known("web")))
    assert [(each.type, each.left_reason) for each in said] == ([verdict] if verdict else [])


# Descriptions and indexes


def test_what_is_known_of_a_kind_is_told_of_the_set(world: World) -> None:
    """The plural of a kind is known once an informer of one namespace has found it."""
    world.choose("", kind="Pod", label_selector="x")
    (chosen,) = [each for each in world.extension.chosen.values() if each.spec.kind]
    assert source_message(chosen).resource == ""
    informer = world.extension.add_informer(
        source_spec("", kind="Pod", label_selector="x", namespace="team-a")
    )
    informer.bind(served())
    assert source_message(chosen).resource == "pods"


def test_a_set_is_indexed_as_its_informers_will_be() -> None:
    """Where nothing matches yet, a filter by a declared path is right, and another one is not."""
    loop = asyncio.new_event_loop()

    async def check() -> None:
        world = World()
        world.choose(indexes=["spec.nodeName"])
        wanted = type(EVERYTHING)(fields=(("spec.nodeName", "n"),))
        require_indexed(world.extension, wanted)
        with pytest.raises(InvalidRequestError, match="not indexed"):
            require_indexed(world.extension, type(EVERYTHING)(fields=(("spec.other", "n"),)))

    loop.run_until_complete(check())
    loop.close()


# The set itself


def test_only_other_names_are_a_change(world: World) -> None:
    """Annotations of a namespace change nothing, and no loss of rights does."""
    world.know("a", "b")
    assert world.changes == 1
    same = item("a", namespace="", uid="uid-a", version="11")
    world.set.apply([Upsert(same)], 0.0, "11")
    world.set.advance("12")
    assert world.changes == 1
    world.set.purge(LeftReason.RIGHTS_REVOKED)
    assert sorted(world.set.names or ()) == ["a", "b"]
    world.set.apply([Remove(same)], 0.0, "13")
    assert (world.changes, world.set.names) == (2, ["b"])
    assert world.set.unverified() == []


def test_a_sync_that_breaks_off_changes_nothing(world: World) -> None:
    """Only a whole one says what matches."""
    world.set.advance("5")
    world.set.stage([item("a", namespace=""), item("b", namespace="", uid="uid-b")])
    world.set.unstage([item("a", namespace="")])
    world.set.discard()
    assert world.set.names is None
    world.know("c")
    assert world.set.names == ["c"]


# Specs


def read(**item_fields: Any) -> Any:
    """Read a spec with one entry."""
    entry = extension_pb2.ResourceWatch(resource="pods", **item_fields)
    message = extension_pb2.ExtensionSpec(
        service_account="shop", resources=extension_pb2.ResourceWatchSet(items=[entry])
    )
    return extension_spec(ExtensionKey("team-a", "shop"), message, Settings(), "hub")


def test_a_selector_is_read_in_canonical_form() -> None:
    """Two that mean the same are the same."""
    first, second = (read(namespace_selector=text) for text in ("b , a = c", "a==c,b"))
    assert first == second
    assert [each.namespaces for each in first.choices()] == [NamespaceSet("hub", "a=c,b")]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"namespace_selector": "a in ("}, "is not closed by ')'"),
        ({"namespace_selector": "  "}, "is blank"),
        ({"namespace_selector": "a", "namespaces": ["b"]}, "leave one of the two out"),
    ],
    ids=["malformed", "blank", "beside namespaces"],
)
def test_a_wrong_selector_is_refused(fields: dict[str, Any], told: str) -> None:
    """The answer names the field, the rule and the mend."""
    with pytest.raises(InvalidRequestError) as refused:
        read(**fields)
    (violation,) = refused.value.violations
    assert violation.field == "spec.resources.items[0].namespace_selector"
    assert told in violation.description
