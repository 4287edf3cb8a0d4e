"""An object as it comes from the service: its names and versions, and its body as JSON.

The values own their bytes: nothing here keeps a received message alive. A body is decoded when it
is asked for, so that whoever looks only at keys pays for no decoding.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from watchcache.errors import InvalidArgumentError
from watchcache.keys import key_of
from watchcache.status import timestamp
from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

__all__ = ["CachedObject", "Decoder", "Freshness", "Item", "decode_json"]

T = TypeVar("T")

Decoder = Callable[[bytes], T]
"""Turns the JSON of one object into what the reader wants."""


def decode_json(body: bytes) -> dict[str, Any]:
    """Decode an object to plain dicts and lists; this is the decoder where none is named."""
    decoded: dict[str, Any] = json.loads(body)
    return decoded


class CachedObject(Generic[T]):
    """One object.

    `resource` is the canonical name ("deployments.apps"), `version` the API version in which the
    body is written ("v1"), `body` the object as JSON, its metadata alone, or None when only keys
    were asked for.
    """

    __slots__ = (
        "_decode",
        "_decoded",
        "body",
        "key",
        "resource",
        "resource_version",
        "uid",
        "version",
    )

    def __init__(self, message: event_pb2.Object, decode: Decoder[T]) -> None:
        self.resource, self.key = key_of(message.key)
        self.uid: str = message.uid
        self.resource_version: str = message.resource_version
        self.version: str = message.version
        self.body: bytes | None = _body(message)
        self._decode = decode
        self._decoded: T | None = None

    @property
    def object(self) -> T:
        """The object, decoded at the first use. Raises InvalidArgumentError if only keys came."""
        if self._decoded is None:
            if self.body is None:
                raise InvalidArgumentError.of(
                    "view", "only keys were asked for; ask with view='full' to have objects"
                )
            self._decoded = self._decode(self.body)
        return self._decoded

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._told()}>"

    def _told(self) -> str:
        return f"{self.resource} {self.key} rv {self.resource_version}"


@dataclass(frozen=True, slots=True)
class Freshness:
    """How old an answer may be: `is_live` says that every informer behind it is live."""

    is_live: bool
    last_contact_time: datetime | None

    @classmethod
    def from_message(cls, message: service_pb2.Freshness) -> Freshness:
        """Read one from the wire."""
        contact = message.last_contact_time
        return cls(
            message.is_live, timestamp(contact) if message.HasField("last_contact_time") else None
        )


class Item(CachedObject[T]):
    """An object of a get or a list, with the freshness of the answer."""

    __slots__ = ("freshness",)

    def __init__(self, message: event_pb2.Object, decode: Decoder[T], freshness: Freshness) -> None:
        super().__init__(message, decode)
        self.freshness = freshness


def _body(message: event_pb2.Object) -> bytes | None:
    which = message.WhichOneof("body")
    if which == "json":
        return message.json
    return message.metadata_json if which == "metadata_json" else None
