"""The one place where exceptions of aiohttp, ssl and the operating system become TransportErrors.

Pure: takes an exception, returns an exception. The caller raises it with the original chained.
"""

from __future__ import annotations

import asyncio
import ssl

import aiohttp

from watchcache_server.kubernetes.errors import (
    BodyCutError,
    ConnectionRefusedByServerError,
    ConnectionResetByServerError,
    ConnectTimedOutError,
    NameNotResolvedError,
    NotHttpError,
    ProxyFailedError,
    ResponseTimedOutError,
    ServerUnreachableError,
    TlsFailedError,
    TransportError,
)

__all__ = ["body_failure", "opening_failure"]


def opening_failure(error: Exception, cluster: str, server: str) -> TransportError:
    """Return the TransportError for a request that got no answer."""
    tls_error = _tls_error(error)
    if tls_error is not None:
        return TlsFailedError(cluster, server, _say_tls(tls_error))
    match error:
        case aiohttp.ClientProxyConnectionError():
            return ProxyFailedError(
                cluster, server, f"the proxy cannot be reached: {_say_os(error.os_error)}"
            )
        case aiohttp.ClientHttpProxyError():
            return ProxyFailedError(cluster, server, f"the proxy answered {error.status}")
        case aiohttp.ClientConnectorDNSError():
            return NameNotResolvedError(
                cluster, server, f"the name has no address: {_say_os(error.os_error)}"
            )
        case aiohttp.ClientConnectorError():
            return _connecting_failure(error.os_error, cluster, server)
        case aiohttp.ConnectionTimeoutError():
            return ConnectTimedOutError(cluster, server, "no connection within the limit")
        case aiohttp.ServerTimeoutError() | asyncio.TimeoutError():
            return ResponseTimedOutError(cluster, server, "no answer within the limit")
        case aiohttp.ClientConnectionError() | ConnectionError():
            return ConnectionResetByServerError(
                cluster, server, "the connection ended before the answer"
            )
        case OSError():
            return _connecting_failure(error, cluster, server)
        case _:
            return NotHttpError(
                cluster, server, f"the answer is not HTTP as expected ({type(error).__name__})"
            )


def body_failure(error: Exception, cluster: str, server: str) -> TransportError:
    """Return the TransportError for an answer whose body broke off."""
    tls_error = _tls_error(error)
    if tls_error is not None:
        return TlsFailedError(cluster, server, _say_tls(tls_error))
    return BodyCutError(cluster, server, "the connection ended in the middle of the answer")


def _connecting_failure(error: OSError, cluster: str, server: str) -> TransportError:
    if isinstance(error, ConnectionRefusedError):
        return ConnectionRefusedByServerError(cluster, server, "connection refused")
    if isinstance(error, ConnectionError):
        return ConnectionResetByServerError(
            cluster, server, "the connection ended while it was being made"
        )
    if isinstance(error, TimeoutError):
        return ConnectTimedOutError(cluster, server, "no connection within the limit")
    return ServerUnreachableError(cluster, server, _say_os(error))


def _tls_error(error: BaseException) -> ssl.SSLError | None:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return seen
        if isinstance(seen, aiohttp.ClientConnectorError) and isinstance(
            seen.os_error, ssl.SSLError
        ):
            return seen.os_error
        seen = seen.__cause__
    return None


def _say_tls(error: ssl.SSLError) -> str:
    # Newer aiohttp classes are both kinds; their own error says more than their text.
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    told = inner if isinstance(inner, ssl.SSLError) else error
    # OpenSSL sets these attributes; an error that Python raises by itself lacks them.
    reason = getattr(told, "reason", None) or "no reason given"
    if isinstance(told, ssl.SSLCertVerificationError):
        why = getattr(told, "verify_message", None) or reason
        return (
            f"the server's certificate is not trusted: {why}; "
            "check the certificate authority and the server name of the cluster"
        )
    return f"TLS failed: {reason}"


def _say_os(error: OSError) -> str:
    return error.strerror or type(error).__name__
