"""One identity at one API server: a transport and the credentials that go with it.

    access = ApiAccess(transport, credentials, identity="serviceaccount team-a/shop")
    response = await access.open(request)    # a stream: list or watch; a 401 is the caller's
    answer = await access.call(request)      # a small whole answer, tried once more after a 401

Informers of one identity share one `ApiAccess`.
"""

from __future__ import annotations

from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.credentials import Credentials
from watchcache_server.kubernetes.errors import ConnectionResetByServerError
from watchcache_server.kubernetes.requests import Request
from watchcache_server.kubernetes.transport import Response, Transport

__all__ = ["ApiAccess"]


class ApiAccess:
    """Sends requests as one identity."""

    __slots__ = ("credentials", "identity", "transport")

    def __init__(self, transport: Transport, credentials: Credentials, *, identity: str) -> None:
        self.transport = transport
        self.credentials = credentials
        #: Who this is, for people.
        self.identity = identity

    def __repr__(self) -> str:
        return f"<ApiAccess to {self.cluster} as {self.identity}>"

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.transport.endpoint.cluster

    async def open(self, request: Request) -> Response:
        """Send a request; return its answer, whatever its status, when the headers are there.

        Raises a TransportError or a CredentialsError.
        """
        return await self.transport.open(request, await self.credentials.authorization())

    async def call(self, request: Request, *, limit_bytes: int = 1024 * 1024) -> Answer:
        """Send a request and read its whole answer; after a 401 refresh and try once more.

        Raises a TransportError or a CredentialsError; an answer of any status is returned.
        """
        answer, sent = await self._call(request, limit_bytes)
        if answer.code != 401:
            return answer
        await self.credentials.refresh(sent)
        if await self.credentials.authorization() == sent:
            return answer
        answer, _ = await self._call(request, limit_bytes)
        return answer

    async def _call(self, request: Request, limit_bytes: int) -> tuple[Answer, str | None]:
        try:
            response = await self.open(request)
        except ConnectionResetByServerError:
            # A kept connection may be closed by the server just as it is used. The transport tries
            # a GET again by itself; what this service posts (token requests) is as harmless.
            response = await self.open(request)
        async with response:
            body = await response.read(limit_bytes)
            return Answer(response.status, response.headers, body), response.authorization
