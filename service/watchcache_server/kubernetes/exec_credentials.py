"""Credentials from a plugin: run when they are wanted and none are good.

That is at first use, shortly before the end that the plugin stated, and after a 401; never more
often than a minimum interval, and once for all who wait. While the plugin fails, what it gave
before serves to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from watchcache_server.kubernetes.credentials import bearer
from watchcache_server.kubernetes.errors import ExecPluginFailedError
from watchcache_server.kubernetes.exec_plugin import ExecPlugin, ExecStatus, run_plugin
from watchcache_server.kubernetes.flight import SingleFlight
from watchcache_server.kubernetes.reporting import SILENT, AccessReporter

__all__ = ["ExecCredentials"]

_MARGIN_SECONDS: Final = 60.0
_MIN_INTERVAL_SECONDS: Final = 10.0


class ExecCredentials:
    """`Credentials` that a plugin prints.

    `take_certificate` is called with a client certificate and its key (PEM) when the plugin gives
    one; None where there is no TLS to show it.
    """

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        cluster: str,
        take_certificate: Callable[[bytes, bytes], None] | None,
        limit_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        reporter: AccessReporter = SILENT,
    ) -> None:
        self._plugin = plugin
        self._cluster = cluster
        self._take_certificate = take_certificate
        self._limit_seconds = limit_seconds
        self._clock = clock
        self._wall_clock = wall_clock
        self._reporter = reporter
        self._flight: SingleFlight[None] = SingleFlight()
        self._header: str | None = None
        self._renew_at = float("-inf")
        self._ends_at = float("-inf")
        self._ran_at = float("-inf")
        self._error: ExecPluginFailedError | None = None

    def __repr__(self) -> str:
        return f"ExecCredentials({self._plugin.command!r})"

    async def authorization(self) -> str | None:
        """Return the plugin's token, if it gives one; run it when none is good."""
        if self._clock() >= self._renew_at:
            try:
                await self._run_or_raise()
            except ExecPluginFailedError:
                if self._clock() >= self._ends_at:
                    raise
        return self._header

    async def refresh(self, rejected: str | None) -> None:
        """Run the plugin again if the rejected header is the one in use."""
        if rejected == self._header and not self._is_too_early():
            self._renew_at = self._ends_at = float("-inf")
            await self._run_or_raise()

    def _is_too_early(self) -> bool:
        return self._clock() - self._ran_at < _MIN_INTERVAL_SECONDS

    async def _run_or_raise(self) -> None:
        if self._error is not None and self._is_too_early() and not self._flight.is_running:
            raise self._error
        await self._flight.run(self._run)

    async def _run(self) -> None:
        self._ran_at = self._clock()
        try:
            self._take(
                await run_plugin(
                    self._plugin, cluster=self._cluster, limit_seconds=self._limit_seconds
                )
            )
        except ExecPluginFailedError as error:
            self._error = error
            self._reporter.credentials_refreshed(self._cluster, "exec_plugin", error.reason)
            raise
        self._error = None
        self._reporter.credentials_refreshed(self._cluster, "exec_plugin", "ok")

    def _take(self, status: ExecStatus) -> None:
        left_seconds = float("inf")
        if status.expires is not None:
            left_seconds = status.expires.timestamp() - self._wall_clock()
            if left_seconds <= 0:
                raise self._failed("gave credentials that are over already")
        if status.certificate and status.key:
            self._show(status.certificate.encode(), status.key.encode())
        self._header = bearer(status.token) if status.token else None
        self._ends_at = self._ran_at + left_seconds
        # Half of a very short life, so that a plugin is not run for every request.
        self._renew_at = self._ran_at + max(left_seconds - _MARGIN_SECONDS, left_seconds / 2)

    def _show(self, certificate: bytes, key: bytes) -> None:
        if self._take_certificate is None:
            raise self._failed("gave a client certificate, which an http server cannot see")
        try:
            self._take_certificate(certificate, key)
        except ValueError as error:
            raise self._failed(f"gave what cannot be used: {error}") from error

    def _failed(self, text: str) -> ExecPluginFailedError:
        return ExecPluginFailedError(
            f"cluster {self._cluster}: the credential plugin {self._plugin.command} {text}"
        )
