"""Rules of the gauges that are read off the service at each scrape."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.serving.registered import NOW, Clusters, Registry, Streams, spec_of
from watchcache_server.extensions.extension import Clock
from watchcache_server.model.states import SourceState
from watchcache_server.serving.collector import ServiceCollector


class Scraped:
    """A collector over parts that a test sets."""

    def __init__(self, *, max_pairs: int = 100, **ages: float | None) -> None:
        self.extensions = Registry()
        self.clusters = Clusters(**ages)
        self.streams = Streams()
        self.extension_streams = Streams()
        self.metrics = CollectorRegistry()
        self._max_pairs = max_pairs

    def collector(self) -> ServiceCollector:
        """Return a collector of what there is."""
        parts: list[Any] = [self.extensions, self.clusters, self.streams, self.extension_streams]
        clock = Clock(now=lambda: NOW, wall=lambda: NOW)
        return ServiceCollector(*parts, max_pairs=self._max_pairs, clock=clock)

    async def collect(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Return the values by name of the family and values of the labels."""
        collector = self.collector()
        await collector.gather()
        return {
            family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
            for family in collector.collect()
        }


async def test_objects_and_bytes_are_shown_by_extension_and_resource() -> None:
    """Namespaces and clusters of one resource are summed up."""
    scraped = Scraped(hub=1.0, edge=1.0)
    extension = scraped.extensions.register(
        "shop",
        (spec_of("deployments"), 3),
        (spec_of("deployments", namespace="team-b"), 2),
        (spec_of("deployments", cluster="edge"), 1),
        (spec_of("replicasets"), 4),
    )
    found = await scraped.collect()
    assert found["watchcache_cached_objects"] == {
        ("team-a/shop", "deployments.apps"): 6,
        ("team-a/shop", "replicasets.apps"): 4,
    }
    raw = sum(source.raw_bytes for source in extension.store.sources())
    sizes = found["watchcache_cached_bytes"]
    assert sum(value for labels, value in sizes.items() if labels[2] == "raw") == raw > 0


async def test_the_size_of_one_compressed_object_is_not_told() -> None:
    """It would answer guesses about the content, so it is rounded up to KiB by informer."""
    scraped = Scraped()
    [source] = scraped.extensions.register("shop", (spec_of("secrets"), 1)).store.sources()
    assert 0 < source.stored_bytes < 1024
    sizes = (await scraped.collect())["watchcache_cached_bytes"]
    assert sizes["team-a/shop", "secrets.apps", "stored"] == 1024


async def test_what_is_deregistered_has_no_series() -> None:
    """Nothing is kept between two scrapes."""
    scraped = Scraped()
    for number in range(50):
        scraped.extensions.register(f"shop-{number}", (spec_of("deployments"), 1))
    assert len((await scraped.collect())["watchcache_cached_objects"]) == 50
    scraped.extensions.extensions.clear()
    found = await scraped.collect()
    assert found["watchcache_cached_objects"] == {}
    assert found["watchcache_cached_bytes"] == {}
    assert found["watchcache_staleness_seconds"] == {}
    assert set(found["watchcache_extensions"].values()) == {0}


async def test_what_discovery_has_not_confirmed_is_no_label() -> None:
    """A resource in a spec is a word of whoever wrote it, until an API server serves it."""
    scraped = Scraped()
    scraped.extensions.register("shop").add_informer(spec_of("made-up-by-the-caller"))
    found = await scraped.collect()
    assert found["watchcache_cached_objects"] == {}
    assert found["watchcache_informers"]["hub", "pending"] == 1


async def test_extensions_and_informers_are_counted_by_state() -> None:
    """Every state of every cluster has a value, so that a zero is a zero and not a gap."""
    scraped = Scraped(hub=1.0, edge=None)
    live = scraped.extensions.register("live", (spec_of("deployments"), 1))
    mixed = scraped.extensions.register("mixed", (spec_of("deployments"), 1))
    denied = mixed.add_informer(spec_of("secrets", cluster="edge"))
    for informer in (*live.informers.values(), *mixed.informers.values()):
        state = SourceState.FORBIDDEN if informer is denied else SourceState.LIVE
        informer.set_state(state, "", "")
    found = await scraped.collect()
    assert found["watchcache_extensions"] == {
        ("live",): 1,
        ("degraded",): 1,
        ("syncing",): 0,
        ("failed",): 0,
    }
    informers = found["watchcache_informers"]
    assert len(informers) == 2 * len(SourceState)
    assert informers["hub", "live"] == 2
    assert informers["edge", "forbidden"] == 1
    assert sum(informers.values()) == 3


async def test_pairs_over_the_limit_are_summed_up_and_counted() -> None:
    """Whoever registered first keeps the series; a sum over all series is right all the same."""
    scraped = Scraped(max_pairs=2)
    for number in range(5):
        scraped.extensions.register(f"shop-{number}", (spec_of("deployments"), 10))
    found = await scraped.collect()
    assert found["watchcache_cached_objects"] == {
        ("team-a/shop-0", "deployments.apps"): 10,
        ("team-a/shop-1", "deployments.apps"): 10,
        ("other", "other"): 30,
    }
    assert len(found["watchcache_cached_bytes"]) == 6
    assert found["watchcache_metric_pairs_left_out"] == {(): 3}


async def test_with_no_pairs_allowed_there_is_one_sum() -> None:
    """A limit of zero turns the series of extensions off, and nothing else."""
    scraped = Scraped(max_pairs=0)
    scraped.extensions.register("shop", (spec_of("deployments"), 10))
    assert (await scraped.collect())["watchcache_cached_objects"] == {("other", "other"): 10}


async def test_at_the_limit_nothing_is_left_out() -> None:
    """The limit itself is allowed."""
    scraped = Scraped(max_pairs=1)
    scraped.extensions.register("shop", (spec_of("deployments"), 10))
    found = await scraped.collect()
    assert ("other", "other") not in found["watchcache_cached_objects"]
    assert found["watchcache_metric_pairs_left_out"] == {(): 0}


async def test_staleness_is_that_of_the_informer_that_heard_longest_ago() -> None:
    """A fresh informer hides no stale one of the same resource."""
    scraped = Scraped(max_pairs=2)
    for name, resource, age in (
        ("fresh", "deployments", 1.0),
        ("stale", "deployments", 90.0),
        ("older", "replicasets", 120.0),
        ("young", "pods", 5.0),
        ("unheard", "pods", None),
    ):
        extension = scraped.extensions.register(name, (spec_of(resource), 0))
        [informer] = extension.informers.values()
        informer.status.last_contact_time = None if age is None else NOW - age
    found = await scraped.collect()
    assert found["watchcache_staleness_seconds"] == {
        ("hub", "replicasets.apps"): 120,
        ("hub", "deployments.apps"): 90,
        ("other", "other"): 5,
    }


async def test_the_first_token_to_expire_counts() -> None:
    """A cluster without a valid token in use has no series."""
    scraped = Scraped(hub=1.0, edge=1.0)
    for name, seconds in (("a", 700.0), ("b", 300.0), ("c", 900.0)):
        extension = scraped.extensions.register(name)
        scraped.extensions.expiries[extension.key] = {"hub": seconds, "edge": None}
    assert (await scraped.collect())["watchcache_token_expiry_seconds"] == {("hub",): 300}


async def test_histories_are_summed_up() -> None:
    """Changes and bytes of all extensions."""
    scraped = Scraped()
    stores = [scraped.extensions.register(name, (spec_of("deployments"), 2)).store for name in "ab"]
    found = await scraped.collect()
    assert found["watchcache_history_changes"][()] == sum(len(each.history) for each in stores) > 0
    assert found["watchcache_history_bytes"][()] == sum(each.history.bytes for each in stores) > 0


async def test_the_stream_furthest_behind_is_shown() -> None:
    """Streams at the head are open but not behind."""
    scraped = Scraped()
    scraped.streams = Streams((0, 0.0), (7, 1.5), (3, 4.5))
    found = await scraped.collect()
    assert found["watchcache_subscriptions"] == {(): 3}
    assert found["watchcache_subscriptions_behind"] == {(): 2}
    assert found["watchcache_subscription_lag_changes"] == {(): 7}
    assert found["watchcache_subscription_lag_seconds"] == {(): 4.5}
    assert found["watchcache_batch_cache_bytes"] == {(): 4096}


async def test_streams_of_extensions_are_shown_apart() -> None:
    """They hold no place in a history, and count under a limit of their own."""
    scraped = Scraped()
    scraped.streams = Streams((0, 0.0))
    scraped.extension_streams = Streams((0, 0.0), (0, 0.0))
    found = await scraped.collect()
    assert found["watchcache_subscriptions"] == {(): 1}
    assert found["watchcache_extension_watches"] == {(): 2}


async def test_a_cluster_that_never_answered_has_no_contact_age() -> None:
    """Nothing is better than a number that means something else."""
    found = await Scraped(hub=2.0, edge=None).collect()
    assert found["watchcache_cluster_reachable"] == {("hub",): 1, ("edge",): 0}
    assert found["watchcache_cluster_contact_age_seconds"] == {("hub",): 2}


async def test_a_certificate_that_cannot_be_used_is_shown() -> None:
    """While the one before it still is, the cluster is reachable."""
    scraped = Scraped(hub=2.0, edge=1.0)
    scraped.clusters.tls_problems["hub"] = "the CA in /ca.crt cannot be used: not PEM"
    found = await scraped.collect()
    assert found["watchcache_cluster_tls_outdated"] == {("hub",): 1, ("edge",): 0}
    assert found["watchcache_cluster_reachable"] == {("hub",): 1, ("edge",): 1}


async def test_registering_reads_nothing() -> None:
    """The collector names its families without looking at a service that is still starting."""
    parts: list[Any] = [None, None, None, None]
    clock = Clock(now=lambda: NOW, wall=lambda: NOW)
    metrics = CollectorRegistry()
    metrics.register(ServiceCollector(*parts, max_pairs=1, clock=clock))
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        metrics.register(ServiceCollector(*parts, max_pairs=1, clock=clock))


async def test_what_was_gathered_is_collected_once() -> None:
    """Old values are never shown as new ones."""
    scraped = Scraped()
    collector = scraped.collector()
    await collector.gather()
    first, second = (list(collector.collect()) for _ in range(2))
    assert any(family.samples for family in first)
    assert not any(family.samples for family in second)


async def test_gathering_gives_others_their_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape of many extensions holds no event up; what ends meanwhile is not shown."""
    monkeypatch.setattr("watchcache_server.serving.collector._TURN_SECONDS", 0.0)
    scraped = Scraped()
    names = [f"shop-{number}" for number in range(20)]
    last = [scraped.extensions.register(name, (spec_of("deployments"), 1)) for name in names][-1]
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            if turns == 3:
                last.end("DEREGISTERED")
                del scraped.extensions.extensions[last.key]
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    found = await scraped.collect()
    other.cancel()
    assert turns >= 20
    assert len(found["watchcache_cached_objects"]) == 19
