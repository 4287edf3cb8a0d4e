"""Where a watch stands: pure, so that every rule of reconnecting can be tested without a network.

`WatchProgress` is told each message that came and each failure, and answers with the value to
yield, the token to go on from, how long the stream may be silent, and what to do next. `watch.py`
does it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from watchcache.backoff import Backoff
from watchcache.errors import DeregisteredError, NotFoundError, WatchCacheError
from watchcache.holdings import ID_BYTES
from watchcache.keys import resource_name
from watchcache.messages import (
    Batch,
    Bookmark,
    Event,
    KnownGone,
    Message,
    Reset,
    SourceChanged,
    Started,
    Synced,
)
from watchcache.objects import Decoder
from watchcache.states import (
    EVENT_TYPES,
    LEFT_REASONS,
    RESET_REASONS,
    START_MODES,
    EventType,
    StartMode,
)
from watchcache.status import Source, duration_seconds
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

__all__ = ["Retry", "WatchProgress"]

T = TypeVar("T")

_SILENCE_FACTOR = 1.5
"""Bookmark intervals without a message after which a stream counts as dead, before `patience`."""

_ACCOUNT_GONE_SECONDS = 15.0
"""Least wait while the ServiceAccount is missing: each try has the service ask for a token."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Open the stream again after so long, registering the extension before if told so.

    `is_silent`: this is how a stream moves to another connection, and nothing to tell anybody. When
    a connection that was lost is there again, there is no more to wait than `reconnected_seconds`,
    which only keeps all clients from coming at one moment.
    """

    delay_seconds: float
    has_to_register: bool
    reconnected_seconds: float = 0.0
    is_silent: bool = False


class WatchProgress(Generic[T]):
    """State of one watch over all its streams."""

    def __init__(
        self,
        decode: Decoder[T],
        *,
        backoff: Backoff,
        bookmark_interval_seconds: float,
        patience_seconds: float,
        can_register: bool,
        resume_token: bytes = b"",
    ) -> None:
        self._decode = decode
        self._backoff = backoff
        self._bookmark_interval_seconds = bookmark_interval_seconds
        self._patience_seconds = patience_seconds
        self._can_register = can_register
        self._failures = 0
        self._has_registered = False
        self._is_snapshot = False
        self.resume_token = resume_token

    @property
    def silence_limit_seconds(self) -> float:
        """How long a stream may say nothing before it counts as dead.

        The service sends a bookmark after one interval of silence, so a live stream never comes
        near the limit.
        """
        return self._bookmark_interval_seconds * _SILENCE_FACTOR + self._patience_seconds

    def receive(self, response: service_pb2.WatchResponse) -> Message[T] | None:
        """Take one message in; return what the consumer is given, None for nothing.

        The token of the message counts from now on: the consumer is given the message and does not
        ask for the next one before it has applied it.
        """
        kind = response.WhichOneof("response")
        if kind == "batch":
            self._advance(response.batch.resume_token)
            events = tuple(Event(event, self._decode) for event in response.batch.events)
            return Batch(events, self._is_snapshot, response.batch.coalesced)
        if kind == "bookmark":
            self._advance(response.bookmark.resume_token)
            return Bookmark()
        if kind == "source_status":
            return SourceChanged(Source.from_message(response.source_status))
        if kind == "started":
            return self._start(response.started)
        if kind == "known_gone":
            return _known_gone(response.known_gone)
        if kind == "synced":
            self._is_snapshot = False
            self._advance(response.synced.resume_token)
            return Synced()
        if kind == "reset":
            self._forget()
            return Reset(RESET_REASONS[response.reset.reason])
        if kind == "draining":
            self._advance(response.draining.resume_token)
        # Draining, or a message of a newer service: there is nothing to do about either.
        return None

    def fail(self, error: WatchCacheError) -> Retry:
        """Decide what follows a failed stream or registration; raise `error` if nothing."""
        if error.reason == "RESUME_LOST":
            # What is held is told instead, at once.
            self.resume_token = b""
            return Retry(0.0, has_to_register=False)
        has_expired = error.reason == "KNOWN_NOT_FOUND"
        if error.reason == "CONNECTION_AGED" and not self._failures:
            # The service has spread these over time, so nobody else comes at this moment.
            self._failures += 1
            return Retry(0.0, has_to_register=False, is_silent=True)
        is_lost = isinstance(error, NotFoundError) and not isinstance(error, DeregisteredError)
        has_to_register = is_lost and self._can_register and not has_expired
        if not has_expired and not (has_to_register or error.is_retriable):
            raise error
        self._failures += 1
        is_expected = error.reason != "EXTENSION_SERVICE_ACCOUNT_GONE"
        if has_to_register and is_expected and not self._has_registered:
            # The service is back from a restart, or has freed the extension while we were away.
            self._has_registered = True
            return Retry(0.0, has_to_register=True)
        # Others were told the same wait, so the chance in the backoff comes on top of it.
        delay = self._backoff.delay(self._failures) + (error.retry_delay_seconds or 0.0)
        if error.reason == "EXTENSION_SERVICE_ACCOUNT_GONE":
            delay = max(delay, _ACCOUNT_GONE_SECONDS)
        return Retry(delay, has_to_register, self._backoff.delay(1))

    def _start(self, started: service_pb2.Started) -> Started:
        interval = duration_seconds(started.bookmark_interval)
        if interval > 0:
            self._bookmark_interval_seconds = interval
        mode = START_MODES[started.mode]
        if mode is StartMode.RESUMED:
            self._is_snapshot = False
        elif mode is StartMode.DIFFERENCE:
            self._is_snapshot = False
            self.resume_token = b""
        else:
            self._forget()
        return Started(mode, started.extension_uid, self._bookmark_interval_seconds)

    def _forget(self) -> None:
        self._is_snapshot = True
        self.resume_token = b""

    def _advance(self, resume_token: bytes) -> None:
        if resume_token:
            self.resume_token = resume_token
            self._failures = 0
            self._has_registered = False


def _known_gone(message: service_pb2.KnownGone) -> KnownGone:
    kind = EVENT_TYPES[message.type]
    reason = LEFT_REASONS[message.left_reason] if kind is EventType.LEFT else None
    ids = message.ids
    return KnownGone(
        kind,
        reason,
        resource_name(message.group, message.resource),
        message.cluster,
        message.namespace,
        tuple(ids[start : start + ID_BYTES] for start in range(0, len(ids), ID_BYTES)),
    )
