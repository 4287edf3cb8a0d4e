"""HTTP to one API server: requests go out, raw bytes come back.

    transport = Transport(endpoint, tls, limits=Limits(), reporter=reporter)
    async with await transport.open(request, authorization) as response:
        if response.status == 200:
            async for chunk in response.chunks():
                ...
    await transport.close()

It promises: one connection for each running watch and no limit on their number; no redirect is
followed and no proxy is used but the one of the endpoint; cookies are neither kept nor sent;
nothing is compressed; every wait has a limit (to connect, for the headers, for more of the body)
but the whole has none; every failure is a TransportError of `errors`. The Authorization header is
given with each request, so that a running informer outlives a rotation. Which credentials to use,
what a status means and what to do next is for others.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import time
from dataclasses import dataclass, field
from typing import Final

import aiohttp
import yarl

from watchcache_server.kubernetes.buffering import share_buffer
from watchcache_server.kubernetes.connector import Connector
from watchcache_server.kubernetes.errors import (
    NotHttpError,
    RedirectRefusedError,
    ResponseTimedOutError,
    TransportClosedError,
    TransportError,
)
from watchcache_server.kubernetes.failures import opening_failure
from watchcache_server.kubernetes.reporting import SILENT, RequestReporter
from watchcache_server.kubernetes.requests import Request
from watchcache_server.kubernetes.response import Response, let_go
from watchcache_server.kubernetes.tls import TlsSource

__all__ = ["Endpoint", "Limits", "Response", "Transport"]

_USER_AGENT: Final = f"watchcache-server/{importlib.metadata.version('watchcache-server')}"
# aiohttp stops reading a socket at twice this: what an informer can hold unread, while it is
# paused.
_READ_BUFFER_BYTES: Final = 64 * 1024
# Warning headers of an API server add up.
_HEADER_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an API server is: `url` may have a path (a gateway in front of several servers)."""

    cluster: str
    url: str
    tls_server_name: str | None = None
    proxy_url: str | None = field(default=None, repr=False)

    @property
    def server(self) -> str:
        """Host and port, for texts."""
        parsed = yarl.URL(self.url)
        return f"{parsed.host}:{parsed.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The waits of a request, in seconds. A request may carry limits of its own."""

    connect_seconds: float = 10.0
    # A list of a busy server waits for its turn (60 s is the server's own limit) before its
    # headers.
    response_seconds: float = 65.0
    idle_seconds: float = 65.0
    keepalive_seconds: float = 30.0


class Transport:
    """A pool of connections to one API server, all with the same TLS identity."""

    def __init__(
        self,
        endpoint: Endpoint,
        tls: TlsSource | None,
        *,
        limits: Limits | None = None,
        reporter: RequestReporter = SILENT,
    ) -> None:
        self.endpoint = endpoint
        self._tls = tls
        self._limits = limits or Limits()
        self._reporter = reporter
        self._session: aiohttp.ClientSession | None = None
        self._open_responses: set[Response] = set()
        self._is_closed = False
        self._base_url = endpoint.url.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=None, sock_connect=self._limits.connect_seconds, sock_read=None
        )

    async def open(self, request: Request, authorization: str | None) -> Response:
        """Send a request and return its answer once the headers are there, whatever the status.

        Raises a TransportError.
        """
        started = time.monotonic()
        method, cluster = request.method, self.endpoint.cluster
        try:
            response = await self._open(request, authorization)
        except TransportError as error:
            self._reporter.request_failed(cluster, method, error.reason, time.monotonic() - started)
            raise
        self._reporter.request_answered(
            cluster, method, response.status, time.monotonic() - started
        )
        return response

    async def close(self) -> None:
        """Close all connections. Readers of open answers get TransportClosedError."""
        self._is_closed = True
        # The session alone would leave readers of its answers waiting for ever.
        for response in tuple(self._open_responses):
            response.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _open(self, request: Request, authorization: str | None) -> Response:
        session = self._connected_session()
        headers = {"Accept": request.accept}
        if authorization is not None:
            headers["Authorization"] = authorization
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        limit_seconds = self._limits.connect_seconds + (
            request.response_seconds or self._limits.response_seconds
        )
        try:
            async with asyncio.timeout(limit_seconds):
                answer = await session.request(
                    request.method,
                    yarl.URL(self._base_url + request.target, encoded=True),
                    headers=headers,
                    data=request.body,
                    allow_redirects=False,
                    ssl=self._tls.context() if self._tls is not None else True,
                    server_hostname=self.endpoint.tls_server_name,
                    proxy=self.endpoint.proxy_url,
                )
        except aiohttp.ServerTimeoutError as error:
            raise opening_failure(error, self.endpoint.cluster, self.endpoint.server) from error
        except TimeoutError as error:
            raise ResponseTimedOutError(
                self.endpoint.cluster, self.endpoint.server, f"no answer within {limit_seconds:g} s"
            ) from error
        except (aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError) as error:
            raise opening_failure(error, self.endpoint.cluster, self.endpoint.server) from error
        try:
            self._check(answer)
        except TransportError:
            let_go(answer)
            raise
        connection = answer.connection
        if connection is not None and connection.transport is not None:
            share_buffer(connection.transport)
        idle = request.idle_seconds or self._limits.idle_seconds
        response = Response(
            answer,
            cluster=self.endpoint.cluster,
            server=self.endpoint.server,
            idle_seconds=idle,
            authorization=authorization,
            on_close=self._open_responses.discard,
        )
        self._open_responses.add(response)
        return response

    def _check(self, answer: aiohttp.ClientResponse) -> None:
        cluster, server = self.endpoint.cluster, self.endpoint.server
        if 300 <= answer.status < 400:
            raise RedirectRefusedError(
                cluster,
                server,
                f"answered {answer.status}, a redirect, which is never followed with credentials; "
                "put the address of the API server itself in the kubeconfig",
            )
        encoding = answer.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise NotHttpError(cluster, server, f"compresses ({encoding}) though asked not to")

    def _connected_session(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise TransportClosedError(
                self.endpoint.cluster, self.endpoint.server, "the cluster was removed"
            )
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=Connector(
                    limit=0,
                    keepalive_timeout=self._limits.keepalive_seconds,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"},
                timeout=self._timeout,
                trust_env=False,
                auto_decompress=False,
                raise_for_status=False,
                read_bufsize=_READ_BUFFER_BYTES,
                max_line_size=_HEADER_BYTES,
                max_field_size=_HEADER_BYTES,
            )
        return self._session
