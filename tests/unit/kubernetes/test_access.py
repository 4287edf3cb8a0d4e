"""Rules of one-off calls: their answers, their errors and their one retry."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from tests.controlplane.credentials import Credentials
from tests.unit.kubernetes.api_double import ApiDouble
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.credentials import StaticToken
from watchcache_server.kubernetes.errors import (
    AnswerTooLargeError,
    ConnectionResetByServerError,
    CredentialsError,
)
from watchcache_server.kubernetes.requests import Request, get_request

PING = get_request("/ping")


class Rotating:
    """Credentials with as many tokens as one asks for."""

    def __init__(self, *, can_refresh: bool = True) -> None:
        self.number = 1
        self.rejected: list[str | None] = []
        self.can_refresh = can_refresh
        self.error: CredentialsError | None = None

    async def authorization(self) -> str | None:
        if self.error is not None:
            raise self.error
        return f"Bearer t{self.number}"

    async def refresh(self, rejected: str | None) -> None:
        self.rejected.append(rejected)
        if self.can_refresh:
            self.number += 1


async def test_a_call_returns_the_whole_answer(api: ApiDouble) -> None:
    """Status, headers and body, whatever the status."""
    api.answer("/ping", {"a": 1}, status=418, X_Tea="pot")
    answer = await ApiAccess(api.transport(), StaticToken("t"), identity="me").call(PING)
    assert (answer.code, answer.body, answer.headers["x-tea"]) == (418, b'{"a": 1}', "pot")
    assert not answer.is_success


async def test_a_401_is_tried_once_more_with_new_credentials(api: ApiDouble) -> None:
    """One refresh, one retry, and then it is the answer."""
    api.refuse("/ping", 401)
    rotating = Rotating()
    answer = await ApiAccess(api.transport(), rotating, identity="me").call(PING)
    assert answer.code == 401
    assert rotating.rejected == ["Bearer t1"]
    sent = [request.headers["Authorization"] for request in api.requests]
    assert sent == ["Bearer t1", "Bearer t2"]


async def test_a_401_without_other_credentials_is_not_repeated(api: ApiDouble) -> None:
    """The same token would be refused again."""
    api.refuse("/ping", 401)
    access = ApiAccess(api.transport(), Rotating(can_refresh=False), identity="me")
    assert (await access.call(PING)).code == 401
    assert api.asked("/ping") == 1


async def test_without_credentials_nothing_is_sent(api: ApiDouble) -> None:
    """A request that should carry a token never goes out without one."""
    rotating = Rotating()
    rotating.error = CredentialsError("none")
    access = ApiAccess(api.transport(), rotating, identity="me")
    with pytest.raises(CredentialsError):
        await access.call(PING)
    assert not api.requests
    assert repr(access) == "<ApiAccess to dev as me>"


async def test_a_large_answer_is_refused(api: ApiDouble) -> None:
    """One-off calls have small answers."""
    api.answer("/ping", "x" * 2000)
    access = ApiAccess(api.transport(), StaticToken("t"), identity="me")
    with pytest.raises(AnswerTooLargeError):
        await access.call(PING, limit_bytes=1999)


@pytest.mark.parametrize("hang_ups", [1, 9])
async def test_a_post_survives_the_end_of_a_kept_connection(
    pki: Credentials, api: ApiDouble, hang_ups: int
) -> None:
    """A server may close a kept connection just as it is used: tried once more, and only once."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.serving_certificate, pki.serving_key)
    left = hang_ups

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        await reader.readuntil(b"\r\n\r\n{}")
        if left > 0:
            left -= 1
        else:
            writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    access = ApiAccess(api.transport(url=url), StaticToken("t"), identity="me")
    post = Request(path="/ping", method="POST", body=b"{}")
    if hang_ups == 1:
        assert (await access.call(post)).code == 201
    else:
        with pytest.raises(ConnectionResetByServerError):
            await access.call(post)
        assert left == hang_ups - 2
    server.close()
    await asyncio.sleep(0)


ERRORS: dict[str, tuple[bytes, dict[str, str], dict[str, Any]]] = {
    "a Status": (
        b'{"kind":"Status","message":"pods is forbidden","reason":"Forbidden"}',
        {},
        {"text": "pods is forbidden", "status_reason": "Forbidden", "retry_after_seconds": None},
    ),
    "a Status that says when to come back": (
        b'{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":3}}',
        {"Retry-After": "9"},
        {"text": "", "retry_after_seconds": 9},
    ),
    "a Status that says to come back later": (
        b'{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":30}}',
        {"Retry-After": "9"},
        {"text": "", "retry_after_seconds": 30},
    ),
    "a header that says so": (b"slow down", {"Retry-After": "9"}, {"retry_after_seconds": 9.0}),
    "a header with a date": (
        b"slow down",
        {
            "Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT",
            "Date": "Wed, 21 Oct 2015 07:27:30 GMT",
        },
        {"retry_after_seconds": 30.0},
    ),
    "a header with a date, of a server that does not say its own": (
        b"slow down",
        {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"},
        {"retry_after_seconds": None},
    ),
    "a message in more than one line": (
        b'{"kind":"Status","message":"no\\nmore"}',
        {},
        {"text": "no more"},
    ),
    "part of a Status": (b'{"message":"secret"}', {}, {"text": ""}),
    "a text in quotes": (b'"secret"', {}, {"text": ""}),
    "no Status": (b'{"kind":"Pod","message":"secret"}', {}, {"text": "", "status_reason": ""}),
    "not even JSON": (b"<html>secret</html>", {}, {"text": ""}),
    "not even text": (b"\xff\xfe", {}, {"text": ""}),
    "nested without an end": (b'{"kind":"Status","secret":' + b"[" * 100_000, {}, {"text": ""}),
    "a wait that would never end": (b"", {"Retry-After": "9" * 400}, {"retry_after_seconds": 300}),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_says_what_the_server_said_and_no_more(case: str) -> None:
    """The message of a Status is told; any other body is nobody's business."""
    body, headers, expected = ERRORS[case]
    error = Answer(403, headers, body).error("dev", "reading pods")
    for name, value in expected.items():
        assert getattr(error, name) == value
    assert str(error).startswith("cluster dev: reading pods: the API server answered 403: ")
    assert "secret" not in str(error)
    assert "secret" not in repr(Answer(403, headers, body))
