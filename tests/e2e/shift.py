"""Clocks that a test puts forward, instead of waiting for what takes minutes."""

from __future__ import annotations

import time

from watchcache_server.app import App

__all__ = ["Shift"]


class Shift:
    """How far the clocks are put forward: of a dev cluster, and of a service in this process."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wall(self) -> float:
        """Return the time of day."""
        return time.time() + self.seconds

    def monotonic(self) -> float:
        """Return the seconds by which lives are measured."""
        return time.monotonic() + self.seconds

    def move_tokens(self, app: App) -> None:
        """Have the service measure the lives of its tokens by this clock from now on."""
        for name in app.clusters.names:
            app.clusters.get(name).tokens.clock = self.monotonic
