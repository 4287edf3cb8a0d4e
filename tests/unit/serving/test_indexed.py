"""Filters by index paths: what is declared is used, and what is not is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest

from tests.items import item, source_spec
from tests.unit.serving.watched import Watched
from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.objects import Upsert
from watchcache_server.model.errors import InvalidRequestError
from watchcache_server.model.specs import ExtensionKey, ExtensionSpec
from watchcache_server.model.states import SourceState
from watchcache_server.serving.conversion import filter_of
from watchcache_server.serving.describing import source_message
from watchcache_server.serving.reading import Reading
from watchcache_server.serving.spec_reader import SpecReader
from watchcache_server.settings import Settings

NODE = "spec.nodeName"
ITEMS = "spec.resources.items[0].index_paths"
ON_N1 = pb.Filter(fields=[pb.FieldValue(path=NODE, value="n1")])


class World(Watched):
    """An extension of pods on nodes."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[Any] = [self]
        self.reading = Reading(*parts, default_cluster="hub")

    def pods(self, *names: str, node: str = "n1", paths: tuple[str, ...] = (NODE,)) -> Informer:
        """Add an informer that is live with these pods."""
        informer = self.informer(indexes=paths)
        body = json.dumps({"spec": {"nodeName": node}}).encode()
        informer.stage(item(name, uid=f"uid-{name}", body=body) for name in names)
        informer.commit(self.time(), "10")
        informer.set_state(SourceState.LIVE, "SYNCED", "")
        return informer

    async def names(self, wanted: pb.Filter, **request: Any) -> list[str]:
        """List what passes."""
        asked = pb.ListObjectsRequest(
            namespace="team-a", name="shop", view=event_pb2.VIEW_KEY, filter=wanted, **request
        )
        return [each.key.name for each in (await self.reading.list(asked)).objects]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give an extension, and end its streams."""
    world = World()
    yield world
    await world.close()


async def read(
    *paths: str, projection: Any = 0, content: bool = False, **settings: Any
) -> ExtensionSpec:
    """Read a spec with these paths."""
    spec = extension_pb2.ExtensionSpec(service_account="shop")
    if content:
        spec.content.manifests = b"{apiVersion: v1, kind: Pod, metadata: {name: a}}"
        spec.content.index_paths.extend(paths)
        spec.content.projection = projection
    else:
        spec.resources.items.add(resource="pods", index_paths=paths, projection=projection)
    with closing(SpecReader(Settings(**settings), default_cluster="hub")) as reader:
        return await reader.read(ExtensionKey("team-a", "shop"), spec)


@pytest.mark.parametrize("content", [False, True], ids=["resources", "content"])
async def test_paths_of_a_spec_are_canonical(content: bool) -> None:
    """Their order and repetitions do not matter, and each informer has them."""
    spec = await read(NODE, "kind", NODE, content=content)
    assert [source.indexes for source in spec.sources()] == [("kind", NODE)]


@pytest.mark.parametrize(
    ("paths", "fields", "field", "told"),
    [
        pytest.param(["a", ""], {}, f"{ITEMS}[1]", "is empty; name a field", id="empty"),
        pytest.param(["a b"], {}, f"{ITEMS}[0]", "'a b' is no field path; use keys", id="syntax"),
        pytest.param(["a" * 201], {}, f"{ITEMS}[0]", "201 characters", id="too long"),
        pytest.param(
            ["a", "b", "c"],
            {"max_index_paths": 2},
            ITEMS,
            "has 3 paths, more than the 2 allowed; .* raise the setting max_index_paths",
            id="too many",
        ),
        pytest.param(
            [NODE],
            {"projection": extension_pb2.PROJECTION_METADATA},
            f"{ITEMS}[0]",
            "not kept by the projection",
            id="not kept",
        ),
        pytest.param(
            ["."],
            {"content": True},
            "spec.content.index_paths[0]",
            "no field path",
            id="of content",
        ),
    ],
)
async def test_what_is_no_path_is_refused(
    paths: list[str], fields: dict[str, Any], field: str, told: str
) -> None:
    """With the field, the rule and the mend."""
    with pytest.raises(InvalidRequestError, match=told) as caught:
        await read(*paths, **fields)
    assert [each.field for each in caught.value.violations] == [field]


def test_fields_of_a_filter_are_canonical() -> None:
    """What means the same is the same."""
    a, b = pb.FieldValue(path="a", value="1"), pb.FieldValue(path="b", value="2")
    wanted = filter_of(pb.Filter(fields=[b, a, b]))
    assert wanted.fields == (("a", "1"), ("b", "2"))
    assert wanted.digest == filter_of(pb.Filter(fields=[a, b])).digest


@pytest.mark.parametrize(
    ("fields", "field", "told"),
    [
        ([pb.FieldValue(value="a")], "filter.fields[0].path", "is empty"),
        ([pb.FieldValue(path="a..b")], "filter.fields[0].path", "no field path"),
        ([pb.FieldValue(path="a")] * 1001, "filter.fields", "more than the 1000 allowed"),
    ],
)
def test_wrong_fields_of_a_filter_are_refused(
    fields: list[pb.FieldValue], field: str, told: str
) -> None:
    """With the field, the rule and the mend."""
    with pytest.raises(InvalidRequestError, match=told) as caught:
        filter_of(pb.Filter(fields=fields))
    assert [each.field for each in caught.value.violations] == [field]


async def test_lists_use_the_index(world: World) -> None:
    """Also with an owner, with labels, and from page to page."""
    world.pods(*(f"pod-{i}" for i in range(150)))
    assert len(await world.names(ON_N1)) == 150
    on_n2 = pb.Filter(fields=[pb.FieldValue(path=NODE, value="n2")])
    assert await world.names(on_n2) == []
    assert await world.names(ON_N1, owner_uid="uid-owner") == []
    assert await world.names(pb.Filter(fields=ON_N1.fields, label_selector="a=b")) == []
    assert len(await world.names(ON_N1, page_size=3)) == 3


@pytest.mark.parametrize("others", [False, True], ids=["nothing else", "something else"])
async def test_a_path_that_is_not_declared_is_refused(world: World, others: bool) -> None:
    """By lists and watches: nothing would ever pass."""
    if others:
        world.pods("web", paths=("kind",))
    with pytest.raises(InvalidRequestError, match=r"not indexed by spec\.nodeName") as caught:
        await world.names(ON_N1)
    assert caught.value.reason == "NOT_INDEXED"
    world.watch(filter=ON_N1)
    assert isinstance(await world.error(), InvalidRequestError)


async def test_every_informer_in_view_has_to_declare_it(world: World) -> None:
    """Else its objects would be missing without a word. One that may be elsewhere is let be."""
    world.pods("web")
    world.extension.add_informer(source_spec("", kind="Node"))
    pods = pb.Filter(fields=ON_N1.fields, resources=[pb.ResourceRef(resource="pods")])
    assert await world.names(pods) == ["web"]
    with pytest.raises(InvalidRequestError, match=r"Node of extension team-a/shop is not indexed"):
        await world.names(ON_N1)
    world.extension.add_informer(source_spec(namespace="team-b"))
    with pytest.raises(InvalidRequestError, match=r"pods of extension team-a/shop is not indexed"):
        await world.names(pods)
    pods.namespaces.append("team-a")
    assert await world.names(pods) == ["web"]


async def test_a_stream_follows_values(world: World) -> None:
    """ADDED and LEFT, as with labels."""
    informer = world.pods("web", node="n2")
    reader = world.watch(filter=ON_N1)
    await reader.until("synced")
    for version, node in (("2", "n1"), ("3", "n2")):
        body = json.dumps({"spec": {"nodeName": node}}).encode()
        changed = item("web", uid="uid-web", version=version, body=body)
        informer.apply([Upsert(changed)], 0.0)
        await reader.until("batch", int(version) - 1)
    assert reader.events == [
        (event_pb2.EVENT_TYPE_ADDED, "web"),
        (event_pb2.EVENT_TYPE_LEFT, "web"),
    ]


async def test_a_stream_ends_when_its_path_is_declared_no_more(world: World) -> None:
    """It would say nothing for ever, and look like a quiet cluster."""
    informer = world.pods("web")
    reader = world.watch(filter=ON_N1)
    await reader.until("synced")
    world.extension.retire_informer(informer)
    world.pods("web", paths=())
    error = await world.error()
    assert isinstance(error, InvalidRequestError)
    assert error.reason == "NOT_INDEXED"


async def test_an_informer_tells_its_paths(world: World) -> None:
    """And how many values it left out."""
    informer = world.pods("web")
    informer.source.unindexed_count = 7
    message = source_message(informer)
    assert (list(message.index_paths), message.unindexed_value_count) == ([NODE], 7)
