"""The host of all informers: what they share, and the supervision of their tasks.

    async with host.open():
        task = host.start(informer, access, service_account="team-a/shop")
        ...
        task.cancel()

Each informer is a task of its own. A fault of ours in one is reported, said in its state, and
mended by starting it again; what it holds stays. Nothing that happens to one holds up another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from watchcache_server.clusters.registry import ClusterRegistry
from watchcache_server.extensions.checks import CheckEntry, Checks
from watchcache_server.extensions.extension import Clock
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.namespaces import NamespaceInformer
from watchcache_server.extensions.observed import Observed
from watchcache_server.extensions.recent_past import RecentPast
from watchcache_server.extensions.training import Trainer
from watchcache_server.informer.backoff import BackoffSettings
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.informer_runner import InformerRunner
from watchcache_server.kubernetes.list_memory import ListMemory
from watchcache_server.kubernetes.pace import Pace
from watchcache_server.kubernetes.past import PastReader
from watchcache_server.kubernetes.renewals import Renewals
from watchcache_server.kubernetes.sync_turns import SyncTurns
from watchcache_server.kubernetes.verification import VerificationLimits
from watchcache_server.memory import give_back
from watchcache_server.model.states import SourceState
from watchcache_server.observability.reporting import Reporter
from watchcache_server.settings import Settings

__all__ = ["InformerHost"]

# Wait before an informer that failed by a fault of ours is started again.
_RESTART_SECONDS: Final = 5.0

AnyInformer = Informer | NamespaceInformer


class InformerHost:
    """Runs informers."""

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
        self._turns: dict[str, SyncTurns] = {}
        self._renewals = Renewals(self._turns.values, give_back)
        self._paces: dict[str, Pace] = {}
        self._memory = ListMemory(clock.now)
        self._trainer = Trainer(self._guarded)
        self._checks = Checks(
            seconds=settings.consistency_check_seconds,
            clock=clock.now,
            jitter=jitter,
            guarded=self._guarded,
        )
        self._group: asyncio.TaskGroup | None = None
        self._reflector_settings = ReflectorSettings(
            watch_seconds=settings.watch_timeout_seconds,
            initial_idle_seconds=settings.initial_events_seconds,
            page_items=settings.list_page_size,
            forbidden_grace_seconds=settings.forbidden_grace_seconds,
            backoff=BackoffSettings(
                first_seconds=settings.first_backoff_seconds,
                longest_seconds=settings.longest_backoff_seconds,
            ),
            probe_seconds=settings.recheck_seconds,
            unauthenticated_seconds=settings.unauthenticated_recheck_seconds,
            bad_request_seconds=settings.bad_request_recheck_seconds,
        )
        self._verification = VerificationLimits(
            parallel=settings.max_concurrent_verifications,
            answer_seconds=settings.verification_seconds,
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Be ready to run tasks; they end with the context."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            tasks = (self._trainer, self._renewals, self._checks)
            helpers = [group.create_task(each.run()) for each in tasks]
            try:
                yield
            finally:
                self._group = None
                for helper in helpers:
                    helper.cancel()

    @property
    def is_open(self) -> bool:
        """Whether tasks can be started."""
        return self._group is not None

    def start(
        self, informer: AnyInformer, access: ApiAccess, *, service_account: str
    ) -> asyncio.Task[None]:
        """Start an informer; `service_account` is for messages. Cancel the task to stop it."""
        return self.run(informer, lambda: self._supervise(informer, access, service_account))

    def run(self, informer: AnyInformer, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run some work about an informer as a task of its own."""
        assert self._group is not None, "tasks are started while it is open"
        name = f"{informer.extension.key} {informer.spec.type_name}"
        return self._group.create_task(self._guarded(informer, work), name=name)

    def train(self, informer: Informer) -> None:
        """Get a dictionary for the source of an informer, in a while."""
        self._trainer.request(informer)

    async def _supervise(
        self, informer: AnyInformer, access: ApiAccess, service_account: str
    ) -> None:
        entry = self._checks.add(informer, access)
        try:
            while True:
                await self._guarded(
                    informer,
                    lambda: self._runner(informer, access, service_account, entry).run(),
                )
                entry.runner = None
                informer.discard()
                informer.set_state(
                    SourceState.STALE if informer.is_synced else SourceState.UNREACHABLE,
                    "INTERNAL",
                    "the informer failed by a fault of the service, which is logged; "
                    "it starts again",
                    next_attempt_seconds=_RESTART_SECONDS,
                )
                await asyncio.sleep(_RESTART_SECONDS)
        finally:
            self._checks.discard(entry)

    async def _guarded(self, informer: Observed, work: Callable[[], Awaitable[None]]) -> None:
        """Do work about an informer; a fault of ours is reported, and ends nothing else."""
        try:
            await work()
        except Exception as error:
            self._reporter.informer_failed(informer.extension.key, informer.spec, error)
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # The fault came in the place of the cancellation, which must not be lost.
                raise asyncio.CancelledError from error

    def _runner(
        self,
        informer: AnyInformer,
        access: ApiAccess,
        service_account: str,
        entry: CheckEntry,
    ) -> InformerRunner:
        cluster = informer.spec.cluster
        limit = self._settings.max_concurrent_syncs
        rate = self._settings.informer_requests_per_second
        tenant = str(informer.extension.key)
        pace = self._paces.setdefault(cluster, Pace(rate))
        if isinstance(informer, Informer):
            reader = PastReader(
                access,
                tenant=tenant,
                pace=pace,
                max_event_bytes=self._settings.max_event_bytes,
                limits=self._verification,
                clock=self._clock.now,
            )
            informer.past = RecentPast(informer, reader)
        runner = InformerRunner(
            spec=informer.spec,
            tenant=tenant,
            service_account=service_account,
            access=access,
            discovery=self._clusters.get(cluster).discovery,
            sink=informer,
            turns=self._turns.setdefault(cluster, SyncTurns(limit)),
            renewals=self._renewals,
            pace=pace,
            memory=self._memory,
            settings=self._reflector_settings,
            max_event_bytes=self._settings.max_event_bytes,
            verification=self._verification,
            clock=self._clock.now,
            jitter=self._jitter,
        )
        entry.runner = runner
        return runner
