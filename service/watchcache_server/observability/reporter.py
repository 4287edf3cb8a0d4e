"""Tells everything that is heard to several reporters.

    reporter = Reporters(metrics, log_reporter)

It is a `Reporter` and a reporter of accesses to API servers at once, as its members are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from watchcache_server.model.specs import ExtensionKey, SourceSpec
from watchcache_server.model.states import CheckOutcome, SourceState
from watchcache_server.observability.reporting import Reporter

__all__ = ["FullReporter", "Reporters"]


class FullReporter(Reporter, Protocol):
    """Hears of everything: this layer's `Reporter`, and what `kubernetes.reporting` asks for."""

    def request_answered(self, cluster: str, method: str, code: int, seconds: float) -> None:
        """Hear of an answer of an API server."""
        ...

    def request_failed(self, cluster: str, method: str, reason: str, seconds: float) -> None:
        """Hear of a request without an answer."""
        ...

    def discovery_refreshed(self, cluster: str, outcome: str, resources: int) -> None:
        """Hear of a reading of discovery."""
        ...

    def token_issued(
        self, cluster: str, namespace: str, name: str, lifetime_seconds: float
    ) -> None:
        """Hear of a token."""
        ...

    def token_rotated(self, cluster: str, namespace: str, name: str) -> None:
        """Hear of a token that took the place of another."""
        ...

    def token_failed(self, cluster: str, namespace: str, name: str, reason: str) -> None:
        """Hear of a token that did not come."""
        ...

    def service_account_recreated(self, cluster: str, namespace: str, name: str) -> None:
        """Hear of another ServiceAccount under an old name."""
        ...

    def clock_skew_measured(self, cluster: str, seconds: float) -> None:
        """Hear how far the clocks are apart."""
        ...

    def credentials_refreshed(self, cluster: str, source: str, outcome: str) -> None:
        """Hear of a reading of a token file or a run of a plugin."""
        ...

    def tls_changed(self, cluster: str, problem: str) -> None:
        """Hear why replaced TLS files cannot be used, or that they can."""
        ...


class Reporters:
    """Passes everything on to each of its members, in their order."""

    def __init__(self, *members: FullReporter) -> None:
        self._members = members

    def extension_registered(self, key: ExtensionKey, outcome: str, sources: int) -> None:
        """Pass it on."""
        for member in self._members:
            member.extension_registered(key, outcome, sources)

    def extension_ended(self, key: ExtensionKey, reason: str) -> None:
        """Pass it on."""
        for member in self._members:
            member.extension_ended(key, reason)

    def source_state_changed(
        self,
        key: ExtensionKey,
        spec: SourceSpec,
        before: SourceState,
        after: SourceState,
        reason: str,
        message: str,
    ) -> None:
        """Pass it on."""
        for member in self._members:
            member.source_state_changed(key, spec, before, after, reason, message)

    def synced(self, spec: SourceSpec, seconds: float) -> None:
        """Pass it on."""
        for member in self._members:
            member.synced(spec, seconds)

    def events_read(self, spec: SourceSpec, count: int) -> None:
        """Pass it on."""
        for member in self._members:
            member.events_read(spec, count)

    def informer_counted(self, spec: SourceSpec, event: str, reason: str) -> None:
        """Pass it on."""
        for member in self._members:
            member.informer_counted(spec, event, reason)

    def consistency_checked(
        self,
        key: ExtensionKey,
        spec: SourceSpec,
        outcome: CheckOutcome,
        message: str,
        counts: Mapping[str, int],
    ) -> None:
        """Pass it on."""
        for member in self._members:
            member.consistency_checked(key, spec, outcome, message, counts)

    def informer_failed(self, key: ExtensionKey, spec: SourceSpec, error: BaseException) -> None:
        """Pass it on."""
        for member in self._members:
            member.informer_failed(key, spec, error)

    def batch_sent(self, events: int, size_bytes: int, latency_seconds: float | None) -> None:
        """Pass it on."""
        for member in self._members:
            member.batch_sent(events, size_bytes, latency_seconds)

    def stream_stalled(self, key: ExtensionKey | None) -> None:
        """Pass it on."""
        for member in self._members:
            member.stream_stalled(key)

    def subscriber_reset(self, key: ExtensionKey, reason: str) -> None:
        """Pass it on."""
        for member in self._members:
            member.subscriber_reset(key, reason)

    def rpc_started(self, method: str, kind: str) -> None:
        """Pass it on."""
        for member in self._members:
            member.rpc_started(method, kind)

    def rpc_handled(self, method: str, kind: str, code: str, seconds: float) -> None:
        """Pass it on."""
        for member in self._members:
            member.rpc_handled(method, kind, code, seconds)

    def rpc_message_sent(self, method: str, kind: str) -> None:
        """Pass it on."""
        for member in self._members:
            member.rpc_message_sent(method, kind)

    def rpc_failed(self, method: str, incident: str, error: BaseException) -> None:
        """Pass it on."""
        for member in self._members:
            member.rpc_failed(method, incident, error)

    def request_answered(self, cluster: str, method: str, code: int, seconds: float) -> None:
        """Pass it on."""
        for member in self._members:
            member.request_answered(cluster, method, code, seconds)

    def request_failed(self, cluster: str, method: str, reason: str, seconds: float) -> None:
        """Pass it on."""
        for member in self._members:
            member.request_failed(cluster, method, reason, seconds)

    def discovery_refreshed(self, cluster: str, outcome: str, resources: int) -> None:
        """Pass it on."""
        for member in self._members:
            member.discovery_refreshed(cluster, outcome, resources)

    def token_issued(
        self, cluster: str, namespace: str, name: str, lifetime_seconds: float
    ) -> None:
        """Pass it on."""
        for member in self._members:
            member.token_issued(cluster, namespace, name, lifetime_seconds)

    def token_rotated(self, cluster: str, namespace: str, name: str) -> None:
        """Pass it on."""
        for member in self._members:
            member.token_rotated(cluster, namespace, name)

    def token_failed(self, cluster: str, namespace: str, name: str, reason: str) -> None:
        """Pass it on."""
        for member in self._members:
            member.token_failed(cluster, namespace, name, reason)

    def service_account_recreated(self, cluster: str, namespace: str, name: str) -> None:
        """Pass it on."""
        for member in self._members:
            member.service_account_recreated(cluster, namespace, name)

    def clock_skew_measured(self, cluster: str, seconds: float) -> None:
        """Pass it on."""
        for member in self._members:
            member.clock_skew_measured(cluster, seconds)

    def credentials_refreshed(self, cluster: str, source: str, outcome: str) -> None:
        """Pass it on."""
        for member in self._members:
            member.credentials_refreshed(cluster, source, outcome)

    def tls_changed(self, cluster: str, problem: str) -> None:
        """Pass it on."""
        for member in self._members:
            member.tls_changed(cluster, problem)
