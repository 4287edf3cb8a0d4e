"""Credential plugins of a kubeconfig: programs that print an ExecCredential.

The plugin is run when its credentials are wanted and none are good: at first use, shortly before
the end that it stated, and after a 401, but never more often than the minimum interval. It gets no
terminal, a time limit, and is ended with everything that it started. kubernetes_asyncio has a
runner too, but without a limit and with the service's own standard input, and it takes no
certificate beside a token.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from watchcache_server.kubernetes.credentials import bearer
from watchcache_server.kubernetes.errors import ExecPluginFailedError
from watchcache_server.kubernetes.flight import SingleFlight
from watchcache_server.kubernetes.reporting import SILENT, AccessReporter

__all__ = ["API_VERSIONS", "ExecCredentials", "ExecPlugin"]

API_VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)

_MAX_OUTPUT_BYTES: Final = 1024 * 1024
_MAX_ERROR_TEXT: Final = 300
# Renewed so long before the stated end, since a plugin and a request take their time.
_MARGIN_SECONDS: Final = 60.0
_MIN_INTERVAL_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """What to run. `cluster_info` is handed to the plugin when it asks for it."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = API_VERSIONS[0]
    install_hint: str = ""
    folder: Path | None = None
    cluster_info: Mapping[str, Any] | None = None

    @property
    def program(self) -> str:
        """The command; one with a slash is relative to the folder of its kubeconfig."""
        if self.folder is not None and "/" in self.command:
            return str(self.folder / self.command)
        return self.command


class _CredentialStatus(msgspec.Struct):
    token: str | None = None
    certificate: str | None = msgspec.field(default=None, name="clientCertificateData")
    key: str | None = msgspec.field(default=None, name="clientKeyData")
    expires: dt.datetime | None = msgspec.field(default=None, name="expirationTimestamp")


class _Credential(msgspec.Struct):
    kind: str
    api_version: str = msgspec.field(name="apiVersion")
    status: _CredentialStatus | None = None


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
        self._good_until = float("-inf")
        self._ran_at = float("-inf")
        self._error: ExecPluginFailedError | None = None

    def __repr__(self) -> str:
        return f"ExecCredentials({self._plugin.command!r})"

    async def authorization(self) -> str | None:
        """Return the plugin's token, if it gives one; run it when none is good."""
        if self._clock() >= self._good_until:
            await self._run_or_raise()
        return self._header

    async def refresh(self, rejected: str | None) -> None:
        """Run the plugin again if the rejected header is the one in use."""
        if rejected == self._header and not self._is_too_early():
            self._good_until = float("-inf")
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
            status = self._read(await self._output())
            self._take(status)
        except ExecPluginFailedError as error:
            self._error = error
            self._reporter.credentials_refreshed(self._cluster, "exec_plugin", error.reason)
            raise
        self._error = None
        self._reporter.credentials_refreshed(self._cluster, "exec_plugin", "ok")

    def _take(self, status: _CredentialStatus) -> None:
        if status.certificate and status.key:
            if self._take_certificate is None:
                raise self._failed("gave a client certificate, which an http server cannot see")
            try:
                self._take_certificate(status.certificate.encode(), status.key.encode())
            except ValueError as error:
                raise self._failed(
                    f"gave a client certificate that cannot be used: {error}"
                ) from error
        self._header = bearer(status.token) if status.token else None
        self._good_until = float("inf")
        if status.expires is not None:
            left_seconds = status.expires.timestamp() - self._wall_clock()
            if left_seconds <= 0:
                raise self._failed("gave credentials that are over already")
            # Half of a very short life, so that a plugin is not run for every request.
            self._good_until = self._ran_at + max(left_seconds - _MARGIN_SECONDS, left_seconds / 2)

    def _read(self, output: bytes) -> _CredentialStatus:
        try:
            credential = msgspec.json.decode(output, type=_Credential)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._failed("did not print an ExecCredential as JSON") from error
        if (
            credential.kind != "ExecCredential"
            or credential.api_version != self._plugin.api_version
        ):
            raise self._failed(
                f"printed {credential.kind} of {credential.api_version}; "
                f"expected ExecCredential of {self._plugin.api_version}"
            )
        status = credential.status
        if status is None or not (status.token or status.certificate):
            raise self._failed("printed an ExecCredential with neither token nor certificate")
        if bool(status.certificate) != bool(status.key):
            raise self._failed(
                "printed one of clientCertificateData and clientKeyData without the other"
            )
        return status

    async def _output(self) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                self._plugin.program,
                *self._plugin.arguments,
                env=self._environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # A group of its own, so that what it starts can be ended with it.
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            hint = f"; {self._plugin.install_hint}" if self._plugin.install_hint else ""
            said = getattr(error, "strerror", None) or str(error)
            raise self._failed(f"cannot be started: {said}{hint}") from error
        try:
            async with asyncio.timeout(self._limit_seconds):
                output, complaint = await process.communicate()
        except TimeoutError as error:
            raise self._failed(f"gave no answer within {self._limit_seconds:g} s") from error
        finally:
            await _end(process)
        if process.returncode:
            raise self._failed(f"ended with {process.returncode}: {_say(complaint)}")
        if len(output) > _MAX_OUTPUT_BYTES:
            raise self._failed(f"printed more than {_MAX_OUTPUT_BYTES} bytes")
        return output

    def _environment(self) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": False}
        if self._plugin.cluster_info is not None:
            spec["cluster"] = self._plugin.cluster_info
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return {
            **os.environ,
            **self._plugin.environment,
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
        }

    def _failed(self, text: str) -> ExecPluginFailedError:
        return ExecPluginFailedError(
            f"cluster {self._cluster}: the credential plugin {self._plugin.command} {text}"
        )


async def _end(process: asyncio.subprocess.Process) -> None:
    """End what is left of the plugin's process group, and take up the plugin itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.returncode is None:
        await asyncio.shield(process.wait())


def _say(complaint: bytes) -> str:
    text = complaint.decode("utf-8", "replace").strip()
    return text[-_MAX_ERROR_TEXT:] or "it gave no reason"
