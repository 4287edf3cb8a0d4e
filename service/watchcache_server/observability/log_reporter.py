"""Writes what the parts tell into the log: a line for each change, none for a repetition.

An informer that tries again and again says once why it fails, and once that it is live again. So
does a token that does not come, a cluster that does not answer, a discovery that cannot be read. A
fault of ours is logged with its traceback; the same one of the same informer is logged again only
after `_REPEAT_SECONDS`, with the number of those between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import structlog

from watchcache_server.model.specs import ExtensionKey, SourceSpec
from watchcache_server.model.states import CheckOutcome, SourceState

__all__ = ["LogReporter"]

_REPEAT_SECONDS: Final = 60.0
_SKEW_SECONDS: Final = 5.0
# Of so many subjects it is remembered what was said; the oldest are forgotten first.
_MAX_SUBJECTS: Final = 2000

_PASSING: Final = (SourceState.PENDING, SourceState.SYNCING)
_ANSWERED: Final = "answered"


class LogReporter:
    """Logs what it hears. Its methods return at once and never raise."""

    def __init__(self, logger: Any = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = logger if logger is not None else structlog.get_logger("watchcache_server")
        self._clock = clock
        # What was said last of each subject. Informers' go with their extension.
        self._informers: dict[ExtensionKey, dict[SourceSpec, tuple[SourceState, str]]] = {}
        self._said: dict[Hashable, str] = {}
        self._faults: dict[Hashable, tuple[float, int]] = {}

    # Extensions and informers

    def extension_registered(self, key: ExtensionKey, outcome: str, sources: int) -> None:
        """Say that an extension was registered, if that changed anything."""
        say = self._log.debug if outcome == "unchanged" else self._log.info
        say("extension registered", extension=str(key), outcome=outcome, informers=sources)

    def extension_ended(self, key: ExtensionKey, reason: str) -> None:
        """Say that an extension was freed."""
        self._informers.pop(key, None)
        self._log.info("extension ended", extension=str(key), reason=reason)

    def source_state_changed(
        self,
        key: ExtensionKey,
        spec: SourceSpec,
        before: SourceState,
        after: SourceState,
        reason: str,
        message: str,
    ) -> None:
        """Say that an informer has another state, unless it is on its way to where it was."""
        fields = _about(key, spec)
        if after is SourceState.STOPPED:
            self._informers.get(key, {}).pop(spec, None)
            self._log.debug("informer stopped", **fields)
            return
        if after in _PASSING:
            self._log.debug("informer loads", **fields, state=after.value, reason=reason)
            return
        said = self._informers.setdefault(key, {})
        is_repetition = said.get(spec) == (after, reason)
        said[spec] = (after, reason)
        if is_repetition:
            self._log.debug("informer as before", **fields, state=after.value, reason=reason)
        elif after is SourceState.LIVE:
            self._log.info("informer is live", **fields, state=after.value, before=before.value)
        else:
            self._log.warning(
                "informer is not live", **fields, state=after.value, reason=reason, message=message
            )

    def synced(self, spec: SourceSpec, seconds: float) -> None:
        """Say how long a first sync took, to whoever wants every detail."""
        self._log.debug(
            "informer synced",
            cluster=spec.cluster,
            resource=spec.type_name,
            namespace=spec.namespace,
            seconds=round(seconds, 3),
        )

    def events_read(self, spec: SourceSpec, count: int) -> None:
        """Say nothing."""

    def informer_counted(self, spec: SourceSpec, event: str, reason: str) -> None:
        """Say what happened to an informer, to whoever wants every detail; a rewind to all."""
        if event == "rewound":
            say, text = self._log.warning, "the storage of the API server was set back"
        else:
            say, text = self._log.debug, "informer event"
        say(
            text,
            cluster=spec.cluster,
            resource=spec.type_name,
            namespace=spec.namespace,
            event_kind=event,
            reason=reason,
        )

    def consistency_checked(
        self,
        key: ExtensionKey,
        spec: SourceSpec,
        outcome: CheckOutcome,
        message: str,
        counts: Mapping[str, int],
    ) -> None:
        """Say that an informer differs from its API server; the rest to who wants every detail."""
        if outcome is CheckOutcome.MISMATCH:
            say, text = self._log.warning, "informer differs from its API server"
        else:
            say, text = self._log.debug, "informer compared with its API server"
        say(text, **_about(key, spec), outcome=outcome.value, message=message, **counts)

    def informer_failed(self, key: ExtensionKey, spec: SourceSpec, error: BaseException) -> None:
        """Say with its traceback that a fault of ours ended an informer."""
        repeated = self._repetitions((key, spec, type(error), str(error)))
        if repeated is not None:
            self._log.error(
                "informer failed by a fault of the service; it is started again",
                **_about(key, spec),
                repeated=repeated,
                exc_info=error,
            )

    # Streams and RPCs

    def batch_sent(self, events: int, size_bytes: int, latency_seconds: float | None) -> None:
        """Say nothing."""

    def stream_stalled(self, key: ExtensionKey | None) -> None:
        """Say that a reader took nothing."""
        if key is None:
            self._log.warning("stream of extensions ended, its reader took nothing")
        else:
            self._log.warning("watch stream ended, its reader took nothing", extension=str(key))

    def subscriber_reset(self, key: ExtensionKey, reason: str) -> None:
        """Say that a subscriber has to begin anew."""
        self._log.info("subscriber reset", extension=str(key), reason=reason)

    def rpc_started(self, method: str, kind: str) -> None:
        """Say nothing."""

    def rpc_handled(self, method: str, kind: str, code: str, seconds: float) -> None:
        """Say how an RPC ended, to whoever wants every detail."""
        self._log.debug("rpc handled", method=method, code=code, seconds=round(seconds, 4))

    def rpc_message_sent(self, method: str, kind: str) -> None:
        """Say nothing."""

    def rpc_failed(self, method: str, incident: str, error: BaseException) -> None:
        """Say what a caller was told the incident number of."""
        self._log.error(
            "rpc failed by a fault of the service", method=method, incident=incident, exc_info=error
        )

    # Access to API servers

    def request_answered(self, cluster: str, method: str, code: int, seconds: float) -> None:
        """Say that a cluster answers again."""
        # This is called for every request, so the usual case comes first.
        if self._said.get(("cluster", cluster), _ANSWERED) != _ANSWERED:
            self._said["cluster", cluster] = _ANSWERED
            self._log.info("cluster answers again", cluster=cluster)

    def request_failed(self, cluster: str, method: str, reason: str, seconds: float) -> None:
        """Say that a cluster does not answer, and why."""
        if self._is_news(("cluster", cluster), reason):
            self._log.warning("cluster does not answer", cluster=cluster, reason=reason)

    def discovery_refreshed(self, cluster: str, outcome: str, resources: int) -> None:
        """Say how reading discovery went, when it went otherwise than before."""
        if self._is_news(("discovery", cluster), outcome):
            say = self._log.info if outcome == "ok" else self._log.warning
            say("discovery read", cluster=cluster, outcome=outcome, resources=resources)

    def token_issued(
        self, cluster: str, namespace: str, name: str, lifetime_seconds: float
    ) -> None:
        """Say that there is a token; the token itself is not told."""
        had_failed = self._said.pop(("token", cluster, namespace, name), None)
        say = self._log.debug if had_failed is None else self._log.info
        say(
            "token issued",
            cluster=cluster,
            service_account=f"{namespace}/{name}",
            lifetime_seconds=round(lifetime_seconds),
        )

    def token_rotated(self, cluster: str, namespace: str, name: str) -> None:
        """Say that a token took the place of another."""
        self._log.info("token rotated", cluster=cluster, service_account=f"{namespace}/{name}")

    def token_failed(self, cluster: str, namespace: str, name: str, reason: str) -> None:
        """Say that no token came, and why."""
        if self._is_news(("token", cluster, namespace, name), reason):
            self._log.warning(
                "no token",
                cluster=cluster,
                service_account=f"{namespace}/{name}",
                reason=reason,
            )

    def service_account_recreated(self, cluster: str, namespace: str, name: str) -> None:
        """Say that a ServiceAccount is another one."""
        self._log.warning(
            "service account was recreated", cluster=cluster, service_account=f"{namespace}/{name}"
        )

    def clock_skew_measured(self, cluster: str, seconds: float) -> None:
        """Say that the clocks are so far apart that tokens suffer."""
        verdict = "apart" if abs(seconds) >= _SKEW_SECONDS else _ANSWERED
        if self._is_news(("clock", cluster), verdict) and verdict == "apart":
            self._log.warning("clocks are apart", cluster=cluster, skew_seconds=round(seconds))

    def credentials_refreshed(self, cluster: str, source: str, outcome: str) -> None:
        """Say how reading a token file or running a plugin went, when otherwise than before."""
        if self._is_news(("credentials", cluster, source), outcome):
            say = self._log.info if outcome == "ok" else self._log.warning
            say("credentials read", cluster=cluster, source=source, outcome=outcome)

    def tls_changed(self, cluster: str, problem: str) -> None:
        """Say that a replaced CA or certificate cannot be used, and why, or that it can again."""
        if problem:
            self._log.warning(
                "replaced TLS files cannot be used, those before stay in use",
                cluster=cluster,
                problem=problem,
            )
        else:
            self._log.info("TLS files are in use as they are", cluster=cluster)

    # Repetitions

    def _is_news(self, subject: Hashable, word: str) -> bool:
        is_news = self._said.pop(subject, None) != word
        _make_room(self._said)
        self._said[subject] = word
        return is_news

    def _repetitions(self, fault: Hashable) -> int | None:
        """Return how often a fault went unsaid since the last time; None to leave it unsaid now."""
        now = self._clock()
        said_at, unsaid = self._faults.get(fault, (None, 0))
        if said_at is not None and now - said_at < _REPEAT_SECONDS:
            self._faults[fault] = (said_at, unsaid + 1)
            return None
        self._faults.pop(fault, None)
        _make_room(self._faults)
        self._faults[fault] = (now, 0)
        return unsaid


def _make_room(memory: dict[Hashable, Any]) -> None:
    while len(memory) >= _MAX_SUBJECTS:
        del memory[next(iter(memory))]


def _about(key: ExtensionKey, spec: SourceSpec) -> dict[str, str]:
    return {
        "extension": str(key),
        "cluster": spec.cluster,
        "resource": spec.type_name,
        "namespace": spec.namespace,
    }
