"""Tells a reporter everything that there is to tell, once."""

from __future__ import annotations

from watchcache_server.model.specs import ExtensionKey, SourceSpec
from watchcache_server.model.states import CheckOutcome, SourceState
from watchcache_server.observability.reporter import FullReporter

KEY = ExtensionKey("team-a", "shop")
SPEC = SourceSpec(
    cluster="hub",
    group="apps",
    version="v1",
    resource="deployments",
    kind="",
    namespace="team-a",
    label_selector="",
    field_selector="",
    projection="full",
)
FAULT = RuntimeError("a fault")


def tell_all(reporter: FullReporter) -> None:
    """Call every method of a reporter."""
    reporter.extension_registered(KEY, "created", 3)
    reporter.source_state_changed(
        KEY, SPEC, SourceState.SYNCING, SourceState.FORBIDDEN, "VERBS_MISSING", "needs list"
    )
    reporter.synced(SPEC, 0.2)
    reporter.events_read(SPEC, 7)
    for event in ("relist", "watch_ended", "request_failed", "undecodable"):
        reporter.informer_counted(SPEC, event, "EXPIRED")
    for outcome in CheckOutcome:
        reporter.consistency_checked(KEY, SPEC, outcome, "", {"held": 2, "listed": 3})
    reporter.informer_failed(KEY, SPEC, FAULT)
    reporter.extension_ended(KEY, "DEREGISTERED")
    reporter.batch_sent(5, 1000, 0.003)
    reporter.stream_stalled(KEY)
    reporter.subscriber_reset(KEY, "RESET_REASON_HISTORY_EXPIRED")
    reporter.rpc_started("Watch", "server_stream")
    reporter.rpc_message_sent("Watch", "server_stream")
    reporter.rpc_handled("Watch", "server_stream", "RESOURCE_EXHAUSTED", 60.0)
    reporter.rpc_failed("Register", "incident-1", FAULT)
    reporter.request_answered("hub", "GET", 200, 0.01)
    reporter.request_failed("hub", "GET", "refused", 0.01)
    reporter.discovery_refreshed("hub", "ok", 60)
    reporter.token_issued("hub", "team-a", "shop", 3600.0)
    reporter.token_rotated("hub", "team-a", "shop")
    reporter.token_failed("hub", "team-a", "shop", "TOKEN_REQUEST_FORBIDDEN")
    reporter.service_account_recreated("hub", "team-a", "shop")
    reporter.clock_skew_measured("hub", -42.0)
    reporter.credentials_refreshed("hub", "exec_plugin", "ok")
    reporter.tls_changed("hub", "the CA in /etc/ca.crt cannot be used: not PEM")
