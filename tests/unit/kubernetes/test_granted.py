"""Rules of reading what a TokenRequest granted."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from watchcache_server.kubernetes.granted import (
    TokenAnswerError,
    clock_skew_seconds,
    read_token_answer,
)

DATE = "Sun, 29 Nov 2026 22:00:00 GMT"
EPOCH = 1795989600.0


def jwt(**claims: Any) -> str:
    """Return an unsigned token with these claims."""
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.sig"


def answer(token: str, **parts: Any) -> bytes:
    """Return an answer of the API server."""
    return json.dumps({"kind": "TokenRequest", "status": {"token": token, **parts}}).encode()


def with_spec(seconds: int, body: bytes) -> bytes:
    """Add the granted spec."""
    return json.dumps({**json.loads(body), "spec": {"expirationSeconds": seconds}}).encode()


ENDS_IN_AN_HOUR = {"expirationTimestamp": "2026-11-29T23:00:00Z"}
LIFETIMES = {
    "by the spec": (with_spec(900, answer("opaque")), None, 900.0),
    "by the stated end and the server's clock": (answer("opaque", **ENDS_IN_AN_HOUR), DATE, 3600.0),
    "by the token itself": (answer(jwt(iat=EPOCH, exp=EPOCH + 700)), None, 700.0),
    "shortened by the server": (
        with_spec(86_400, answer(jwt(iat=EPOCH, exp=EPOCH + 3600))),
        None,
        3600.0,
    ),
    "extended beyond what is stated": (
        with_spec(3607, answer(jwt(iat=EPOCH, exp=EPOCH + 31_536_000))),
        None,
        3607.0,
    ),
    "longer than an API server grants": (with_spec(10**15, answer("opaque")), None, 2.0**32),
    "by a stated end without a time zone": (
        answer("opaque", expirationTimestamp="2026-11-29T23:00:00"),
        DATE,
        3600.0,
    ),
}


@pytest.mark.parametrize("case", LIFETIMES)
def test_the_lifetime_is_the_shortest_that_the_server_states(case: str) -> None:
    """What was asked for does not count; our own clock does not either."""
    body, date, lifetime = LIFETIMES[case]
    assert read_token_answer(body, date).lifetime_seconds == pytest.approx(lifetime)


def test_the_uid_of_the_account_comes_with_its_token() -> None:
    """No get on the ServiceAccount is needed to know it again."""
    claims = {"kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "s", "uid": "u-1"}}}
    granted = read_token_answer(with_spec(600, answer(jwt(**claims))), None)
    assert granted.uid == "u-1"
    assert granted.token not in repr(granted)


def nested_jwt() -> str:
    """Return a token whose claims are nested without an end."""
    claims = b'{"x":' + b"[" * 100_000
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.sig"


@pytest.mark.parametrize(
    "token",
    ["opaque", "a.b.c", "a.!!!.c", "a.bm9.c", jwt(exp="soon"), nested_jwt()],
    ids=["opaque", "not base64", "not letters", "not JSON", "not a time", "nested"],
)
def test_a_token_that_cannot_be_read_is_still_a_token(token: str) -> None:
    """Tokens are the API server's own matter; only the uid is not known then."""
    assert read_token_answer(with_spec(600, answer(token)), None).uid == ""


BAD = {
    "not JSON": b"<html>",
    "nested without an end": b'{"status":{"token":"a","x":' + b"[" * 100_000,
    "an end before all time": answer("opaque", expirationTimestamp="0001-01-01T00:00:00"),
    "no status": b"{}",
    "no token": with_spec(600, answer("")),
    "a header in the token": with_spec(600, answer("a\r\nX-Evil: 1")),
    "no lifetime": answer("opaque"),
    "over already": with_spec(0, answer("opaque")),
    "ended by the server's clock": (answer("opaque", expirationTimestamp="2026-11-29T21:00:00Z")),
}


@pytest.mark.parametrize("case", BAD)
def test_an_unusable_answer_is_refused(case: str) -> None:
    """No token of unknown or no life, and none that would split a header."""
    with pytest.raises(TokenAnswerError, match="the API server") as caught:
        read_token_answer(BAD[case], DATE)
    assert "Evil" not in str(caught.value)


@pytest.mark.parametrize(
    ("date", "wall_time", "skew"),
    [
        (DATE, EPOCH, 0.0),
        (DATE, EPOCH + 0.9, 0.0),  # the header has whole seconds
        (DATE, EPOCH + 5, -4.0),
        (DATE, EPOCH - 5, 5.0),
        ("yesterday", EPOCH, None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", EPOCH, None),
        ("Sun, 29 Nov 2026 22:00:00 -0000", EPOCH, 0.0),
        (None, EPOCH, None),
    ],
)
def test_the_skew_is_what_a_date_header_can_tell(
    date: str | None, wall_time: float, skew: float | None
) -> None:
    """Less than the header's resolution is no skew."""
    assert clock_skew_seconds(date, wall_time) == skew
