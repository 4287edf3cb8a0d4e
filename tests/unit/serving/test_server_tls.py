"""gRPC over TLS: what the settings tls_certificate and tls_key do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.controlplane.credentials import Credentials
from watchcache_server.model.errors import SettingsError
from watchcache_server.serving.server import GrpcServer
from watchcache_server.serving.service import WatchCacheService
from watchcache_server.settings import Settings


class _NoMethods:
    """Stands in for the service: health is all that is asked for here."""

    def handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler("none", {})


@asynccontextmanager
async def _serving(certificate: Path, key: Path) -> AsyncIterator[str]:
    settings = Settings(listen=("127.0.0.1:0",), tls_certificate=str(certificate), tls_key=str(key))
    server = GrpcServer(cast("WatchCacheService", _NoMethods()), settings)
    try:
        await server.start()
        yield server.addresses[0]
    finally:
        await server.stop(0)


async def _health(channel: grpc.aio.Channel) -> int:
    async with channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
        return int(answer.status)


async def test_a_client_that_trusts_the_certificate_is_served(tmp_path: Path) -> None:
    """With a certificate and its key gRPC is served over TLS."""
    made = Credentials(tmp_path)
    async with _serving(made.serving_certificate, made.serving_key) as address:
        trust = grpc.ssl_channel_credentials(made.ca_file.read_bytes())
        status = await _health(grpc.aio.secure_channel(address, trust))
    assert status == health_pb2.HealthCheckResponse.SERVING


async def test_nothing_is_served_without_tls_then(tmp_path: Path) -> None:
    """A client in plain text gets no answer from an address with TLS."""
    made = Credentials(tmp_path)
    async with _serving(made.serving_certificate, made.serving_key) as address:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _health(grpc.aio.insecure_channel(address))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        pytest.param("missing.crt", "server.key", id="no certificate"),
        pytest.param("server.crt", "missing.key", id="no key"),
        pytest.param("server.crt", "other.key", id="the key of another certificate"),
        pytest.param("server.key", "server.key", id="no certificate in the file"),
    ],
)
async def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, certificate: str, key: str
) -> None:
    """The service does not start with files that do not make a pair, and says which settings."""
    made, other = Credentials(tmp_path / "a"), Credentials(tmp_path / "b")
    for name, source in (
        ("server.crt", made.serving_certificate),
        ("server.key", made.serving_key),
        ("other.key", other.serving_key),
    ):
        (tmp_path / name).write_bytes(source.read_bytes())
    with pytest.raises(SettingsError, match=r"tls_certificate .* and tls_key .*give readable PEM"):
        async with _serving(tmp_path / certificate, tmp_path / key):
            raise AssertionError("it started")


@pytest.mark.parametrize("given", ["tls_certificate", "tls_key"])
def test_one_file_is_not_enough(given: str) -> None:
    """A certificate without a key, or the reverse, is refused with the settings."""
    with pytest.raises(SettingsError, match="one is given without the other"):
        Settings(**{given: "server.pem"})
