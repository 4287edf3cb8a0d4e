"""What has to be listed: resources of a cluster whose watches do not begin with what there is."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["ListMemory"]


class ListMemory:
    """Resources, by plural or kind, with the time until which they have to be listed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[tuple[str, str, str], float] = {}

    def remember(self, cluster: str, group: str, name: str, seconds: float) -> None:
        """Note it for so many seconds."""
        self._until[cluster, group, name] = self._clock() + seconds

    def seconds_left(self, cluster: str, group: str, name: str) -> float:
        """Return for how long it is noted; 0 when it is not."""
        left = self._until.get((cluster, group, name), 0.0) - self._clock()
        if left > 0:
            return left
        self._until.pop((cluster, group, name), None)
        return 0.0
