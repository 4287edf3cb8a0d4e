"""Whether to send callers here: the service serves, and what it holds can be fresh.

Having started is not enough. Whoever connects to a service that has lost its API server gets old
data, so a service is ready only while its default cluster answers. Other clusters, and informers
that lack a right or a kind, make nothing unready: they concern single extensions, which say so
themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from watchcache_server.clusters.cluster import ClusterStatus
from watchcache_server.clusters.registry import ClusterRegistry

__all__ = ["Readiness"]


class Readiness:
    """Says what keeps the service from being ready. It asks nobody, so it answers at once."""

    def __init__(
        self,
        clusters: ClusterRegistry,
        *,
        is_serving: Callable[[], bool],
        is_draining: Callable[[], bool],
        contact_seconds: float,
    ) -> None:
        self._clusters = clusters
        self._is_serving = is_serving
        self._is_draining = is_draining
        self._contact_seconds = contact_seconds

    def problems(self) -> list[str]:
        """Return what is in the way, in words for people; empty when the service is ready."""
        problems = []
        if self._is_draining():
            problems.append("the service is shutting down")
        elif not self._is_serving():
            problems.append("the service is starting")
        default = self._clusters.get().status()
        if not self._is_fresh(default):
            problems.append(_unreached(default))
        return problems

    def report(self) -> dict[str, Any]:
        """Return the whole picture, fit for JSON."""
        problems = self.problems()
        return {
            "ready": not problems,
            "problems": problems,
            "clusters": {
                status.name: {
                    "fresh": self._is_fresh(status),
                    "contact_age_seconds": _rounded(status.contact_age_seconds),
                }
                for status in self._clusters.statuses()
            },
        }

    def _is_fresh(self, status: ClusterStatus) -> bool:
        age = status.contact_age_seconds
        return age is not None and age <= self._contact_seconds


def _unreached(status: ClusterStatus) -> str:
    age = status.contact_age_seconds
    since = "has not answered yet" if age is None else f"has not answered for {age:.0f} s"
    why = f": {status.problem}" if status.problem else ""
    return f"cluster {status.name} at {status.server} {since}{why}"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
