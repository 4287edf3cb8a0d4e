"""Rules of reading a Status of any shape."""

from __future__ import annotations

import pytest

from watchcache_server.informer.statuses import MESSAGE_LIMIT, StatusFields, read_status, shorten


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
            b'"message":"too old resource version: 1 (9)","reason":"Expired","code":410}',
            StatusFields(code=410, reason="Expired", message="too old resource version: 1 (9)"),
            id="a whole Status",
        ),
        pytest.param(b'{"code":410}', StatusFields(code=410), id="the code alone"),
        pytest.param(
            b'{"reason":"Gone"}', StatusFields(code=410, reason="Gone"), id="the reason alone"
        ),
        pytest.param(
            b'{"reason":"Expired","code":0}',
            StatusFields(code=410, reason="Expired"),
            id="code zero",
        ),
        pytest.param(
            b'{"status":"Failure","message":"Gone"}',
            StatusFields(code=410, message="Gone"),
            id="row 2: only the word in the message",
        ),
        pytest.param(
            b'"too old resource version: 5 (7)"',
            StatusFields(code=410, message="too old resource version: 5 (7)"),
            id="a string",
        ),
        pytest.param(
            b'"Expired"', StatusFields(code=410, reason="Expired", message="Expired"), id="a word"
        ),
        pytest.param(b'"Gone"', StatusFields(code=410, reason="Gone", message="Gone"), id="Gone"),
        pytest.param(
            b"apiserver is shutting down",
            StatusFields(message="apiserver is shutting down"),
            id="plain text",
        ),
        pytest.param(b"<html>\n <p>", StatusFields(message="<html> <p>"), id="HTML"),
        pytest.param(b"\xff\xfe", StatusFields(message="\ufffd\ufffd"), id="not UTF-8"),
        pytest.param(b"", StatusFields(), id="nothing"),
        pytest.param(b"null", StatusFields(), id="null"),
        pytest.param(b"[1]", StatusFields(), id="a list"),
        pytest.param(b"[" * 100_000, StatusFields(message="[" * 253 + "..."), id="deep nesting"),
        pytest.param(
            b'{"code":"410","reason":7,"message":[],"details":[]}', StatusFields(), id="wrong types"
        ),
        pytest.param(b'{"code":true}', StatusFields(), id="a boolean is no code"),
        pytest.param(b'{"code":-1}', StatusFields(), id="a negative code"),
        pytest.param(
            b'{"code":429,"details":{"retryAfterSeconds":3}}',
            StatusFields(code=429, retry_after_seconds=3.0),
            id="a time to wait",
        ),
        pytest.param(
            b'{"code":429,"details":{"retryAfterSeconds":0}}', StatusFields(code=429), id="no time"
        ),
        pytest.param(
            b'{"code":429,"details":{"retryAfterSeconds":"3"}}',
            StatusFields(code=429),
            id="a time of the wrong type",
        ),
        pytest.param(
            b'{"code":504,"details":{"causes":[{"reason":"ResourceVersionTooLarge"},7,{}]}}',
            StatusFields(code=504, causes=("ResourceVersionTooLarge", "")),
            id="causes",
        ),
        pytest.param(
            b'"Too large resource version: 9, current: 5"',
            StatusFields(code=504, message="Too large resource version: 9, current: 5"),
            id="too large by text alone",
        ),
    ],
)
def test_whatever_says_what_happened_is_read(body: bytes, expected: StatusFields) -> None:
    """1.4: code, reason or text may be the only hint, and nothing is too odd to be read."""
    assert read_status(body) == expected


@pytest.mark.parametrize(
    ("status", "is_too_large"),
    [
        pytest.param(StatusFields(causes=("ResourceVersionTooLarge",)), True, id="by cause"),
        pytest.param(
            StatusFields(message="Too large resource version: 9"), True, id="by text, before 1.18.6"
        ),
        pytest.param(StatusFields(code=504, message="Timeout"), False, id="another timeout"),
    ],
)
def test_a_version_from_the_future_is_known_by_cause_or_text(
    status: StatusFields, is_too_large: bool
) -> None:
    """1.1: match it by cause, and by message for old servers."""
    assert status.is_too_large is is_too_large


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a\n\tb  c", "a b c", id="one line"),
        pytest.param("a\x1b[31mb\x00", "a?[31mb?", id="no control characters"),
        pytest.param("x" * 256, "x" * 256, id="just short enough"),
        pytest.param("x" * 257, "x" * 253 + "...", id="too long"),
    ],
)
def test_texts_from_outside_become_one_short_line(text: str, expected: str) -> None:
    """Nothing of an object travels in an error, and no text breaks a log."""
    assert shorten(text) == expected
    assert len(shorten(text * 1000)) <= MESSAGE_LIMIT
