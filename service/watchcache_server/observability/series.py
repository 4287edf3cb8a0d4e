"""The series that `Metrics` counts in: their names, help, labels and buckets."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from watchcache_server.model.states import CheckOutcome, SourceState

__all__ = ["OTHER", "ApiSeries", "InformerSeries", "RpcSeries", "StreamSeries", "Words"]

OTHER: Final = "other"
_MAX_WORDS: Final = 64

# From a few objects on a quiet server to a million on a busy one.
_SYNC_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
# At rest an event passes in under a millisecond; ten seconds is a reader that stands still.
_EVENT_BUCKETS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
_REQUEST_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_RPC_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Words:
    """Lets so many different words through; any further one becomes "other"."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: set[str] = set()

    def bound(self, word: str) -> str:
        """Return the word itself, or "other" when there are too many already."""
        if word not in self._known:
            if len(self._known) >= _MAX_WORDS:
                return OTHER
            self._known.add(word)
        return word


class InformerSeries:
    """What informers do."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._words = Words()
        self.registrations = Counter(
            "watchcache_registrations",
            "Register calls that succeeded: created, updated or unchanged.",
            ("outcome",),
            registry=registry,
        )
        self.ended = Counter(
            "watchcache_extensions_ended",
            "Extensions that were freed, and why.",
            ("reason",),
            registry=registry,
        )
        self.transitions = Counter(
            "watchcache_informer_transitions",
            "States that informers have entered.",
            ("state",),
            registry=registry,
        )
        self.sync_seconds = Histogram(
            "watchcache_sync_duration_seconds",
            "Time from Register to the end of an informer's first sync.",
            buckets=_SYNC_BUCKETS,
            registry=registry,
        )
        self.events_read = Counter(
            "watchcache_events_read",
            "Events read from live watches of API servers.",
            ("cluster",),
            registry=registry,
        )
        self.relists = Counter(
            "watchcache_relists",
            "Times an informer had to read all of its objects again, and why.",
            ("reason",),
            registry=registry,
        )
        self.restarts = Counter(
            "watchcache_watch_restarts",
            "Watches that ended and were opened again where they stood, and why.",
            ("reason",),
            registry=registry,
        )
        self.refusals = Counter(
            "watchcache_informer_requests_failed",
            "Lists and watches that failed or broke off, and why.",
            ("reason",),
            registry=registry,
        )
        self.incidents = Counter(
            "watchcache_informer_incidents",
            "Rarer things that informers met, such as bytes that cannot be read.",
            ("event",),
            registry=registry,
        )
        self.checks = Counter(
            "watchcache_consistency_checks",
            "Comparisons of informers with their API servers, and what they have found.",
            ("outcome",),
            registry=registry,
        )
        self.failures = Counter(
            "watchcache_informer_failures",
            "Informers that failed by a fault of the service and were started again.",
            registry=registry,
        )
        # Series that are there from the start: a rate needs a value before the first event.
        for outcome in ("created", "updated", "unchanged"):
            self.registrations.labels(outcome)
        for state in SourceState:
            self.transitions.labels(state.value)
        for result in CheckOutcome:
            self.checks.labels(result.value)

    def count(self, event: str, reason: str) -> None:
        """Count an event of an informer in the series that is about it."""
        word = self._words.bound(reason.lower())
        match event:
            case "relist":
                self.relists.labels(word).inc()
            case "watch_ended":
                self.restarts.labels(word).inc()
            case "request_failed":
                self.refusals.labels(word).inc()
            case _:
                self.incidents.labels(event).inc()


class StreamSeries:
    """What subscribers are sent."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.words = Words()
        self.batches = Counter(
            "watchcache_batches_sent", "Batches of events handed to gRPC.", registry=registry
        )
        self.events = Counter(
            "watchcache_events_sent",
            "Events handed to gRPC, those of snapshots included.",
            registry=registry,
        )
        self.bytes = Counter(
            "watchcache_sent_bytes", "Bytes of the batches handed to gRPC.", registry=registry
        )
        self.latency = Histogram(
            "watchcache_event_latency_seconds",
            "Time from reading a change off the API server to handing it to gRPC, "
            "of the oldest change of each batch.",
            buckets=_EVENT_BUCKETS,
            registry=registry,
        )
        self.stalled = Counter(
            "watchcache_streams_stalled",
            "Watch streams that were ended since their reader took nothing.",
            registry=registry,
        )
        self.resets = Counter(
            "watchcache_subscriber_resets",
            "Subscribers that had to begin anew with a snapshot, and why.",
            ("reason",),
            registry=registry,
        )


class RpcSeries:
    """RPCs under the names that gRPC's own middleware made known."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("grpc_type", "grpc_service", "grpc_method")
        self.started = Counter("grpc_server_started", "RPCs that began.", labels, registry=registry)
        self.handled = Counter(
            "grpc_server_handled",
            "RPCs that ended, by status code.",
            (*labels, "grpc_code"),
            registry=registry,
        )
        self.received = Counter(
            "grpc_server_msg_received", "Requests received.", labels, registry=registry
        )
        self.sent = Counter("grpc_server_msg_sent", "Messages sent.", labels, registry=registry)
        self.seconds = Histogram(
            "grpc_server_handling_seconds",
            "How long RPCs took; for a stream, how long it was open.",
            labels,
            buckets=_RPC_BUCKETS,
            registry=registry,
        )
        self.failures = Counter(
            "watchcache_rpc_failures",
            "RPCs that failed by a fault of the service.",
            ("grpc_method",),
            registry=registry,
        )


class ApiSeries:
    """What is asked of API servers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.words = Words()
        self._codes = Words()
        self._requests = Counter(
            "watchcache_api_requests",
            "Requests to API servers, by HTTP status, or by reason when no answer came.",
            ("cluster", "method", "code"),
            registry=registry,
        )
        self._seconds = Histogram(
            "watchcache_api_request_duration_seconds",
            "Time to the headers of an API server's answer, or to the failure.",
            ("cluster",),
            buckets=_REQUEST_BUCKETS,
            registry=registry,
        )
        self.discoveries = Counter(
            "watchcache_discovery_refreshes",
            "Readings of what an API server serves: ok, partial or why it failed.",
            ("cluster", "outcome"),
            registry=registry,
        )
        self.tokens = Counter(
            "watchcache_tokens_issued",
            "Tokens of ServiceAccounts that were got, rotations included.",
            ("cluster",),
            registry=registry,
        )
        self.rotations = Counter(
            "watchcache_token_rotations",
            "Tokens of ServiceAccounts that took the place of another.",
            ("cluster",),
            registry=registry,
        )
        self.token_failures = Counter(
            "watchcache_token_failures",
            "Tokens of ServiceAccounts that were asked for and did not come, and why.",
            ("cluster", "reason"),
            registry=registry,
        )
        self.recreations = Counter(
            "watchcache_service_account_recreations",
            "ServiceAccounts that were found to be another one under their old name.",
            ("cluster",),
            registry=registry,
        )
        self.clock_skew = Gauge(
            "watchcache_clock_skew_seconds",
            "The API server's clock less ours, to whole seconds.",
            ("cluster",),
            registry=registry,
        )
        self.credentials = Counter(
            "watchcache_credentials_refreshes",
            "Readings of token files and runs of credential plugins: ok or why they failed.",
            ("cluster", "source", "outcome"),
            registry=registry,
        )

    def answered(self, cluster: str, method: str, code: str, seconds: float) -> None:
        """Count a request and observe how long it took."""
        self._requests.labels(cluster, method, self._codes.bound(code)).inc()
        self._seconds.labels(cluster).observe(seconds)
