"""What is measured against, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from bench.cluster import Cluster

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cluster, and the sizes of the measurements."""

    cluster: Cluster
    pod_count: int
    token: str
    rounds: int = 5
    # How long a phase at rest lasts, and the wait before memory counts as steady.
    rest_seconds: float = 6.0
    settle_seconds: float = 3.0
    # How long slow readers are there before memory counts, and how long it has to stay flat.
    warm_seconds: float = 90.0
    flat_seconds: float = 600.0
    subscriptions: int = 1000
    connections: int = 20
    informers: int = 100
    storm_streams: int = 5000
    storm_connections: int = 5
    storm_rounds: int = 1

    @property
    def watch_task(self) -> dict[str, str]:
        """What a worker needs to know to watch for itself."""
        return {"api_ca_file": str(self.cluster.ca_file), "token": self.token}
