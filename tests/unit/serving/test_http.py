"""Rules of the HTTP pages."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge

from tests.unit.serving.registered import Clusters
from watchcache_server.model.errors import SettingsError
from watchcache_server.serving import http
from watchcache_server.serving.http import HttpServer
from watchcache_server.serving.readiness import Readiness

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Pages:
    """A server whose answers a test sets, and a client of it."""

    def __init__(self) -> None:
        self.metrics = CollectorRegistry()
        self.clusters = Clusters(hub=1.0)
        self.is_serving = True
        clusters: Any = self.clusters
        readiness = Readiness(
            clusters,
            is_serving=lambda: self.is_serving,
            is_draining=lambda: False,
            contact_seconds=60,
        )
        self.readiness = readiness
        self.gathered = 0
        self.server = self.serve("127.0.0.1:0")

    def serve(self, address: str) -> HttpServer:
        """Make a server of these pages."""
        return HttpServer(
            address, metrics=self.metrics, gather=self._gather, readiness=self.readiness
        )

    async def _gather(self) -> None:
        self.gathered += 1

    async def get(self, path: str, *, method: str = "GET", **headers: str) -> tuple[int, str, str]:
        """Return status, content type and text."""
        url = f"http://{self.server.address}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, headers=headers) as answer,
        ):
            return answer.status, answer.headers["Content-Type"], await answer.text()


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    """Give a server that listens."""
    pages = Pages()
    await pages.server.start()
    yield pages
    await pages.server.stop()


async def test_metrics_are_served_as_text(pages: Pages) -> None:
    """Whoever asks for nothing particular gets the classic format."""
    Gauge("things", "Things there are.", registry=pages.metrics).set(3)
    status, kind, text = await pages.get("/metrics")
    assert status == 200
    assert kind.startswith("text/plain; version=0.0.4")
    assert "\nthings 3.0\n" in text
    assert pages.gathered == 1


async def test_metrics_are_served_as_openmetrics_to_whoever_accepts_it(pages: Pages) -> None:
    """Prometheus does."""
    status, kind, text = await pages.get("/metrics", Accept=f"{OPENMETRICS}, text/plain;q=0.5")
    assert status == 200
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


async def test_health_is_that_the_loop_turns(pages: Pages) -> None:
    """A service that waits for its cluster is alive all the same: a restart would mend nothing."""
    pages.clusters.ages["hub"] = None
    status, kind, text = await pages.get("/healthz")
    assert (status, text) == (200, "ok\n")
    assert kind.startswith("text/plain")


@pytest.mark.parametrize(
    ("age", "status"), [pytest.param(1.0, 200, id="fresh"), pytest.param(None, 503, id="not yet")]
)
async def test_readiness_is_a_status_with_its_reasons(
    age: float | None, status: int, pages: Pages
) -> None:
    """Kubernetes reads the status, people the body."""
    pages.clusters.ages["hub"] = age
    code, kind, text = await pages.get("/readyz")
    assert code == status
    assert kind.startswith("application/json")
    assert ('"ready": true' in text) == (status == 200)


async def test_readiness_follows_the_service(pages: Pages) -> None:
    """Each answer is about now."""
    pages.is_serving = False
    assert (await pages.get("/readyz"))[0] == 503
    pages.is_serving = True
    assert (await pages.get("/readyz"))[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/", 404, id="no index"),
        pytest.param("GET", "/metrics/", 404, id="a slash too many"),
        pytest.param("POST", "/metrics", 405, id="nothing is written"),
        pytest.param("DELETE", "/healthz", 405, id="nothing is deleted"),
    ],
)
async def test_anything_else_is_refused_in_plain_words(
    method: str, path: str, status: int, pages: Pages
) -> None:
    """A mistaken address shows so at once."""
    code, kind, text = await pages.get(path, method=method)
    assert code == status
    assert kind.startswith("text/plain")
    assert text.startswith(str(status))


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        pytest.param("0.0.0.0:8080", "reached from other machines", id="all interfaces"),
        pytest.param("10.0.0.7:8080", "reached from other machines", id="another interface"),
        pytest.param("metrics.example:8080", "reached from other machines", id="a name"),
        pytest.param("127.0.0.1", "neither HOST:PORT", id="no port"),
        pytest.param("127.0.0.1:99999", "neither HOST:PORT", id="no such port"),
        pytest.param("unix:/run/metrics.sock", "no HOST:PORT", id="a socket of the file system"),
    ],
)
def test_only_loopback_addresses_are_taken(address: str, rule: str) -> None:
    """Callers are not authenticated."""
    with pytest.raises(SettingsError, match=rule):
        Pages().serve(address)


async def test_a_port_in_use_is_named_with_the_mend() -> None:
    """The start fails, and says which setting to change."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        server = Pages().serve(address)
        with pytest.raises(SettingsError, match=r"in use.*setting http_listen") as caught:
            await server.start()
    assert address in str(caught.value)


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        pytest.param("127.0.0.1:8080", "127.0.0.1", 8080, id="IPv4"),
        pytest.param("[::1]:8080", "::1", 8080, id="IPv6"),
        pytest.param("localhost:0", "localhost", 0, id="a name of this machine"),
    ],
)
def test_an_address_is_read_and_shown_as_in_a_url(address: str, host: str, port: int) -> None:
    """IPv6 stands in brackets, which are no part of it."""
    assert http._split(address) == (host, port)
    assert http._joined(host, port) == address


async def test_stopping_twice_or_unstarted_is_nothing() -> None:
    """Whoever cleans up need not know how far the start came."""
    pages = Pages()
    await pages.server.stop()
    await pages.server.start()
    await pages.server.stop()
    await pages.server.stop()
    with pytest.raises(aiohttp.ClientConnectionError):
        await pages.get("/healthz")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n" % (b"x" * 20_000), id="a long line"),
        pytest.param(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", id="a broken header"),
        pytest.param(b"\x16\x03\x01\x00\xa5\x01\x00\x00", id="TLS"),
    ],
)
async def test_what_is_no_request_is_told_and_not_logged(
    pages: Pages, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    """A port scanner fills no log with tracebacks."""
    host, _, port = pages.server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 "))
    assert caplog.records == []
