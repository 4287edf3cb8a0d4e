"""The way in: addresses, TLS, and what is said when nobody answers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import watchcache
from tests.unit.client.fake_service import FakeService, Fault, serving
from tests.unit.client.waiting import LIMIT_SECONDS
from watchcache import ConnectionSettingsError
from watchcache.details import StatusDetails
from watchcache.errors import from_rpc_error
from watchcache.service import target_of
from watchcache.v1alpha1.watch_cache_service_pb2_grpc import (
    add_WatchCacheServiceServicer_to_server,
)


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("127.0.0.1:7443", "127.0.0.1:7443"),
        ("127.0.0.1", "127.0.0.1:7443"),
        ("watchcache.tools.svc", "watchcache.tools.svc:7443"),
        ("[::1]:99", "[::1]:99"),
        ("[::1]", "[::1]:7443"),
        ("unix:/run/watchcache.sock", "unix:/run/watchcache.sock"),
        ("unix:relative.sock", "unix:relative.sock"),
        ("dns:///watchcache:7443", "dns:///watchcache:7443"),
        ("ipv4:10.0.0.1:7443", "ipv4:10.0.0.1:7443"),
    ],
)
def test_an_address_is_host_and_port_or_a_socket(address: str, target: str) -> None:
    """GRPC's own targets pass; the port may be left out."""
    assert target_of(address) == target


@pytest.mark.parametrize(
    "address", ["http://x:7443", "https://x", "x:0", "x:70000", "a b", "::1", "x:", "/run/x.sock"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    """The error shows the forms that there are."""
    with pytest.raises(ConnectionSettingsError, match="host:port or unix:/path"):
        watchcache.connect(address)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument goes before the environment, and that before the default."""
    assert watchcache.connect().address == "127.0.0.1:7443"
    monkeypatch.setenv("WATCHCACHE_ADDRESS", "unix:/run/w.sock")
    assert watchcache.connect().address == "unix:/run/w.sock"
    assert watchcache.connect("h:1").address == "h:1"
    assert repr(watchcache.connect("h:1")) == "<Connection to h:1, closed>"


def test_probes_more_often_than_is_allowed_are_refused() -> None:
    """The service would close such a connection, again and again."""
    with pytest.raises(ConnectionSettingsError, match="10 s"):
        watchcache.connect(keepalive="5s")


async def test_a_connection_is_used_within_its_context(service: FakeService) -> None:
    """Outside of it there is nothing to send with."""
    connection = watchcache.connect(service.address)
    async with connection:
        assert await connection.clusters() == ()
        assert "open" in repr(connection)
    with pytest.raises(ConnectionSettingsError, match="async with"):
        await connection.clusters()


async def test_deregistering_needs_no_extension(service: FakeService) -> None:
    """Its name is enough."""
    async with watchcache.connect(service.address) as connection:
        assert await connection.deregister("team-a/shop")
    (request,) = service.requests
    assert (request.namespace, request.name) == ("team-a", "shop")


async def test_a_unix_socket_is_served_and_reached(tmp_path: Path) -> None:
    """Without a port, and without a proxy in between."""
    address = f"unix:{tmp_path}/w.sock"
    async with serving(FakeService(), address), watchcache.connect(address) as connection:
        assert await connection.clusters() == ()


async def test_a_proxy_is_not_asked_for_what_is_local(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy set for the outside world cannot know the way to this machine's own loopback."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    port = service.address.rpartition(":")[2]
    for host in ("127.0.0.1", "localhost"):
        async with watchcache.connect(f"{host}:{port}") as connection:
            assert await connection.clusters() == ()


async def test_nobody_there_is_said_plainly() -> None:
    """With the address, the cause and what to do."""
    async with serving(FakeService()) as service:
        address = service.address
    async with watchcache.connect(address) as connection:
        with pytest.raises(watchcache.UnavailableError) as caught:
            await connection.clusters()
    assert str(caught.value) == (
        f"cannot reach watchcache at {address}: Connection refused; see that it runs there, "
        "or give another address (WATCHCACHE_ADDRESS, unless one was given)"
    )
    assert caught.value.reason == "UNAVAILABLE"


def test_the_cause_is_told_without_what_grpc_puts_before_it() -> None:
    """The address is told once, and the cause is what helps."""
    before = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: "
    for cause in ("Failed to connect to remote host: No route", "timed out"):
        error = grpc.aio.AioRpcError(
            grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), before + cause
        )
        told = str(from_rpc_error(error, address="h:1"))
        plain = cause.removeprefix("Failed to connect to remote host: ")
        assert told.startswith(f"cannot reach watchcache at h:1: {plain}; see that")


async def test_a_service_that_is_briefly_away_is_asked_again(service: FakeService) -> None:
    """Calls that change nothing when repeated are repeated."""
    service.answers["ListClusters"] = [Fault(grpc.StatusCode.UNAVAILABLE, "STARTING")] * 2
    async with watchcache.connect(service.address) as connection:
        assert await connection.clusters() == ()
    assert len(service.requests) == 3


async def test_a_call_has_a_time_limit() -> None:
    """A service that does not answer holds up nobody for longer."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])

    class Silent(FakeService):
        async def ListClusters(self, request: Any, context: Any) -> Any:  # noqa: N802
            await asyncio.sleep(LIMIT_SECONDS)

    add_WatchCacheServiceServicer_to_server(Silent(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with watchcache.connect(f"127.0.0.1:{port}", timeout="200ms") as connection:
        with pytest.raises(watchcache.DeadlineExceededError, match="no answer from watchcache at"):
            await connection.clusters()
    await server.stop(None)


async def test_another_service_at_the_address_is_told() -> None:
    """Whoever mistakes the port learns it."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with watchcache.connect(f"127.0.0.1:{port}") as connection:
        with pytest.raises(watchcache.UnimplementedError, match="does not serve watchcache"):
            await connection.clusters()
    await server.stop(None)


def test_details_that_cannot_be_read_do_not_hide_the_error() -> None:
    """The status alone is told then."""
    trailers = grpc.aio.Metadata(("other", "x"), ("grpc-status-details-bin", b"\xff"))
    error = grpc.aio.AioRpcError(
        grpc.StatusCode.NOT_FOUND, grpc.aio.Metadata(), trailers, details="gone"
    )
    translated = from_rpc_error(error, address="h:1")
    assert isinstance(translated, watchcache.NotFoundError)
    assert (str(translated), translated.reason) == ("gone", "NOT_FOUND")
    assert translated.metadata == StatusDetails().metadata


def _certificate(folder: Path) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "watchcache")])
    now = datetime.now(UTC)
    names: list[x509.GeneralName] = [x509.IPAddress(ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / "ca.pem").write_bytes(pem)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private, pem


async def test_tls_checks_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the certificates of the CA file, by argument or from the environment."""
    credentials = grpc.ssl_server_credentials([_certificate(tmp_path)])
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_WatchCacheServiceServicer_to_server(FakeService(), server)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    address, ca_file = f"127.0.0.1:{port}", str(tmp_path / "ca.pem")
    async with watchcache.connect(address, ca_file=ca_file) as connection:
        assert await connection.clusters() == ()
    monkeypatch.setenv("WATCHCACHE_CA_FILE", ca_file)
    async with watchcache.connect(address) as connection:
        assert await connection.clusters() == ()
    await server.stop(None)


async def test_a_ca_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """Missing, or no certificate: the path and what to do."""
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    for path, told in ((str(wrong), "PEM form"), (str(tmp_path / "none"), "cannot be read")):
        with pytest.raises(ConnectionSettingsError, match=told):
            await watchcache.connect(ca_file=path).__aenter__()


def test_every_public_name_can_be_imported() -> None:
    """Names are loaded when they are used, and all of them are there."""
    for name in watchcache.__all__:
        assert getattr(watchcache, name) is not None
    assert set(dir(watchcache)) == set(watchcache.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = watchcache.no_such_name  # type: ignore[attr-defined]
