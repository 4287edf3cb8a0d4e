"""Counters and histograms of what the parts of the service tell.

`Metrics` hears what `Reporter` and the reporter of the accesses to API servers hear. What can be
read off the state of the service when it is asked for (extensions, informers, objects, ages) is not
counted here but collected at scrape time by `serving.collector`.

No series here has a label for an extension, a namespace or an object: labels are clusters, which
the operator configures, and words of a fixed set. A word that is new after many different
ones is counted as "other", so that nothing an API server answers can make series without end.
docs/metrics.md says how many series there can be.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from watchcache_server.model.specs import ExtensionKey, SourceSpec
from watchcache_server.model.states import CheckOutcome, SourceState
from watchcache_server.observability.series import (
    ApiSeries,
    InformerSeries,
    RpcSeries,
    StreamSeries,
)

__all__ = ["Metrics"]

_SERVICE: Final = "watchcache.v1alpha1.WatchCacheService"
_SPELT_OTHERWISE: Final = {"OK": "OK", "CANCELLED": "Canceled"}


class Metrics:
    """Counts what it hears. Its methods return at once and never raise."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Add all series to the registry, those of the process and of the build included."""
        # When a series began says nothing that its value does not, and doubles their number.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        Gauge(
            "watchcache_build_info",
            "The versions that run; the value is always 1.",
            ("version", "python_version", "grpc_version"),
            registry=registry,
        ).labels(version("watchcache-server"), platform.python_version(), version("grpcio")).set(1)
        self._informers = InformerSeries(registry)
        self._streams = StreamSeries(registry)
        self._rpcs = RpcSeries(registry)
        self._api = ApiSeries(registry)

    # Extensions and informers

    def extension_registered(self, key: ExtensionKey, outcome: str, sources: int) -> None:
        """Count a Register."""
        self._informers.registrations.labels(outcome).inc()

    def extension_ended(self, key: ExtensionKey, reason: str) -> None:
        """Count an extension that was freed."""
        self._informers.ended.labels(reason).inc()

    def source_state_changed(
        self,
        key: ExtensionKey,
        spec: SourceSpec,
        before: SourceState,
        after: SourceState,
        reason: str,
        message: str,
    ) -> None:
        """Count the state that was entered."""
        self._informers.transitions.labels(after.value).inc()

    def synced(self, spec: SourceSpec, seconds: float) -> None:
        """Observe how long a first sync took."""
        self._informers.sync_seconds.observe(seconds)

    def events_read(self, spec: SourceSpec, count: int) -> None:
        """Count events of live streams."""
        self._informers.events_read.labels(spec.cluster).inc(count)

    def informer_counted(self, spec: SourceSpec, event: str, reason: str) -> None:
        """Count what happened to an informer."""
        self._informers.count(event, reason)

    def consistency_checked(
        self,
        key: ExtensionKey,
        spec: SourceSpec,
        outcome: CheckOutcome,
        message: str,
        counts: Mapping[str, int],
    ) -> None:
        """Count a comparison of an informer with its API server."""
        self._informers.checks.labels(outcome.value).inc()

    def informer_failed(self, key: ExtensionKey, spec: SourceSpec, error: BaseException) -> None:
        """Count a fault of ours in an informer."""
        self._informers.failures.inc()

    # Streams

    def batch_sent(self, events: int, size_bytes: int, latency_seconds: float | None) -> None:
        """Count a batch; observe how long its oldest change was on its way."""
        self._streams.batches.inc()
        self._streams.events.inc(events)
        self._streams.bytes.inc(size_bytes)
        if latency_seconds is not None:
            self._streams.latency.observe(latency_seconds)

    def stream_stalled(self, key: ExtensionKey | None) -> None:
        """Count a stream that was ended since its reader took nothing."""
        self._streams.stalled.inc()

    def subscriber_reset(self, key: ExtensionKey, reason: str) -> None:
        """Count a subscriber that has to begin anew."""
        word = reason.removeprefix("RESET_REASON_").lower()
        self._streams.resets.labels(self._streams.words.bound(word)).inc()

    # RPCs

    def rpc_started(self, method: str, kind: str) -> None:
        """Count an RPC that began. Both kinds have read their one request by then."""
        self._rpcs.started.labels(kind, _SERVICE, method).inc()
        self._rpcs.received.labels(kind, _SERVICE, method).inc()

    def rpc_handled(self, method: str, kind: str, code: str, seconds: float) -> None:
        """Count an RPC that ended, in the code's spelling that users of gRPC metrics know."""
        self._rpcs.handled.labels(kind, _SERVICE, method, _code_name(code)).inc()
        self._rpcs.seconds.labels(kind, _SERVICE, method).observe(seconds)
        if kind == "unary" and code == "OK":
            self._rpcs.sent.labels(kind, _SERVICE, method).inc()

    def rpc_message_sent(self, method: str, kind: str) -> None:
        """Count a message of a stream."""
        self._rpcs.sent.labels(kind, _SERVICE, method).inc()

    def rpc_failed(self, method: str, incident: str, error: BaseException) -> None:
        """Count a fault of ours in an RPC."""
        self._rpcs.failures.labels(method).inc()

    # Access to API servers

    def request_answered(self, cluster: str, method: str, code: int, seconds: float) -> None:
        """Count an answer and observe how long its headers took."""
        self._api.answered(cluster, method, str(code), seconds)

    def request_failed(self, cluster: str, method: str, reason: str, seconds: float) -> None:
        """Count a request without an answer; its code is the reason."""
        self._api.answered(cluster, method, reason, seconds)

    def discovery_refreshed(self, cluster: str, outcome: str, resources: int) -> None:
        """Count a reading of discovery."""
        self._api.discoveries.labels(cluster, self._api.words.bound(outcome)).inc()

    def token_issued(
        self, cluster: str, namespace: str, name: str, lifetime_seconds: float
    ) -> None:
        """Count a token."""
        self._api.tokens.labels(cluster).inc()

    def token_rotated(self, cluster: str, namespace: str, name: str) -> None:
        """Count a token that took the place of another."""
        self._api.rotations.labels(cluster).inc()

    def token_failed(self, cluster: str, namespace: str, name: str, reason: str) -> None:
        """Count a token that did not come."""
        self._api.token_failures.labels(cluster, self._api.words.bound(reason)).inc()

    def service_account_recreated(self, cluster: str, namespace: str, name: str) -> None:
        """Count a ServiceAccount that is another one under its old name."""
        self._api.recreations.labels(cluster).inc()

    def clock_skew_measured(self, cluster: str, seconds: float) -> None:
        """Show how far the clocks are apart."""
        self._api.clock_skew.labels(cluster).set(seconds)

    def credentials_refreshed(self, cluster: str, source: str, outcome: str) -> None:
        """Count a reading of a token file or a run of a plugin."""
        self._api.credentials.labels(cluster, source, self._api.words.bound(outcome)).inc()

    def tls_changed(self, cluster: str, problem: str) -> None:
        """Count nothing: the collector shows it."""


def _code_name(code: str) -> str:
    """Return a status code as gRPC's middleware writes it: OK, NotFound, Canceled."""
    if code in _SPELT_OTHERWISE:
        return _SPELT_OTHERWISE[code]
    return "".join(part.capitalize() for part in code.split("_"))
