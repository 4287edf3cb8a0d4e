"""Rules of what is counted, and of the labels it is counted under."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.observability.speaker import SPEC, tell_all
from watchcache_server.model.states import SourceState
from watchcache_server.observability.metrics import Metrics
from watchcache_server.observability.reporter import Reporters
from watchcache_server.serving.service import SERVICE_NAME


@pytest.fixture
def registry() -> CollectorRegistry:
    """Give an empty registry."""
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    """Give metrics in that registry."""
    return Metrics(registry)


RPC = {"grpc_type": "server_stream", "grpc_service": SERVICE_NAME, "grpc_method": "Watch"}

TOLD = {
    "watchcache_registrations_total": ({"outcome": "created"}, 1),
    "watchcache_extensions_ended_total": ({"reason": "DEREGISTERED"}, 1),
    "watchcache_informer_transitions_total": ({"state": "forbidden"}, 1),
    "watchcache_sync_duration_seconds_sum": ({}, 0.2),
    "watchcache_events_read_total": ({"cluster": "hub"}, 7),
    "watchcache_relists_total": ({"reason": "expired"}, 1),
    "watchcache_watch_restarts_total": ({"reason": "expired"}, 1),
    "watchcache_informer_requests_failed_total": ({"reason": "expired"}, 1),
    "watchcache_informer_incidents_total": ({"event": "undecodable"}, 1),
    "watchcache_informer_failures_total": ({}, 1),
    "watchcache_batches_sent_total": ({}, 1),
    "watchcache_events_sent_total": ({}, 5),
    "watchcache_sent_bytes_total": ({}, 1000),
    "watchcache_event_latency_seconds_sum": ({}, 0.003),
    "watchcache_streams_stalled_total": ({}, 1),
    "watchcache_subscriber_resets_total": ({"reason": "history_expired"}, 1),
    "grpc_server_started_total": (RPC, 1),
    "grpc_server_msg_received_total": (RPC, 1),
    "grpc_server_msg_sent_total": (RPC, 1),
    "grpc_server_handled_total": (RPC | {"grpc_code": "ResourceExhausted"}, 1),
    "grpc_server_handling_seconds_sum": (RPC, 60),
    "watchcache_rpc_failures_total": ({"grpc_method": "Register"}, 1),
    "watchcache_api_requests_total": ({"cluster": "hub", "method": "GET", "code": "200"}, 1),
    "watchcache_api_request_duration_seconds_count": ({"cluster": "hub"}, 2),
    "watchcache_discovery_refreshes_total": ({"cluster": "hub", "outcome": "ok"}, 1),
    "watchcache_tokens_issued_total": ({"cluster": "hub"}, 1),
    "watchcache_token_rotations_total": ({"cluster": "hub"}, 1),
    "watchcache_token_failures_total": (
        {"cluster": "hub", "reason": "TOKEN_REQUEST_FORBIDDEN"},
        1,
    ),
    "watchcache_service_account_recreations_total": ({"cluster": "hub"}, 1),
    "watchcache_clock_skew_seconds": ({"cluster": "hub"}, -42),
    "watchcache_credentials_refreshes_total": (
        {"cluster": "hub", "source": "exec_plugin", "outcome": "ok"},
        1,
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told_once_is_counted_once(
    name: str, registry: CollectorRegistry, metrics: Metrics
) -> None:
    """Everything that a reporter hears has a series, with the labels that the docs name."""
    tell_all(Reporters(metrics))
    labels, value = TOLD[name]
    assert registry.get_sample_value(name, labels) == pytest.approx(value)


def test_a_request_without_an_answer_counts_under_its_reason(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """What failed before any HTTP status came is a request too."""
    metrics.request_failed("hub", "GET", "refused", 0.5)
    labels = {"cluster": "hub", "method": "GET", "code": "refused"}
    assert registry.get_sample_value("watchcache_api_requests_total", labels) == 1


@pytest.mark.parametrize(
    ("code", "sent"), [pytest.param("OK", 1, id="success"), pytest.param("INTERNAL", 0, id="error")]
)
def test_a_unary_rpc_sends_one_message_if_it_succeeds(
    code: str, sent: float, registry: CollectorRegistry, metrics: Metrics
) -> None:
    """An error is a status, not a message."""
    metrics.rpc_started("Register", "unary")
    metrics.rpc_handled("Register", "unary", code, 0.1)
    labels = {"grpc_type": "unary", "grpc_service": SERVICE_NAME, "grpc_method": "Register"}
    assert (registry.get_sample_value("grpc_server_msg_sent_total", labels) or 0) == sent


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        pytest.param("OK", "OK", id="ok"),
        pytest.param("NOT_FOUND", "NotFound", id="two words"),
        pytest.param("CANCELLED", "Canceled", id="the one spelt otherwise"),
        pytest.param("UNAVAILABLE", "Unavailable", id="one word"),
    ],
)
def test_codes_are_spelt_as_users_of_grpc_metrics_know_them(
    code: str, shown: str, registry: CollectorRegistry, metrics: Metrics
) -> None:
    """Dashboards made for other gRPC servers find the codes."""
    metrics.rpc_handled("Watch", "server_stream", code, 0.1)
    labels = RPC | {"grpc_code": shown}
    assert registry.get_sample_value("grpc_server_handled_total", labels) == 1


def test_a_batch_of_a_snapshot_has_no_latency(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """What has been in the store for long says nothing about how fast changes pass."""
    metrics.batch_sent(10, 100, None)
    assert registry.get_sample_value("watchcache_event_latency_seconds_count") == 0


@pytest.mark.parametrize(
    ("name", "seconds", "bucket"),
    [
        pytest.param("watchcache_sync_duration_seconds", 0.009, "0.01", id="the fastest sync"),
        pytest.param("watchcache_sync_duration_seconds", 299.0, "300.0", id="the slowest sync"),
        pytest.param("watchcache_event_latency_seconds", 0.0004, "0.0005", id="the fastest event"),
        pytest.param("watchcache_event_latency_seconds", 9.9, "10.0", id="the slowest event"),
    ],
)
def test_buckets_span_what_is_to_be_expected(
    name: str, seconds: float, bucket: str, registry: CollectorRegistry, metrics: Metrics
) -> None:
    """The first and the last bucket hold the best and the worst that anybody should see."""
    metrics.synced(SPEC, seconds)
    metrics.batch_sent(1, 1, seconds)
    assert registry.get_sample_value(f"{name}_bucket", {"le": bucket}) == 1


def test_words_without_end_end_as_other(registry: CollectorRegistry, metrics: Metrics) -> None:
    """Whatever an API server answers, the number of series stays bounded."""
    for number in range(1000):
        metrics.informer_counted(SPEC, "relist", f"reason-{number}")
        metrics.request_answered("hub", "GET", 1000 + number, 0.1)
        metrics.token_failed("hub", "a", f"name-{number}", f"reason-{number}")
    samples = [sample for family in registry.collect() for sample in family.samples]
    counted = [sample for sample in samples if sample.name == "watchcache_relists_total"]
    assert sum(sample.value for sample in counted) == 1000
    assert registry.get_sample_value("watchcache_relists_total", {"reason": "other"}) == 936
    assert len(samples) < 400


def test_no_label_names_an_extension_or_an_object(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """Counters live as long as the service, so whatever is a tenant's stays out of them."""
    tell_all(Reporters(metrics))
    for family in registry.collect():
        for sample in family.samples:
            assert not {"extension", "namespace", "name", "resource"} & set(sample.labels), sample


def test_counters_that_are_watched_for_rates_start_at_zero(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    """A series that appears with its first event hides that event from `rate`."""
    for state in SourceState:
        labels = {"state": state.value}
        assert registry.get_sample_value("watchcache_informer_transitions_total", labels) == 0


def test_everybody_hears_everything_in_order() -> None:
    """`Reporters` passes every call on to each member, arguments and all."""
    heard: list[tuple[str, str, tuple[object, ...]]] = []

    class Listener:
        def __init__(self, name: str) -> None:
            self.name = name

        def __getattr__(self, method: str) -> object:
            return lambda *arguments: heard.append((self.name, method, arguments))

    single, both = Listener("single"), [Listener("first"), Listener("second")]
    tell_all(single)  # type: ignore[arg-type]
    alone, heard[:] = list(heard), []
    tell_all(Reporters(*both))  # type: ignore[arg-type]
    assert [call[1:] for call in heard[::2]] == [call[1:] for call in alone]
    assert [call[1:] for call in heard[1::2]] == [call[1:] for call in alone]
    assert [call[0] for call in heard[:2]] == ["first", "second"]


def test_the_build_is_told(registry: CollectorRegistry, metrics: Metrics) -> None:
    """One series says which version runs, and the process's own are there."""
    names = {sample.name: sample for family in registry.collect() for sample in family.samples}
    assert names["watchcache_build_info"].labels["version"] == version("watchcache-server")
    assert names["process_resident_memory_bytes"].value > 0
