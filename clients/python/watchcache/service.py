"""The calls to the service: the channel with its options, and errors translated at this edge.

Nothing above this module sees a gRPC error, and nothing but this module chooses channel options.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import grpc
import grpc.aio
from google.protobuf.message import Message as ProtobufMessage

from watchcache.errors import ConnectionSettingsError, UnavailableError, from_rpc_error
from watchcache.v1alpha1.watch_cache_service_pb2_grpc import WatchCacheServiceStub

if TYPE_CHECKING:
    from watchcache.v1alpha1.watch_cache_service_pb2_grpc import WatchCacheServiceAsyncStub

__all__ = ["DEFAULT_ADDRESS", "Service", "Stream", "target_of"]

DEFAULT_ADDRESS = "127.0.0.1:7443"
_DEFAULT_PORT = 7443
_UPLOAD_SECONDS = 120.0

_Request = TypeVar("_Request", bound=ProtobufMessage)
_Response = TypeVar("_Response", bound=ProtobufMessage)

_SCHEME = re.compile(r"(unix|unix-abstract|dns|ipv4|ipv6|passthrough):.+")
_HOST_AND_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::(\d{1,5}))?")

_SERVICE_CONFIG = {
    "methodConfig": [
        {
            # All of these are idempotent. Watch is not among them: resuming it takes a token.
            "name": [
                {"service": "watchcache.v1alpha1.WatchCacheService", "method": method}
                for method in (
                    "Register",
                    "Deregister",
                    "GetObject",
                    "ListObjects",
                    "GetExtension",
                    "ListExtensions",
                    "ListClusters",
                )
            ],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.2s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}


def target_of(address: str) -> str:
    """Return the gRPC target of an address as people write it. Raises ConnectionSettingsError."""
    if "://" not in address.removeprefix("dns://") and _SCHEME.fullmatch(address):
        return address
    match = _HOST_AND_PORT.fullmatch(address)
    if match is None or not 0 < int(match[2] or _DEFAULT_PORT) < 65536:
        raise ConnectionSettingsError(
            f"{address!r} is no address; write host:port or unix:/path/of/the/socket",
            reason="INVALID_ADDRESS",
        )
    return f"{match[1]}:{match[2] or _DEFAULT_PORT}"


class Service:
    """A connection to the service. Make it inside the running event loop; close it there."""

    def __init__(
        self, address: str, *, ca_file: str | None, timeout_seconds: float, keepalive_seconds: float
    ) -> None:
        self.address = target_of(address)
        self._timeout_seconds = timeout_seconds
        options = _options(self.address, keepalive_seconds)
        if ca_file:
            credentials = grpc.ssl_channel_credentials(_read_ca(ca_file))
            self._channel = grpc.aio.secure_channel(self.address, credentials, options=options)
        else:
            self._channel = grpc.aio.insecure_channel(self.address, options=options)
        self.stub: WatchCacheServiceAsyncStub = WatchCacheServiceStub(self._channel)

    async def close(self) -> None:
        """Close the connection; calls that are under way end."""
        await self._channel.close()

    def is_connected(self) -> bool:
        """Say whether the connection stands; if not, it is being made."""
        state = self._channel.get_state(try_to_connect=True)
        return state is grpc.ChannelConnectivity.READY

    async def call(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[_Request, _Response],
        request: _Request,
        *,
        extra_seconds: float = 0.0,
    ) -> _Response:
        """Make one call within the time limit, plus the `extra_seconds` that it takes."""
        try:
            return await method(request, timeout=self._timeout_seconds + extra_seconds)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, address=self.address) from error

    async def upload(
        self,
        method: grpc.aio.StreamUnaryMultiCallable[_Request, _Response],
        requests: Iterator[_Request],
    ) -> _Response:
        """Send messages one after the other; return the answer."""

        async def sent() -> AsyncIterator[_Request]:
            for request in requests:
                yield request

        try:
            return await method(sent(), timeout=_UPLOAD_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, address=self.address) from error

    def stream(
        self, method: grpc.aio.UnaryStreamMultiCallable[_Request, _Response], request: _Request
    ) -> Stream[_Response]:
        """Open a stream of answers."""
        return Stream(method(request), self.address)


class Stream(Generic[_Response]):
    """The answers of one call, taken one by one; the others wait in the transport's window."""

    def __init__(self, call: grpc.aio.UnaryStreamCall[_Request, _Response], address: str) -> None:
        self._call = call
        self._address = address
        self._is_cancelled = False

    async def receive(self, *, limit_seconds: float) -> _Response:
        """Wait for the next answer.

        Raises UnavailableError when the stream ends, or is silent beyond the limit; the stream
        cannot be used after any error, nor after this has been cancelled.
        """
        try:
            async with asyncio.timeout(limit_seconds):
                response = await self._call.read()
        except TimeoutError as error:
            self.cancel()
            raise UnavailableError(
                f"watchcache at {self._address} said nothing for {limit_seconds:g} s",
                reason="STREAM_SILENT",
            ) from error
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, address=self._address) from error
        except asyncio.CancelledError as error:
            # A call that was cancelled here ends like this, also when nobody cancels the reader.
            task = asyncio.current_task()
            if self._is_cancelled and task is not None and not task.cancelling():
                raise UnavailableError("the stream was closed", reason="STREAM_CLOSED") from error
            raise
        if response is grpc.aio.EOF:
            raise UnavailableError(
                f"watchcache at {self._address} ended the stream", reason="STREAM_ENDED"
            )
        return cast("_Response", response)

    def cancel(self) -> None:
        """End the call if it is still under way."""
        self._is_cancelled = True
        self._call.cancel()


def _options(target: str, keepalive_seconds: float) -> list[tuple[str, int | str]]:
    keepalive_ms = int(keepalive_seconds * 1000)
    options: list[tuple[str, int | str]] = [
        # A peer that has vanished is noticed within the keepalive time plus the timeout. The third
        # of these has the last word (60 s where it is not set), and the documents do not mention
        # it.
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", keepalive_ms // 2),
        ("grpc.http2.ping_timeout_ms", keepalive_ms // 2),
        # Also between the attempts of a watch that has fallen silent, each of which may be shorter.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # The window of a stream that nobody reads would grow to gigabytes with the probe on.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", 2 * 1024 * 1024),
        # A batch ends near 1 MiB, but one object alone may be larger than any batch.
        ("grpc.max_receive_message_length", 64 * 1024 * 1024),
        # The waiting between attempts is done here, with jitter; the channel only has to follow.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", 5000),
        ("grpc.max_reconnect_backoff_ms", 2000),
        # Two connections of one process are two connections.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    ]
    if _is_local(target):
        options.append(("grpc.enable_http_proxy", 0))
    return options


def _is_local(target: str) -> bool:
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    host = target.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_ca(path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConnectionSettingsError(
            f"the CA file {path} cannot be read: {error.strerror}; "
            "correct ca_file or WATCHCACHE_CA_FILE",
            reason="CA_FILE_UNREADABLE",
        ) from error
    if b"-----BEGIN CERTIFICATE-----" not in content:
        raise ConnectionSettingsError(
            f"the CA file {path} holds no certificate; it has to be in PEM form",
            reason="CA_FILE_INVALID",
        )
    return content
