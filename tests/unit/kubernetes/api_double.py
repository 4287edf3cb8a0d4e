"""A tiny HTTPS server that answers as a test says: the other end of the transport.

Handlers are put in `routes` by path, or in `otherwise`; every request is kept in `requests`.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.controlplane.credentials import Credentials
from watchcache_server.kubernetes.reporting import SilentReporter
from watchcache_server.kubernetes.tls import TlsMaterial, TlsSource
from watchcache_server.kubernetes.transport import Endpoint, Limits, Transport

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class ApiDouble:
    """The server: where it listens, what it was asked, and how to reach it."""

    pki: Credentials
    url: str = ""
    routes: dict[str, Handler] = field(default_factory=dict)
    requests: list[web.Request] = field(default_factory=list)
    transports: list[Transport] = field(default_factory=list)

    def answer(self, path: str, body: Any, *, status: int = 200, **headers: str) -> None:
        """Answer requests for `path` with this JSON."""

        async def handle(request: web.Request) -> web.StreamResponse:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            text = body if isinstance(body, str) else json.dumps(body)
            return web.Response(
                status=status, text=text, headers=named, content_type="application/json"
            )

        self.routes[path] = handle

    def refuse(self, path: str, code: int, reason: str = "", message: str = "") -> None:
        """Answer requests for `path` with a Status."""
        status = {"kind": "Status", "code": code, "reason": reason, "message": message}
        self.answer(path, status, status=code)

    def asked(self, path: str) -> int:
        """Say how often `path` was asked for."""
        return sum(request.path == path for request in self.requests)

    def material(self) -> TlsMaterial:
        """Return TLS material that trusts this server."""
        return TlsMaterial(ca_file=self.pki.ca_file)

    def transport(
        self,
        *,
        material: TlsMaterial | None = None,
        limits: Limits | None = None,
        url: str | None = None,
        reporter: SilentReporter | None = None,
        proxy_url: str | None = None,
    ) -> Transport:
        """Return a transport to this server, or to `url`; it is closed with the server."""
        address = url or self.url
        transport = Transport(
            Endpoint("dev", address, proxy_url=proxy_url),
            TlsSource(material or self.material()) if address.startswith("https") else None,
            limits=limits,
            reporter=reporter or SilentReporter(),
        )
        self.transports.append(transport)
        return transport

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Keep the request and give it to its handler."""
        self.requests.append(request)
        await request.read()
        handler = self.routes.get(request.path)
        if handler is None:
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        return await handler(request)


@asynccontextmanager
async def serve(
    pki: Credentials, *, wants_certificate: bool = False, is_plain: bool = False
) -> AsyncIterator[ApiDouble]:
    """Serve on a free loopback port."""
    api = ApiDouble(pki)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.serving_certificate, pki.serving_key)
    context.load_verify_locations(pki.ca_file)
    if wants_certificate:
        context.verify_mode = ssl.CERT_OPTIONAL
    runner = web.ServerRunner(web.Server(api.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=None if is_plain else context)
    await site.start()
    port = runner.addresses[0][1]
    api.url = f"{'http' if is_plain else 'https'}://127.0.0.1:{port}"
    try:
        yield api
    finally:
        for transport in api.transports:
            await transport.close()
        await runner.cleanup()
