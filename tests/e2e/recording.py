"""Records what every watch of the client receives, and judges it by the contract.

`Recorder.watch_type` takes the place of the client's `Watch`, so that each test of a stream is a
test of its history too. A watch that begins where an earlier one was closed goes on with the
history of that one. What a test expects at the end it says by `History.finish`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar

from tests.history_checker import HistoryChecker
from tests.history_records import (
    Batch,
    Disconnected,
    Gone,
    Key,
    Record,
    Reset,
    Started,
    Synced,
    records_of,
)
from watchcache.errors import WatchCacheError
from watchcache.messages import Message
from watchcache.progress import Retry, WatchProgress
from watchcache.service import Service
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2
from watchcache.watch import Watch

__all__ = ["History", "Recorder"]

T = TypeVar("T")

_SHOWN_BEFORE = 5
_SHOWN_CHARACTERS = 600


class History:
    """What one subscriber was sent, over all its streams."""

    def __init__(
        self, request: service_pb2.WatchRequest, *, is_selected_upstream: bool = False
    ) -> None:
        self.extension = f"{request.namespace}/{request.name}"
        self.label_selector = request.filter.label_selector
        self.records: list[Record] = []
        self.token = b""
        self.checker = HistoryChecker(
            matches=_matcher(self.label_selector), is_selected_upstream=is_selected_upstream
        )
        self._is_open = False
        self._forgotten = 0
        #: Whether its watch was closed.
        self.is_over = False

    def take(self, response: service_pb2.WatchResponse) -> None:
        """Take a message in."""
        if response.HasField("started"):
            # A reader that was cancelled drops its stream without a word.
            self.lose()
            self._is_open = True
        is_selecting = bool(self.label_selector)
        for record in records_of(response, reads_labels=is_selecting):
            self._feed(record)
        self.token = _token_of(response) or self.token

    def lose(self) -> None:
        """Note that the stream has ended."""
        if self._is_open:
            self._is_open = False
            self._feed(Disconnected())

    def end(self) -> None:
        """Note that the watch was closed."""
        self.lose()
        self.is_over = True

    def _feed(self, record: Record) -> None:
        self.records.append(record)
        self.checker.feed(record)

    def finish(
        self,
        expected: Mapping[Key, tuple[str, str]],
        *,
        deleted_uids: Collection[str] | None = None,
    ) -> None:
        """Compare with what the API server holds in the end."""
        self.checker.finish(expected, deleted_uids=deleted_uids)

    def forget(self) -> None:
        """Drop the records that were judged, so that a history of hours stays small."""
        self._forgotten = self.checker.position
        self.records.clear()

    def problems(self) -> str:
        """Tell the violations, and what came before the first; empty without any."""
        violations = self.checker.violations
        if not violations:
            return ""
        end = max(0, violations[0].position - self._forgotten)
        first = max(0, end - 1 - _SHOWN_BEFORE)
        lines = [
            f"watch of {self.extension} {self.label_selector}: {len(violations)} violations",
            *(f"  {violation}" for violation in violations[:10]),
            f"  what was said of the objects in the first one, in {len(self.records)} records:",
            *(
                f"    {number}: {change}"
                for number, record in enumerate(self.records[:end], self._forgotten + 1)
                if isinstance(record, Batch)
                for change in record.changes
                if f"{change.key} " in violations[0].description
            ),
            "  how its streams began and ended:",
            *(
                f"    {number}: {str(record)[:_SHOWN_CHARACTERS]}"
                for number, record in enumerate(self.records[:end], self._forgotten + 1)
                if isinstance(record, Started | Synced | Reset | Gone | Disconnected)
            ),
            "  the records up to there:",
            *(
                f"    {number}: {str(record)[:_SHOWN_CHARACTERS]}"
                for number, record in enumerate(
                    self.records[first:end], self._forgotten + first + 1
                )
            ),
        ]
        return "\n".join(lines)


class Recorder:
    """Keeps the history of every watch that is made through it."""

    #: What keeps one; a test may keep more of it than records.
    history_type = History

    def __init__(self) -> None:
        self.histories: list[History] = []
        #: To be set by a test whose informers have selectors of their own.
        self.is_selected_upstream = False
        recorder = self

        class RecordedWatch(Watch[T]):
            """A watch whose messages are recorded as they are received."""

            def __init__(
                self,
                service: Service,
                request: service_pb2.WatchRequest,
                progress: WatchProgress[T],
                register: Callable[[], Awaitable[None]],
            ) -> None:
                history = recorder.history_for(request, progress.resume_token)
                recorded: Any = _RecordedProgress(progress, history)
                super().__init__(service, request, recorded, register)
                self._history = history

            async def aclose(self) -> None:
                self._history.end()
                await super().aclose()

        self.watch_type = RecordedWatch

    def history_for(self, request: service_pb2.WatchRequest, token: bytes) -> History:
        """Return the history that a new watch goes on with."""
        for history in self.histories:
            if token and history.is_over and history.token == token:
                history.is_over = False
                return history
        history = self.history_type(request, is_selected_upstream=self.is_selected_upstream)
        self.histories.append(history)
        return history

    def assert_clean(self) -> None:
        """Raise AssertionError that tells all violations, if there are any."""
        problems = [text for text in (history.problems() for history in self.histories) if text]
        assert not problems, "\n".join(problems)


class _RecordedProgress:
    """The progress of a watch, which tells a history what it is told."""

    def __init__(self, progress: WatchProgress[Any], history: History) -> None:
        self._progress = progress
        self._history = history

    @property
    def resume_token(self) -> bytes:
        return self._progress.resume_token

    @property
    def silence_limit_seconds(self) -> float:
        return self._progress.silence_limit_seconds

    def receive(self, response: service_pb2.WatchResponse) -> Message[Any] | None:
        self._history.take(response)
        return self._progress.receive(response)

    def fail(self, error: WatchCacheError) -> Retry:
        self._history.lose()
        return self._progress.fail(error)


def _matcher(selector: str) -> Callable[[Mapping[str, str]], bool] | None:
    """Return what decides selectors of the form `key=value`; others are not checked."""
    key, sign, value = selector.partition("=")
    if not sign or not key.isidentifier() or not value.isidentifier():
        return None
    return lambda labels: labels.get(key) == value


def _token_of(response: service_pb2.WatchResponse) -> bytes:
    kind = response.WhichOneof("response")
    token: bytes = getattr(getattr(response, kind), "resume_token", b"") if kind else b""
    return token
