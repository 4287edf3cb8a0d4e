"""The gRPC server: addresses, TLS, limits, health, reflection, and how it stops."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import re
import socket
import ssl
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from watchcache_server.model.errors import SettingsError
from watchcache_server.serving.aging import connection_options
from watchcache_server.serving.service import SERVICE_NAME, WatchCacheService
from watchcache_server.settings import Settings

__all__ = ["GrpcServer", "check_address"]

_HEALTH_SECONDS: Final = 1.0
# Calls that a connection has room for beside the streams that it may have.
_SPARE_STREAMS: Final = 100
_LONGEST_WAIT_SECONDS: Final = 3600
_PORT: Final = re.compile(r"[0-9]{1,5}")


def check_address(address: str) -> str:
    """Return an address that only this machine can reach, in gRPC's form.

    Raises SettingsError for any other: callers are not authenticated, and whoever can connect can
    read everything that any extension holds.
    """
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        if not path.strip("/"):
            raise SettingsError(f"address {address!r}: the path of the socket is missing")
        return address
    host, colon, port = address.rpartition(":")
    is_bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not colon or is_bare_ipv6 or not _PORT.fullmatch(port) or int(port) > 65535:
        raise SettingsError(
            f"address {address!r} is neither HOST:PORT nor unix:PATH; use for example "
            "127.0.0.1:7443 or [::1]:7443"
        )
    if host == "localhost":
        return address
    try:
        is_loopback = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise SettingsError(
            f"address {address!r} can be reached from other machines, and callers are not "
            "authenticated yet; use a loopback address or unix:PATH"
        )
    return address


class GrpcServer:
    """Serves WatchCacheService, health and reflection."""

    def __init__(self, service: WatchCacheService, settings: Settings) -> None:
        self._settings = settings
        self._server = grpc.aio.server(options=_options(settings))
        self._server.add_generic_rpc_handlers((service.handler(),))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if settings.reflection:
            reflection.enable_server_reflection(
                (
                    SERVICE_NAME,
                    health.SERVICE_NAME,
                    reflection.SERVICE_NAME,
                ),
                self._server,
            )
        #: The addresses bound, with the ports that were chosen.
        self.addresses: list[str] = []
        #: Whether it has started and takes RPCs.
        self.is_serving = False

    async def start(self) -> None:
        """Bind all addresses and serve.

        Raises SettingsError when one cannot be bound, or the certificate cannot be used.
        """
        credentials = _credentials(self._settings)
        for address in self._settings.listen:
            self.addresses.append(self._bind(check_address(address), credentials))
        await self._start()
        self.is_serving = True
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)

    async def _start(self) -> None:
        # A server whose start was cancelled midway cannot be stopped any more: it is let start.
        starting = asyncio.ensure_future(self._server.start())
        try:
            await asyncio.shield(starting)
        finally:
            await starting

    def _bind(self, address: str, credentials: grpc.ServerCredentials | None) -> str:
        if address.startswith("unix:"):
            _remove_stale_socket(Path(address.removeprefix("unix:")))
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise _cannot_bind(address, _why_not(address)) from error
        if address.startswith("unix:"):
            return address
        return f"{address.rpartition(':')[0]}:{port}"

    async def _set_health(self, status: Any) -> None:
        # A health watcher that takes nothing would hold this up for ever.
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                for name in ("", SERVICE_NAME):
                    await self._health.set(name, status)
        except TimeoutError:
            return

    async def not_serving(self) -> None:
        """Tell health checks that the service goes away."""
        self.is_serving = False
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)

    async def stop(self, grace_seconds: float) -> None:
        """Take no more RPCs; give those that run so long to end."""
        await self._server.stop(grace_seconds)


def _credentials(settings: Settings) -> grpc.ServerCredentials | None:
    """Return what to serve TLS with, None without. Raises SettingsError for unusable files."""
    if not settings.tls_certificate:
        return None
    certificate, key = Path(settings.tls_certificate), Path(settings.tls_key)
    try:
        # gRPC itself would only say, in its own log and to nobody else, that a key does not fit.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
        pair = (key.read_bytes(), certificate.read_bytes())
    except OSError as error:
        raise SettingsError(
            f"settings tls_certificate {str(certificate)!r} and tls_key {str(key)!r}: "
            f"{error.strerror or error}; give readable PEM files, the key unencrypted, that belong "
            "together"
        ) from error
    return grpc.ssl_server_credentials([pair])


def _options(settings: Settings) -> list[tuple[str, int]]:
    milli = 1000
    return [
        # Two servers on one port would split the callers between them.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", -1),
        # Beyond it calls wait in the client without a word, those that end at once as well. So the
        # limit of streams, which the boundary of RPCs refuses by name, is lower than this one.
        ("grpc.max_concurrent_streams", settings.max_streams_per_connection + _SPARE_STREAMS),
        # Near that number gRPC would refuse some calls by chance. Without this they wait, since
        # clients know the number.
        ("grpc.http.overload_protection", 0),
        # From a thousand calls that wait for their turn on, gRPC cancels some by chance. After a
        # restart all subscribers come at one moment.
        ("grpc.server.max_pending_requests", settings.max_subscriptions),
        ("grpc.server.max_pending_requests_hard_limit", 2 * settings.max_subscriptions),
        # Those that have waited for half a minute would be cancelled too, without a reason.
        ("grpc.server_max_unrequested_time_in_server", _LONGEST_WAIT_SECONDS),
        ("grpc.keepalive_time_ms", settings.keepalive_seconds * milli),
        ("grpc.keepalive_timeout_ms", settings.keepalive_timeout_seconds * milli),
        # Without this one a dead peer is noticed after a minute, whatever the two above say.
        ("grpc.http2.ping_timeout_ms", settings.keepalive_timeout_seconds * milli),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        (
            "grpc.http2.min_recv_ping_interval_without_data_ms",
            settings.min_ping_seconds * milli,
        ),
        *connection_options(settings.max_connection_age_seconds),
    ]


def _remove_stale_socket(path: Path) -> None:
    """Remove a socket that nobody listens on any more. gRPC would remove a living one too."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _cannot_bind(f"unix:{path}", error) from error
        else:
            raise _cannot_bind(f"unix:{path}", OSError(errno.EADDRINUSE, ""))


def _why_not(address: str) -> OSError:
    """Try to bind an address that gRPC could not, which keeps the reason to itself."""
    host, _, port = address.rpartition(":")
    try:
        if address.startswith("unix:"):
            path = address.removeprefix("unix:")
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.bind(path)
            Path(path).unlink(missing_ok=True)
        else:
            socket.create_server(
                (host.strip("[]"), int(port)),
                family=socket.AF_INET6 if host.startswith("[") else socket.AF_INET,
            ).close()
    except OSError as error:
        return error
    return OSError(errno.EADDRINUSE, "")


def _cannot_bind(address: str, error: OSError) -> SettingsError:
    """Tell why an address cannot be bound, and what to do about it."""
    mend = {
        errno.EADDRINUSE: "stop what uses it, or choose another",
        errno.ENOENT: "make the folder, or choose another",
    }.get(error.errno or 0, "choose another")
    why = os.strerror(error.errno) if error.errno else str(error)
    return SettingsError(
        f"address {address!r} cannot be bound: {why}; {mend} in the setting listen"
    )
