"""The state of one informer as others see it, with a number that grows with each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from watchcache_server.model.states import CheckOutcome, ExtensionState, SourceState

__all__ = ["CheckStatus", "SourceStatus", "extension_state"]


@dataclass(slots=True, kw_only=True)
class CheckStatus:
    """What the last comparison with the API server has found, and how often it found a difference.

    Times are seconds since 1970. `message` is for people, empty when the two agree.
    """

    time: float
    outcome: CheckOutcome
    message: str = ""
    mismatch_count: int = 0
    mismatch_time: float | None = None


@dataclass(slots=True, kw_only=True)
class SourceStatus:
    """State and contact of one informer. Times are seconds since 1970.

    `version` is the extension's count of status changes when this one changed last; contact alone
    does not count as a change. `missing_verbs` is what a ServiceAccount lacks while FORBIDDEN.
    `check` is None before the first comparison with the API server.
    """

    state: SourceState = SourceState.PENDING
    reason: str = "STARTING"
    message: str = "waiting to start"
    state_time: float
    last_contact_time: float | None = None
    next_attempt_time: float | None = None
    missing_verbs: tuple[str, ...] = ()
    sync_seconds: float | None = None
    check: CheckStatus | None = None
    version: int = 0


def extension_state(states: Iterable[SourceState]) -> ExtensionState:
    """Sum up the states of all informers of an extension."""
    counts = Counter(states)
    loading = counts[SourceState.PENDING] + counts[SourceState.SYNCING]
    failed = counts.total() - loading - counts[SourceState.LIVE]
    if not failed:
        return ExtensionState.SYNCING if loading else ExtensionState.LIVE
    serving = counts[SourceState.LIVE] + counts[SourceState.STALE]
    return ExtensionState.DEGRADED if serving else ExtensionState.FAILED
