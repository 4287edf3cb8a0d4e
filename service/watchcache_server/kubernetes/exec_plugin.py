"""Credential plugins of a kubeconfig: programs that print an ExecCredential, and running one.

A plugin gets no terminal and a time limit, at which it is ended with everything that it started.
kubernetes_asyncio has a runner too, but without a limit and with the service's own standard input,
and it takes no certificate beside a token. When to run one again is for `exec_credentials`.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from watchcache_server.kubernetes.errors import ExecPluginFailedError
from watchcache_server.kubernetes.json_reading import JsonError, read_json

__all__ = ["API_VERSIONS", "ExecPlugin", "ExecStatus", "run_plugin"]

API_VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)

_MAX_OUTPUT_BYTES: Final = 1024 * 1024
_MAX_ERROR_TEXT: Final = 300
_READ_BYTES: Final = 64 * 1024
_END_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """What to run. `cluster_info` is handed to the plugin where its kubeconfig says so."""

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


class ExecStatus(msgspec.Struct, frozen=True):
    """What a plugin gave: a token, or a client certificate with its key (PEM), or both."""

    token: str | None = None
    certificate: str | None = msgspec.field(default=None, name="clientCertificateData")
    key: str | None = msgspec.field(default=None, name="clientKeyData")
    expires: dt.datetime | None = msgspec.field(default=None, name="expirationTimestamp")

    def __repr__(self) -> str:
        return f"<ExecStatus until {self.expires}>"


class _Credential(msgspec.Struct):
    kind: str
    api_version: str = msgspec.field(name="apiVersion")
    status: ExecStatus | None = None


async def run_plugin(plugin: ExecPlugin, *, cluster: str, limit_seconds: float) -> ExecStatus:
    """Run a plugin and read what it prints. Raises ExecPluginFailedError."""
    try:
        code, output, complaint = await _run(plugin, limit_seconds)
        if code:
            raise _PluginError(f"ended with {code}: {_say(complaint)}")
        return _read_credential(plugin, output)
    except _PluginError as error:
        raise ExecPluginFailedError(
            f"cluster {cluster}: the credential plugin {plugin.command} {error}"
        ) from error


class _PluginError(Exception):
    """What the plugin did wrong."""


async def _run(plugin: ExecPlugin, limit_seconds: float) -> tuple[int, bytes, bytes]:
    process = await _start(plugin)
    is_over = False
    try:
        async with asyncio.timeout(limit_seconds):
            output, complaint = await _read_both(process)
            code = await process.wait()
            is_over = True
    except TimeoutError as error:
        raise _PluginError(f"gave no answer within {limit_seconds:g} s") from error
    finally:
        if not is_over:
            await _end(process)
    return code, output, complaint


async def _start(plugin: ExecPlugin) -> asyncio.subprocess.Process:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            plugin.program,
            *plugin.arguments,
            env=_environment(plugin),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # A group of its own, so that what it starts can be ended with it.
            start_new_session=True,
        )
    )
    try:
        # Cancelled while it starts a program, asyncio waits for the program's children, perhaps for
        # ever; to start takes no longer than to fork.
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError, ValueError):
            await _end(await starting)
        raise
    except (OSError, ValueError) as error:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        said = getattr(error, "strerror", None) or str(error)
        raise _PluginError(f"cannot be started: {said}{hint}") from error


def _environment(plugin: ExecPlugin) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster_info is not None:
        spec["cluster"] = plugin.cluster_info
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return {
        **os.environ,
        **plugin.environment,
        "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
    }


def _read_credential(plugin: ExecPlugin, output: bytes) -> ExecStatus:
    try:
        credential = read_json(output, _Credential)
    except JsonError as error:
        raise _PluginError("did not print an ExecCredential as JSON") from error
    if (credential.kind, credential.api_version) != ("ExecCredential", plugin.api_version):
        raise _PluginError(
            f"printed {credential.kind} of {credential.api_version}; "
            f"expected ExecCredential of {plugin.api_version}"
        )
    status = credential.status
    if status is None or not (status.token or status.certificate):
        raise _PluginError("printed an ExecCredential with neither token nor certificate")
    if bool(status.certificate) != bool(status.key):
        raise _PluginError("printed one of clientCertificateData and clientKeyData only")
    if status.token and not (status.token.isascii() and status.token.isprintable()):
        raise _PluginError("printed a token with characters that no token has")
    return status


async def _read_both(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """Read both streams at once, so that neither fills its pipe."""
    try:
        async with asyncio.TaskGroup() as readers:
            output = readers.create_task(_read(process.stdout))
            complaint = readers.create_task(_read(process.stderr))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return output.result(), complaint.result()


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    """Read a stream to its end, but not more than anybody should print."""
    assert stream is not None
    parts: list[bytes] = []
    size = 0
    while part := await stream.read(_READ_BYTES):
        size += len(part)
        if size > _MAX_OUTPUT_BYTES:
            raise _PluginError(f"printed more than {_MAX_OUTPUT_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the plugin and all that it started, and take up its end."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    # Its pipes are let go of at their ends only; one who left the group may hold them open.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await _read_away(process.stdout)
            await _read_away(process.stderr)
            await process.wait()


async def _read_away(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(_READ_BYTES):
        pass


def _say(complaint: bytes) -> str:
    text = complaint.decode("utf-8", "replace").strip()
    return text[-_MAX_ERROR_TEXT:] or "it gave no reason"
