"""Rules of reads from the cache: what is there, what is known not to be, and what is not known."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.items import item, served, source_spec
from tests.unit.serving.watched import Watched, change
from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.informer import Informer
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    InvalidRequestError,
    NotSyncedError,
    ObjectNotFoundError,
)
from watchcache_server.model.states import SourceState
from watchcache_server.serving.reading import Reading, page_size_of


class World(Watched):
    """An extension that is read from."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[Any] = [self]
        self.reading = Reading(*parts, default_cluster="hub")

    async def read(self, name: str = "web", **key: str) -> pb.GetObjectResponse:
        """Read one object."""
        whole = {"resource": "pods", "namespace": "team-a", "name": name} | key
        return await self.reading.get(
            pb.GetObjectRequest(namespace="team-a", name="shop", key=event_pb2.ObjectKey(**whole))
        )

    async def page(self, **request: Any) -> pb.ListObjectsResponse:
        """Read a page of a list."""
        asked = pb.ListObjectsRequest(
            **({"namespace": "team-a", "name": "shop", "view": event_pb2.VIEW_KEY} | request)
        )
        return await self.reading.list(asked)

    async def names(self, **request: Any) -> list[list[str]]:
        """Return the names in each page of a list."""
        pages: list[list[str]] = []
        token = ""
        while not pages or token:
            page = await self.page(page_token=token, **request)
            pages.append([each.key.name for each in page.objects])
            token = page.next_page_token
        return pages


@pytest.fixture
async def world() -> World:
    """Give an extension."""
    return World()


# One object


async def test_an_object_comes_with_how_old_it_may_be(world: World) -> None:
    """Live, and when its API server was last heard."""
    informer = world.live("web")
    world.time.advance(5.0)
    informer.contact()
    answer = await world.read()
    assert answer.object.uid == "uid-web"
    assert answer.object.key.cluster == "hub"
    assert answer.freshness.is_live
    assert answer.freshness.last_contact_time.seconds == 1_000_005
    informer.set_state(SourceState.STALE, "CONNECTION_FAILED", "refused")
    assert not (await world.read()).freshness.is_live


async def test_the_state_of_what_retires_counts_while_it_serves(world: World) -> None:
    """Its objects are as old as its informer says, whether the spec still names it or not."""
    old = world.live("web")
    world.extension.retire_informer(old)
    world.informer(namespace="")
    assert (await world.read()).freshness.is_live
    old.set_state(SourceState.STALE, "CONNECTION_FAILED", "refused")
    assert not (await world.read()).freshness.is_live


async def test_an_object_that_is_not_there_is_known_not_to_be(world: World) -> None:
    """Once the informer that would hold it has synced."""
    world.live("web")
    with pytest.raises(
        ObjectNotFoundError, match="pods team-a/other in cluster hub: there is none"
    ):
        await world.read("other")


async def test_while_objects_pass_over_the_old_informer_knows(world: World) -> None:
    """That its successor has not synced yet takes nothing away."""
    world.extension.retire_informer(world.live("web"))
    world.informer(namespace="")
    with pytest.raises(ObjectNotFoundError):
        await world.read("other")


async def test_under_a_selector_it_is_not_said_that_there_is_none(world: World) -> None:
    """Only that none matches."""
    world.live("web", label_selector="app=web")
    with pytest.raises(ObjectNotFoundError, match="that matches the selectors of the spec"):
        await world.read("other")


UNSYNCED = {
    "loading": (SourceState.SYNCING, True),
    "queued": (SourceState.PENDING, True),
    "forbidden": (SourceState.FORBIDDEN, False),
    "out of reach": (SourceState.UNREACHABLE, False),
}


@pytest.mark.parametrize("name", UNSYNCED)
async def test_what_has_not_synced_knows_nothing(world: World, name: str) -> None:
    """It may pass by itself, or needs mending; the state is told."""
    state, is_transient = UNSYNCED[name]
    world.informer().set_state(state, "WHY", "because of this")
    with pytest.raises(NotSyncedError, match=f"{state.value}: because of this") as caught:
        await world.read()
    assert caught.value.is_transient is is_transient


UNWATCHED: dict[str, tuple[dict[str, str], str]] = {
    "another resource": ({"resource": "secrets"}, "add it to the spec; it watches pods in team-a"),
    "another group": ({"group": "apps"}, "did you mean pods?"),
    "the singular": ({"resource": "pod"}, "did you mean pods?"),
    "how it begins": ({"resource": "po"}, "did you mean pods?"),
    "a short name": ({"resource": "pd"}, "did you mean pods?"),
    "a letter too few": ({"resource": "pds"}, "did you mean pods?"),
    "another namespace": (
        {"namespace": "team-b"},
        "it is watched in namespace team-a only; add its namespace to the spec",
    ),
    "no namespace": (
        {"namespace": ""},
        "it is watched in namespace team-a only; name it with its namespace",
    ),
    "another cluster": ({"cluster": "edge"}, "it is watched on cluster hub only; name that"),
}


@pytest.mark.parametrize("name", UNWATCHED)
async def test_what_is_not_watched_is_not_said_to_be_missing(world: World, name: str) -> None:
    """Whoever takes it for a deletion would be wrong. What is watched is named beside it."""
    world.live("web")
    key, hint = UNWATCHED[name]
    with pytest.raises(NotSyncedError, match="does not watch it; ") as caught:
        await world.read(**key)
    assert hint in str(caught.value)
    assert not caught.value.is_transient


async def test_an_extension_that_watches_nothing_says_so(world: World) -> None:
    """There is nothing to be near."""
    with pytest.raises(NotSyncedError, match="add it to the spec; it watches nothing"):
        await world.read()


async def test_of_many_resources_some_are_named(world: World) -> None:
    """A text has its limits."""
    for number in range(12):
        world.extension.add_informer(source_spec(f"kind{number:02}s"))
    with pytest.raises(NotSyncedError, match=r"it watches kind00s, .*, kind09s and 2 more"):
        await world.read(resource="secrets")


NARROW: dict[str, dict[str, Any]] = {
    "by name": {"field_selector": "metadata.name=web"},
    "by names": {"names": [("team-a", "web"), ("team-a", "api")]},
}


@pytest.mark.parametrize("name", NARROW)
async def test_an_extension_of_some_objects_does_not_watch_the_others(
    world: World, name: str
) -> None:
    """It knows of those whether they are there, and of no other."""
    informer = world.extension.add_informer(source_spec(namespace="team-a", **NARROW[name]))
    informer.bind(served())
    informer.commit(0.0, "10")
    with pytest.raises(ObjectNotFoundError):
        await world.read("web")
    with pytest.raises(NotSyncedError, match="does not watch it; of its kind it watches some"):
        await world.read("other")


async def test_a_kind_whose_resource_is_not_known_yet_may_be_the_one(world: World) -> None:
    """Until discovery has answered it is not said to be unwatched."""
    informer = world.extension.add_informer(source_spec("", kind="Pod", namespace="team-a"))
    with pytest.raises(NotSyncedError, match="the informer is pending") as caught:
        await world.read()
    assert caught.value.is_transient
    with pytest.raises(NotSyncedError, match="does not watch it"):
        await world.read(group="apps", resource="deployments")
    informer.set_state(SourceState.GONE, "KIND_NOT_SERVED", "not served")
    with pytest.raises(NotSyncedError, match="not served") as caught:
        await world.read()
    assert not caught.value.is_transient


BAD_KEYS = {
    "resource": {"resource": ""},
    "group": {"group": "Apps!"},
    "namespace": {"namespace": "Team_A"},
    "name": {"name": "a/b"},
}


@pytest.mark.parametrize("name", BAD_KEYS)
async def test_a_key_that_no_object_can_have_is_refused(world: World, name: str) -> None:
    """By its field."""
    world.live("web")
    key = dict(BAD_KEYS[name])
    with pytest.raises(InvalidRequestError) as caught:
        await world.read(key.pop("name", "web"), **key)
    assert [each.field for each in caught.value.violations] == [f"key.{name}"]


async def test_an_object_without_a_namespace_is_named_by_its_name(world: World) -> None:
    """In what is said of it."""
    informer = world.extension.add_informer(source_spec("nodes"))
    informer.bind(served("nodes", "Node", is_namespaced=False))
    informer.commit(0.0, "10")
    with pytest.raises(ObjectNotFoundError, match="nodes one in cluster hub"):
        await world.read("one", resource="nodes", namespace="")


# Lists


def fill(world: World) -> Informer:
    """Let an informer hold ten pods, the even ones labelled and owned."""
    informer = world.informer(namespace="")
    informer.stage(
        item(
            f"p{number}",
            namespace=f"n{number % 3}",
            uid=f"uid-{number}",
            labels={"even": str(number % 2 == 0)},
            owners=["owner"] if number % 2 == 0 else [],
        )
        for number in range(10)
    )
    informer.commit(0.0, "10")
    informer.set_state(SourceState.LIVE, "SYNCED", "")
    return informer


IN_ORDER = ["p0", "p3", "p6", "p9", "p1", "p4", "p7", "p2", "p5", "p8"]
LISTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all": ({}, IN_ORDER),
    "a namespace": ({"filter": pb.Filter(namespaces=["n1"])}, ["p1", "p4", "p7"]),
    "labels": (
        {"filter": pb.Filter(label_selector="even=True")},
        ["p0", "p6", "p4", "p2", "p8"],
    ),
    "an owner": ({"owner_uid": "owner"}, ["p0", "p6", "p4", "p2", "p8"]),
    "an owner and a namespace": (
        {"owner_uid": "owner", "filter": pb.Filter(namespaces=["n0"])},
        ["p0", "p6"],
    ),
    "no owner": ({"owner_uid": "nobody"}, []),
    "nothing": ({"filter": pb.Filter(label_selector="even=maybe")}, []),
}


@pytest.mark.parametrize("page_size", [0, 1, 3, 10])
@pytest.mark.parametrize("name", LISTS)
async def test_pages_together_are_the_list(world: World, name: str, page_size: int) -> None:
    """In order, each object once, whatever the size of a page and the length of a slice."""
    fill(world)
    request, expected = LISTS[name]
    pages = await world.names(page_size=page_size, **request)
    assert [each for page in pages for each in page] == expected
    assert all(len(page) == page_size for page in pages[:-1])


@pytest.mark.parametrize(("yielded", "scanned"), [(1, 100), (2, 3), (100, 1)])
async def test_slices_change_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, yielded: int, scanned: int
) -> None:
    """However often a list pauses."""
    monkeypatch.setattr("watchcache_server.serving.reading._SLICE_OBJECTS", yielded)
    monkeypatch.setattr("watchcache_server.serving.reading._SLICE_SCANNED", scanned)
    fill(world)
    for request, expected in LISTS.values():
        assert await world.names(**request) == [expected]


async def test_others_run_while_a_long_list_is_made(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing of what is looked at matches."""
    monkeypatch.setattr("watchcache_server.serving.reading._SLICE_SCANNED", 2)
    fill(world)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await world.page(filter=pb.Filter(label_selector="even=maybe"))
    assert turns >= 5
    task.cancel()


async def test_what_changes_during_a_list_does_not_disturb_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there all the time appears once."""
    monkeypatch.setattr("watchcache_server.serving.reading._SLICE_OBJECTS", 1)
    informer = fill(world)
    listing = asyncio.create_task(world.names())
    for number in range(6):
        await asyncio.sleep(0)
        change(informer, f"new-{number}", str(20 + number))
    (names,) = await listing
    assert [name for name in names if not name.startswith("new")] == IN_ORDER


async def test_an_extension_that_ends_during_a_list_ends_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a list would say that the rest is gone."""
    monkeypatch.setattr("watchcache_server.serving.reading._SLICE_OBJECTS", 1)
    fill(world)
    listing = asyncio.create_task(world.page())
    await asyncio.sleep(0)
    world.extension.end("DEREGISTERED")
    with pytest.raises(ExtensionNotFoundError) as caught:
        await listing
    assert caught.value.reason == "EXTENSION_DEREGISTERED"


async def test_a_page_ends_near_its_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted as they are sent: keys are small, whatever the objects are. One always fits."""
    monkeypatch.setattr("watchcache_server.serving.reading._PAGE_BYTES", 400)
    fill(world)
    small = await world.names()
    large = await world.names(view=event_pb2.VIEW_FULL)
    assert len(small[0]) > len(large[0]) >= 1
    assert [each for page in large for each in page] == IN_ORDER
    monkeypatch.setattr("watchcache_server.serving.reading._PAGE_BYTES", 1)
    assert await world.names() == [[name] for name in IN_ORDER]


async def test_a_list_says_how_fresh_it_is(world: World) -> None:
    """As fresh as the informer that was heard longest ago."""
    near, far = world.live("a"), world.live("b", namespace="team-b")
    assert (await world.page()).freshness.is_live
    assert not (await world.page()).freshness.HasField("last_contact_time")
    for informer, seconds in ((near, 1.0), (far, 10.0)):
        world.time.now = seconds
        informer.contact()
    assert (await world.page()).freshness.last_contact_time.seconds == 1_000_001
    far.set_state(SourceState.STALE, "CONNECTION_FAILED", "refused")
    assert not (await world.page()).freshness.is_live
    narrow = await world.page(filter=pb.Filter(namespaces=["team-a"]))
    assert narrow.freshness.is_live


async def test_an_empty_list_is_one_only_if_something_was_loaded(world: World) -> None:
    """Else it would say that there is nothing."""
    assert not (await world.page()).objects, "an extension that watches nothing holds nothing"
    informer = world.informer()
    with pytest.raises(NotSyncedError) as caught:
        await world.page()
    assert caught.value.is_transient
    informer.commit(0.0, "10")
    assert not (await world.page()).objects
    for wanted, hint in (
        (pb.Filter(namespaces=["team-b"]), "it watches pods in team-a"),
        (
            pb.Filter(namespaces=["team-b"], resources=[pb.ResourceRef(resource="pods")]),
            "it watches pods in team-a",
        ),
        (pb.Filter(resources=[pb.ResourceRef(resource="pod")]), "did you mean pods?"),
    ):
        with pytest.raises(NotSyncedError, match="the filter lets through is watched; ") as caught:
            await world.page(filter=wanted)
        assert hint in str(caught.value)


async def test_a_page_token_goes_with_its_question(world: World) -> None:
    """Another filter, owner or extension has places of its own."""
    fill(world)
    token = (await world.page(page_size=2)).next_page_token
    for request in ({"filter": pb.Filter(namespaces=["n1"])}, {"owner_uid": "owner"}):
        with pytest.raises(InvalidRequestError, match="belongs to another filter or owner"):
            await world.page(page_token=token, **request)
    again = World()
    fill(again)
    with pytest.raises(InvalidRequestError) as caught:
        await again.page(page_token=token)
    assert caught.value.reason == "PAGE_TOKEN_INVALID"


@pytest.mark.parametrize("token", ["x", "AAAA", "ä", "=" * 8, "A" * 2000])
async def test_a_page_token_of_nobodys_is_refused(world: World, token: str) -> None:
    """With what to do."""
    fill(world)
    with pytest.raises(InvalidRequestError, match="none to begin anew") as caught:
        await world.page(page_token=token)
    assert caught.value.reason == "PAGE_TOKEN_INVALID"


async def test_a_page_token_that_was_altered_is_refused(world: World) -> None:
    """Whichever letter it was."""
    fill(world)
    token = (await world.page(page_size=2)).next_page_token
    for place in range(0, len(token) - 4, 7):
        letter = "A" if token[place] != "A" else "B"
        with pytest.raises(InvalidRequestError):
            await world.page(page_token=token[:place] + letter + token[place + 1 :])


SIZES = {0: 100, 1: 1, 99: 99, 5000: 1000}


@pytest.mark.parametrize("asked", SIZES)
def test_a_page_has_the_size_that_was_asked_for_within_bounds(asked: int) -> None:
    """Zero is the default."""
    assert page_size_of(asked, 100, 1000) == SIZES[asked]


def test_a_negative_page_size_is_refused() -> None:
    """With the default that there is."""
    with pytest.raises(InvalidRequestError, match="-1 is negative; use 0 for the default of 100"):
        page_size_of(-1, 100, 1000)
