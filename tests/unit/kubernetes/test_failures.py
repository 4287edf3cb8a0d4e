"""Rules of the one table from exceptions to causes, for those that are hard to provoke."""

from __future__ import annotations

import errno
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

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
from watchcache_server.kubernetes.failures import body_failure, opening_failure

KEY = ConnectionKey("host", 6443, True, True, None, None, None)


def chained(error: Exception, cause: Exception) -> Exception:
    """Return an exception with a cause."""
    error.__cause__ = cause
    return error


def tls(reason: str) -> ssl.SSLError:
    """Return an error of OpenSSL."""
    error = ssl.SSLError(1, f"[SSL: {reason}] it failed")
    error.reason = reason
    return error


def connector(error: OSError) -> aiohttp.ClientConnectorError:
    """Return the error of a connection that could not be made."""
    return aiohttp.ClientConnectorError(KEY, error)


OPENING: dict[str, tuple[Exception, type[TransportError]]] = {
    "refused": (connector(ConnectionRefusedError(111, "refused")), ConnectionRefusedByServerError),
    "no route": (connector(OSError(errno.EHOSTUNREACH, "No route")), ServerUnreachableError),
    "no more files": (connector(OSError(errno.EMFILE, "Too many")), ServerUnreachableError),
    "reset while connecting": (
        connector(ConnectionResetError(104, "reset")),
        ConnectionResetByServerError,
    ),
    "the system's own connect timeout": (
        connector(TimeoutError(110, "timed out")),
        ConnectTimedOutError,
    ),
    "our connect timeout": (aiohttp.ConnectionTimeoutError(), ConnectTimedOutError),
    "a read timeout": (aiohttp.SocketTimeoutError(), ResponseTimedOutError),
    "no name": (
        aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "Name or service not known")),
        NameNotResolvedError,
    ),
    "no proxy": (
        aiohttp.ClientProxyConnectionError(KEY, OSError(111, "refused")),
        ProxyFailedError,
    ),
    "an untrusted certificate": (
        aiohttp.ClientConnectorCertificateError(KEY, ssl.SSLCertVerificationError(1, "bad")),
        TlsFailedError,
    ),
    "a failed handshake": (
        aiohttp.ClientConnectorSSLError(KEY, tls("WRONG_VERSION_NUMBER")),
        TlsFailedError,
    ),
    "an alert after the handshake": (
        chained(aiohttp.ClientOSError(1, "x"), tls("TLSV13_ALERT_CERTIFICATE_REQUIRED")),
        TlsFailedError,
    ),
    "hung up": (aiohttp.ServerDisconnectedError(), ConnectionResetByServerError),
    "a broken pipe": (aiohttp.ClientOSError(errno.EPIPE, "pipe"), ConnectionResetByServerError),
    "a bare broken pipe": (BrokenPipeError(errno.EPIPE, "pipe"), ConnectionResetByServerError),
    "a system call that failed": (OSError(errno.ENETDOWN, "down"), ServerUnreachableError),
    "lost": (aiohttp.ClientConnectionError("lost"), ConnectionResetByServerError),
    "bad HTTP": (aiohttp.http.HttpProcessingError(message="bad"), NotHttpError),
    "a bad payload": (aiohttp.ClientPayloadError("bad"), NotHttpError),
}


@pytest.mark.parametrize("case", OPENING)
def test_a_request_without_answer_has_one_cause(case: str) -> None:
    """Each exception has its place in the table; the text names cluster and server."""
    error, kind = OPENING[case]
    failure = opening_failure(error, "dev", "host:6443")
    assert type(failure) is kind
    assert str(failure).startswith("cluster dev (host:6443): ")


def test_a_proxy_that_refuses_is_told_by_its_status() -> None:
    """The proxy answered, the API server did not."""
    info = aiohttp.RequestInfo(url=None, method="CONNECT", headers=None)  # type: ignore[arg-type]
    error = aiohttp.ClientHttpProxyError(info, (), status=407)
    assert "the proxy answered 407" in str(opening_failure(error, "dev", "host:6443"))


def test_tls_failures_say_why() -> None:
    """The reason of OpenSSL, or what is wrong with the certificate."""
    verification = ssl.SSLCertVerificationError(1, "bad")
    verification.verify_message = "certificate has expired"
    error = aiohttp.ClientConnectorCertificateError(KEY, verification)
    assert "certificate has expired" in str(opening_failure(error, "dev", "host:6443"))
    handshake = aiohttp.ClientConnectorSSLError(KEY, tls("WRONG_VERSION_NUMBER"))
    assert "WRONG_VERSION_NUMBER" in str(opening_failure(handshake, "dev", "host:6443"))


BODY: dict[str, tuple[Exception, type[TransportError]]] = {
    "cut": (aiohttp.ClientPayloadError("not completed"), BodyCutError),
    "reset": (aiohttp.ClientOSError(104, "reset"), BodyCutError),
    "TLS": (chained(aiohttp.ClientOSError(1, "x"), tls("BAD_RECORD_MAC")), TlsFailedError),
}


@pytest.mark.parametrize("case", BODY)
def test_a_broken_body_is_cut_or_tls(case: str) -> None:
    """Whatever ended it early, it is not whole."""
    error, kind = BODY[case]
    assert type(body_failure(error, "dev", "host:6443")) is kind
