"""All extensions: Register and Deregister, and what ends one without being asked to.

Register changes what is registered in one step that waits for nothing, so that two calls for one
extension come one after the other without any lock; what has to be asked of an API server is asked
before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from watchcache_server.clusters.cluster import ServiceAccountAccess
from watchcache_server.clusters.registry import ClusterRegistry
from watchcache_server.extensions.admission import (
    check_account,
    check_clusters,
    check_scopes,
    check_size,
)
from watchcache_server.extensions.extension import Clock, Extension
from watchcache_server.extensions.host import InformerHost
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.pulse import Pulse
from watchcache_server.extensions.running import RunningInformers
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    LimitExceededError,
    ServiceDrainingError,
)
from watchcache_server.model.source_plan import Bounds
from watchcache_server.model.specs import ExtensionKey, ExtensionSpec, SourceSpec
from watchcache_server.observability.reporting import Reporter
from watchcache_server.settings import Settings

__all__ = ["ExtensionRegistry", "Registered"]

_ENDED_KEPT: Final = 1000


@dataclass(frozen=True, slots=True)
class Registered:
    """What Register did: outcome is created, updated or unchanged."""

    extension: Extension
    outcome: str


class ExtensionRegistry:
    """The registered extensions. `run` is the task under which everything lives."""

    def __init__(
        self,
        *,
        clusters: ClusterRegistry,
        settings: Settings,
        clock: Clock,
        jitter: Callable[[], float],
        reporter: Reporter,
    ) -> None:
        self._clusters = clusters
        self._settings = settings
        self._clock = clock
        self._reporter = reporter
        self._extensions: dict[ExtensionKey, Extension] = {}
        self._running: dict[Extension, RunningInformers] = {}
        self._host = InformerHost(
            clusters=clusters, settings=settings, clock=clock, jitter=jitter, reporter=reporter
        )
        self._reap = asyncio.Event()
        self._is_draining = False
        self._on_dropped: Callable[[Extension], None] = lambda _: None
        #: Beats at every change of any extension.
        self.pulse = Pulse(settings.deliveries_per_second)
        #: Why extensions ended lately, newest last.
        self.ended: dict[ExtensionKey, str] = {}
        self.version = 0

    # Life

    async def run(self, started: asyncio.Event) -> None:
        """Own all tasks until cancelled; set `started` when extensions can be registered."""
        try:
            async with self._host.open():
                started.set()
                await self._reap_forever()
        finally:
            for running in self._running.values():
                running.end()

    def when_dropped(self, act: Callable[[Extension], None]) -> None:
        """Have `act` called when objects of an extension may no longer be sent to anybody."""
        self._on_dropped = act

    def drain(self) -> None:
        """Accept no more registrations."""
        self._is_draining = True
        for extension in self._extensions.values():
            extension.release_readers()
            extension.pulse.wake_now()
        self.pulse.wake_now()

    @property
    def is_draining(self) -> bool:
        """Whether the service is shutting down."""
        return self._is_draining

    # Reads

    def get(self, key: ExtensionKey) -> Extension:
        """Return an extension; raises ExtensionNotFoundError."""
        extension = self._extensions.get(key)
        if extension is None:
            raise ExtensionNotFoundError(key.namespace, key.name)
        return extension

    def extensions(self, namespace: str = "") -> list[Extension]:
        """Return the extensions, of one namespace or all, sorted."""
        return [
            self._extensions[key]
            for key in sorted(self._extensions)
            if namespace in ("", key.namespace)
        ]

    def __iter__(self) -> Iterator[Extension]:
        return iter(self._extensions.values())

    def credentials_of(self, extension: Extension) -> dict[str, ServiceAccountAccess]:
        """Return the ServiceAccount's access on each cluster; empty in caller-identity mode."""
        running = self._running.get(extension)
        return {} if running is None else dict(running.accesses)

    # Register and Deregister

    async def register(
        self, key: ExtensionKey, spec: ExtensionSpec, registered_spec: object
    ) -> Registered:
        """Create or change an extension; `registered_spec` is kept for whoever asks.

        Raises InvalidRequestError, LimitExceededError, ServiceAccountGoneError or
        ServiceDrainingError, and changes nothing then.
        """
        check_clusters(spec, self._clusters)
        check_size(key, spec, self._settings)
        sources = spec.sources()
        if not self._is_registered(key, spec):
            await check_scopes(spec, self._clusters, self._settings.account_check_seconds)
        with self._account_access(key, spec) as accesses:
            await check_account(key, spec, accesses, self._settings.account_check_seconds)
            if self._is_draining or not self._host.is_open:
                raise ServiceDrainingError
            return self._upsert(key, spec, sources, registered_spec)

    def _is_registered(self, key: ExtensionKey, spec: ExtensionSpec) -> bool:
        extension = self._extensions.get(key)
        return extension is not None and extension.spec == spec

    @contextmanager
    def _account_access(
        self, key: ExtensionKey, spec: ExtensionSpec
    ) -> Iterator[list[ServiceAccountAccess]]:
        """Hold the ServiceAccount's access on each cluster, if the extension is to change to it.

        So what is asked for here is there already when the informers start.
        """
        before = self._extensions.get(key)
        is_known = before is not None and before.spec.service_account == spec.service_account
        accesses = [
            self._clusters.get(name).as_service_account(key.namespace, spec.service_account)
            for name in spec.clusters
            if spec.service_account and not is_known
        ]
        try:
            yield accesses
        finally:
            for access in accesses:
                access.release()

    def _upsert(
        self,
        key: ExtensionKey,
        spec: ExtensionSpec,
        sources: tuple[SourceSpec, ...],
        registered_spec: object,
    ) -> Registered:
        extension = self._extensions.get(key)
        if extension is None:
            extension = self._create(key, spec)
            outcome = "created"
        elif extension.spec == spec:
            outcome = "unchanged"
        else:
            outcome = "updated"
            extension.generation += 1
        extension.registered_spec = registered_spec
        extension.used()
        if outcome != "unchanged":
            running = self._running[extension]
            if extension.spec.service_account != spec.service_account:
                # Nothing that another account read may be handed over.
                running.stop_all()
            extension.spec = spec
            running.change()
            extension.status_changed()
        self._reap.set()
        self._reporter.extension_registered(key, outcome, len(sources))
        return Registered(extension, outcome)

    def _create(self, key: ExtensionKey, spec: ExtensionSpec) -> Extension:
        if len(self._extensions) >= self._settings.max_extensions:
            raise LimitExceededError(
                f"extension {key}",
                f"{len(self._extensions)} extensions are registered, and no more are allowed; "
                "deregister one, or raise the setting max_extensions",
                setting="max_extensions",
            )
        extension = Extension(
            key,
            spec,
            clock=self._clock,
            reporter=self._reporter,
            max_changes=self._settings.history_changes,
            max_history_bytes=self._settings.history_bytes,
            max_ends=self._settings.history_ends,
            max_index_values=self._settings.max_index_values,
            deliveries_per_second=self._settings.deliveries_per_second,
            owner=self,
        )
        self._extensions[key] = extension
        self._running[extension] = RunningInformers(
            extension,
            host=self._host,
            clusters=self._clusters,
            bounds=Bounds(self._settings.max_sources, self._settings.max_spec_bytes),
        )
        self.ended.pop(key, None)
        return extension

    async def deregister(self, key: ExtensionKey, why: str = "DEREGISTERED") -> bool:
        """Free an extension and wait until its tasks have ended; False when there is none."""
        extension = self._extensions.get(key)
        if extension is None:
            return False
        tasks = self._free(extension, why)
        if tasks:
            await asyncio.wait(tasks, timeout=self._settings.deregister_seconds)
        return True

    def _free(self, extension: Extension, why: str) -> list[asyncio.Task[None]]:
        key = extension.key
        del self._extensions[key]
        running = self._running.pop(extension)
        self.ended[key] = why
        while len(self.ended) > _ENDED_KEPT:
            del self.ended[next(iter(self.ended))]
        tasks = running.end()
        extension.end(why)
        self._on_dropped(extension)
        self._reporter.extension_ended(key, why)
        self.version += 1
        self.pulse.touch()
        return tasks

    # What extensions tell

    def status_changed(self, extension: Extension) -> None:
        """Take that an informer has another state."""
        self.version += 1
        extension.registry_version = self.version
        self.pulse.touch()

    def rights_revoked(self, extension: Extension) -> None:
        """Take that objects were dropped because the right to read them is gone."""
        self._on_dropped(extension)

    def training_due(self, informer: Informer) -> None:
        """Take that the source of an informer wants a dictionary."""
        self._host.train(informer)

    def service_account_missing(self, extension: Extension) -> None:
        """Free an extension whose ServiceAccount is gone from all of its clusters."""
        running = self._running.get(extension)
        if running is not None and running.is_account_missing:
            self._free(extension, "SERVICE_ACCOUNT_GONE")

    # Time to live

    async def _reap_forever(self) -> None:
        while True:
            due = [e.expires_in for e in self._extensions.values()]
            left = min((seconds for seconds in due if seconds is not None), default=None)
            try:
                async with asyncio.timeout(left if left is None else max(0.05, left)):
                    await self._reap.wait()
            except TimeoutError:
                pass
            self._reap.clear()
            for extension in list(self._extensions.values()):
                if extension.expires_in == 0.0:
                    self._free(extension, "TTL_EXPIRED")

    def unsubscribed(self, extension: Extension) -> None:
        """Take that a Watch stream has ended."""
        extension.unsubscribed()
        self._reap.set()

    @contextmanager
    def in_use(self, extension: Extension) -> Iterator[None]:
        """Keep the ttl of an extension from running meanwhile."""
        extension.hold()
        try:
            yield
        finally:
            extension.let_go()
            self._reap.set()
