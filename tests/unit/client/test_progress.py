"""Where a watch goes on, and what follows a failure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.client.fake_service import (
    batch,
    bookmark,
    draining,
    event,
    known_gone,
    reset,
    source,
    started,
    synced,
)
from watchcache import (
    Backoff,
    Batch,
    Bookmark,
    DeregisteredError,
    EventType,
    InternalError,
    InvalidArgumentError,
    KnownGone,
    LeftReason,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
    Reset,
    ResourceExhaustedError,
    SourceChanged,
    Started,
    StartMode,
    Synced,
    UnavailableError,
    WatchCacheError,
)
from watchcache.details import StatusDetails
from watchcache.objects import decode_json
from watchcache.progress import Retry, WatchProgress
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2


def _progress(*, can_register: bool = True, token: bytes = b"") -> WatchProgress[dict[str, Any]]:
    return WatchProgress(
        decode_json,
        backoff=Backoff(1.0, 8.0, draw=lambda: 1.0),
        bookmark_interval_seconds=30.0,
        patience_seconds=5.0,
        can_register=can_register,
        resume_token=token,
    )


def test_the_newest_token_is_kept() -> None:
    """Whatever carries a token moves the place to go on from."""
    progress = _progress()
    seen = []
    for response in (
        started(),
        batch(event("ADDED", "a")),
        synced(b"t0"),
        batch(event("MODIFIED", "a", rv=2), token=b"t1"),
        bookmark(b"t2"),
        source(),
        draining(b"t3"),
    ):
        progress.receive(response)
        seen.append(progress.resume_token)
    assert seen == [b"", b"", b"t0", b"t1", b"t2", b"t2", b"t3"]


@pytest.mark.parametrize("response", [started("SNAPSHOT"), reset()], ids=["snapshot", "reset"])
def test_a_new_snapshot_voids_the_token(response: service_pb2.WatchResponse) -> None:
    """While a snapshot is under way there is nothing to resume: a break begins it anew."""
    progress = _progress(token=b"t0")
    progress.receive(response)
    progress.receive(batch(event("ADDED", "a")))
    progress.receive(bookmark(b""))
    progress.receive(draining(b""))
    assert progress.resume_token == b""


def test_a_resumed_stream_keeps_its_token() -> None:
    """Until something new is applied, the old place is the right one."""
    progress = _progress(token=b"t0")
    progress.receive(started("RESUMED"))
    progress.receive(source())
    assert progress.resume_token == b"t0"


def test_messages_are_typed_and_snapshots_marked() -> None:
    """The consumer gets a class for each message, and draining is none of its business."""
    progress = _progress()
    received = [
        progress.receive(response)
        for response in (
            started(),
            source(),
            batch(event("ADDED", "a")),
            synced(),
            batch(event("MODIFIED", "a", rv=2), token=b"t1"),
            bookmark(b"t2"),
            reset(),
            batch(event("ADDED", "a")),
            draining(b"t3"),
            service_pb2.WatchResponse(),
        )
    ]
    types = [type(message) for message in received if message]
    assert types == [Started, SourceChanged, Batch, Synced, Batch, Bookmark, Reset, Batch]
    assert received[-2:] == [None, None]
    marks = [message.is_snapshot for message in received if isinstance(message, Batch)]
    assert marks == [True, False, True]


def test_silence_is_measured_by_the_interval_in_force() -> None:
    """The service may bring the interval into its bounds; its word counts."""
    progress = _progress()
    assert progress.silence_limit_seconds == 50
    progress.receive(started(interval=10))
    assert progress.silence_limit_seconds == 20
    progress.receive(started(interval=0))
    assert progress.silence_limit_seconds == 20


def test_retries_wait_longer_until_there_is_progress() -> None:
    """Only a new token shows that the service works again."""
    progress = _progress()
    error = UnavailableError("away")
    assert [progress.fail(error).delay_seconds for _ in range(5)] == [1, 2, 4, 8, 8]
    progress.receive(started())
    assert progress.fail(error).delay_seconds == 8
    progress.receive(synced(b"t0"))
    assert progress.fail(error) == Retry(1.0, False, 1.0)


def test_the_wait_that_the_service_asks_for_is_kept() -> None:
    """RetryInfo is a lower bound; all who were told the same are spread beyond it."""
    error = ResourceExhaustedError("full", details=StatusDetails(retry_delay_seconds=3.0))
    progress = _progress()
    assert [progress.fail(error).delay_seconds for _ in range(3)] == [4, 5, 7]


def test_a_lost_extension_is_registered_again() -> None:
    """At once the first time, since a service that is back is waiting for it; then with waits."""
    progress = _progress(token=b"t0")
    error = NotFoundError("gone", reason="EXTENSION_NOT_FOUND")
    assert progress.fail(UnavailableError("restarting")).delay_seconds == 1
    assert progress.fail(error) == Retry(0.0, has_to_register=True)
    assert progress.fail(error) == Retry(4.0, True, 1.0)
    assert progress.resume_token == b"t0"


def test_a_missing_service_account_is_not_hurried() -> None:
    """Each registration makes the service ask for a token, so these tries are rare."""
    progress = _progress()
    error = NotFoundError("gone", reason="EXTENSION_SERVICE_ACCOUNT_GONE")
    assert progress.fail(error) == Retry(15.0, True, 1.0)


@pytest.mark.parametrize(
    ("error", "can_register"),
    [
        (DeregisteredError("by hand", reason="EXTENSION_DEREGISTERED"), True),
        (NotFoundError("not ours", reason="EXTENSION_NOT_FOUND"), False),
        (InvalidArgumentError("bad token"), True),
        (PermissionDeniedError("no"), True),
    ],
    ids=["deregistered", "not registered here", "invalid", "denied"],
)
def test_what_waiting_cannot_mend_is_raised(error: WatchCacheError, can_register: bool) -> None:
    """A decision of somebody, or a wrong request, is for the consumer to know."""
    with pytest.raises(type(error)) as caught:
        _progress(can_register=can_register).fail(error)
    assert caught.value is error


def test_a_fault_of_the_service_is_waited_out() -> None:
    """INTERNAL is retried with backoff, as the contract says."""
    assert _progress().fail(InternalError("oops")) == Retry(1.0, False, 1.0)


def test_what_a_token_no_longer_leads_to_is_asked_for_by_what_is_held() -> None:
    """At once, without the token; the extension is there and is not registered."""
    progress = _progress(token=b"t0")
    lost = OutOfRangeError("too old", reason="RESUME_LOST")
    assert progress.fail(UnavailableError("away")).delay_seconds == 1
    assert progress.fail(lost) == Retry(0.0, has_to_register=False)
    assert progress.resume_token == b""
    assert progress.fail(UnavailableError("away")).delay_seconds == 2, "it was no failure"


@pytest.mark.parametrize("can_register", [True, False])
def test_an_upload_that_has_expired_is_tried_again(can_register: bool) -> None:
    """After a wait; it says nothing of the extension, which is not registered."""
    progress = _progress(can_register=can_register)
    expired = NotFoundError("used", reason="KNOWN_NOT_FOUND")
    assert progress.fail(expired) == Retry(1.0, False, 1.0)
    assert progress.fail(expired) == Retry(2.0, False, 1.0)


def test_a_difference_keeps_what_is_held_and_gives_up_the_token() -> None:
    """Its batches are no snapshot; what it leads to is known with Synced or a later bookmark."""
    progress = _progress(token=b"t0")
    start = progress.receive(started("DIFFERENCE"))
    assert isinstance(start, Started)
    assert start.mode is StartMode.DIFFERENCE
    tokens = [progress.resume_token]
    for response in (batch(event("ADDED", "a")), synced(b""), bookmark(b""), bookmark(b"t1")):
        message = progress.receive(response)
        assert not (isinstance(message, Batch) and message.is_snapshot)
        tokens.append(progress.resume_token)
    assert tokens == [b"", b"", b"", b"", b"t1"]


def test_a_difference_after_a_broken_snapshot_is_none() -> None:
    """What was collected is gone with the stream."""
    progress = _progress()
    progress.receive(started())
    progress.receive(started("DIFFERENCE"))
    message = progress.receive(batch(event("ADDED", "a")))
    assert isinstance(message, Batch)
    assert not message.is_snapshot


_GONE = {
    "deleted": ("DELETED", "UNSPECIFIED", None),
    "a reason of no meaning": ("DELETED", "SCOPE", None),
    "left": ("LEFT", "KIND_GONE", LeftReason.KIND_GONE),
}


@pytest.mark.parametrize("name", _GONE)
def test_what_is_gone_comes_by_ids(name: str) -> None:
    """Sixteen bytes each; a reason belongs to LEFT alone."""
    kind, left, reason = _GONE[name]
    first, second = bytes(range(16)), bytes(range(16, 32))
    message = _progress().receive(known_gone(first, second, kind=kind, left=left))
    place = ("pods", "hub", "team-a")
    assert message == KnownGone(EventType(kind), reason, *place, (first, second))


def test_batches_of_who_catches_up_are_marked() -> None:
    """A reader may want to know that each event stands for several."""
    progress = _progress()
    response = batch(event("ADDED", "a"))
    response.batch.coalesced = True
    marks = [progress.receive(each) for each in (response, batch(event("ADDED", "b")))]
    assert [isinstance(each, Batch) and each.is_coalesced for each in marks] == [True, False]


def test_a_move_to_another_connection_is_silent() -> None:
    """At once, since the service has spread them; but once only until it has sent a token."""
    progress = _progress(token=b"t0")
    aged = UnavailableError("old", reason="CONNECTION_AGED")
    progress.receive(draining(b"t1"))
    assert progress.fail(aged) == Retry(0.0, has_to_register=False, is_silent=True)
    assert progress.resume_token == b"t1"
    assert progress.fail(aged) == Retry(2.0, False, 1.0)
    progress.receive(draining(b"t2"))
    assert progress.fail(aged).is_silent
