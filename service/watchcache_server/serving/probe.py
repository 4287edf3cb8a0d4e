"""Asks a running service how it is, over gRPC, as its own container's health check does."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from watchcache_server.model.errors import SettingsError

__all__ = ["ask_health"]


async def ask_health(address: str, *, certificate: str = "", seconds: float = 3.0) -> str:
    """Return what is wrong with the service at an address; empty when it serves.

    `certificate` is the file that the service serves TLS with: that very certificate is trusted,
    whatever its names and whoever signed it. Raises SettingsError when it cannot be read.
    """
    try:
        async with asyncio.timeout(seconds), await _channel(address, certificate) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            answer = await stub.Check(health_pb2.HealthCheckRequest())
    except TimeoutError:
        return f"no answer from {address} within {seconds:g} s"
    except grpc.aio.AioRpcError as error:
        return f"no answer from {address}: {error.code().name}: {error.details()}"
    except (OSError, ssl.SSLError) as error:
        return f"no answer from {address}: {error}"
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        return f"{address} says {health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}"
    return ""


async def _channel(address: str, certificate: str) -> grpc.aio.Channel:
    if not certificate:
        return grpc.aio.insecure_channel(address)
    pem = _read(certificate)
    name = await asyncio.to_thread(_name_in_certificate, address, certificate)
    return grpc.aio.secure_channel(
        address,
        grpc.ssl_channel_credentials(root_certificates=pem),
        options=[("grpc.ssl_target_name_override", name)] if name else None,
    )


def _read(certificate: str) -> bytes:
    try:
        return Path(certificate).read_bytes()
    except OSError as error:
        raise SettingsError(
            f"setting tls_certificate: {certificate}: {error.strerror}; give a readable PEM file"
        ) from error


def _name_in_certificate(address: str, certificate: str) -> str:
    """Return a name that the certificate is for; the service is seldom asked under it here."""
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    with _connect(address) as plain, context.wrap_socket(plain) as secured:
        peer: Any = secured.getpeercert()
    names = [name for kind, name in peer.get("subjectAltName", ()) if kind == "DNS"]
    return names[0].replace("*", "any") if names else ""


def _connect(address: str) -> socket.socket:
    if not address.startswith("unix:"):
        host, _, port = address.rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), timeout=1.0)
    plain = socket.socket(socket.AF_UNIX)
    plain.settimeout(1.0)
    plain.connect(address.removeprefix("unix:").removeprefix("//"))
    return plain
