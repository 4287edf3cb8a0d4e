"""Has a call wait until the informers behind its answer are as fresh as it asks.

Each informer is waited for by itself, all at once, within one limit of time. What has changed
meanwhile counts: an informer that is stopped is waited for no longer, one that came is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.observed import Observed
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.informer.comparison import Scope, is_at_least
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.versions import Order, compare_versions
from watchcache_server.model.consistency import Consistency
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    InvalidRequestError,
    NotFreshEnoughError,
    NotSyncedError,
    ServiceDrainingError,
)

__all__ = ["FreshReads", "not_synced"]

# More namespaces of one source than this are looked at as a whole.
_MOST_NAMESPACES: Final = 4

Find = Callable[[], Iterable[Observed]]


class FreshReads:
    """Waits for informers."""

    def __init__(self, registry: ExtensionRegistry) -> None:
        self._registry = registry

    async def wait(
        self,
        extension: Extension,
        asked: Consistency,
        find: Find,
        scopes: Callable[[Observed], tuple[Scope, ...]],
    ) -> None:
        """Wait for the informers that `find` returns; what matters of each is in its `scopes`.

        Raises NotFreshEnoughError when one of them is late, NotSyncedError when one of them has
        never been loaded and will not be for now, InvalidRequestError when the version does not
        compare with theirs.
        """
        met: set[Observed] = set()

        async def wait_one(informer: Observed) -> None:
            await self._wait_one(informer, asked, scopes(informer))
            met.add(informer)

        with self._registry.in_use(extension):
            try:
                async with asyncio.timeout(asked.wait_seconds):
                    while behind := [each for each in find() if each not in met]:
                        await _all(wait_one(informer) for informer in behind)
                        self._check(extension)
            except TimeoutError:
                self._check(extension)
                late = [each for each in find() if each not in met and _is_behind(each, asked)]
                if late:
                    raise _late(late[0], asked) from None

    async def wait_for(self, extension: Extension, asked: Consistency, wanted: Filter) -> None:
        """Wait for the informers that a filter lets through. Raises as `wait`.

        InvalidRequestError also when a version is asked for and there are several resources. What
        the API server holds includes which namespaces match the selectors of a spec.
        """
        if asked.min_resource_version:
            _check_single(extension, wanted)

        def find() -> Iterable[Observed]:
            if not asked.min_resource_version:
                yield from dict.fromkeys(each.informer for each in extension.chosen_in(wanted))
            yield from extension.informers_in(wanted)

        await self.wait(
            extension,
            asked,
            find,
            lambda informer: _scopes_in(wanted, informer),
        )

    def _check(self, extension: Extension) -> None:
        if extension.ended:
            key = extension.key
            raise ExtensionNotFoundError(key.namespace, key.name, why=extension.ended)
        if self._registry.is_draining:
            raise ServiceDrainingError

    async def _wait_one(
        self, informer: Observed, asked: Consistency, scopes: Iterable[Scope]
    ) -> None:
        extension = informer.extension
        while not informer.is_synced:
            if informer.is_stopped or extension.ended or self._registry.is_draining:
                return
            if informer.status.state.is_settled:
                raise not_synced(f"{_name(informer)} of extension {extension.key}", informer)
            await extension.pulse.wait()
        _check_version(informer, asked.min_resource_version)
        for scope in scopes:
            refusal = await informer.freshness.wait(scope, asked.min_resource_version)
            if refusal:
                raise _late(informer, asked)


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do all of it at once; raise the first error."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


def _scopes_in(wanted: Filter, informer: Observed) -> tuple[Scope, ...]:
    """Return what a filter lets through of an informer, as far as namespaces tell."""
    source = informer.source
    is_wide = not source.namespace and source.served is not None and source.served.is_namespaced
    if is_wide and 0 < len(wanted.namespaces) <= _MOST_NAMESPACES:
        return tuple(Scope(namespace) for namespace in wanted.namespaces)
    return (Scope(),)


def _check_single(extension: Extension, wanted: Filter) -> None:
    sources = [each.source for each in extension.informers_in(wanted)]
    resources = {(each.spec.cluster, each.group, each.resource or each.kind) for each in sources}
    if len(resources) > 1:
        names = sorted(
            f"{resource}.{group}" if group else resource for _, group, resource in resources
        )
        raise InvalidRequestError.of(
            "consistency.min_resource_version",
            f"the filter lets {len(resources)} resources through, among them {names[0]} and "
            f"{names[1]}, whose versions do not compare; narrow it to one resource of one cluster, "
            "or ask for consistent",
        )


def not_synced(what: str, informer: Observed) -> NotSyncedError:
    """Return the error that says that an informer holds nothing to answer with, and why."""
    status = informer.status
    return NotSyncedError(
        what,
        f"the informer is {status.state.value}: {status.message}",
        is_transient=not status.state.is_settled,
    )


def _check_version(informer: Observed, version: str) -> None:
    position = informer.source.position
    if version and position and compare_versions(position, version) is Order.UNKNOWN:
        raise InvalidRequestError.of(
            "consistency.min_resource_version",
            f"{version!r} does not compare with {position!r}, where the informer of "
            f"{_name(informer)} is: only decimal numbers without a leading zero do; send the "
            "metadata.resourceVersion of an object of that resource, or ask for consistent",
            reason="VERSION_NOT_COMPARABLE",
        )


def _is_behind(informer: Observed, asked: Consistency) -> bool:
    version = asked.min_resource_version
    return not version or not is_at_least(informer.source.position, version)


def _late(informer: Observed, asked: Consistency) -> Exception:
    if not informer.is_synced:
        return not_synced(f"{_name(informer)} of extension {informer.extension.key}", informer)
    status, freshness = informer.status, informer.freshness
    position, version = informer.source.position, asked.min_resource_version
    wanted = f"resourceVersion {version}" if version else "what the API server holds"
    age = ""
    if status.last_contact_time is not None:
        seconds = informer.extension.clock.wall() - status.last_contact_time
        age = f", and heard the API server {max(0.0, seconds):.1f} s ago"
    told = f"; {freshness.trouble}" if freshness.trouble else ""
    if version and freshness.newest and not is_at_least(freshness.newest, version):
        told += f"; the API server itself said {freshness.newest}"
    return NotFreshEnoughError(
        f"the informer of {_name(informer)} has not come to {wanted} within "
        f"{asked.wait_seconds:g} s: it is at {position}{age}; "
        f"it is {status.state.value}: {status.message}{told}",
        {
            "cluster": informer.spec.cluster,
            "group": informer.source.group,
            "resource": informer.source.resource,
            "namespace": informer.source.namespace,
            "state": status.state.name,
            "state_reason": status.reason,
            "resource_version": position,
        },
    )


def _name(informer: Observed) -> str:
    source = informer.source
    resource = source.resource or source.kind
    name = f"{resource}.{source.group}" if source.group else resource
    where = f" in namespace {source.namespace}" if source.namespace else ""
    return f"{name}{where} on cluster {source.spec.cluster}"
