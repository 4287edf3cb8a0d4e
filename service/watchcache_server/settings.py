"""Settings of the service: every limit and every choice, each with a name, a default and a reason.

How they are given is up to `settings_reading`; docs/settings.md is made from both.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from watchcache_server.model.errors import SettingsError

__all__ = ["Settings"]


def _setting(
    default: object, help_text: str, *, low: float | None = None, high: float | None = None
) -> typing.Any:
    metadata = {"help": help_text, "low": low, "high": high}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. Sizes are in bytes and times in seconds, as their names say."""

    # Where it listens
    listen: tuple[str, ...] = _setting(
        ("127.0.0.1:7443",),
        "gRPC addresses: loopback host:port or unix:PATH. Any other address is refused, since "
        "callers are not authenticated yet.",
    )
    http_listen: str = _setting(
        "127.0.0.1:8080", "Loopback address of /metrics, /healthz and /readyz; empty for none."
    )
    reflection: bool = _setting(True, "Serve gRPC reflection, which grpcurl needs.")
    tls_certificate: str = _setting(
        "", "PEM file of the certificate, chain included, that gRPC serves with; empty for no TLS."
    )
    tls_key: str = _setting("", "PEM file of the private key of that certificate.")

    # What it tells operators
    ready_contact_seconds: float = _setting(
        60,
        "/readyz says no when the default cluster has not answered for so long.",
        low=20,
        high=3600,
    )
    max_metric_pairs: int = _setting(
        2000,
        "Pairs of extension and resource with gauges of their own; others are summed up in one.",
        low=0,
        high=100_000,
    )
    log_level: str = _setting("info", "debug, info, warning or error.")
    log_format: str = _setting("auto", "console, json, or auto (console on a terminal).")

    # Where it reads
    kubeconfig: tuple[str, ...] = _setting(
        (),
        "Clusters, each as [NAME=]PATH[#CONTEXT]. Without any: the in-cluster environment, "
        "else $KUBECONFIG, else ~/.kube/config.",
    )
    default_cluster: str = _setting(
        "", "Cluster for specs that name none; empty for the first one."
    )
    identity: str = _setting(
        "service-account",
        "As whom informers read: service-account (tokens of the extension's ServiceAccount) or "
        "caller (the kubeconfig's own identity; for one user outside a cluster).",
    )

    cluster_probe_seconds: float = _setting(
        15,
        "How often each API server is asked for its version, so that what is said of it is fresh; "
        "less than ready_contact_seconds.",
        low=1,
        high=3600,
    )

    discovery_seconds: float = _setting(
        15, "Longest wait for a document of discovery.", low=1, high=300
    )
    max_discovery_bytes: int = _setting(
        64 * 1024 * 1024, "Largest document of discovery read.", low=1024 * 1024
    )
    discovery_max_age_seconds: float = _setting(
        600,
        "After so long discovery is read again when a kind is looked for, though it is known.",
        low=10,
        high=86400,
    )
    credentials_recheck_seconds: float = _setting(
        10,
        "How often token files, CAs, certificates and keys are looked at for changes.",
        low=1,
        high=3600,
    )
    plugin_seconds: float = _setting(
        30, "Longest run of a credential plugin of a kubeconfig.", low=1, high=600
    )

    # Tokens
    token_lifetime_seconds: int = _setting(
        3600, "Lifetime asked for with TokenRequest.", low=600, high=86400
    )
    token_request_seconds: float = _setting(
        10,
        "Longest wait for the answer to a request for a token.",
        low=0.1,
        high=120,
    )

    # Informers
    watch_timeout_seconds: int = _setting(
        60,
        "Longest life of a watch; reopening it is what checks the right to watch.",
        low=5,
        high=600,
    )
    initial_events_seconds: float = _setting(
        30, "Longest silence within the initial events of a watch list.", low=1, high=300
    )
    connect_seconds: float = _setting(
        10, "Longest time to open a connection to an API server.", low=0.1, high=120
    )
    response_seconds: float = _setting(
        30, "Longest wait for the headers of an answer.", low=1, high=300
    )
    list_page_size: int = _setting(500, "Objects in a page of a paged list.", low=1, high=10_000)
    forbidden_grace_seconds: float = _setting(
        60, "How long objects are kept after the right to read them was lost.", low=0, high=3600
    )
    first_backoff_seconds: float = _setting(
        0.8,
        "Wait after the first failure of an informer, doubled by each further one.",
        low=0.1,
        high=60,
    )
    longest_backoff_seconds: float = _setting(
        30,
        "Longest wait after failures of an informer; up to as much again is added by chance.",
        low=1,
        high=600,
    )
    recheck_seconds: float = _setting(
        15,
        "How often a right, a kind or a verb that is missing is looked for again.",
        low=1,
        high=3600,
    )
    unauthenticated_recheck_seconds: float = _setting(
        60,
        "Longest wait before a token is asked for again that could not be had.",
        low=1,
        high=3600,
    )
    bad_request_recheck_seconds: float = _setting(
        300,
        "Wait before a request is sent again that was called bad, as for a wrong field selector.",
        low=1,
        high=86400,
    )
    max_concurrent_syncs: int = _setting(
        8, "Initial syncs under way at once for each cluster; others are PENDING.", low=1, high=1000
    )
    informer_requests_per_second: int = _setting(
        200,
        "Lists and watches that informers begin in a second for each cluster, a quarter of them at "
        "once; others wait, tenant by tenant, as after a restart of its API server.",
        low=1,
        high=10_000,
    )
    max_concurrent_verifications: int = _setting(
        8,
        "Objects that left a selector which an informer asks for at once: are they gone?",
        low=1,
        high=100,
    )
    verification_seconds: float = _setting(
        5, "Longest wait for each of these answers; there are three attempts.", low=0.1, high=60
    )
    consistency_check_seconds: float = _setting(
        900,
        "How often an informer is compared with its API server, give or take a quarter; one whose "
        "comparison costs the API server much, a quarter as often. 0 for never.",
        low=0,
        high=86400,
    )
    max_event_bytes: int = _setting(
        64 * 1024 * 1024, "Largest single object or event read.", low=1024 * 1024
    )

    max_freshness_wait_seconds: float = _setting(
        30,
        "Longest that a call waits for informers to be as fresh as it asks.",
        low=0,
        high=600,
    )

    # Extensions
    max_extensions: int = _setting(1000, "Extensions registered at once.", low=1)
    max_sources: int = _setting(
        500, "Informers of one extension, those of sets of namespaces included.", low=1
    )
    max_spec_bytes: int = _setting(
        1024 * 1024,
        "Size of a spec, manifests included; also of its selectors, counted for each informer.",
        low=1024,
        high=4 * 1024 * 1024,
    )
    max_manifest_documents: int = _setting(
        5000, "Objects in the manifests of a spec, Lists expanded.", low=1
    )
    max_index_paths: int = _setting(
        16, "Field paths that an entry of a spec may be indexed by.", low=0, high=256
    )
    max_index_values: int = _setting(
        64,
        "Values at these paths that are indexed of one object; the others are left out and counted "
        "in its informer's status.",
        low=1,
        high=10_000,
    )
    account_check_seconds: float = _setting(
        5,
        "Longest that Register waits to learn whether the ServiceAccount exists; then it goes on.",
        low=0.1,
        high=60,
    )
    deregister_seconds: float = _setting(
        10, "Longest that Deregister waits for the informers to end.", low=0.1, high=300
    )
    history_changes: int = _setting(
        16_384, "Changes kept for each extension, for resuming.", low=16
    )
    history_bytes: int = _setting(
        32 * 1024 * 1024, "Bytes of changes kept for each extension.", low=64 * 1024
    )
    history_ends: int = _setting(
        65_536,
        "Ends of objects older than those changes, kept for each extension: who comes from before "
        "the oldest of them starts with a snapshot.",
        low=16,
    )

    # Subscriptions
    max_subscriptions: int = _setting(20_000, "Open Watch streams.", low=1)
    max_subscriptions_per_extension: int = _setting(
        5000, "Open Watch streams of one extension.", low=1
    )
    max_extension_watches: int = _setting(1000, "Open WatchExtensions streams.", low=1)
    extension_watch_interval_seconds: float = _setting(
        0.1,
        "Shortest time between two messages of a WatchExtensions stream about one extension; "
        "changes in between are joined.",
        low=0.01,
        high=10,
    )
    max_known_objects: int = _setting(
        2_000_000, "Objects that clients say they hold, of all uploads under way.", low=1
    )
    known_seconds: float = _setting(
        60, "How long an upload of what a client holds waits for its Watch.", low=1, high=3600
    )
    stalled_write_seconds: float = _setting(
        60,
        "A stream whose reader takes nothing for so long is no subscription any more; the reader "
        "is told when it reads again, and can resume.",
        low=1,
        high=3600,
    )
    # Messages below the threshold from which the allocator maps memory anew (see memory.py) take a
    # fifth less processor time than those of a megabyte.
    batch_bytes: int = _setting(
        96 * 1024, "Size of a batch; one larger object is a batch of its own.", low=16 * 1024
    )
    batch_cache_bytes: int = _setting(
        16 * 1024 * 1024, "Encoded batches kept for sharing among subscribers.", low=0
    )
    deliveries_per_second: int = _setting(
        20_000,
        "Wake-ups of subscribers a second at most; sets the flush tick of an extension.",
        low=100,
    )

    # gRPC
    max_message_bytes: int = _setting(4 * 1024 * 1024, "Largest request.", low=64 * 1024)
    max_streams_per_connection: int = _setting(
        1000,
        "Watch and WatchExtensions streams of one TCP connection; other calls have room beside "
        "them.",
        low=1,
    )
    max_connection_age_seconds: float = _setting(
        1800,
        "Age at which a connection is told to take no more calls; its streams end after that, one "
        "by one, and are opened again over a new one. 0 for no limit, else at least 1.",
        low=0,
        high=7 * 86400,
    )
    keepalive_seconds: int = _setting(
        30, "Silence after which a connection is pinged.", low=10, high=7200
    )
    keepalive_timeout_seconds: int = _setting(
        10, "Wait for the answer to a ping before the connection is closed.", low=1, high=60
    )
    min_ping_seconds: int = _setting(
        10, "Pings of a client that come faster than this close its connection.", low=1, high=300
    )
    drain_seconds: float = _setting(
        5, "Time for streams to end when the service stops.", low=0, high=300
    )
    closing_seconds: float = _setting(
        20,
        "Time after that for everything else; what hangs longer is logged, and the process ends.",
        low=0.1,
        high=300,
    )

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise SettingsError.of_all(problems)

    def _problems(self) -> Iterator[str]:
        for each in fields(self):
            value = getattr(self, each.name)
            low, high = each.metadata["low"], each.metadata["high"]
            if (low is not None and value < low) or (high is not None and value > high):
                bounds = f"at least {low}" if high is None else f"from {low} to {high}"
                yield f"setting {each.name}: {value} is out of range; use {bounds}"
        for name, allowed in _WORDS.items():
            word = getattr(self, name)
            if word not in allowed:
                yield f"setting {name}: {word!r} is unknown; use {' or '.join(allowed)}"
        if bool(self.tls_certificate) != bool(self.tls_key):
            yield (
                "settings tls_certificate and tls_key: one is given without the other; give both "
                "for TLS, or neither"
            )
        if self.first_backoff_seconds > self.longest_backoff_seconds:
            yield (
                f"settings first_backoff_seconds {self.first_backoff_seconds:g} and "
                f"longest_backoff_seconds {self.longest_backoff_seconds:g}: the first wait is "
                "longer than the longest; make it at most as long"
            )
        if self.cluster_probe_seconds >= self.ready_contact_seconds:
            yield (
                f"settings cluster_probe_seconds {self.cluster_probe_seconds:g} and "
                f"ready_contact_seconds {self.ready_contact_seconds:g}: a cluster at rest would "
                "look lost between two probes; make the first one less than the second"
            )
        if 0 < self.max_connection_age_seconds < 1:
            yield (
                f"setting max_connection_age_seconds: {self.max_connection_age_seconds:g} is out "
                "of range; use 0 for no limit, or at least 1"
            )
        if not self.listen:
            yield "setting listen: no address; give at least one, such as 127.0.0.1:7443"


# The first setting of each section.
_WORDS: typing.Final = {
    "identity": ("service-account", "caller"),
    "log_level": ("debug", "info", "warning", "error"),
    "log_format": ("auto", "console", "json"),
}
