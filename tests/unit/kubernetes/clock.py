"""Time that a test moves, and a reporter that remembers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from watchcache_server.kubernetes.reporting import SilentReporter

__all__ = ["Clock", "Recorder"]


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@dataclass
class Recorder(SilentReporter):
    """Keeps what it is told, as (what, details...)."""

    heard: list[tuple[Any, ...]] = field(default_factory=list)

    def discovery_refreshed(self, cluster: str, outcome: str, resources: int) -> None:
        self.heard.append(("discovery", outcome, resources))

    def token_issued(
        self, cluster: str, namespace: str, name: str, lifetime_seconds: float
    ) -> None:
        self.heard.append(("issued", name, lifetime_seconds))

    def token_rotated(self, cluster: str, namespace: str, name: str) -> None:
        self.heard.append(("rotated", name))

    def token_failed(self, cluster: str, namespace: str, name: str, reason: str) -> None:
        self.heard.append(("failed", name, reason))

    def service_account_recreated(self, cluster: str, namespace: str, name: str) -> None:
        self.heard.append(("recreated", name))

    def clock_skew_measured(self, cluster: str, seconds: float) -> None:
        self.heard.append(("skew", seconds))

    def credentials_refreshed(self, cluster: str, source: str, outcome: str) -> None:
        self.heard.append((source, outcome))

    def tls_changed(self, cluster: str, problem: str) -> None:
        self.heard.append(("tls", cluster, problem))
