"""What a stream of extensions says, in a form that goes on over several streams."""

from __future__ import annotations

from collections.abc import Iterator

from watchcache.known_specs import KnownSpecs
from watchcache.status import ExtensionRemoved, ExtensionsSynced, ExtensionStatus
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

__all__ = ["ExtensionChanges"]


class ExtensionChanges:
    """Turns messages into changes.

    A stream that begins again names all that there is up to its first Synced; what was there before
    and is not among it has gone in between.
    """

    def __init__(self) -> None:
        self._specs = KnownSpecs()
        self._known: set[tuple[str, str]] = set()
        # What the stream before this one named, and this one has not; empty once it is synced.
        self._missing: set[tuple[str, str]] = set()

    def begin_again(self) -> None:
        """Take that another stream follows."""
        self._missing = set(self._known)

    def receive(
        self, answer: service_pb2.WatchExtensionsResponse
    ) -> Iterator[ExtensionStatus | ExtensionRemoved | ExtensionsSynced]:
        """Take one message in; yield what it means."""
        kind = answer.WhichOneof("response")
        if kind == "extension":
            key = answer.extension.namespace, answer.extension.name
            self._known.add(key)
            self._missing.discard(key)
            self._specs.complete(answer.extension)
            yield ExtensionStatus.from_message(answer.extension)
        elif kind == "removed":
            gone = answer.removed
            yield self._remove((gone.namespace, gone.name), gone.reason)
        elif kind == "synced":
            for key in sorted(self._missing):
                yield self._remove(key, "UNKNOWN")
            yield ExtensionsSynced()

    def _remove(self, key: tuple[str, str], reason: str) -> ExtensionRemoved:
        self._known.discard(key)
        self._missing.discard(key)
        self._specs.forget(*key)
        return ExtensionRemoved(*key, reason)
