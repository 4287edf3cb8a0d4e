"""A JSON client for a Kubernetes API server, thin enough that a test sees every byte that matters.

It promises that nothing is retried, corrected or filled in; a call that hangs fails after a
limit. What an answer should be is the tests' business.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiohttp

__all__ = ["Answer", "Api", "Endpoint", "WatchStream", "eventually", "unique"]

_LIMIT_SECONDS = 20.0
_POLL_SECONDS = 0.02


def unique(stem: str) -> str:
    """Return a name that no other test uses."""
    return f"{stem}-{secrets.token_hex(4)}"


async def eventually(
    condition: Callable[[], Awaitable[bool]], what: str, *, seconds: float = _LIMIT_SECONDS
) -> None:
    """Return when `condition` holds; fail, naming `what` was waited for, when it does not."""
    try:
        async with asyncio.timeout(seconds):
            while not await condition():  # noqa: ASYNC110 - the server under test sets no event
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as error:
        raise AssertionError(f"in vain waited until {what}") from error


class Server(Protocol):
    """An API server that runs: a dev cluster, or a control plane."""

    @property
    def url(self) -> str: ...

    @property
    def ca_file(self) -> Path: ...

    @property
    def admin_token(self) -> str: ...


def _nothing() -> None:
    return


@dataclass(frozen=True)
class Endpoint:
    """A server under test, and what only its fixture can do to it."""

    name: str
    url: str
    ca_file: Path
    admin_token: str
    kubeconfig: Path
    expire_history: Callable[[], None]
    """Forget every past version, so that a watch or a list from one is 410. Blocks."""
    run_controllers: Callable[[], None]
    """Have the namespaces that are deleted emptied and removed from now on. Blocks."""

    @classmethod
    def of(
        cls,
        server: Server,
        kubeconfig: Path,
        *,
        name: str,
        expire_history: Callable[[], None] = _nothing,
        run_controllers: Callable[[], None] = _nothing,
    ) -> Endpoint:
        """Make that of a server that runs and whose kubeconfig is there."""
        return cls(
            name=name,
            url=server.url,
            ca_file=server.ca_file,
            admin_token=server.admin_token,
            kubeconfig=kubeconfig,
            expire_history=expire_history,
            run_controllers=run_controllers,
        )


@dataclass(frozen=True)
class Answer:
    """What a server answered: JSON where it is JSON, else the text."""

    status: int
    headers: Mapping[str, str]
    body: Any = field(repr=False)


class WatchStream:
    """The events of one open watch, in order."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._buffer = b""
        self.headers: Mapping[str, str] = response.headers

    async def next(self) -> dict[str, Any]:
        """Return the next event, whatever its type; fail if the stream ends or stays silent."""
        line = await self._line()
        assert line is not None, "the stream ended where an event was expected"
        return line

    async def next_change(self) -> dict[str, Any]:
        """Return the next event that is not a bookmark."""
        while (event := await self.next())["type"] == "BOOKMARK":
            pass
        return event

    async def take(self, count: int) -> list[dict[str, Any]]:
        """Return the next `count` events."""
        return [await self.next() for _ in range(count)]

    async def rest(self) -> list[dict[str, Any]]:
        """Return the events until the server ends the stream."""
        events: list[dict[str, Any]] = []
        while (event := await self._line()) is not None:
            events.append(event)
        return events

    async def _line(self) -> dict[str, Any] | None:
        # Not the reader's own readline, which refuses long lines.
        async with asyncio.timeout(_LIMIT_SECONDS):
            while b"\n" not in self._buffer:
                chunk = await self._response.content.readany()
                if not chunk:
                    assert not self._buffer, f"the stream ended in an event: {self._buffer!r}"
                    return None
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event


class Api:
    """Calls to one server, as its administrator unless another token is given."""

    def __init__(self, endpoint: Endpoint, session: aiohttp.ClientSession) -> None:
        self.endpoint = endpoint
        self._session = session
        self._trust = ssl.create_default_context(cafile=endpoint.ca_file)

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        expect: int | None = None,
        accept: str = "application/json",
        content_type: str = "application/json",
        token: str | None = None,
        **query: str | int,
    ) -> Answer:
        """Send one request and return the answer; with `expect`, fail on any other status.

        An empty `token` sends no credentials. `body` is sent as JSON, or as it is when it is bytes.
        """
        async with (
            asyncio.timeout(_LIMIT_SECONDS),
            self._open(
                method,
                path,
                body,
                accept=accept,
                content_type=content_type,
                token=token,
                query=query,
            ) as response,
        ):
            text = await response.text()
            is_json = response.content_type.endswith("json")
            answer = Answer(
                response.status, response.headers, json.loads(text) if is_json else text
            )
        if expect is not None:
            assert answer.status == expect, f"{method} {path} {query}: {answer.status} {text}"
        return answer

    async def get(self, path: str, **options: Any) -> Any:
        """Return the body of a GET that must be 200 unless `expect` says otherwise."""
        return (await self.call("GET", path, expect=options.pop("expect", 200), **options)).body

    async def create(self, path: str, body: object, **options: Any) -> Any:
        """Return the body of a POST that must be 201 unless `expect` says otherwise."""
        expect = options.pop("expect", 201)
        return (await self.call("POST", path, body, expect=expect, **options)).body

    async def replace(self, path: str, body: object, **options: Any) -> Any:
        """Return the body of a PUT that must be 200 unless `expect` says otherwise."""
        expect = options.pop("expect", 200)
        return (await self.call("PUT", path, body, expect=expect, **options)).body

    async def patch(self, path: str, body: object, kind: str = "merge", **options: Any) -> Any:
        """Return the body of a PATCH that must be 200 unless `expect` says otherwise."""
        media_type = {
            "json": "application/json-patch+json",
            "merge": "application/merge-patch+json",
            "strategic": "application/strategic-merge-patch+json",
            "apply": "application/apply-patch+yaml",
        }[kind]
        expect = options.pop("expect", 200)
        answer = await self.call(
            "PATCH", path, body, expect=expect, content_type=media_type, **options
        )
        return answer.body

    async def delete(self, path: str, body: object = None, **options: Any) -> Any:
        """Return the body of a DELETE that must be 200 unless `expect` says otherwise."""
        expect = options.pop("expect", 200)
        return (await self.call("DELETE", path, body, expect=expect, **options)).body

    @asynccontextmanager
    async def watch(
        self,
        path: str,
        *,
        accept: str = "application/json",
        token: str | None = None,
        **query: str | int,
    ) -> AsyncIterator[WatchStream]:
        """Open a watch, which must be answered by 200."""
        async with self._open(
            "GET",
            path,
            None,
            accept=accept,
            content_type="",
            token=token,
            query={"watch": "true", **query},
        ) as response:
            assert response.status == 200, f"{path} {query}: {await response.text()}"
            try:
                yield WatchStream(response)
            finally:
                # Cut, not closed: a TLS goodbye could outlast the test's event loop.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        body: object,
        *,
        accept: str,
        content_type: str,
        token: str | None,
        query: Mapping[str, str | int],
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Accept": accept, "User-Agent": "watchcache-contract"}
        used_token = self.endpoint.admin_token if token is None else token
        if used_token:
            headers["Authorization"] = f"Bearer {used_token}"
        data: bytes | None = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self._session.request(
            method,
            f"{self.endpoint.url}{path}",
            data=data,
            headers=headers,
            params=query,
            ssl=self._trust,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as response:
            yield response
