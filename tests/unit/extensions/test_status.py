"""Rules of the state of an extension."""

from __future__ import annotations

import pytest

from watchcache_server.extensions.status import extension_state
from watchcache_server.model.states import ExtensionState, SourceState

S = SourceState
STATES: dict[str, tuple[list[SourceState], ExtensionState]] = {
    "none": ([], ExtensionState.LIVE),
    "all live": ([S.LIVE, S.LIVE], ExtensionState.LIVE),
    "one queued": ([S.LIVE, S.PENDING], ExtensionState.SYNCING),
    "one loading": ([S.LIVE, S.SYNCING], ExtensionState.SYNCING),
    "one stale": ([S.LIVE, S.STALE], ExtensionState.DEGRADED),
    "all stale": ([S.STALE], ExtensionState.DEGRADED),
    "one forbidden": ([S.LIVE, S.FORBIDDEN], ExtensionState.DEGRADED),
    "forbidden and loading": ([S.SYNCING, S.FORBIDDEN], ExtensionState.FAILED),
    "all failed": ([S.GONE, S.UNREACHABLE, S.UNAUTHENTICATED], ExtensionState.FAILED),
}


@pytest.mark.parametrize("name", STATES)
def test_the_state_of_an_extension_sums_up_its_informers(name: str) -> None:
    """As the contract says."""
    states, expected = STATES[name]
    assert extension_state(states) is expected
