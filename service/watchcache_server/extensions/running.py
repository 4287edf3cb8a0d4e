"""What one extension runs: the tasks of its informers, its access, and how its spec changes.

A changed spec touches only what differs. What is new is started first; what is no longer wanted
goes on until those that follow it have its objects, and a moment more, in which both see what
happened meanwhile. Each such hand-over is a task of its own.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from watchcache_server.clusters.cluster import ServiceAccountAccess
from watchcache_server.clusters.registry import ClusterRegistry
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.host import InformerHost
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.successors import Successors
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.errors import ServiceAccountNotFoundError
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import SourceState

__all__ = ["RunningInformers"]

# Two watches of one API server are hardly further apart than this.
_LINGER_SECONDS: Final = 1.0


class RunningInformers:
    """The informers of one extension as tasks."""

    def __init__(
        self, extension: Extension, *, host: InformerHost, clusters: ClusterRegistry
    ) -> None:
        self._extension = extension
        self._host = host
        self._clusters = clusters
        self._tasks: dict[Informer, asyncio.Task[None]] = {}
        self._hand_overs: dict[Informer, asyncio.Task[None]] = {}
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

    def change(self, sources: tuple[SourceSpec, ...]) -> None:
        """Start what is new, retire what is no longer wanted; leave the rest alone."""
        extension = self._extension
        for spec in sources:
            if spec not in extension.informers:
                self._start(extension.add_informer(spec))
        wanted = set(sources)
        for spec, informer in list(extension.informers.items()):
            if spec not in wanted:
                extension.retire_informer(informer)
        successors = Successors(extension.informers.values())
        for informer in list(extension.retiring):
            followers = successors.of(informer)
            hand_over = self._hand_overs.pop(informer, None)
            if hand_over is not None:
                hand_over.cancel()
            if followers and informer.source.table.count:
                work = partial(self._hand_over, informer, followers)
                self._hand_overs[informer] = self._host.run(informer, work)
            else:
                self._stop(informer)
        self._release_unused()

    def stop_all(self) -> None:
        """Stop every informer at once, with nobody to take its objects over."""
        extension = self._extension
        for informer in (*extension.informers.values(), *extension.retiring):
            self._stop(informer)
        self._release_unused()

    def end(self) -> list[asyncio.Task[None]]:
        """Cancel every task and let go of all access; return the tasks."""
        tasks = [*self._tasks.values(), *self._hand_overs.values()]
        for task in tasks:
            task.cancel()
        self._tasks.clear()
        self._hand_overs.clear()
        self._release(set())
        return tasks

    def _start(self, informer: Informer) -> None:
        access, account = self._access(informer.spec.cluster)
        self._tasks[informer] = self._host.start(informer, access, service_account=account)

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
        hand_over = self._hand_overs.pop(informer, None)
        if hand_over is not None and hand_over is not asyncio.current_task():
            hand_over.cancel()
        self._extension.remove_informer(informer)

    async def _hand_over(self, informer: Informer, followers: list[Informer]) -> None:
        """Stop an informer once its objects have passed to those that follow it."""
        while not all(map(_is_followed_by, followers)):
            await self._extension.pulse.wait()
        await asyncio.sleep(_LINGER_SECONDS)
        self._stop(informer)
        self._release_unused()

    def _release_unused(self) -> None:
        self._release({informer.spec.cluster for informer in self._tasks})

    def _release(self, keep: set[str]) -> None:
        for cluster in self.accesses.keys() - keep:
            self.accesses.pop(cluster).release()


def _is_followed_by(follower: Informer) -> bool:
    """Tell whether an informer holds objects, or was refused and will not for a while.

    One that only cannot reach its API server is waited for: an outage empties no store.
    """
    refused = (SourceState.FORBIDDEN, SourceState.GONE)
    return follower.is_synced or follower.status.state in refused
