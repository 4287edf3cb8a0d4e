"""Who the service is at an API server: what goes into the Authorization header of each request.

`Credentials` is asked before every request, so a rotation reaches a running informer with its next
request. `refresh(rejected)` is told of a 401; it does nothing when the rejected header is no longer
the current one, since somebody else has refreshed meanwhile. Here are the simple ones;
ServiceAccounts' tokens are in `tokens`, plugins in `exec_plugin`. None of them shows a secret in
its repr or in an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from watchcache_server.kubernetes.errors import TokenFileUnreadableError
from watchcache_server.kubernetes.reporting import SILENT, AccessReporter

__all__ = ["Anonymous", "Credentials", "StaticToken", "TokenFile", "bearer"]


class Credentials(Protocol):
    """One identity at one API server."""

    async def authorization(self) -> str | None:
        """Return the Authorization header to send now; None sends none.

        Raises a CredentialsError when none can be had.
        """
        ...

    async def refresh(self, rejected: str | None) -> None:
        """Get new credentials because the API server answered 401 to `rejected`.

        Callers share one flight, and a minimum interval holds: it may return without new ones.
        Raises a CredentialsError when none can be had.
        """
        ...


def bearer(token: str) -> str:
    """Return the header for a token."""
    return f"Bearer {token}"


class Anonymous:
    """No header: nobody, or whom the client certificate of the connection names."""

    async def authorization(self) -> str | None:
        """Return None."""
        return None

    async def refresh(self, rejected: str | None) -> None:
        """Do nothing: a certificate is followed by the TlsSource."""


class StaticToken:
    """A token written in a kubeconfig."""

    def __init__(self, token: str) -> None:
        self._header = bearer(token)

    def __repr__(self) -> str:
        return "StaticToken(...)"

    async def authorization(self) -> str | None:
        """Return the token's header."""
        return self._header

    async def refresh(self, rejected: str | None) -> None:
        """Do nothing: there is no other token."""


class TokenFile:
    """A token in a file that somebody else rotates, such as that of a pod.

    The file is read again at most every 10 seconds, and at once after a 401. An unreadable or empty
    file (half of a rotation) leaves the token read before in use.
    """

    def __init__(
        self,
        path: Path,
        *,
        cluster: str,
        fallback: str | None = None,
        recheck_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        reporter: AccessReporter = SILENT,
    ) -> None:
        self._path = path
        self._cluster = cluster
        self._recheck_seconds = recheck_seconds
        self._clock = clock
        self._reporter = reporter
        self._header = bearer(fallback) if fallback else None
        self._read_at: float | None = None

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"

    async def authorization(self) -> str | None:
        """Return the header for the token in the file."""
        now = self._clock()
        if self._read_at is None or now - self._read_at >= self._recheck_seconds:
            self._read(now)
        return self._header

    async def refresh(self, rejected: str | None) -> None:
        """Read the file at once if the rejected token is the one in use."""
        if rejected == self._header:
            self._read(self._clock())

    def _read(self, now: float) -> None:
        problem = "is empty"
        token = ""
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            problem = f"cannot be read ({getattr(error, 'strerror', None) or 'not text'})"
        if token:
            header = bearer(token)
            if header != self._header:
                self._reporter.credentials_refreshed(self._cluster, "token_file", "ok")
            self._header = header
            self._read_at = now
            return
        self._reporter.credentials_refreshed(
            self._cluster, "token_file", TokenFileUnreadableError.reason
        )
        if self._header is None:
            raise TokenFileUnreadableError(
                f"cluster {self._cluster}: the token file {self._path} {problem}; "
                "it must hold a bearer token that the service may read"
            )
