"""A registry of extensions between clusters that a test answers for, in time that it lets pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from tests.unit.kubernetes.informer_double import (
    Api,
    Body,
    Exchange,
    Found,
    Tokens,
    added,
    bookmark,
)
from watchcache_server.extensions.extension import Clock, Extension
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.registry import ExtensionRegistry, Registered
from watchcache_server.kubernetes.errors import ServiceAccountNotFoundError
from watchcache_server.model.specs import ExtensionKey, ExtensionSpec, ResourceWatch
from watchcache_server.model.states import SourceState
from watchcache_server.settings import Settings

KEY = ExtensionKey("team-a", "shop")
_PATIENCE_SECONDS = 600.0


class Account(Tokens):
    """The token of a ServiceAccount: how often it was asked for, and by how many it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.holders = 0
        self.delay_seconds = 0.0
        self.expires_in_seconds: float | None = 3000.0
        self.refresh_in_seconds: float | None = 2000.0

    async def authorization(self) -> str | None:
        self.asked += 1
        await asyncio.sleep(self.delay_seconds)
        return await super().authorization()

    def vanish(self, cluster: str) -> None:
        """Be deleted."""
        self.error = ServiceAccountNotFoundError(cluster, "team-a", "shop")


class Access:
    """Access of an extension as a ServiceAccount; all send to the API server of their cluster."""

    def __init__(self, api: Api, account: Account) -> None:
        self._api = api
        self.account = self.credentials = account
        account.holders += 1
        self._is_released = False

    async def open(self, request: Any) -> Body:
        await self.account.authorization()
        return await self._api.open(request)

    async def call(self, request: Any, *, limit_bytes: int = 0) -> Any:
        await self.account.authorization()
        return await self._api.call(request, limit_bytes=limit_bytes)

    def release(self) -> None:
        assert not self._is_released, "released twice"
        self._is_released = True
        self.account.holders -= 1


class Cluster:
    """One API server."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.own = Api()
        self.api = Api()
        self.discovery = Found()
        self.accounts: dict[str, Account] = {}

    def account(self, name: str = "shop") -> Account:
        """Return a ServiceAccount."""
        return self.accounts.setdefault(name, Account())

    def as_service_account(self, namespace: str, name: str) -> Access:
        return Access(self.api, self.account(name))


class Clusters:
    """Clusters by name, the first of which is the default."""

    def __init__(self, *names: str) -> None:
        self._clusters = {name: Cluster(name) for name in names}
        self.default = names[0]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._clusters))

    def get(self, name: str) -> Cluster:
        return self._clusters[name]


class Recorder:
    """Remembers what it is told, as (what, arguments...)."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def __getattr__(self, what: str) -> Any:
        return lambda *arguments: self.heard.append((what, *arguments))

    def of(self, what: str) -> list[tuple[Any, ...]]:
        """Return the arguments with which it was told of something."""
        return [arguments for name, *arguments in self.heard if name == what]  # type: ignore[misc]


class World:
    """The registry and everything around it."""

    def __init__(self, clusters: tuple[str, ...] = ("hub",), **settings: Any) -> None:
        self.clusters: Any = Clusters(*clusters)
        self.reporter: Any = Recorder()
        now = asyncio.get_running_loop().time
        self.clock = Clock(now=now, wall=lambda: 1_000_000.0 + now())
        self.registry = ExtensionRegistry(
            clusters=self.clusters,
            settings=Settings(**settings),
            clock=self.clock,
            jitter=lambda: 0.0,
            reporter=self.reporter,
        )
        self.dropped: list[Extension] = []
        self.registry.when_dropped(self.dropped.append)

    @property
    def hub(self) -> Cluster:
        """The default cluster."""
        cluster: Cluster = self.clusters.get("hub")
        return cluster

    @property
    def account(self) -> Account:
        """The ServiceAccount shop of the default cluster."""
        return self.hub.account()

    async def register(self, *watches: ResourceWatch, **spec: Any) -> Registered:
        """Register shop."""
        key = spec.pop("key", KEY)
        return await self.registry.register(key, spec_of(*watches, **spec), "as written")

    async def live(self, *watches: ResourceWatch, **spec: Any) -> Extension:
        """Register shop, and let the informers that it starts go live with a pod of each."""
        extension = (await self.register(*watches, **spec)).extension
        for _ in extension.informers:
            await sync(await self.hub.api.asked())
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while extension.state.value != "live":
                await extension.pulse.wait()
        return extension

    def left_running(self) -> set[str]:
        """Return the names of the tasks of informers that run."""
        return {task.get_name() for task in asyncio.all_tasks() if "shop" in task.get_name()}


@asynccontextmanager
async def running(*clusters: str, **settings: Any) -> AsyncIterator[World]:
    """Run a registry until the end of the context."""
    world = World(clusters or ("hub",), **settings)
    started = asyncio.Event()
    task = asyncio.create_task(world.registry.run(started))
    await started.wait()
    try:
        yield world
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            await task


def pods(*namespaces: str, **more: Any) -> ResourceWatch:
    """Watch pods, of all namespaces unless some are named."""
    return ResourceWatch("", "", "pods", "", namespaces=namespaces, **more)


def spec_of(*watches: ResourceWatch, **more: Any) -> ExtensionSpec:
    """Make a spec."""
    return ExtensionSpec(
        service_account=more.pop("account", "shop"),
        clusters=more.pop("clusters", ("hub",)),
        resources=watches,
        ttl_seconds=more.pop("ttl", None),
        **more,
    )


async def sync(exchange: Exchange, *names: str, version: int = 10) -> Body:
    """Let a sync come to its end with these pods; return the watch that goes on."""
    assert exchange.query.get("sendInitialEvents") == "true"
    events = [added(name, str(number)) for number, name in enumerate(names or ("web",), 1)]
    return exchange.accept(*events, bookmark(str(version), is_initial_end=True))


async def settle() -> None:
    """Let everything happen that can without time."""
    for _ in range(30):
        await asyncio.sleep(0)


def only(extension: Extension) -> Informer:
    """Return the one informer that the spec asks for."""
    (informer,) = extension.informers.values()
    return informer


def events_of(extension: Extension, since: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield the changes of an extension: what, which object, and why it left."""
    for change in extension.store.history.since(since):
        if change.entry is not None:
            reason = change.left_reason.value if change.left_reason else ""
            yield change.kind.value, change.entry.name, reason


def state_of(informer: Informer) -> tuple[SourceState, str]:
    """Return state and reason."""
    return informer.status.state, informer.status.reason
