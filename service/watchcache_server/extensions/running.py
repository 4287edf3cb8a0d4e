"""What one extension runs: the tasks of its informers, its access, and how its spec changes.

A changed spec, or a changed set of namespaces, touches only what differs. What is new is started
first; what is no longer wanted goes on until those that follow it have its objects, and a moment
more, in which both see what happened meanwhile. What watches a namespace that left its set goes on
until it is as fresh as that. Each such hand-over and departure is a task of its own, at most one
for each informer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final, NamedTuple

from watchcache_server.clusters.cluster import ServiceAccountAccess
from watchcache_server.clusters.registry import ClusterRegistry
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.host import InformerHost
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.namespaces import NamespaceInformer
from watchcache_server.extensions.observed import Observed
from watchcache_server.extensions.successors import Successors
from watchcache_server.informer.comparison import Scope
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.errors import ServiceAccountNotFoundError
from watchcache_server.model.source_plan import Bounds, SourcePlan, plan_sources
from watchcache_server.model.specs import NamespaceSet
from watchcache_server.model.states import SourceState

__all__ = ["RunningInformers"]

# Two watches of one API server are hardly further apart than this.
_LINGER_SECONDS: Final = 1.0
_REFUSED: Final = (SourceState.FORBIDDEN, SourceState.GONE)


class _Ending(NamedTuple):
    """What ends an informer; `followers` take its objects over, none do where it leaves."""

    task: asyncio.Task[None]
    followers: frozenset[Informer]


class RunningInformers:
    """The informers of one extension as tasks."""

    def __init__(
        self,
        extension: Extension,
        *,
        host: InformerHost,
        clusters: ClusterRegistry,
        bounds: Bounds,
    ) -> None:
        self._extension = extension
        self._host = host
        self._clusters = clusters
        self._bounds = bounds
        self._tasks: dict[Observed, asyncio.Task[None]] = {}
        self._sets: dict[NamespaceSet, NamespaceInformer] = {}
        # What follows for informers that are no longer wanted: that they are stopped in the end.
        self._endings: dict[Informer, _Ending] = {}
        #: The ServiceAccount's access on each cluster; empty in caller-identity mode.
        self.accesses: dict[str, ServiceAccountAccess] = {}

    @property
    def is_account_missing(self) -> bool:
        """Whether every cluster of the extension has said that there is no such ServiceAccount."""
        accesses = [self.accesses.get(cluster) for cluster in self._extension.spec.clusters]
        return all(
            access is not None and isinstance(access.account.error, ServiceAccountNotFoundError)
            for access in accesses
        )

    def change(self) -> None:
        """Follow the spec of the extension: leave alone what it asks for as before."""
        extension, choices = self._extension, self._extension.spec.choices()
        for choice in choices:
            if choice.namespaces not in self._sets:
                self._start_set(choice.namespaces)
            if choice not in extension.chosen:
                extension.choose(choice, self._sets[choice.namespaces])
        for choice in extension.chosen.keys() - set(choices):
            extension.unchoose(choice)
        for namespaces in self._sets.keys() - {choice.namespaces for choice in choices}:
            self._stop_set(namespaces)
        self._follow()

    def _follow(self) -> None:
        """Start what is new, end what is no longer wanted; leave the rest alone."""
        extension = self._extension
        if extension.ended:
            return
        plan = self._plan()
        wanted = set(plan.wanted)
        for spec in plan.wanted:
            informer = extension.informers.get(spec)
            if informer is None:
                self._start(extension.add_informer(spec))
            else:
                # It may have been about to leave.
                self._cancel_ending(informer)
        for spec, informer in list(extension.informers.items()):
            if spec in plan.leaving:
                self._leave(informer)
            elif spec not in wanted:
                self._cancel_ending(informer)
                extension.retire_informer(informer)
        self._retire()
        for namespaces, known in self._sets.items():
            known.crowded(self._crowding(plan, namespaces))
        self._release_unused()

    def _plan(self) -> SourcePlan:
        spec = self._extension.spec
        return plan_sources(
            spec.sources(),
            spec.choices(),
            {namespaces: known.names for namespaces, known in self._sets.items()},
            self._extension.informers.keys(),
            self._bounds,
        )

    def _crowding(self, plan: SourcePlan, namespaces: NamespaceSet) -> str:
        count = plan.crowded_out.get(namespaces)
        if not count:
            return ""
        return (
            f"{count} of the namespaces of cluster {namespaces.cluster} that match "
            f"{namespaces.selector!r} are not watched, or not for each resource: an extension may "
            f"have {self._bounds.sources} informers (setting max_sources) with "
            f"{self._bounds.text_bytes} bytes of selectors and paths in all (max_spec_bytes); "
            "choose fewer namespaces, or register several extensions"
        )

    def _retire(self) -> None:
        """Have those that retire stopped: at once, or when others have taken over."""
        extension = self._extension
        if not extension.retiring:
            return
        successors = Successors(extension.informers.values())
        for informer in list(extension.retiring):
            followers = frozenset(successors.of(informer))
            ending = self._endings.get(informer)
            if ending is not None and ending.followers == followers:
                # Another one of the many namespaces of a set is no reason to begin anew.
                continue
            self._cancel_ending(informer)
            if followers and informer.source.table.count:
                self._end(informer, partial(_handed_over, informer, followers), followers)
            else:
                self._stop(informer)

    def stop_all(self) -> None:
        """Stop every informer at once, with nobody to take its objects over."""
        extension = self._extension
        for informer in (*extension.informers.values(), *extension.retiring):
            self._stop(informer)
        for choice in list(extension.chosen):
            extension.unchoose(choice)
        for namespaces in list(self._sets):
            self._stop_set(namespaces)
        self._release_unused()

    def end(self) -> list[asyncio.Task[None]]:
        """Cancel every task and let go of all access; return the tasks."""
        tasks = [*self._tasks.values(), *(ending.task for ending in self._endings.values())]
        for task in tasks:
            task.cancel()
        self._tasks.clear()
        self._endings.clear()
        self._sets.clear()
        self._release(set())
        return tasks

    def _start(self, informer: Informer | NamespaceInformer) -> None:
        access, account = self._access(informer.spec.cluster)
        self._tasks[informer] = self._host.start(informer, access, service_account=account)

    def _start_set(self, namespaces: NamespaceSet) -> None:
        known = NamespaceInformer(self._extension, namespaces, changed=self._follow)
        self._sets[namespaces] = known
        self._start(known)

    def _stop_set(self, namespaces: NamespaceSet) -> None:
        known = self._sets.pop(namespaces)
        self._tasks.pop(known).cancel()
        known.stop()

    def _access(self, cluster: str) -> tuple[ApiAccess, str]:
        account, namespace = self._extension.spec.service_account, self._extension.key.namespace
        if not account:
            return self._clusters.get(cluster).own, ""
        access = self.accesses.get(cluster)
        if access is None:
            access = self._clusters.get(cluster).as_service_account(namespace, account)
            self.accesses[cluster] = access
        return access, f"{namespace}/{account}"

    def _stop(self, informer: Informer) -> None:
        self._tasks.pop(informer).cancel()
        self._cancel_ending(informer)
        self._extension.remove_informer(informer)

    def _leave(self, informer: Informer) -> None:
        """Have an informer stopped whose namespace left its set."""
        if not (informer.is_synced and informer.source.table.count):
            self._stop(informer)
        elif informer not in self._endings:
            self._end(informer, partial(_left, informer))

    def _end(
        self,
        informer: Informer,
        when: Callable[[], Awaitable[None]],
        followers: frozenset[Informer] = frozenset(),
    ) -> None:
        """Stop an informer when it is time; what then has room is started."""

        async def end() -> None:
            await when()
            self._stop(informer)
            self._follow()

        self._endings[informer] = _Ending(self._host.run(informer, end), followers)

    def _cancel_ending(self, informer: Informer) -> None:
        ending = self._endings.pop(informer, None)
        if ending is not None and ending.task is not asyncio.current_task():
            ending.task.cancel()

    def _release_unused(self) -> None:
        self._release({informer.spec.cluster for informer in self._tasks})

    def _release(self, keep: set[str]) -> None:
        for cluster in self.accesses.keys() - keep:
            self.accesses.pop(cluster).release()


async def _handed_over(informer: Informer, followers: Collection[Informer]) -> None:
    """Wait until the objects of an informer have passed to those that follow it."""
    while not all(map(_is_followed_by, followers)):
        await informer.extension.pulse.wait()
    await asyncio.sleep(_LINGER_SECONDS)


async def _left(informer: Informer) -> None:
    """Wait until an informer has seen what was there when its namespace left the set.

    The API server is asked for that after it did, so that everything that was deleted before, as
    all of a namespace is that is deleted, is told as that. Who may no longer ask may still hear it:
    from a watch that is open, up to its end.
    """
    pulse = informer.extension.pulse
    fresh = asyncio.ensure_future(informer.freshness.wait(Scope()))
    fresh.add_done_callback(lambda _: pulse.touch())
    try:
        while informer.source.table.count and not _has_seen_all(informer, fresh):
            await pulse.wait()
    finally:
        fresh.cancel()


def _has_seen_all(informer: Informer, fresh: asyncio.Future[str]) -> bool:
    """Tell whether an informer will hear no more of what was asked for, as far as can be."""
    if not fresh.done():
        return False
    refusal = fresh.result()
    return informer.status.state in _REFUSED if refusal else not informer.source.unverified


def _is_followed_by(follower: Informer) -> bool:
    """Tell whether an informer holds objects, or was refused and will not for a while.

    One that only cannot reach its API server is waited for: an outage empties no store.
    """
    return follower.is_synced or follower.status.state in _REFUSED
