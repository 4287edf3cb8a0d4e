"""What the rest of the service wants to hear about access to API servers.

A narrow protocol, so that metrics and logs stay outside: whoever wires the parts passes an object
that counts. Nothing that is reported holds a token, a key or a body.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["SILENT", "AccessReporter", "RequestReporter", "SilentReporter"]


class RequestReporter(Protocol):
    """Is told how single requests went. Its methods return at once and never raise."""

    def request_answered(self, cluster: str, method: str, code: int, seconds: float) -> None:
        """Hear that the headers of an answer came `seconds` after the request was started."""
        ...

    def request_failed(self, cluster: str, method: str, reason: str, seconds: float) -> None:
        """Hear that no answer came; `reason` is that of a TransportError."""
        ...


class AccessReporter(RequestReporter, Protocol):
    """Is told what happened. Its methods return at once and never raise."""

    def discovery_refreshed(self, cluster: str, outcome: str, resources: int) -> None:
        """Hear how reading discovery went: `outcome` is ok, partial or a reason."""
        ...

    def token_issued(
        self, cluster: str, namespace: str, name: str, lifetime_seconds: float
    ) -> None:
        """Hear of a new token of a ServiceAccount, the first or a further one."""
        ...

    def token_rotated(self, cluster: str, namespace: str, name: str) -> None:
        """Hear that a new token took the place of the one in use."""
        ...

    def token_failed(self, cluster: str, namespace: str, name: str, reason: str) -> None:
        """Hear that a ServiceAccount's token was asked for and did not come."""
        ...

    def service_account_recreated(self, cluster: str, namespace: str, name: str) -> None:
        """Hear that the ServiceAccount has another uid than before: it is another account."""
        ...

    def clock_skew_measured(self, cluster: str, seconds: float) -> None:
        """Hear the server's clock less ours, as far as a Date header (whole seconds) tells."""
        ...

    def credentials_refreshed(self, cluster: str, source: str, outcome: str) -> None:
        """Hear that a token file was read or a plugin was run: `outcome` is ok or a reason."""
        ...

    def tls_changed(self, cluster: str, problem: str) -> None:
        """Hear why a replaced CA, certificate or key cannot be used; empty when it can be again."""
        ...


class SilentReporter:
    """Hears everything and says nothing."""

    def request_answered(self, cluster: str, method: str, code: int, seconds: float) -> None:
        """Ignore it."""

    def request_failed(self, cluster: str, method: str, reason: str, seconds: float) -> None:
        """Ignore it."""

    def discovery_refreshed(self, cluster: str, outcome: str, resources: int) -> None:
        """Ignore it."""

    def token_issued(
        self, cluster: str, namespace: str, name: str, lifetime_seconds: float
    ) -> None:
        """Ignore it."""

    def token_rotated(self, cluster: str, namespace: str, name: str) -> None:
        """Ignore it."""

    def token_failed(self, cluster: str, namespace: str, name: str, reason: str) -> None:
        """Ignore it."""

    def service_account_recreated(self, cluster: str, namespace: str, name: str) -> None:
        """Ignore it."""

    def clock_skew_measured(self, cluster: str, seconds: float) -> None:
        """Ignore it."""

    def credentials_refreshed(self, cluster: str, source: str, outcome: str) -> None:
        """Ignore it."""

    def tls_changed(self, cluster: str, problem: str) -> None:
        """Ignore it."""


SILENT: AccessReporter = SilentReporter()
