"""Rules of uploads of what clients hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.unit.extensions.test_informer import World
from watchcache.v1alpha1 import extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.informer.held import KnownGroup, object_id, version_id
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    InvalidRequestError,
    KnownNotFoundError,
    LimitExceededError,
)
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.serving.uploads import KnownUploads
from watchcache_server.settings import Settings

pytestmark = pytest.mark.looptime


class Uploading(World):
    """One extension that is registered, and the uploads of it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        registry: Any = self
        self.uploads = KnownUploads(registry, Settings(**settings))

    def get(self, key: ExtensionKey) -> Extension:
        """Be the registry."""
        if key != self.extension.key:
            raise ExtensionNotFoundError(key.namespace, key.name)
        return self.extension

    async def take(self, *messages: Sequence[pb.KnownObjects], name: str = "shop") -> Any:
        """Upload groups in so many messages, of which the first names the extension."""
        return await self.uploads.take(self._sent(messages, name))

    async def _sent(
        self, messages: Sequence[Sequence[pb.KnownObjects]], name: str
    ) -> AsyncIterator[pb.UploadKnownRequest]:
        for number, groups in enumerate(messages):
            first = {} if number else {"namespace": "team-a", "name": name}
            yield pb.UploadKnownRequest(groups=groups, **first)


@pytest.fixture
async def world() -> Uploading:
    """Give an extension to upload for."""
    return Uploading()


def records(*names: str) -> bytes:
    """Return what is told of such objects."""
    return b"".join(object_id(f"uid-{name}") + version_id("7") for name in names)


def group(*names: str, **fields: Any) -> pb.KnownObjects:
    """Return objects of one group."""
    usual: dict[str, Any] = {
        "cluster": "hub",
        "resource": "pods",
        "namespace": "team-a",
        "version": "v1",
        "projection": extension_pb2.PROJECTION_FULL,
        "objects": records(*names),
    }
    return pb.KnownObjects(**(usual | fields))


async def test_what_was_uploaded_is_found_by_its_handle(world: Uploading) -> None:
    """All of it, by groups, whichever messages it came in."""
    answer = await world.take(
        [group("a", "b"), group("c", namespace="team-b", group="apps", resource="deployments")],
        [group("d"), group("e", projection=extension_pb2.PROJECTION_METADATA)],
    )
    assert answer.object_count == world.uploads.object_count == 5
    assert answer.expires_after.seconds == Settings().known_seconds
    known = world.uploads.redeem(world.extension, answer.handle)
    pods = KnownGroup("hub", "", "pods", "team-a", "v1", "full")
    others = pods._replace(namespace="team-b", group="apps", resource="deployments")
    metadata = pods._replace(projection="metadata")
    assert known.groups == [pods, others, metadata]
    assert sorted(known.take(pods)) == sorted(object_id(f"uid-{name}") for name in "abd")
    assert known.take(metadata) == [object_id("uid-e")]


PROJECTIONS = {
    extension_pb2.PROJECTION_FULL: "full",
    extension_pb2.PROJECTION_WITHOUT_MANAGED_FIELDS: "without_managed_fields",
    extension_pb2.PROJECTION_METADATA: "metadata",
    extension_pb2.PROJECTION_UNSPECIFIED: "",
    99: "",
}


@pytest.mark.parametrize("projection", PROJECTIONS)
async def test_a_projection_that_is_not_known_is_like_no_other(
    world: Uploading, projection: int
) -> None:
    """So such objects come anew."""
    answer = await world.take([group("a", projection=projection)])
    (found,) = world.uploads.redeem(world.extension, answer.handle).groups
    assert found.projection == PROJECTIONS[projection]


async def test_nothing_can_be_held_and_told(world: Uploading) -> None:
    """A message that names the extension is enough."""
    answer = await world.take([])
    assert answer.object_count == 0
    assert world.uploads.redeem(world.extension, answer.handle).count == 0


async def test_a_handle_is_good_for_one_stream(world: Uploading) -> None:
    """And makes room at once; two uploads have two."""
    first = await world.take([group("a")])
    second = await world.take([group("b", "c")])
    assert first.handle != second.handle
    assert world.uploads.object_count == 3
    world.uploads.redeem(world.extension, first.handle)
    assert world.uploads.object_count == 2
    with pytest.raises(KnownNotFoundError):
        world.uploads.redeem(world.extension, first.handle)
    assert world.uploads.redeem(world.extension, second.handle).count == 2
    assert world.uploads.object_count == 0


async def test_a_handle_belongs_to_one_extension(world: Uploading) -> None:
    """Whoever else has it gets nothing, and uses nothing up."""
    answer = await world.take([group("a")])
    other = World().extension
    other.key = ExtensionKey("team-b", "shop")
    for handle in (answer.handle, b"made up", b""):
        with pytest.raises(KnownNotFoundError):
            world.uploads.redeem(other, handle)
    assert world.uploads.redeem(world.extension, answer.handle).count == 1


async def test_an_upload_that_nobody_uses_expires() -> None:
    """After the time that was said; one that was used in time does not do so once more."""
    world = Uploading(known_seconds=5)
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    expiring, used = await world.take([group("a")]), await world.take([group("b", "c")])
    assert expiring.expires_after.seconds == 5
    await asyncio.sleep(4.0)
    world.uploads.redeem(world.extension, used.handle)
    later = await world.take([group("d")])
    await asyncio.sleep(2.0)
    assert world.uploads.object_count == 1
    with pytest.raises(KnownNotFoundError):
        world.uploads.redeem(world.extension, expiring.handle)
    assert world.uploads.redeem(world.extension, later.handle).count == 1
    assert faults == []


WRONG_SIZES = {"none": b"", "too short": b"x" * 23, "too long": b"x" * 49}


@pytest.mark.parametrize("name", WRONG_SIZES)
async def test_records_of_a_wrong_size_are_refused(world: Uploading, name: str) -> None:
    """The field is named, and what came before it takes no room any more."""
    with pytest.raises(InvalidRequestError) as caught:
        await world.take([group("a")], [group("b"), group(objects=WRONG_SIZES[name])])
    assert [each.field for each in caught.value.violations] == ["groups[1].objects"]
    assert f"{len(WRONG_SIZES[name])} bytes" in str(caught.value)
    assert world.uploads.object_count == 0


async def test_an_upload_has_to_name_its_extension(world: Uploading) -> None:
    """One without any message does not."""
    with pytest.raises(InvalidRequestError) as caught:
        await world.take()
    assert [each.field for each in caught.value.violations] == ["namespace"]
    with pytest.raises(InvalidRequestError):
        await world.take([group("a")], name="")
    assert world.uploads.object_count == 0


async def test_an_extension_has_to_be_registered(world: Uploading) -> None:
    """The client registers it and uploads again."""
    with pytest.raises(ExtensionNotFoundError):
        await world.take([group("a")], name="cart")
    assert world.uploads.object_count == 0


async def test_there_is_room_for_so_many_objects_of_all_uploads() -> None:
    """One too many ends the upload, which frees what it took; the setting is named."""
    world = Uploading(max_known_objects=4)
    kept = await world.take([group("a", "b")])
    with pytest.raises(LimitExceededError) as caught:
        await world.take([group("c")], [group("d"), group("e")])
    assert caught.value.setting == "max_known_objects"
    assert "max_known_objects" in str(caught.value)
    assert world.uploads.object_count == 2
    full = await world.take([group("c", "d")])
    assert world.uploads.object_count == 4
    for answer in (kept, full):
        assert world.uploads.redeem(world.extension, answer.handle).count == 2


async def test_uploads_under_way_take_room_too() -> None:
    """Nobody can hold more than the limit by never coming to an end; who goes away frees it."""
    world = Uploading(max_known_objects=2)
    has_begun = asyncio.Event()

    async def slow() -> AsyncIterator[pb.UploadKnownRequest]:
        yield pb.UploadKnownRequest(namespace="team-a", name="shop", groups=[group("a", "b")])
        has_begun.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(world.uploads.take(slow()))
    await has_begun.wait()
    with pytest.raises(LimitExceededError):
        await world.take([group("c")])
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert world.uploads.object_count == 0
    assert (await world.take([group("c")])).object_count == 1


async def test_an_upload_that_stalls_is_ended() -> None:
    """After the time that a stalled reader has; each message begins it anew."""
    world = Uploading(stalled_write_seconds=5)
    loop = asyncio.get_running_loop()

    async def sent(*pauses: float) -> AsyncIterator[pb.UploadKnownRequest]:
        for pause in pauses:
            await asyncio.sleep(pause)
            yield pb.UploadKnownRequest(namespace="team-a", name="shop", groups=[group("a")])

    await world.uploads.take(sent(4.0, 4.0, 4.0))
    began = loop.time()
    with pytest.raises(LimitExceededError) as caught:
        await world.uploads.take(sent(0.0, 600.0))
    assert loop.time() - began == pytest.approx(5.0, abs=0.1)
    assert caught.value.setting == "stalled_write_seconds"
    assert world.uploads.object_count == 3


async def test_a_large_upload_leaves_the_loop_to_others(world: Uploading) -> None:
    """It is taken in by parts."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    answer = await world.take([group(objects=records(*map(str, range(4096 * 8))))])
    assert turns >= 8
    assert answer.object_count == 4096 * 8
    task.cancel()
