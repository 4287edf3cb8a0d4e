"""Rules of reading requests: every broken rule is told, and what means the same is the same."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.informer.filters import Filter
from watchcache_server.model.errors import InvalidRequestError
from watchcache_server.model.specs import ExtensionKey, ExtensionSpec, ResourceWatch
from watchcache_server.model.states import Projection, View
from watchcache_server.serving import spec_conversion
from watchcache_server.serving.conversion import (
    extension_key,
    filter_of,
    seconds_of,
    to_duration,
    to_timestamp,
    view_of,
)
from watchcache_server.serving.spec_reader import SpecReader
from watchcache_server.settings import Settings

Spec, Item = extension_pb2.ExtensionSpec, extension_pb2.ResourceWatch
KEY = ExtensionKey("team-a", "shop")


async def read(message: Any, **settings: Any) -> ExtensionSpec:
    """Read a spec."""
    with closing(SpecReader(Settings(**settings), default_cluster="hub")) as reader:
        return await reader.read(KEY, message)


def spec(*items: Any, **fields: Any) -> Any:
    """Make a spec that names resources."""
    whole = {"service_account": "shop"} | fields
    return Spec(resources=extension_pb2.ResourceWatchSet(items=items), **whole)


def fields_of(error: pytest.ExceptionInfo[InvalidRequestError]) -> dict[str, str]:
    """Return the fields that are named, with what is said of each."""
    return {each.field: each.description for each in error.value.violations}


# Names, durations, views


def test_a_key_names_an_extension() -> None:
    """A DNS label and a DNS subdomain; both are told if both are wrong."""
    assert extension_key("team-a", "shop.v2") == ExtensionKey("team-a", "shop.v2")
    with pytest.raises(InvalidRequestError) as caught:
        extension_key("Team", "")
    assert set(fields_of(caught)) == {"namespace", "name"}


def test_durations_are_seconds() -> None:
    """From nothing to ten years."""
    assert seconds_of("wait", Duration()) == 0.0
    assert seconds_of("wait", Duration(seconds=2, nanos=500_000_000)) == 2.5
    for wrong in (Duration(seconds=-1), Duration(nanos=-1), Duration(seconds=10**10)):
        with pytest.raises(InvalidRequestError, match=r"wait: .* is out of range"):
            seconds_of("wait", wrong)


def test_times_go_out_as_they_came_in() -> None:
    """To the microsecond; what is not known is not set."""
    assert to_timestamp(None) is None
    assert to_duration(None) is None
    moment = to_timestamp(1_700_000_000.25)
    assert moment is not None
    assert (moment.seconds, moment.nanos) == (1_700_000_000, 250_000_000)
    length = to_duration(2.5)
    assert length is not None
    assert seconds_of("", length) == 2.5


VIEWS: dict[Any, View] = {
    event_pb2.VIEW_UNSPECIFIED: View.FULL,
    event_pb2.VIEW_FULL: View.FULL,
    event_pb2.VIEW_METADATA: View.METADATA,
    event_pb2.VIEW_KEY: View.KEY,
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_one_that_is_known(view: Any) -> None:
    """Not set is the whole object."""
    assert view_of(view) is VIEWS[view]


def test_a_view_of_the_future_is_refused() -> None:
    """It is not taken for another."""
    with pytest.raises(InvalidRequestError, match="99 is unknown here; use VIEW_FULL"):
        view_of(99)  # type: ignore[arg-type]


# Filters


def test_filters_that_mean_the_same_are_the_same() -> None:
    """Order and repetitions do not matter, nor how a selector is written."""
    first = pb.Filter(
        clusters=["hub", "edge", "hub"],
        resources=[pb.ResourceRef(resource="pods"), pb.ResourceRef(group="apps", resource="x")],
        namespaces=["b", "a"],
        label_selector="b in (2), a = 1",
    )
    second = pb.Filter(
        clusters=["edge", "hub"],
        resources=[pb.ResourceRef(group="apps", resource="x"), pb.ResourceRef(resource="pods")],
        namespaces=["a", "b", "a"],
        label_selector="a==1,b=2",
    )
    assert filter_of(first) == filter_of(second)
    assert filter_of(first).digest == filter_of(second).digest
    assert filter_of(pb.Filter()) == Filter()


def test_every_broken_rule_of_a_filter_is_told() -> None:
    """By its field."""
    wrong = pb.Filter(
        resources=[pb.ResourceRef(resource="pods"), pb.ResourceRef(group="apps")],
        namespaces=["Team"],
        label_selector="((",
    )
    with pytest.raises(InvalidRequestError) as caught:
        filter_of(wrong)
    assert set(fields_of(caught)) == {
        "filter.resources[1].resource",
        "filter.namespaces[0]",
        "filter.label_selector",
    }


@pytest.mark.parametrize(
    ("part", "entry"),
    [
        ("clusters", "hub"),
        ("resources", pb.ResourceRef(resource="pods")),
        ("namespaces", "team-a"),
    ],
)
def test_a_filter_has_so_many_entries(part: str, entry: Any) -> None:
    """More are refused before any is looked at: a message can hold millions."""
    assert filter_of(pb.Filter(**{part: [entry] * 10_000}))
    with pytest.raises(InvalidRequestError, match="10001 entries, more than the 10000") as caught:
        filter_of(pb.Filter(**{part: [entry] * 10_001}))
    assert list(fields_of(caught)) == [f"filter.{part}"]


def test_broken_rules_are_told_up_to_so_many() -> None:
    """Nobody reads more of them, and nothing further is checked."""
    with pytest.raises(InvalidRequestError) as caught:
        filter_of(pb.Filter(namespaces=["Team"] * 10_000))
    assert list(fields_of(caught)) == [f"filter.namespaces[{index}]" for index in range(100)]


# Specs


async def test_a_spec_is_read_as_it_is_meant() -> None:
    """With every field in its canonical form."""
    item = Item(
        group="apps",
        version="v1",
        kind="Deployment",
        namespaces=["b", "a", "b"],
        label_selector="a == 1",
        field_selector="metadata.name=x",
        projection=extension_pb2.PROJECTION_METADATA,
    )
    message = spec(item, clusters=["hub", "edge", "hub"], ttl=Duration(seconds=60))
    assert await read(message) == ExtensionSpec(
        service_account="shop",
        clusters=("edge", "hub"),
        resources=(
            ResourceWatch(
                group="apps",
                version="v1",
                resource="",
                kind="Deployment",
                namespaces=("a", "b"),
                label_selector="a=1",
                field_selector="metadata.name=x",
                projection="metadata",
            ),
        ),
        ttl_seconds=60.0,
    )


async def test_an_empty_spec_watches_nothing_on_the_default_cluster() -> None:
    """And lives for ever."""
    assert await read(Spec(service_account="shop")) == ExtensionSpec("shop", ("hub",), ())


async def test_specs_that_mean_the_same_are_the_same() -> None:
    """Whatever the order of their entries, and however often one is repeated."""
    pods, services = Item(resource="pods"), Item(resource="services")
    assert await read(spec(pods, services, pods)) == await read(spec(services, pods))


async def test_content_is_read_as_its_watch_set() -> None:
    """For the extension's own namespace, narrowed and projected as asked."""
    content = extension_pb2.ContentWatchSet(
        manifests=b"{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
        only_these_objects=True,
        projection=extension_pb2.PROJECTION_WITHOUT_MANAGED_FIELDS,
    )
    found = await read(Spec(service_account="shop", content=content))
    (watch,) = found.resources
    assert (watch.kind, watch.namespaces) == ("ConfigMap", ("team-a",))
    assert watch.field_selector == "metadata.name=c"
    assert watch.projection == Projection.WITHOUT_MANAGED_FIELDS.value


WRONG: dict[str, tuple[Any, str, str]] = {
    "no account": (Spec(), "spec.service_account", "is required"),
    "an account that is none": (Spec(service_account="A B"), "spec.service_account", "DNS"),
    "an empty cluster": (spec(clusters=["hub", ""]), "spec.clusters[1]", "is empty"),
    "a short ttl": (spec(ttl=Duration(nanos=5)), "spec.ttl", "at least 1 s"),
    "no type": (spec(Item(group="apps")), "spec.resources.items[0].resource", "is required"),
    "a group that is none": (
        spec(Item(group="A!", resource="pods")),
        "spec.resources.items[0].group",
        "DNS",
    ),
    "a version that is none": (
        spec(Item(version="V1", resource="pods")),
        "spec.resources.items[0].version",
        "DNS",
    ),
    "a resource that is none": (
        spec(Item(resource="Pods/log")),
        "spec.resources.items[0].resource",
        "DNS",
    ),
    "a kind that is none": (
        spec(Item(kind="Pod/x")),
        "spec.resources.items[0].kind",
        "letters and digits",
    ),
    "a namespace that is none": (
        spec(Item(resource="pods", namespaces=["a", "B"])),
        "spec.resources.items[0].namespaces[1]",
        "DNS",
    ),
    "a label selector": (
        spec(Item(resource="pods", label_selector="a in (")),
        "spec.resources.items[0].label_selector",
        "",
    ),
    "a field selector": (
        spec(Item(resource="pods", field_selector="name")),
        "spec.resources.items[0].field_selector",
        "path=value",
    ),
    "a projection of the future": (
        spec(Item(resource="pods", projection=77)),  # type: ignore[arg-type]
        "spec.resources.items[0].projection",
        "77 is unknown here",
    ),
    "a projection of content": (
        Spec(
            service_account="shop",
            content=extension_pb2.ContentWatchSet(projection=77),  # type: ignore[arg-type]
        ),
        "spec.content.projection",
        "77 is unknown here",
    ),
    "content that is none": (
        Spec(service_account="shop", content=extension_pb2.ContentWatchSet(manifests=b"a: [")),
        "spec.content.manifests",
        "not YAML",
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_broken_rule_of_a_spec_is_told_by_its_field(name: str) -> None:
    """With the rule or the mend."""
    message, field, words = WRONG[name]
    with pytest.raises(InvalidRequestError) as caught:
        await read(message)
    assert words in fields_of(caught)[field]


async def test_all_broken_rules_are_told_at_once() -> None:
    """Of all entries."""
    message = spec(Item(), Item(resource="pods", namespaces=["A"]), service_account="")
    with pytest.raises(InvalidRequestError) as caught:
        await read(message)
    assert len(fields_of(caught)) == 3


async def test_a_negative_ttl_is_refused() -> None:
    """As any duration is."""
    with pytest.raises(InvalidRequestError, match=r"spec\.ttl"):
        await read(spec(ttl=Duration(seconds=-1)))


async def test_broken_rules_of_a_spec_are_told_up_to_so_many() -> None:
    """Those of the rest of the request come first."""
    message = spec(*(Item(namespaces=["Team"] * 3) for _ in range(400)))
    with pytest.raises(InvalidRequestError) as caught:
        await read(message)
    assert len(fields_of(caught)) == 100


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(spec(*(Item(resource="pods") for _ in range(10_001))), id="resources"),
        pytest.param(spec(Item(resource="pods", namespaces=["a"] * 10_000)), id="namespaces"),
        pytest.param(spec(clusters=["hub"] * 10_001), id="clusters"),
    ],
)
async def test_a_spec_has_so_many_entries(message: Spec) -> None:
    """Those that are there twice count, since each takes time; max_sources allows for more."""
    with pytest.raises(InvalidRequestError, match="10001 clusters, resources and names") as caught:
        await read(message)
    assert caught.value.reason == "SPEC_TOO_LARGE"
    assert await read(message, max_sources=6_000)


async def test_a_spec_has_a_largest_size() -> None:
    """The setting is named."""
    message = spec(*(Item(resource=f"r{number}") for number in range(500)))
    with pytest.raises(InvalidRequestError, match="raise the setting max_spec_bytes") as caught:
        await read(message, max_spec_bytes=1024)
    assert caught.value.reason == "SPEC_TOO_LARGE"


async def test_whoever_reads_as_the_user_needs_no_account() -> None:
    """And may not name one, since it would not be used."""
    assert (await read(Spec(), identity="caller")).service_account == ""
    with pytest.raises(InvalidRequestError, match="identity = caller"):
        await read(Spec(service_account="shop"), identity="caller")


async def test_specs_are_read_beside_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one thread, one after the other, however many are registered at once."""
    threads: set[int] = set()
    check = spec_conversion._check_identity

    def note(*arguments: Any) -> None:
        threads.add(threading.get_ident())
        check(*arguments)

    monkeypatch.setattr(spec_conversion, "_check_identity", note)
    with closing(SpecReader(Settings(), default_cluster="hub")) as reader:
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(reader.read(KEY, spec(Item(resource="pods"))))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_a_reader_that_is_closed_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread belongs to whoever opened the reader, and ends with it."""
    readers: list[threading.Thread] = []
    check = spec_conversion._check_identity

    def note(*arguments: Any) -> None:
        readers.append(threading.current_thread())
        check(*arguments)

    monkeypatch.setattr(spec_conversion, "_check_identity", note)
    await read(spec(Item(resource="pods")))
    [thread] = readers
    await asyncio.to_thread(thread.join, 60.0)
    assert not thread.is_alive()


def test_who_asks_for_the_same_shares_a_filter() -> None:
    """A thousand streams alike have one filter, with what it has worked out."""
    one, same = (filter_of(pb.Filter(namespaces=names)) for names in (["b", "a"], ["a", "b", "a"]))
    assert one is same
    assert filter_of(pb.Filter(namespaces=["a"])) is not one
