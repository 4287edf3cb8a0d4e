"""TLS towards one API server: which CA is trusted, which client certificate is shown, if any.

`TlsSource.context()` gives the context for new connections. Files are looked at again at most every
few seconds and the context is rebuilt when one has changed, so that a rotated CA or client
certificate is taken up without a restart; running connections keep the session that they have. When
a changed file cannot be used (half written, say) the last good context stays in use.

Two sources are made for each cluster: one with the client certificate and one without it. An API
server lets a client certificate win over a bearer token, so a request that carries a
ServiceAccount's token must never travel on a connection that has shown a certificate.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

__all__ = ["TlsMaterial", "TlsMaterialError", "TlsSource"]


class TlsMaterialError(ValueError):
    """A certificate, key or CA cannot be used; the text says which and why."""


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """Where certificates come from. Data wins over a file; keys are never shown."""

    ca_file: Path | None = None
    ca_data: bytes | None = None
    certificate_file: Path | None = None
    certificate_data: bytes | None = None
    key_file: Path | None = None
    key_data: bytes | None = field(default=None, repr=False)
    is_verifying: bool = True

    @property
    def has_certificate(self) -> bool:
        """Whether a client certificate is shown."""
        return self.certificate_file is not None or self.certificate_data is not None

    def without_certificate(self) -> TlsMaterial:
        """Return the same trust, without any client certificate."""
        return replace(
            self, certificate_file=None, certificate_data=None, key_file=None, key_data=None
        )

    def with_certificate(self, certificate: bytes, key: bytes) -> TlsMaterial:
        """Return the same trust with this client certificate (PEM)."""
        return replace(
            self,
            certificate_file=None,
            certificate_data=certificate,
            key_file=None,
            key_data=key,
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files that the context is built from."""
        pairs = (
            (self.ca_data, self.ca_file),
            (self.certificate_data, self.certificate_file),
            (self.key_data, self.key_file),
        )
        return tuple(path for data, path in pairs if data is None and path is not None)

    def build(self) -> ssl.SSLContext:
        """Build the context. Raises TlsMaterialError when something is missing or malformed."""
        context = ssl.create_default_context() if self._is_trusting_system() else _empty_context()
        context.set_alpn_protocols(["http/1.1"])
        self._trust(context)
        self._show_certificate(context)
        if not self.is_verifying:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _is_trusting_system(self) -> bool:
        return self.ca_data is None and self.ca_file is None

    def _trust(self, context: ssl.SSLContext) -> None:
        if self._is_trusting_system():
            return
        source = "certificate-authority-data" if self.ca_data is not None else str(self.ca_file)
        try:
            pem = self.ca_data if self.ca_data is not None else _read(self.ca_file)
            context.load_verify_locations(cadata=pem.decode("ascii"))
        except (OSError, ValueError) as error:
            raise TlsMaterialError(f"the CA in {source} cannot be used: {_say(error)}") from error

    def _show_certificate(self, context: ssl.SSLContext) -> None:
        if not self.has_certificate:
            return
        if self.key_file is None and self.key_data is None:
            raise TlsMaterialError(
                "a client certificate needs its key: client-key or client-key-data"
            )
        source = self.certificate_file or "client-certificate-data"
        try:
            with (
                _as_path(self.certificate_data, self.certificate_file) as certificate,
                _as_path(self.key_data, self.key_file) as key,
            ):
                # An encrypted key would make OpenSSL ask at the terminal; an empty password refuses
                # it.
                context.load_cert_chain(certificate, key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise TlsMaterialError(
                f"the client certificate in {source} or its key cannot be used: {_say(error)}"
            ) from error


class TlsSource:
    """Gives the TLS context for new connections, following files that change."""

    def __init__(
        self,
        material: TlsMaterial,
        *,
        clock: Callable[[], float] = time.monotonic,
        recheck_seconds: float = 10.0,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Build the first context; call `changed` when `problem` does. Raises TlsMaterialError."""
        self._material = material
        self._clock = clock
        self._recheck_seconds = recheck_seconds
        self._stamps = _stamps(material.files)
        self._context = material.build()
        self._checked_at = clock()
        self._changed = changed
        #: Why what is in the files now cannot be used; empty when it is in use.
        self.problem = ""

    def context(self) -> ssl.SSLContext:
        """Return the context that a new connection uses."""
        now = self._clock()
        if now - self._checked_at >= self._recheck_seconds:
            self._checked_at = now
            self._follow_files()
        return self._context

    def replace_certificate(self, certificate: bytes, key: bytes) -> None:
        """Show another client certificate (PEM) from now on. Raises TlsMaterialError."""
        material = self._material.with_certificate(certificate, key)
        if material == self._material:
            return
        self._context = material.build()
        self._material = material

    def _follow_files(self) -> None:
        before = self.problem
        self.problem = self._rebuild()
        if self.problem != before:
            self._changed()

    def _rebuild(self) -> str:
        """Take up what has changed; return why that cannot be used, if so."""
        stamps = _stamps(self._material.files)
        if stamps == self._stamps:
            # Also when what could not be used was put back.
            return ""
        try:
            self._context = self._material.build()
        except TlsMaterialError as error:
            # Tried again at the next look: a pair of files is often replaced one after the other.
            return str(error)
        self._stamps = stamps
        return ""


def _empty_context() -> ssl.SSLContext:
    # As ssl.create_default_context, which would load the system's CAs if it is given none.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _stamps(files: tuple[Path, ...]) -> tuple[tuple[int, int, int] | None, ...]:
    return tuple(_stamp(path) for path in files)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path | None) -> bytes:
    assert path is not None
    return path.read_bytes()


@contextlib.contextmanager
def _as_path(data: bytes | None, path: Path | None) -> Iterator[str]:
    """Give `data` a path, since OpenSSL reads keys from files only; off the disk if possible."""
    if data is None:
        assert path is not None
        yield str(path)
    elif hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("watchcache-tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name


def _say(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "not PEM"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "not PEM"
