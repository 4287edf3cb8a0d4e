"""Rules of asking a running service how it is."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from watchcache_server.model.errors import SettingsError
from watchcache_server.serving.probe import ask_health

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@dataclass(frozen=True)
class Pair:
    """A certificate that somebody else has signed, and its key."""

    certificate: bytes
    key: bytes


def pair(*names: x509.GeneralName) -> Pair:
    """Make a pair for these names, of an authority that nobody knows."""
    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    now = dt.datetime.now(dt.UTC)
    issuer, subject = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("ca", "leaf")
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority, hashes.SHA256())
    )
    return Pair(
        made.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


@asynccontextmanager
async def serving(
    status: Any = SERVING, *, address: str = "127.0.0.1:0", tls: Pair | None = None
) -> AsyncIterator[str]:
    """Serve gRPC health with this status; give the address."""
    server = grpc.aio.server()
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    await servicer.set("", status)
    if tls is None:
        port = server.add_insecure_port(address)
    else:
        credentials = grpc.ssl_server_credentials([(tls.key, tls.certificate)])
        port = server.add_secure_port(address, credentials)
    await server.start()
    try:
        yield address if address.startswith("unix:") else f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def test_a_service_that_serves_is_well() -> None:
    """There is nothing to say about it."""
    async with serving() as address:
        assert await ask_health(address) == ""


async def test_a_service_that_drains_is_not_well() -> None:
    """The word of the health service is told."""
    async with serving(NOT_SERVING) as address:
        assert await ask_health(address) == f"{address} says NOT_SERVING"


async def test_a_socket_of_the_file_system_is_asked_too(tmp_path: Path) -> None:
    """The form is that of the setting listen."""
    async with serving(address=f"unix:{tmp_path / 'service.sock'}") as address:
        assert await ask_health(address) == ""


async def test_nobody_there_is_told_with_the_address() -> None:
    """The reason is gRPC's."""
    async with serving() as address:
        pass
    told = await ask_health(address)
    assert told.startswith(f"no answer from {address}: UNAVAILABLE")


async def test_silence_has_an_end() -> None:
    """A service that takes the connection and says nothing is not well."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        told = await ask_health(address, seconds=0.2)
    assert told == f"no answer from {address} within 0.2 s"


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([x509.DNSName("watchcache.team-a.svc")], id="a name of another place"),
        pytest.param([x509.DNSName("*.team-a.svc")], id="a wildcard"),
        pytest.param([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))], id="an address"),
    ],
)
async def test_the_certificate_that_the_service_was_given_is_trusted(
    names: list[x509.GeneralName], tmp_path: Path
) -> None:
    """Whoever signed it, and whatever name it is for: it is the one in the settings."""
    tls = pair(*names)
    file = tmp_path / "tls.crt"
    file.write_bytes(tls.certificate)
    async with serving(tls=tls) as address:
        assert await ask_health(address, certificate=str(file)) == ""


async def test_a_socket_with_tls_is_asked_too(tmp_path: Path) -> None:
    """Every address serves with the certificate once there is one."""
    tls = pair(x509.DNSName("watchcache"))
    file = tmp_path / "tls.crt"
    file.write_bytes(tls.certificate)
    async with serving(address=f"unix:{tmp_path / 'service.sock'}", tls=tls) as address:
        assert await ask_health(address, certificate=str(file)) == ""


async def test_another_certificate_is_not_trusted(tmp_path: Path) -> None:
    """Somebody else on this address is not the service."""
    file = tmp_path / "tls.crt"
    file.write_bytes(pair(x509.DNSName("watchcache")).certificate)
    async with serving(tls=pair(x509.DNSName("watchcache"))) as address:
        told = await ask_health(address, certificate=str(file))
    assert "certificate verify failed" in told.lower()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda folder: folder / "missing.crt", id="no such file"),
        pytest.param(lambda folder: folder, id="a folder"),
    ],
)
async def test_a_certificate_that_cannot_be_read_is_a_setting_that_is_wrong(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    """The setting is named."""
    with pytest.raises(SettingsError, match="setting tls_certificate"):
        await ask_health("127.0.0.1:1", certificate=str(make(tmp_path)))
