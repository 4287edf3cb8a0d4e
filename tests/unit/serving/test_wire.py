"""What is written by hand is byte for byte what the generated classes write."""

from __future__ import annotations

import itertools

import pytest

from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.informer.compression import PLAIN
from watchcache_server.informer.cursors import Event
from watchcache_server.informer.entries import Entry
from watchcache_server.informer.objects import Item
from watchcache_server.informer.source import Source
from watchcache_server.informer.texts import Texts
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import EventKind, LeftReason, View
from watchcache_server.serving.wire import batch_message, event_field, object_field

_METADATA = b'{"name":"web","labels":{"a":"\xc3\xa4"},"managedFields":[{"manager":"x"}]}'
_BODY = b'{"apiVersion":"apps/v1","kind":"Deployment","metadata":' + _METADATA + b',"n":1e400}'
_METADATA_BODY = (
    b'{"apiVersion":"apps/v1","kind":"Deployment",'
    b'"metadata":{"name":"web","labels":{"a":"\xc3\xa4"}}}'
)


def source(*, group: str = "apps", namespaced: bool = True) -> Source:
    """Make a source that discovery has described."""
    spec = SourceSpec("hub", group, "", "deployments", "", "", "", "", "full")
    made = Source(1, spec)
    made.served = ServedResource(
        group=group,
        version="v1",
        resource="deployments",
        kind="Deployment",
        is_namespaced=namespaced,
        verbs=frozenset({"list", "watch"}),
    )
    return made


def entry(*, namespace: str = "team-a", body: bytes = _BODY) -> Entry:
    """Make an entry."""
    return Entry.of(Item(namespace, "web", "uid-1", "17", {}, (), body), PLAIN, "v1", Texts())


def expected_object(group: str, namespace: str, view: View, body: bytes) -> event_pb2.Object:
    """Return what the message should hold."""
    message = event_pb2.Object(
        key=event_pb2.ObjectKey(
            cluster="hub",
            group=group,
            resource="deployments",
            namespace=namespace,
            name="web",
        ),
        uid="uid-1",
        resource_version="17",
        version="v1",
    )
    if view is View.FULL:
        message.json = body
    elif view is View.METADATA:
        message.metadata_json = _METADATA_BODY
    return message


@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize("group", ["", "apps"])
@pytest.mark.parametrize("namespace", ["", "team-a"])
def test_an_object_is_the_generated_encoding(view: View, group: str, namespace: str) -> None:
    """Empty strings are left out, and each view has its own body."""
    encoded = b"".join(object_field(source(group=group), entry(namespace=namespace), view))
    assert encoded == expected_object(group, namespace, view, _BODY).SerializeToString()


CASES = [
    (EventKind.ADDED, None, False),
    (EventKind.MODIFIED, None, False),
    (EventKind.DELETED, None, True),
    *((EventKind.LEFT, reason, False) for reason in LeftReason),
]


@pytest.mark.parametrize(("kind", "reason", "is_unknown"), CASES)
@pytest.mark.parametrize("revision", [1, 127, 128, 2**40])
def test_an_event_is_the_generated_encoding(
    kind: EventKind, reason: LeftReason | None, is_unknown: bool, revision: int
) -> None:
    """Every kind, every reason, and revisions of any length."""
    event = Event(kind, source(), entry(), revision, reason, is_unknown)
    message = pb.WatchResponse.FromString(batch_message([event_field(event, View.FULL)], b"token"))
    (found,) = message.batch.events
    assert found.type == event_pb2.EventType.Value(f"EVENT_TYPE_{kind.name}")
    if reason is not None:
        assert found.left_reason == event_pb2.LeftReason.Value(f"LEFT_REASON_{reason.name}")
    assert (found.revision, found.final_state_unknown) == (revision, is_unknown)
    assert message.batch.resume_token == b"token"
    # Encoding what was read must give the same bytes: no field is out of order or doubled.
    assert batch_message([event_field(event, View.FULL)], b"token") == message.SerializeToString()


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 3_000_000])
def test_bodies_of_any_length_are_framed_right(size: int) -> None:
    """Lengths around the steps of a varint."""
    body = b"{" + b" " * size + b"}"
    events = [
        Event(EventKind.ADDED, source(), entry(body=body), revision, None, False)
        for revision in (1, 2)
    ]
    encoded = batch_message([event_field(each, View.FULL) for each in events], b"")
    message = pb.WatchResponse.FromString(encoded)
    assert [each.object.json for each in message.batch.events] == [body, body]
    assert message.SerializeToString() == encoded


def test_each_kind_and_reason_has_a_number() -> None:
    """The tables cover the enums of the core and of the contract."""
    for kind, reason in itertools.product(EventKind, LeftReason):
        event_field(Event(kind, source(), entry(), 1, reason, False), View.KEY)
    assert len(event_pb2.EventType.keys()) == len(EventKind) + 1
    assert len(event_pb2.LeftReason.keys()) == len(LeftReason) + 1
