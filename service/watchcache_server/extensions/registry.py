"""All extensions: Register and Deregister, and the tasks of their informers.

Register changes what is registered in one step that waits for nothing, so that two calls for one
extension come one after the other without any lock; what has to be asked of an API server is asked
before. Each informer is a task of its own under a supervisor: nothing that happens to one holds up
another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from watchcache_server.clusters.cluster import Cluster, ServiceAccountAccess
from watchcache_server.clusters.registry import ClusterRegistry
from watchcache_server.extensions.extension import Clock, Extension, Informer
from watchcache_server.extensions.pulse import Pulse
from watchcache_server.extensions.training import Trainer
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.informer.source import Source
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.errors import AccessError, ServiceAccountNotFoundError
from watchcache_server.kubernetes.informer_runner import InformerRunner, ListMemory, SyncTurns
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    ServiceAccountGoneError,
    ServiceDrainingError,
)
from watchcache_server.model.specs import ExtensionKey, ExtensionSpec, SourceSpec
from watchcache_server.model.states import SourceState
from watchcache_server.observability.reporting import Reporter
from watchcache_server.settings import Settings

__all__ = ["ExtensionRegistry", "Registered"]

# Wait before an informer that failed by a fault of ours is started again.
_RESTART_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Registered:
    """What Register did: outcome is created, updated or unchanged."""

    extension: Extension
    outcome: str


@dataclass(slots=True)
class _Running:
    """What an extension holds beside its objects."""

    tasks: dict[SourceSpec, asyncio.Task[None]] = field(default_factory=dict)
    accesses: dict[str, ServiceAccountAccess] = field(default_factory=dict)
    retiring: dict[Informer, asyncio.Task[None]] = field(default_factory=dict)
    missing_accounts: set[str] = field(default_factory=set)


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
        self._jitter = jitter
        self._reporter = reporter
        self._extensions: dict[ExtensionKey, Extension] = {}
        self._running: dict[Extension, _Running] = {}
        self._turns: dict[str, SyncTurns] = {}
        self._memory = ListMemory(clock.now)
        self._trainer = Trainer()
        self._group: asyncio.TaskGroup | None = None
        self._reap = asyncio.Event()
        self._is_draining = False
        self._on_dropped: Callable[[Extension], None] = lambda _: None
        #: Beats at every change of any extension.
        self.pulse = Pulse(settings.deliveries_per_second)
        #: Why extensions ended lately, newest last: at most a thousand.
        self.ended: dict[ExtensionKey, str] = {}
        self.version = 0
        self._reflector_settings = ReflectorSettings(
            watch_seconds=settings.watch_timeout_seconds,
            initial_idle_seconds=settings.initial_events_seconds,
            page_items=settings.list_page_size,
            forbidden_grace_seconds=settings.forbidden_grace_seconds,
        )

    # Life

    async def run(self, started: asyncio.Event) -> None:
        """Own all tasks until cancelled; set `started` when extensions can be registered."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._trainer.run())
                group.create_task(self._reap_forever())
                started.set()
        finally:
            self._group = None
            for running in self._running.values():
                for access in running.accesses.values():
                    access.release()

    def when_dropped(self, act: Callable[[Extension], None]) -> None:
        """Have `act` called when objects of an extension may no longer be sent to anybody."""
        self._on_dropped = act

    def drain(self) -> None:
        """Accept no more registrations."""
        self._is_draining = True
        for extension in self._extensions.values():
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

    def find(self, key: ExtensionKey) -> Extension | None:
        """Return an extension or None."""
        return self._extensions.get(key)

    def extensions(self, namespace: str = "") -> list[Extension]:
        """Return the extensions, of one namespace or all, sorted."""
        return [
            self._extensions[key]
            for key in sorted(self._extensions)
            if namespace in ("", key.namespace)
        ]

    def __iter__(self) -> Iterator[Extension]:
        return iter(self._extensions.values())

    def __len__(self) -> int:
        return len(self._extensions)

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
        sources = spec.sources()
        if len(sources) > self._settings.max_sources:
            raise LimitExceededError(
                f"extension {key}",
                f"the spec needs {len(sources)} informers, more than the "
                f"{self._settings.max_sources} that an extension may have; watch all "
                "namespaces with one, or register several extensions",
                setting="max_sources",
            )
        self._check_clusters(spec)
        before = self._extensions.get(key)
        if before is None or before.spec.service_account != spec.service_account:
            await self._check_service_account(key, spec)
        if self._is_draining or self._group is None:
            raise ServiceDrainingError
        return self._upsert(key, spec, sources, registered_spec)

    def _check_clusters(self, spec: ExtensionSpec) -> None:
        known = self._clusters.names
        for name in spec.clusters:
            if name not in known:
                raise InvalidRequestError.of(
                    "spec.clusters",
                    f"there is no cluster {name!r}; known are {', '.join(known)}",
                    reason="UNKNOWN_CLUSTER",
                )

    async def _check_service_account(self, key: ExtensionKey, spec: ExtensionSpec) -> None:
        """Ask for a token once: that the ServiceAccount is missing is better said at once."""
        if not spec.service_account:
            return
        missing = 0
        for name in spec.clusters:
            access = self._cluster(name).as_service_account(key.namespace, spec.service_account)
            try:
                await access.credentials.authorization()
            except ServiceAccountNotFoundError:
                missing += 1
                if missing == len(spec.clusters):
                    raise ServiceAccountGoneError(
                        name, key.namespace, spec.service_account
                    ) from None
            except AccessError:
                # Its informers will say so, and recover.
                pass
            finally:
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
            is_other_account = extension.spec.service_account != spec.service_account
            extension.spec = spec
            self._apply_sources(extension, sources, start_anew=is_other_account)
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
            deliveries_per_second=self._settings.deliveries_per_second,
            owner=self,
        )
        self._extensions[key] = extension
        self._running[extension] = _Running()
        self.ended.pop(key, None)
        return extension

    def _apply_sources(
        self, extension: Extension, sources: tuple[SourceSpec, ...], *, start_anew: bool
    ) -> None:
        """Start what is new, retire what is no longer wanted; leave the rest alone."""
        running = self._running[extension]
        if start_anew:
            # Nothing that another account read may be handed over.
            for spec in list(extension.informers):
                self._stop_informer(extension, running, spec)
            self._release(running, keep=set())
        for spec in sources:
            if spec not in extension.informers:
                informer = extension.add_informer(spec)
                running.tasks[spec] = self._start(extension, running, informer)
        for spec in set(extension.informers) - set(sources):
            informer = extension.retire_informer(spec)
            running.retiring[informer] = running.tasks.pop(spec)
        self._sweep(extension)

    def _start(
        self, extension: Extension, running: _Running, informer: Informer
    ) -> asyncio.Task[None]:
        assert self._group is not None, "register checks that the registry runs"
        spec = informer.spec
        access, account = self._access(extension, running, spec.cluster)
        cluster = self._cluster(spec.cluster)
        turns = self._turns.setdefault(spec.cluster, SyncTurns(self._settings.max_concurrent_syncs))

        def make() -> InformerRunner:
            return InformerRunner(
                spec=spec,
                service_account=account,
                access=access,
                discovery=cluster.discovery,
                sink=informer,
                turns=turns,
                memory=self._memory,
                settings=self._reflector_settings,
                max_event_bytes=self._settings.max_event_bytes,
                clock=self._clock.now,
                jitter=self._jitter,
            )

        return self._group.create_task(
            self._supervise(extension, informer, make), name=f"{extension.key} {spec.type_name}"
        )

    async def _supervise(
        self, extension: Extension, informer: Informer, make: Callable[[], InformerRunner]
    ) -> None:
        """Run an informer; if it fails by a fault of ours, say so and start it again."""
        while True:
            try:
                await make().run()
            except Exception as error:  # noqa: BLE001 (the supervisor of tasks)
                self._reporter.informer_failed(extension.key, informer.spec, error)
            informer.discard()
            was_synced = informer.source.is_synced
            informer.set_state(
                SourceState.STALE if was_synced else SourceState.UNREACHABLE,
                "INTERNAL",
                "the informer failed by a fault of the service, which is logged; it starts again",
                next_attempt_seconds=_RESTART_SECONDS,
            )
            await asyncio.sleep(_RESTART_SECONDS)

    def _access(
        self, extension: Extension, running: _Running, cluster: str
    ) -> tuple[ApiAccess, str]:
        account = extension.spec.service_account
        if not account:
            return self._cluster(cluster).own, ""
        access = running.accesses.get(cluster)
        if access is None:
            access = self._cluster(cluster).as_service_account(extension.key.namespace, account)
            running.accesses[cluster] = access
        return access, f"{extension.key.namespace}/{account}"

    def _cluster(self, name: str) -> Cluster:
        return self._clusters.get(name)

    def _stop_informer(self, extension: Extension, running: _Running, spec: SourceSpec) -> None:
        running.tasks.pop(spec).cancel()
        extension.remove_informer(extension.informers[spec])

    def _sweep(self, extension: Extension) -> None:
        """Stop retiring informers whose successors have settled."""
        running = self._running.get(extension)
        if running is None or not running.retiring:
            return
        for informer in list(running.retiring):
            successors = extension.successors(informer)
            is_over = all(successor.status.state.is_settled for successor in successors)
            # Removing one changes its status, which leads here again.
            task = running.retiring.pop(informer, None) if is_over else None
            if task is not None:
                task.cancel()
                extension.remove_informer(informer)
        if not running.retiring:
            self._release(running, keep={spec.cluster for spec in extension.informers})

    def _release(self, running: _Running, *, keep: set[str]) -> None:
        for cluster in list(running.accesses):
            if cluster not in keep:
                running.accesses.pop(cluster).release()

    async def deregister(self, key: ExtensionKey, why: str = "DEREGISTERED") -> bool:
        """Free an extension and wait until its tasks have ended; False when there is none."""
        extension = self._extensions.get(key)
        if extension is None:
            return False
        tasks = self._free(extension, why)
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_SECONDS)
        return True

    def _free(self, extension: Extension, why: str) -> list[asyncio.Task[None]]:
        key = extension.key
        del self._extensions[key]
        running = self._running.pop(extension)
        self.ended[key] = why
        while len(self.ended) > 1000:
            del self.ended[next(iter(self.ended))]
        tasks = [*running.tasks.values(), *running.retiring.values()]
        for task in tasks:
            task.cancel()
        self._release(running, keep=set())
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
        self._sweep(extension)

    def rights_revoked(self, extension: Extension) -> None:
        """Take that objects were dropped because the right to read them is gone."""
        self._on_dropped(extension)

    def training_due(self, source: Source) -> None:
        """Take that a source wants a dictionary."""
        self._trainer.request(source)

    def service_account_missing(self, extension: Extension, cluster: str) -> None:
        """Free an extension whose ServiceAccount is gone from all of its clusters."""
        running = self._running.get(extension)
        if running is None:
            return
        running.missing_accounts.add(cluster)
        if running.missing_accounts >= set(extension.spec.clusters):
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
