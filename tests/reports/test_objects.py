"""Reports of what a cache holds: lost and doubled changes, large objects, memory.

Each test is named after its report, and says what must hold instead.
"""

from __future__ import annotations

import gc
import json
import tracemalloc
import weakref

import pytest

from tests.items import item, served, source_spec
from tests.realistic import pod
from watchcache_server.informer.bodies import ListBody
from watchcache_server.informer.decoding import Added, EventDecoder, ItemDecoder, Modified
from watchcache_server.informer.history import Change
from watchcache_server.informer.objects import Item, Remove, Upsert
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Store
from watchcache_server.informer.streams import EventStream
from watchcache_server.model.states import EventKind, LeftReason, Projection

ADDED, MODIFIED, DELETED, LEFT = EventKind


class Held:
    """A store with one source that has synced, and what was told since."""

    def __init__(self, *objects: Item, label_selector: str = "", max_changes: int = 1000) -> None:
        self.store = Store(b"epoch-01", max_changes=max_changes, max_history_bytes=1 << 20)
        spec = source_spec(label_selector=label_selector)
        self.source: Source = self.store.add_source(spec)
        self.relist(*objects)
        self._begun = self.store.revision

    def relist(self, *objects: Item) -> None:
        """Let a list bring exactly these objects."""
        self.source.stage(objects)
        self.store.commit(self.source, 1.0)

    @property
    def changes(self) -> list[Change]:
        """What was told since the first sync."""
        return list(self.store.history.since(self._begun))

    @property
    def told(self) -> list[tuple[EventKind, str, str]]:
        """Kind, name and version of what was told since the first sync."""
        return [(c.kind, c.entry.name, c.entry.resource_version) for c in self.changes if c.entry]


# Changes


def test_kubernetes_86015_what_a_relist_finds_changed_is_a_change() -> None:
    """kubernetes/kubernetes#86015, #83810: by its version; what is the same is not told again."""
    held = Held(item("a", uid="1", version="5"), item("b", uid="2", version="6"))
    held.relist(item("a", uid="1", version="9"), item("b", uid="2", version="6"))
    assert held.told == [(MODIFIED, "a", "9")]


def test_kubernetes_123072_a_delete_that_the_server_never_told_is_found() -> None:
    """kubernetes/kubernetes#123072: the next list tells it, without a restart of anything."""
    held = Held(item("a", uid="1"), item("b", uid="2"))
    held.relist(item("b", uid="2"))
    assert [(kind, name) for kind, name, _ in held.told] == [(DELETED, "a")]
    assert held.source.table.get("default", "a") is None


@pytest.mark.parametrize("way", ["stream", "relist", "recreated"])
def test_meshsync_102_a_deletion_has_one_shape(way: str) -> None:
    """meshery/meshsync#102: however it was learned, it is a DELETED with the last known object."""
    held = Held(item("a", uid="1", version="5"))
    if way == "stream":
        held.store.apply(held.source, [Remove(item("a", uid="1", version="6"))], 2.0)
    elif way == "relist":
        held.relist()
    else:
        held.store.apply(held.source, [Upsert(item("a", uid="2", version="7"))], 2.0)
    gone = held.changes[0]
    assert type(gone) is Change
    assert gone.kind is DELETED
    assert gone.entry is not None
    assert (gone.entry.name, gone.entry.uid) == ("a", "1")
    assert json.loads(gone.entry.body())["metadata"]["uid"] == "1"


def test_open_sandbox_1673_an_answer_to_a_question_writes_no_object() -> None:
    """opensandbox-group/OpenSandbox#1673: only lists and watches do, so none is older than told.

    What is asked for by name is asked only whether it is there. A late answer changes nothing that
    the stream has brought meanwhile.
    """
    labels = {"app": "web"}
    held = Held(item("a", uid="1", version="5", labels=labels), label_selector="app=web")
    held.store.apply(held.source, [Remove(item("a", uid="1", version="6"))], 2.0)
    [asked] = held.source.unverified
    newer = item("a", uid="1", version="9", labels=labels)
    held.store.apply(held.source, [Upsert(newer, is_addition=True)], 3.0)
    for is_deleted in (True, False):
        held.store.resolve(held.source, asked, 4.0, is_deleted=is_deleted)
    assert held.told == [(MODIFIED, "a", "9")]


# Memory


def test_java_912_a_relist_of_equal_objects_adds_nothing() -> None:
    """kubernetes-client/java#912: neither to what is told nor to what is kept."""
    things = [item(f"o{n}", uid=str(n), version=str(n)) for n in range(1, 200)]
    held = Held(*things)
    before = (held.store.revision, held.source.raw_bytes, held.source.stored_bytes)
    entry = held.source.table.get("default", "o7")
    for _ in range(5):
        held.relist(*things)
    assert (held.store.revision, held.source.raw_bytes, held.source.stored_bytes) == before
    assert held.source.table.get("default", "o7") is entry


def test_client_go_1326_a_reader_that_stands_still_keeps_nothing_alive() -> None:
    """kubernetes/client-go#1326, kubernetes/kubernetes#137314: what is kept for it is bounded."""
    held = Held(item("a", uid="1", version="1"), max_changes=50)
    for version in range(2, 5000):
        held.store.apply(held.source, [Upsert(item("a", uid="1", version=str(version)))], 2.0)
    assert len(list(held.store.history.since(held.store.revision - 50))) == 50
    assert not held.store.history.covers(held.store.revision - 51)


def test_kubernetes_102718_an_object_keeps_nothing_of_its_list() -> None:
    """kubernetes/kubernetes#102718, #102874: one object that stays costs its own size."""
    objects = [pod(n) for n in range(300)]
    body = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":['
    body += b",".join(objects) + b"]}"
    decoder = ItemDecoder(api_version="v1", kind="Pod", projection=Projection.FULL)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        reader = ListBody(decoder)
        kept: list[Item] = []
        for start in range(0, len(body), 65536):
            kept += reader.feed(body[start : start + 65536])[:1]
        del reader
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept
    own = sum(len(thing.body) for thing in kept)
    assert after - before < 2 * own + 64 * 1024
    assert own < len(body) / 4


def test_aws_load_balancer_controller_3919_a_list_costs_no_memory_of_its_size() -> None:
    """kubernetes-sigs/aws-load-balancer-controller#3919: it is read piece by piece."""
    objects = [pod(n) for n in range(600)]
    decoder = ItemDecoder(api_version="v1", kind="Pod", projection=Projection.FULL)
    reader = ListBody(decoder)
    reader.feed(b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[')
    size = count = 0
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number, body in enumerate(objects):
            size += len(body)
            count += len(reader.feed(body if number == 0 else b"," + body))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    count += len(reader.feed(b"]}")) + len(reader.finish()[0])
    assert count == 600
    assert peak - before < size / 10


def test_fabric8_5626_a_source_that_ends_leaves_nothing() -> None:
    """fabric8io/kubernetes-client#5626: however often informers come and go."""
    store = Store(b"epoch-01", max_changes=10, max_history_bytes=1 << 20)
    ended = []
    for _ in range(20):
        source = store.add_source(source_spec())
        store.bind(source, served())
        source.stage([item("a"), item("b")])
        store.commit(source, 1.0)
        store.remove_source(source, LeftReason.SCOPE, 2.0)
        ended.append(weakref.ref(source))
        del source
    store.drop()
    gc.collect()
    assert [source() for source in ended] == [None] * 20


# Large and long


@pytest.mark.parametrize("size", [64 << 10, 128 << 10, 512 << 10, 1536 << 10])
def test_kopf_275_an_event_may_be_as_long_as_an_object(size: int) -> None:
    """zalando-incubator/kopf#275, tomplus/kubernetes_asyncio#137: no buffer of a reader limits it.

    In the pieces of a network, and with the next event right behind it.
    """
    stream = EventStream(
        EventDecoder(api_version="v1", kind="ConfigMap", projection=Projection.FULL)
    )
    lines = b""
    for version in ("1", "2"):
        metadata = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": version}
        thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        lines += json.dumps({"type": "MODIFIED", "object": thing | {"x": "y" * size}}).encode()
        lines += b"\n"
    events = [e for at in range(0, len(lines), 16384) for e in stream.feed(lines[at : at + 16384])]
    assert [type(event) for event in events] == [Modified, Modified]


@pytest.mark.parametrize("projection", [Projection.METADATA, Projection.WITHOUT_MANAGED_FIELDS])
def test_odigos_4573_managed_fields_are_never_kept_where_they_are_not_wanted(
    projection: Projection,
) -> None:
    """odigos-io/odigos#4573: they are most of what metadata takes, so they go before the store."""
    managed = [{"manager": "kubelet", "fieldsV1": {f"f:{n}": {} for n in range(4000)}}]
    metadata = {"name": "a", "uid": "u", "resourceVersion": "1", "managedFields": managed}
    line = json.dumps(
        {"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}}
    ).encode()
    assert len(line) > 40_000
    event = EventDecoder(api_version="v1", kind="Pod", projection=projection).decode(line)
    assert isinstance(event, Added)
    assert len(event.item.body) < 200
