"""Gauges that are read off the service when somebody asks for them.

    collector = ServiceCollector(registry, clusters, watching, listing, max_pairs=2000, clock=clock)
    metrics_registry.register(collector)
    await collector.gather()
    metrics_registry.collect()

Nothing is kept between two scrapes, so what was deregistered has no series any more. Labels are
clusters, states, extensions, and resources as discovery named them. Only so many pairs of labels
have series of their own; all others are summed up in one under "other" and counted, so that a sum
over all series is always right. docs/metrics.md says how many series there can be.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final, Protocol

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from watchcache_server.clusters.registry import ClusterRegistry
from watchcache_server.extensions.extension import Clock, Extension
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.model.states import ExtensionState, SourceState

__all__ = ["OTHER", "ExtensionStreams", "ServiceCollector", "Streams"]

OTHER: Final = "other"
_KIB: Final = 1024
_TURN_SECONDS: Final = 0.002

_Pair = tuple[str, str]


class Streams(Protocol):
    """What is asked of the open Watch streams."""

    @property
    def stream_count(self) -> int:
        """How many are open."""
        ...

    @property
    def cached_bytes(self) -> int:
        """Bytes of messages kept for sharing."""
        ...

    def lags(self) -> Iterable[tuple[int, float]]:
        """Yield for each stream how many changes it is behind, and the age of the oldest."""
        ...


class ExtensionStreams(Protocol):
    """What is asked of the open WatchExtensions streams."""

    @property
    def stream_count(self) -> int:
        """How many are open."""
        ...


class ServiceCollector(Collector):
    """Collects the gauges of all extensions, clusters and streams."""

    def __init__(
        self,
        registry: ExtensionRegistry,
        clusters: ClusterRegistry,
        streams: Streams,
        extension_streams: ExtensionStreams,
        *,
        max_pairs: int,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._clusters = clusters
        self._streams = streams
        self._extension_streams = extension_streams
        self._max_pairs = max_pairs
        self._clock = clock
        self._gathered = _Families()

    def describe(self) -> Iterable[Metric]:
        """Return all families empty, so that registering reads nothing."""
        return _Families().all()

    def collect(self) -> Iterable[Metric]:
        """Return what `gather` has read since the last time."""
        families, self._gathered = self._gathered, _Families()
        return families.all()

    async def gather(self) -> None:
        """Read everything, and let others have their turns meanwhile.

        What changes under way is seen as it is when its turn comes.
        """
        families = _Families()
        tally = _Tally(self._clusters.names, self._max_pairs, self._clock.wall())
        turn = _Turn()
        for extension in list(self._registry):
            await turn.pass_on()
            if not extension.ended:
                tally.add(extension)
                for cluster, access in self._registry.credentials_of(extension).items():
                    tally.add_expiry(cluster, access.account.expires_in_seconds)
        tally.fill(families)
        lags = _Lags()
        for changes, seconds in self._streams.lags():
            await turn.pass_on()
            lags.add(changes, seconds)
        lags.fill(families, self._streams)
        families.extension_watches.add_metric((), self._extension_streams.stream_count)
        _fill_clusters(families, self._clusters)
        self._gathered = families


class _Turn:
    """Keeps the event loop no longer than `_TURN_SECONDS` at a time."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def pass_on(self) -> None:
        """Let others run if this has taken long enough."""
        if time.perf_counter() - self._began >= _TURN_SECONDS:
            await asyncio.sleep(0)
            self._began = time.perf_counter()


class _Families:
    """The families of one scrape."""

    def __init__(self) -> None:
        self.extensions = GaugeMetricFamily(
            "watchcache_extensions", "Registered extensions by state.", labels=("state",)
        )
        self.informers = GaugeMetricFamily(
            "watchcache_informers",
            "Informers by cluster and state.",
            labels=("cluster", "state"),
        )
        self.objects = GaugeMetricFamily(
            "watchcache_cached_objects",
            "Objects held.",
            labels=("extension", "resource"),
        )
        self.bytes = GaugeMetricFamily(
            "watchcache_cached_bytes",
            "Size of the objects held: raw as JSON, and stored, that is compressed, "
            "in whole KiB for each informer.",
            labels=("extension", "resource", "form"),
        )
        self.pairs_left_out = GaugeMetricFamily(
            "watchcache_metric_pairs_left_out",
            'Pairs of labels that are summed up under "other", since max_metric_pairs is reached.',
        )
        self.staleness = GaugeMetricFamily(
            "watchcache_staleness_seconds",
            "Time since an API server was last heard by the informer of a resource that has heard "
            "it longest ago.",
            labels=("cluster", "resource"),
        )
        self.token_expiry = GaugeMetricFamily(
            "watchcache_token_expiry_seconds",
            "Time until the first of the tokens in use expires.",
            labels=("cluster",),
        )
        self.history_changes = GaugeMetricFamily(
            "watchcache_history_changes", "Changes kept for resuming, of all extensions."
        )
        self.history_bytes = GaugeMetricFamily(
            "watchcache_history_bytes", "Size of the changes kept for resuming, of all extensions."
        )
        self.subscriptions = GaugeMetricFamily("watchcache_subscriptions", "Open Watch streams.")
        self.extension_watches = GaugeMetricFamily(
            "watchcache_extension_watches", "Open WatchExtensions streams."
        )
        self.behind = GaugeMetricFamily(
            "watchcache_subscriptions_behind", "Open Watch streams with changes yet to be sent."
        )
        self.lag_changes = GaugeMetricFamily(
            "watchcache_subscription_lag_changes",
            "Changes yet to be looked at by the Watch stream that is furthest behind.",
        )
        self.lag_seconds = GaugeMetricFamily(
            "watchcache_subscription_lag_seconds",
            "Age of the oldest change that some Watch stream has yet to be sent.",
        )
        self.batch_cache = GaugeMetricFamily(
            "watchcache_batch_cache_bytes", "Size of the batches kept for sharing."
        )
        self.reachable = GaugeMetricFamily(
            "watchcache_cluster_reachable",
            "Whether the last request to an API server was answered (1) or not (0).",
            labels=("cluster",),
        )
        self.tls_outdated = GaugeMetricFamily(
            "watchcache_cluster_tls_outdated",
            "Whether a CA, client certificate or key was replaced by one that cannot be used (1).",
            labels=("cluster",),
        )
        self.contact_age = GaugeMetricFamily(
            "watchcache_cluster_contact_age_seconds",
            "Time since an API server last answered any request.",
            labels=("cluster",),
        )

    def all(self) -> list[Metric]:
        return list(vars(self).values())


class _Sizes:
    """What one pair of extension and resource holds."""

    __slots__ = ("objects", "raw_bytes", "stored_bytes")

    def __init__(self) -> None:
        self.objects = self.raw_bytes = self.stored_bytes = 0

    def add(self, objects: int, raw_bytes: int, stored_bytes: int) -> None:
        self.objects += objects
        self.raw_bytes += raw_bytes
        self.stored_bytes += stored_bytes


class _Tally:
    """Sums of one scrape."""

    def __init__(self, clusters: Iterable[str], max_pairs: int, now: float) -> None:
        self._max_pairs = max_pairs
        self._now = now
        self._extensions = dict.fromkeys((state.value for state in ExtensionState), 0)
        self._informers = {
            (cluster, state.value): 0 for cluster in clusters for state in SourceState
        }
        self._sizes: dict[_Pair, _Sizes] = {}
        self._staleness: dict[_Pair, float] = {}
        self._expiry: dict[str, float] = {}
        self._history_changes = 0
        self._history_bytes = 0

    def add(self, extension: Extension) -> None:
        self._extensions[extension.state.value] += 1
        history = extension.store.history
        self._history_changes += len(history)
        self._history_bytes += history.bytes
        name = str(extension.key)
        for source in extension.store.sources():
            # What discovery has not confirmed is a word of whoever wrote the spec.
            if source.served is not None:
                sizes = self._sizes.setdefault((name, source.served.name), _Sizes())
                # The exact size of a compressed object would answer guesses about its content.
                stored = -(-source.stored_bytes // _KIB) * _KIB
                sizes.add(source.table.count, source.raw_bytes, stored)
        for informer in (*extension.informers.values(), *extension.namespace_informers):
            status = informer.status
            self._informers[informer.spec.cluster, status.state.value] += 1
            served = informer.source.served
            if served is not None and status.last_contact_time is not None:
                pair = (informer.spec.cluster, served.name)
                age = max(0.0, self._now - status.last_contact_time)
                self._staleness[pair] = max(age, self._staleness.get(pair, 0.0))

    def add_expiry(self, cluster: str, seconds: float | None) -> None:
        if seconds is not None:
            self._expiry[cluster] = min(seconds, self._expiry.get(cluster, seconds))

    def fill(self, families: _Families) -> None:
        for state, count in self._extensions.items():
            families.extensions.add_metric((state,), count)
        for labels, count in self._informers.items():
            families.informers.add_metric(labels, count)
        self._fill_sizes(families)
        self._fill_staleness(families)
        for cluster, seconds in self._expiry.items():
            families.token_expiry.add_metric((cluster,), seconds)
        families.history_changes.add_metric((), self._history_changes)
        families.history_bytes.add_metric((), self._history_bytes)
        left_out = sum(
            max(0, len(pairs) - self._max_pairs) for pairs in (self._sizes, self._staleness)
        )
        families.pairs_left_out.add_metric((), left_out)

    def _fill_sizes(self, families: _Families) -> None:
        rest = _Sizes()
        # In the order of registration: who has series keeps them.
        for place, (pair, sizes) in enumerate(self._sizes.items()):
            if place < self._max_pairs:
                _show_sizes(families, pair, sizes)
            else:
                rest.add(sizes.objects, sizes.raw_bytes, sizes.stored_bytes)
        if len(self._sizes) > self._max_pairs:
            _show_sizes(families, (OTHER, OTHER), rest)

    def _fill_staleness(self, families: _Families) -> None:
        # The worst first: these are the ones to look at.
        worst = sorted(self._staleness.items(), key=lambda item: -item[1])
        for pair, seconds in worst[: self._max_pairs]:
            families.staleness.add_metric(pair, seconds)
        for _, seconds in worst[self._max_pairs : self._max_pairs + 1]:
            families.staleness.add_metric((OTHER, OTHER), seconds)


def _show_sizes(families: _Families, pair: _Pair, sizes: _Sizes) -> None:
    families.objects.add_metric(pair, sizes.objects)
    families.bytes.add_metric((*pair, "raw"), sizes.raw_bytes)
    families.bytes.add_metric((*pair, "stored"), sizes.stored_bytes)


class _Lags:
    """How far the Watch streams are behind."""

    def __init__(self) -> None:
        self._behind = self._most_changes = 0
        self._most_seconds = 0.0

    def add(self, changes: int, seconds: float) -> None:
        if changes:
            self._behind += 1
            self._most_changes = max(self._most_changes, changes)
            self._most_seconds = max(self._most_seconds, seconds)

    def fill(self, families: _Families, streams: Streams) -> None:
        families.subscriptions.add_metric((), streams.stream_count)
        families.behind.add_metric((), self._behind)
        families.lag_changes.add_metric((), self._most_changes)
        families.lag_seconds.add_metric((), self._most_seconds)
        families.batch_cache.add_metric((), streams.cached_bytes)


def _fill_clusters(families: _Families, clusters: ClusterRegistry) -> None:
    for status in clusters.statuses():
        families.reachable.add_metric((status.name,), int(status.is_reachable))
        families.tls_outdated.add_metric((status.name,), int(bool(status.tls_problem)))
        if status.contact_age_seconds is not None:
            families.contact_age.add_metric((status.name,), status.contact_age_seconds)
