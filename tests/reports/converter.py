"""A conversion webhook of a custom kind, which breaks as a test says.

    async with Converter(credentials) as converter:
        definition = converter.definition(kind)
        converter.breaks = Breakage.STATUS_500

It is served over HTTPS, as an API server demands. Between versions it changes nothing but the
apiVersion, and says so in an annotation.
"""

from __future__ import annotations

import asyncio
import base64
import enum
import ssl
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tests.contract.definitions import CustomKind
from tests.controlplane.credentials import Credentials

__all__ = ["Breakage", "Converter"]

_PATH = "/convert"


class Breakage(enum.Enum):
    """What is wrong with it."""

    NOTHING = "nothing"
    REFUSED = "refused"
    HANGING = "hanging"
    STATUS_500 = "status 500"
    GARBAGE = "garbage"


class Converter:
    """Listens on a free loopback port, which it keeps while it refuses."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._trust.load_cert_chain(credentials.serving_certificate, credentials.serving_key)
        self._runner: web.AppRunner
        self._site: web.TCPSite | None = None
        self._port = 0
        self._breaks = Breakage.NOTHING
        self._let_go = asyncio.Event()

    async def break_by(self, breakage: Breakage) -> None:
        """Be broken so from now on; those who hang are let go."""
        self._let_go.set()
        self._let_go = asyncio.Event()
        self._breaks = breakage
        if breakage is Breakage.REFUSED and self._site is not None:
            await self._site.stop()
            self._site = None
        elif breakage is not Breakage.REFUSED and self._site is None:
            await self._listen()

    def definition(self, kind: CustomKind) -> dict[str, Any]:
        """Return the definition of a kind whose versions this converts."""
        authority = self._credentials.ca_file.read_bytes()
        return kind.definition(
            conversion={
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {
                        "url": f"https://127.0.0.1:{self._port}{_PATH}",
                        "caBundle": base64.b64encode(authority).decode(),
                    },
                },
            }
        )

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post(_PATH, self._convert)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._listen()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._let_go.set()
        await self._runner.cleanup()

    async def _listen(self) -> None:
        self._site = web.TCPSite(
            self._runner, "127.0.0.1", self._port, ssl_context=self._trust, reuse_address=True
        )
        await self._site.start()
        (self._port,) = (port for _, port in self._runner.addresses)

    async def _convert(self, request: web.Request) -> web.Response:
        response = await self._answer(request)
        # A kept connection would outlive the listener.
        response.force_close()
        return response

    async def _answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        asked = review["request"]
        match self._breaks:
            case Breakage.HANGING:
                await self._let_go.wait()
            case Breakage.STATUS_500:
                return web.json_response({"message": "out of order"}, status=500)
            case Breakage.GARBAGE:
                return web.Response(text="<html>It works!</html>", content_type="text/html")
        converted = [each | {"apiVersion": asked["desiredAPIVersion"]} for each in asked["objects"]]
        review["response"] = {
            "uid": asked["uid"],
            "convertedObjects": converted,
            "result": {"status": "Success"},
        }
        return web.json_response(review)
