"""Rules of reading the body of a watch."""

from __future__ import annotations

import pytest

from watchcache_server.informer.decoding import (
    Added,
    Bookmark,
    Broken,
    EventDecoder,
    StreamError,
    WatchEvent,
)
from watchcache_server.informer.errors import MalformedError, OverLimitError
from watchcache_server.informer.streams import EventStream
from watchcache_server.model.states import Projection

_ADDED = (
    b'{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":'
    b'{"name":"%s","resourceVersion":"3"}}}'
)
_BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"4"}}}'
_ERROR = b'{"type":"ERROR","object":{"code":410}}'


def event_stream(limit_bytes: int = 1 << 26) -> EventStream:
    """Return a reader of a watch of pods."""
    decoder = EventDecoder(api_version="v1", kind="Pod", projection=Projection.FULL)
    return EventStream(decoder, limit_bytes)


def kinds(events: list[WatchEvent]) -> list[type]:
    """Return what the events are."""
    return [type(event) for event in events]


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_events_come_out_whatever_the_pieces(size: int) -> None:
    """A chunk may hold no event, a part of one, or many."""
    data = _ADDED % b"a" + b"\n" + _BOOKMARK + b"\n\n" + _ADDED % b"b" + b"\n"
    stream = event_stream()
    events: list[WatchEvent] = []
    for at in range(0, len(data), size):
        events += stream.feed(data[at : at + size])
    assert kinds(events) == [Added, Bookmark, Added]
    assert stream.finish() == []


@pytest.mark.parametrize(
    ("leftover", "expected"),
    [
        pytest.param(_BOOKMARK, [Bookmark("4")], id="a whole event"),
        pytest.param(_BOOKMARK[:-1], [], id="a part of one"),
        pytest.param(b"<html>", [], id="something else"),
        pytest.param(b" ", [], id="a blank"),
        pytest.param(b"", [], id="nothing"),
    ],
)
def test_what_is_left_at_a_clean_end_counts_if_it_is_whole(
    leftover: bytes, expected: list[WatchEvent]
) -> None:
    """1.3: apply it if it parses as one whole event, else drop it."""
    stream = event_stream()
    assert kinds(stream.feed(_ADDED % b"a" + b"\n" + leftover)) == [Added]
    assert stream.finish() == expected


def test_events_before_a_broken_one_are_kept_and_none_after_it() -> None:
    """1.3: never skip an event and go on."""
    stream = event_stream()
    first, last = stream.feed(_ADDED % b"a" + b"\n{nonsense\n" + _ADDED % b"b" + b"\n")
    assert isinstance(first, Added)
    assert isinstance(last, Broken)
    assert isinstance(last.error, MalformedError)
    assert stream.feed(_ADDED % b"c" + b"\n") == []


def test_nothing_comes_after_an_error() -> None:
    """An ERROR ends the watch, whatever else was sent with it or is left."""
    stream = event_stream()
    assert kinds(stream.feed(_ERROR + b"\n" + _BOOKMARK + b"\n" + _BOOKMARK)) == [StreamError]
    assert stream.finish() == []


def test_an_event_over_the_limit_breaks_the_stream() -> None:
    """The limit is for one event, not for the stream."""
    stream = event_stream(limit_bytes=200)
    for _ in range(9):
        assert kinds(stream.feed(_ADDED % b"a" + b"\n")) == [Added]
    (broken,) = stream.feed(_ADDED % (b"x" * 300))
    assert isinstance(broken, Broken)
    assert isinstance(broken.error, OverLimitError)
    assert stream.feed(b"\n") == []
