"""The service within the test's own process, and all that it says about itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.contract.api import Endpoint
from watchcache_server.app import App, running
from watchcache_server.settings import Settings

__all__ = ["Hearing", "running_here"]


class Hearing:
    """Both reporters of the service: keeps what it hears, and lets tests count it."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments: self.heard.append((name, arguments))

    def all(self, name: str) -> list[tuple[Any, ...]]:
        """Return the arguments of each call of one method."""
        return [arguments for heard, arguments in self.heard if heard == name]

    def count(self, name: str, *ends: object) -> int:
        """Count the calls of a method whose last arguments are these."""
        return sum(arguments[len(arguments) - len(ends) :] == ends for arguments in self.all(name))


@asynccontextmanager
async def running_here(
    hearing: Hearing, *clusters: Endpoint, **settings: Any
) -> AsyncIterator[App]:
    """Run the service in this process, on a free port; the first cluster is the default one."""
    chosen = Settings(
        listen=("127.0.0.1:0",),
        kubeconfig=tuple(f"{cluster.name}={cluster.kubeconfig}" for cluster in clusters),
        **settings,
    )
    async with running(chosen, reporter=hearing, access_reporter=hearing) as app:
        yield app
