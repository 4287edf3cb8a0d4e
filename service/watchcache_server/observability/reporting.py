"""What the parts of the service tell about themselves.

The parts know this narrow interface only; `metrics` and `logs` turn what they hear into series and
lines. No method raises, waits, or is given a token or an object's body.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from watchcache_server.model.specs import ExtensionKey, SourceSpec
from watchcache_server.model.states import CheckOutcome, SourceState

__all__ = ["Reporter"]


class Reporter(Protocol):
    """Hears of extensions and informers."""

    def extension_registered(self, key: ExtensionKey, outcome: str, sources: int) -> None:
        """Hear of a Register: outcome is created, updated or unchanged."""
        ...

    def extension_ended(self, key: ExtensionKey, reason: str) -> None:
        """Hear that an extension was freed."""
        ...

    def source_state_changed(
        self,
        key: ExtensionKey,
        spec: SourceSpec,
        before: SourceState,
        after: SourceState,
        reason: str,
        message: str,
    ) -> None:
        """Hear of a new state of an informer."""
        ...

    def synced(self, spec: SourceSpec, seconds: float) -> None:
        """Hear that an informer has synced for the first time, so long after it was asked for."""
        ...

    def events_read(self, spec: SourceSpec, count: int) -> None:
        """Hear that events were read from a live stream."""
        ...

    def informer_counted(self, spec: SourceSpec, event: str, reason: str) -> None:
        """Hear of a relist, a restarted watch or the like, and why."""
        ...

    def consistency_checked(
        self,
        key: ExtensionKey,
        spec: SourceSpec,
        outcome: CheckOutcome,
        message: str,
        counts: Mapping[str, int],
    ) -> None:
        """Hear what comparing an informer with its API server has found.

        `counts` are the numbers of a mismatch, by what they count; empty when there is none.
        """
        ...

    def informer_failed(self, key: ExtensionKey, spec: SourceSpec, error: BaseException) -> None:
        """Hear that the task of an informer ended by a fault of ours; it is started again."""
        ...

    def batch_sent(self, events: int, size_bytes: int, latency_seconds: float | None) -> None:
        """Hear that a message was handed to gRPC; latency is that of its oldest change."""
        ...

    def stream_stalled(self, key: ExtensionKey | None) -> None:
        """Hear that a reader takes nothing; without a key it is one of WatchExtensions."""
        ...

    def subscriber_reset(self, key: ExtensionKey, reason: str) -> None:
        """Hear that a subscriber has to begin anew."""
        ...

    def rpc_started(self, method: str, kind: str) -> None:
        """Hear that an RPC began; kind is unary or server_stream."""
        ...

    def rpc_handled(self, method: str, kind: str, code: str, seconds: float) -> None:
        """Hear that an RPC ended."""
        ...

    def rpc_message_sent(self, method: str, kind: str) -> None:
        """Hear that a message of a stream was sent."""
        ...

    def rpc_failed(self, method: str, incident: str, error: BaseException) -> None:
        """Hear of a fault of ours in an RPC; `incident` is what the caller was told."""
        ...
