"""Requests to a dev cluster as its administrator, for tests that need its sockets."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from watchcache_devcluster import DevCluster

__all__ = ["Answer", "Caller", "Lines", "calling"]

LIMIT_SECONDS = 10.0
Answer = tuple[int, Any]


class Lines:
    """The lines of one watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> dict[str, Any]:
        """Return the next event."""
        line = await asyncio.wait_for(self.response.content.readline(), LIMIT_SECONDS)
        event: dict[str, Any] = json.loads(line)
        return event

    async def raw_rest(self) -> bytes:
        """Return everything up to the end of the stream; raises if it ends badly."""
        return await asyncio.wait_for(self.response.content.read(), LIMIT_SECONDS)


class Caller:
    """Calls one cluster."""

    def __init__(self, cluster: DevCluster, session: aiohttp.ClientSession) -> None:
        self._cluster = cluster
        self._session = session
        self._trust = ssl.create_default_context(cadata=cluster.ca_pem.decode())

    @asynccontextmanager
    async def open(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, as administrator unless `Authorization` is given."""
        sent = {"Authorization": f"Bearer {self._cluster.admin_token}", **headers}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent.setdefault("Content-Type", "application/json")
        async with self._session.request(
            method, f"{self._cluster.url}{path}", data=data, headers=sent, ssl=self._trust
        ) as response:
            yield response

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request; return the status and the body."""
        async with (
            asyncio.timeout(LIMIT_SECONDS),
            self.open(method, path, body, **headers) as response,
        ):
            text = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(text) if is_json else text

    @asynccontextmanager
    async def watch(self, path: str, **headers: str) -> AsyncIterator[Lines]:
        """Open a watch from now on; its first event is the end of an empty start."""
        separator = "&" if "?" in path else "?"
        query = f"{separator}watch=true&allowWatchBookmarks=true"
        async with self.open("GET", f"{path}{query}", **headers) as response:
            assert response.status == 200, await response.text()
            yield Lines(response)


@asynccontextmanager
async def calling(cluster: DevCluster) -> AsyncIterator[Caller]:
    """Give a caller with connections of its own."""
    async with aiohttp.ClientSession() as session:
        yield Caller(cluster, session)
