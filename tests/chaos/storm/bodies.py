"""Histories that keep what the bodies in them say, to be compared with what was written."""

from __future__ import annotations

import base64
import json
from typing import NamedTuple

from tests.chaos.storm.truth import Truth
from tests.e2e.recording import History, Recorder
from tests.history_records import Key
from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

__all__ = ["Body", "BodyHistory", "BodyRecorder", "body_of_event"]


class Body(NamedTuple):
    """What was said of an object, and what its body says of itself."""

    key: Key
    uid: str
    resource_version: str
    own_uid: str
    own_resource_version: str
    value: str
    is_end: bool

    def doubt(self, truth: Truth) -> str:
        """Say what is wrong with the body; empty when it is that of the state."""
        what = f"body of {self.key} uid {self.uid} rv {self.resource_version}"
        if self.own_uid != self.uid:
            return f"{what} says that it is of {self.own_uid}"
        # At its end an object comes with the last content that was known.
        if self.own_resource_version != self.resource_version and not self.is_end:
            return f"{what} says that it is rv {self.own_resource_version}"
        held = truth.value(self.key, self.own_uid, self.own_resource_version)
        if held != self.value:
            return f"{what} holds {self.value[:40]!r}, and etcd held {str(held)[:40]!r}"
        return ""


class BodyHistory(History):
    """What one subscriber was sent, with the bodies since the last time they were taken."""

    bytes_received = 0
    #: How often it went on, without a snapshot, with another life of its extension.
    resumed_over_restarts = 0
    _extension_uid = ""

    def take(self, response: service_pb2.WatchResponse) -> None:
        """Take a message in."""
        super().take(response)
        self.bytes_received += response.ByteSize()
        if response.HasField("started"):
            started = response.started
            is_resumed = started.mode == service_pb2.START_MODE_RESUMED
            is_another = started.extension_uid != self._extension_uid
            self.resumed_over_restarts += is_resumed and is_another
            self._extension_uid = started.extension_uid
        for event in response.batch.events:
            body = body_of_event(event)
            if body is not None:
                self.bodies.append(body)

    @property
    def bodies(self) -> list[Body]:
        """The bodies that came."""
        found: list[Body] = self.__dict__.setdefault("_bodies", [])
        return found

    def forget(self) -> None:
        """Drop what was judged."""
        super().forget()
        self.bodies.clear()
        self.bytes_received = self.resumed_over_restarts = 0


class BodyRecorder(Recorder):
    """Keeps such histories."""

    history_type = BodyHistory


def body_of_event(event: event_pb2.Event) -> Body | None:
    """Read the body of an event; None where it has none, or only metadata."""
    thing, key = event.object, event.object.key
    if not thing.json:
        return None
    body = json.loads(thing.json)
    metadata = body["metadata"]
    held = body.get("data") or body.get("spec") or {}
    value = str(held.get("value", ""))
    if key.resource == "secrets":
        value = base64.b64decode(value).decode()
    return Body(
        Key(key.cluster, key.group, key.resource, key.namespace, key.name),
        thing.uid,
        thing.resource_version,
        metadata["uid"],
        metadata["resourceVersion"],
        value,
        event.type in (event_pb2.EVENT_TYPE_DELETED, event_pb2.EVENT_TYPE_LEFT),
    )
