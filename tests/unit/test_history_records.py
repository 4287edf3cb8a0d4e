"""The records of a history are read from the wire and from the client alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.histories import GOLD, RESUMED, SNAPSHOT, batch, change
from tests.history_records import (
    Batch,
    Bookmark,
    Change,
    Draining,
    Record,
    Reset,
    Synced,
    records_of,
    records_of_client,
)
from watchcache.backoff import Backoff
from watchcache.objects import decode_json
from watchcache.progress import WatchProgress
from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2


def event_message(each: Change) -> event_pb2.Event:
    """Write an event as it is on the wire."""
    key = each.key
    reasons = {"": event_pb2.LEFT_REASON_UNSPECIFIED, "SELECTION": event_pb2.LEFT_REASON_SELECTION}
    return event_pb2.Event(
        type=event_pb2.EventType.Value(f"EVENT_TYPE_{each.kind.value}"),
        object=event_pb2.Object(
            key=event_pb2.ObjectKey(
                cluster=key.cluster,
                group=key.group,
                resource=key.resource,
                namespace=key.namespace,
                name=key.name,
            ),
            uid=each.uid,
            resource_version=each.resource_version,
        ),
        revision=each.revision,
        left_reason=reasons[each.left_reason.removeprefix("LEFT_REASON_")],
        final_state_unknown=each.final_state_unknown,
    )


def wire() -> Iterator[service_pb2.WatchResponse]:
    """Write a stream with every kind of message."""
    response = service_pb2.WatchResponse
    first = event_message(change("ADDED", 1))
    second = event_message(change("LEFT", 2))
    yield response(started=service_pb2.Started(mode=service_pb2.START_MODE_SNAPSHOT))
    yield response(source_status=extension_pb2.SourceStatus())
    yield response(batch=service_pb2.EventBatch(events=[first]))
    yield response(synced=service_pb2.Synced(resume_token=b"1"))
    yield response(batch=service_pb2.EventBatch(events=[second], resume_token=b"2"))
    yield response(bookmark=service_pb2.Bookmark(resume_token=b"3"))
    yield response(reset=service_pb2.Reset(reason=service_pb2.RESET_REASON_HISTORY_EXPIRED))
    yield response(synced=service_pb2.Synced(resume_token=b"4"))
    yield response(draining=service_pb2.Draining(resume_token=b"4"))


def test_messages_of_the_wire_are_read() -> None:
    """Each message of the contract is a record, but for the states of sources."""
    records = [record for response in wire() for record in records_of(response)]
    assert records == [
        SNAPSHOT,
        batch(change("ADDED", 1), has_token=False),
        Synced(),
        batch(change("LEFT", 2, reason="LEFT_REASON_SELECTION")),
        Bookmark(),
        Reset(),
        Synced(),
        Draining(),
    ]
    resumed = service_pb2.Started(mode=service_pb2.START_MODE_RESUMED)
    assert list(records_of(service_pb2.WatchResponse(started=resumed))) == [RESUMED]


@pytest.mark.parametrize(
    ("body", "labels"),
    [
        pytest.param({"json": b'{"metadata":{"labels":{"tier":"gold"}}}'}, GOLD, id="whole"),
        pytest.param(
            {"metadata_json": b'{"metadata":{"labels":{"tier":"gold"}}}'}, GOLD, id="part"
        ),
        pytest.param({"json": b'{"metadata":{}}'}, {}, id="none"),
        pytest.param({}, None, id="no body"),
    ],
)
def test_labels_are_read_where_they_are_wanted(
    body: dict[str, bytes], labels: dict[str, str] | None
) -> None:
    """A selector is checked against the labels in the body that came."""
    message = event_message(change("ADDED", 1))
    message.object.MergeFrom(event_pb2.Object(**body))  # type: ignore[arg-type]
    response = service_pb2.WatchResponse(batch=service_pb2.EventBatch(events=[message]))
    (record,) = records_of(response, reads_labels=True)
    assert isinstance(record, Batch)
    assert record.changes[0].labels == labels
    (record,) = records_of(response)
    assert isinstance(record, Batch)
    assert record.changes[0].labels is None


def test_messages_of_the_client_are_read() -> None:
    """What the Python client makes of a stream is the same history."""
    progress = WatchProgress(
        decode_json,
        backoff=Backoff(),
        bookmark_interval_seconds=30.0,
        patience_seconds=1.0,
        can_register=False,
    )
    records: list[Record] = []
    for response in wire():
        before = progress.resume_token
        message = progress.receive(response)
        has_token = progress.resume_token not in (before, b"")
        if message is not None:
            records += records_of_client(message, has_token=has_token)
    assert records == [
        SNAPSHOT,
        batch(change("ADDED", 1), has_token=False),
        Synced(),
        batch(change("LEFT", 2)),
        Bookmark(),
        Reset(),
        Synced(),
    ]
