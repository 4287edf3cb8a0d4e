"""The body of a watch: chunks in, events out.

Joins the line splitter and the event decoder, and turns whatever goes wrong into one last `Broken`
event, so that the events before it are never lost and the reader has a single case to handle.
"""

from __future__ import annotations

from watchcache_server.informer.decoding import Broken, EventDecoder, StreamError, WatchEvent
from watchcache_server.informer.errors import DataError, OverLimitError
from watchcache_server.informer.lines import DEFAULT_LINE_LIMIT_BYTES, LineSplitter

__all__ = ["EventStream"]


class EventStream:
    """Decodes one watch; after `Broken` or `StreamError` nothing more comes out of it."""

    __slots__ = ("_decoder", "_is_over", "_lines")

    def __init__(
        self, decoder: EventDecoder, line_limit_bytes: int = DEFAULT_LINE_LIMIT_BYTES
    ) -> None:
        self._decoder = decoder
        self._lines = LineSplitter(line_limit_bytes)
        self._is_over = False

    def feed(self, chunk: bytes) -> list[WatchEvent]:
        """Return the events that this chunk completes."""
        if self._is_over:
            return []
        try:
            lines = self._lines.feed(chunk)
        except OverLimitError as error:
            self._is_over = True
            return [Broken(error)]
        return self._decode(lines)

    def finish(self) -> list[WatchEvent]:
        """Return what a clean end leaves: the last event, if only its line end is missing.

        Not to be called after a cut or a reset: what is left then may be a part of an event.
        """
        leftover = self._lines.leftover()
        if self._is_over or not leftover:
            return []
        events = self._decode([leftover])
        # A part of an event at the end is no fault of what was sent; the next watch brings it
        # whole.
        return [event for event in events if not isinstance(event, Broken)]

    def _decode(self, lines: list[bytes]) -> list[WatchEvent]:
        decode = self._decoder.decode
        events: list[WatchEvent] = []
        for line in lines:
            try:
                event = decode(line)
            except DataError as error:
                event = Broken(error)
            events.append(event)
            if isinstance(event, Broken | StreamError):
                self._is_over = True
                break
        return events
