"""What a subscriber keeps in order to go on."""

from __future__ import annotations

from bench.holder import Holder
from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb


def batch(kind: event_pb2.EventType.ValueType, version: str, token: bytes = b"") -> Holder:
    """Return a holder of one pod that was told of one change of it."""
    holder = Holder()
    holder.apply(_message(event_pb2.EVENT_TYPE_ADDED, "1", b"first"))
    holder.apply(_message(kind, version, token))
    return holder


def _message(kind: event_pb2.EventType.ValueType, version: str, token: bytes) -> pb.WatchResponse:
    key = event_pb2.ObjectKey(resource="pods", namespace="team", name="one")
    changed = event_pb2.Object(key=key, uid="a", resource_version=version)
    event = event_pb2.Event(type=kind, object=changed)
    return pb.WatchResponse(batch=pb.EventBatch(events=[event], resume_token=token))


def test_the_latest_version_is_held() -> None:
    """A change replaces what was held of the object."""
    holder = batch(event_pb2.EVENT_TYPE_MODIFIED, "2")
    assert [each.resource_version for each in holder.held] == ["2"]


def test_what_is_gone_is_not_held() -> None:
    """Deleted and out of view are both no longer to be uploaded."""
    assert batch(event_pb2.EVENT_TYPE_DELETED, "2").held == []
    assert batch(event_pb2.EVENT_TYPE_LEFT, "2").held == []


def test_the_last_token_that_came_counts() -> None:
    """A message without one leaves the token that was there."""
    assert batch(event_pb2.EVENT_TYPE_MODIFIED, "2").token == b"first"
    assert batch(event_pb2.EVENT_TYPE_MODIFIED, "2", b"second").token == b"second"
