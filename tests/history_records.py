"""The records of a Watch stream: what its receiver was told, without the bodies.

They are read from the messages of the wire (`records_of`) or from what the Python client yields
(`records_of_client`), or made by hand; `history_checker` judges them.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from watchcache import messages
from watchcache.holdings import ID_BYTES
from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

__all__ = [
    "Batch",
    "Bookmark",
    "Change",
    "Disconnected",
    "Draining",
    "Gone",
    "Key",
    "Kind",
    "Record",
    "Reset",
    "Started",
    "Synced",
    "records_of",
    "records_of_client",
]


class Key(NamedTuple):
    """Names one object of an extension."""

    cluster: str
    group: str
    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{kind} {self.cluster}/{self.namespace}/{self.name}"


class Kind(enum.Enum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    LEFT = "LEFT"


@dataclass(frozen=True, slots=True)
class Change:
    """One event."""

    kind: Kind
    key: Key
    uid: str
    resource_version: str
    revision: int
    left_reason: str = ""
    final_state_unknown: bool = False
    labels: Mapping[str, str] | None = None
    """The object's labels; None where they are not known."""

    def __str__(self) -> str:
        flags = f"{self.left_reason} {'final_state_unknown' if self.final_state_unknown else ''}"
        return (
            f"{self.kind.value} {self.key} uid {self.uid} rv {self.resource_version} "
            f"revision {self.revision} {flags}"
        ).strip()


@dataclass(frozen=True, slots=True)
class Started:
    """A stream begins, perhaps with the difference to what its receiver said that it holds."""

    is_resumed: bool
    is_difference: bool = False
    extension_uid: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """Objects of which the receiver said that it holds them are gone, by their ids."""

    kind: Kind
    ids: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes to be applied together, and whether a resume token came with them.

    `is_coalesced`: each stands for all that happened to its object, which may be held or not.
    """

    changes: tuple[Change, ...]
    has_token: bool
    is_coalesced: bool = False

    def __str__(self) -> str:
        told = ", ".join(map(str, self.changes))
        what = "Coalesced batch" if self.is_coalesced else "Batch"
        return f"{what}{'' if self.has_token else ' without a token'}: {told}"


@dataclass(frozen=True, slots=True)
class Synced:
    """The snapshot is complete, or all that was missed has come."""

    has_token: bool = True


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All was delivered; the token is empty only within a snapshot or while a source is loaded."""

    has_token: bool = True


@dataclass(frozen=True, slots=True)
class Reset:
    """The past is lost; a snapshot follows."""


@dataclass(frozen=True, slots=True)
class Draining:
    """The service is about to end the stream."""

    has_token: bool = True


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The stream ended, for whatever reason."""


Record = Gone | Started | Batch | Synced | Bookmark | Reset | Draining | Disconnected


_KINDS = {
    event_pb2.EVENT_TYPE_ADDED: Kind.ADDED,
    event_pb2.EVENT_TYPE_MODIFIED: Kind.MODIFIED,
    event_pb2.EVENT_TYPE_DELETED: Kind.DELETED,
    event_pb2.EVENT_TYPE_LEFT: Kind.LEFT,
}


def records_of(
    response: service_pb2.WatchResponse, *, reads_labels: bool = False
) -> Iterator[Record]:
    """Read a message of the stream; SourceStatus says nothing of objects and gives no record.

    With `reads_labels` the labels are taken from the bodies, where there are any.
    """
    match response.WhichOneof("response"):
        case "started":
            started = response.started
            yield Started(
                is_resumed=started.mode == service_pb2.START_MODE_RESUMED,
                is_difference=started.mode == service_pb2.START_MODE_DIFFERENCE,
                extension_uid=started.extension_uid,
            )
        case "known_gone":
            gone = response.known_gone
            starts = range(0, len(gone.ids), ID_BYTES)
            ids = frozenset(gone.ids[start : start + ID_BYTES] for start in starts)
            yield Gone(_KINDS[gone.type], ids)
        case "batch":
            batch = response.batch
            changes = tuple(_change(event, reads_labels=reads_labels) for event in batch.events)
            yield Batch(changes, bool(batch.resume_token), batch.coalesced)
        case "synced":
            yield Synced(bool(response.synced.resume_token))
        case "bookmark":
            yield Bookmark(bool(response.bookmark.resume_token))
        case "reset":
            yield Reset()
        case "draining":
            yield Draining(bool(response.draining.resume_token))


def _change(event: event_pb2.Event, *, reads_labels: bool) -> Change:
    thing, key = event.object, event.object.key
    body = thing.json or thing.metadata_json
    is_left = event.left_reason != event_pb2.LEFT_REASON_UNSPECIFIED
    return Change(
        kind=_KINDS[event.type],
        key=Key(key.cluster, key.group, key.resource, key.namespace, key.name),
        uid=thing.uid,
        resource_version=thing.resource_version,
        revision=event.revision,
        left_reason=event_pb2.LeftReason.Name(event.left_reason) if is_left else "",
        final_state_unknown=event.final_state_unknown,
        labels=json.loads(body)["metadata"].get("labels", {}) if body and reads_labels else None,
    )


def records_of_client(message: messages.Message[Any], *, has_token: bool) -> Iterator[Record]:
    """Read what a watch of the Python client has yielded.

    `has_token`: whether the watch's `resume_token` is another one than before this message.
    """
    match message:
        case messages.Started(mode=mode, extension_uid=uid):
            yield Started(mode == "RESUMED", mode == "DIFFERENCE", uid)
        case messages.KnownGone(type=kind, ids=ids):
            yield Gone(Kind(kind.value), frozenset(ids))
        case messages.Batch(events=events, is_coalesced=is_coalesced):
            yield Batch(tuple(map(_client_change, events)), has_token, is_coalesced)
        case messages.Synced():
            yield Synced(has_token)
        case messages.Bookmark():
            yield Bookmark()
        case messages.Reset():
            yield Reset()
        case messages.Disconnected():
            yield Disconnected()


def _client_change(event: messages.Event[Any]) -> Change:
    plural, _, group = event.resource.partition(".")
    return Change(
        kind=Kind(event.type.value),
        key=Key(event.key.cluster, group, plural, event.key.namespace, event.key.name),
        uid=event.uid,
        resource_version=event.resource_version,
        revision=event.revision,
        left_reason="" if event.left_reason is None else event.left_reason.value,
        final_state_unknown=event.final_state_unknown,
    )
