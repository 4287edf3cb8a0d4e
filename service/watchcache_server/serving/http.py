"""What an operator's machines ask over HTTP: /metrics, /healthz and /readyz.

/healthz says only that the event loop turns, which is what a restart can mend. /readyz says whether
to send callers here, and why not. Both answer from memory. Like gRPC it listens on loopback only,
until callers are authenticated.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder

from watchcache_server.model.errors import SettingsError
from watchcache_server.serving.readiness import Readiness
from watchcache_server.serving.server import check_address

__all__ = ["HttpServer"]

_SHUTDOWN_SECONDS: Final = 1.0


def _is_no_bad_request(record: logging.LogRecord) -> bool:
    """Let everything through but that a client does not speak HTTP, which it is told."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


_log = logging.getLogger("aiohttp.server.watchcache")
_log.addFilter(_is_no_bad_request)


class HttpServer:
    """Serves the three pages on one address."""

    def __init__(
        self,
        address: str,
        *,
        metrics: CollectorRegistry,
        gather: Callable[[], Awaitable[None]],
        readiness: Readiness,
    ) -> None:
        """Take HOST:PORT. `gather` is awaited before each reading of the metrics.

        Raises SettingsError when others could reach the address, or it is none.
        """
        self._host, self._port = _split(address)
        self._metrics = metrics
        self._gather = gather
        self._readiness = readiness
        self._runner: web.AppRunner | None = None
        #: What it listens on once started, with the port that was chosen.
        self.address = address

    async def start(self) -> None:
        """Listen. Raises SettingsError when the address cannot be bound."""
        app = web.Application()
        app.router.add_get("/metrics", self._metrics_page)
        app.router.add_get("/healthz", _health_page)
        app.router.add_get("/readyz", self._readiness_page)
        runner = web.AppRunner(
            app, access_log=None, logger=_log, shutdown_timeout=_SHUTDOWN_SECONDS
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self._port)
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise SettingsError(
                f"address {self.address!r} cannot be bound: {os.strerror(error.errno or 0)}; "
                "stop what uses it, or choose another in the setting http_listen"
            ) from error
        self._runner = runner
        self.address = _joined(*runner.addresses[0][:2])

    async def stop(self) -> None:
        """Stop listening and close all connections. May be called without a start."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _metrics_page(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(",".join(request.headers.getall("Accept", [])))
        await self._gather()
        # The values are taken here, on the event loop, which owns them; the text is written beside
        # it, since for many series that takes longer than any event should have to wait.
        taken = _Taken(list(self._metrics.collect()))
        body = await asyncio.to_thread(encode, taken)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _readiness_page(self, _: web.Request) -> web.Response:
        report = self._readiness.report()
        return web.json_response(report, status=200 if report["ready"] else 503)


class _Taken(CollectorRegistry):
    """Families whose values are taken already."""

    def __init__(self, families: Sequence[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def _health_page(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _split(address: str) -> tuple[str, int]:
    if address.startswith("unix:"):
        raise SettingsError(
            f"setting http_listen: {address!r} is no HOST:PORT; use for example 127.0.0.1:8080"
        )
    host, _, port = check_address(address).rpartition(":")
    return host.strip("[]"), int(port)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
