"""Discovery: finds out what an API server serves, and again when something is missing.

    discovery = Discovery(own_access)
    match await discovery.resolve("apps", "", "Deployment"):
        case Served(resource, versions): ...
        case NotServed(hints): ...           # a fresh look confirmed it
        case VersionNotServed(versions): ...
        case DiscoveryFailed(error): ...     # it cannot be told: never take it for NotServed

It asks as the service itself (every authenticated identity may read discovery: system:discovery),
so one catalog serves all extensions of a cluster, and learning a kind needs no right of theirs.

What it promises: one flight for all who ask; at most one refresh in `min_interval_seconds`, however
many kinds are missing; a miss is believed only when the catalog is younger than `miss_seconds`; one
group that cannot be read (an aggregated API that is down) keeps what was known of it and disturbs
no other group; what vanishes while the server is not ready (it publishes CRDs late when it starts)
is doubted, not believed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.catalog import Catalog, GroupVersion
from watchcache_server.kubernetes.documents import (
    ACCEPT_AGGREGATED,
    DocumentError,
    decode_aggregated,
    decode_group_list,
    decode_resource_list,
    decode_version_list,
)
from watchcache_server.kubernetes.errors import AccessError, DiscoveryUnreadableError
from watchcache_server.kubernetes.flight import SingleFlight
from watchcache_server.kubernetes.reporting import SILENT, AccessReporter
from watchcache_server.kubernetes.requests import ACCEPT_JSON, Request
from watchcache_server.kubernetes.served import DiscoveryFailed, Resolution, Served, Unreadable

__all__ = ["Discovery", "DiscoveryLimits"]

_LEGACY_PARALLEL: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryLimits:
    """How long an answer may take, how large a document may be, and how old what is known."""

    answer_seconds: float = 15.0
    document_bytes: int = 64 * 1024 * 1024
    max_age_seconds: float = 600.0


class Discovery:
    """The catalog of one cluster."""

    def __init__(
        self,
        access: ApiAccess,
        *,
        min_interval_seconds: float = 2.0,
        miss_seconds: float = 5.0,
        limits: DiscoveryLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        reporter: AccessReporter = SILENT,
    ) -> None:
        self._access = access
        self._min_interval_seconds = min_interval_seconds
        self._miss_seconds = miss_seconds
        self._limits = limits or DiscoveryLimits()
        self._clock = clock
        self._reporter = reporter
        self._flight: SingleFlight[None] = SingleFlight()
        self._catalog: Catalog | None = None
        self._read_at = float("-inf")
        self._tried_at = float("-inf")
        self._error: AccessError | None = None

    async def resolve(
        self, group: str, version: str, name: str, *, max_age_seconds: float | None = None
    ) -> Resolution:
        """Find a resource (plural) or kind; an empty version means the preferred one.

        `max_age_seconds` asks for a catalog no older than that, say 0 after a 404. Never raises an
        AccessError: it is an answer, DiscoveryFailed.
        """
        asked_at = self._clock()
        max_age = self._limits.max_age_seconds if max_age_seconds is None else max_age_seconds
        await self._read_if_older(asked_at, max_age)
        is_too_old = max_age_seconds is not None and self._is_older(asked_at, max_age)
        if self._catalog is None or is_too_old:
            return self._failure()
        found = self._catalog.find(group, version, name)
        if not isinstance(found, Served):
            await self._read_if_older(asked_at, self._miss_seconds)
            if self._is_older(asked_at, self._miss_seconds):
                return self._failure()
            found = self._catalog.find(group, version, name)
        if isinstance(found, Unreadable):
            return DiscoveryFailed(
                DiscoveryUnreadableError(self._access.cluster, found.group_version, found.problem)
            )
        return found

    def _is_older(self, asked_at: float, age_seconds: float) -> bool:
        return asked_at - self._read_at > age_seconds

    def _failure(self) -> DiscoveryFailed:
        assert self._error is not None
        return DiscoveryFailed(self._error)

    async def _read_if_older(self, asked_at: float, age_seconds: float) -> None:
        if not self._is_older(asked_at, age_seconds):
            return
        is_joining = self._flight.is_running
        await self._flight.run(self._read)
        if is_joining and self._is_older(asked_at, age_seconds):
            # What was joined had begun before the question was asked.
            await self._flight.run(self._read)

    async def _read(self) -> None:
        wait_seconds = self._tried_at + self._min_interval_seconds - self._clock()
        if wait_seconds > 0:
            await asyncio.sleep(wait_seconds)
        self._tried_at = started_at = self._clock()
        try:
            catalog = await self._read_catalog()
        except AccessError as error:
            self._error = error
            self._reporter.discovery_refreshed(self._access.cluster, error.reason, 0)
            return
        self._catalog = catalog
        self._read_at = started_at
        self._error = None
        self._reporter.discovery_refreshed(
            self._access.cluster, "partial" if catalog.problems else "ok", len(catalog)
        )

    async def _read_catalog(self) -> Catalog:
        catalog = Catalog.of([*await self._read_core(), *await self._read_groups()])
        if self._catalog is None:
            return catalog
        catalog = catalog.with_kept(self._catalog)
        vanished = catalog.vanished_since(self._catalog)
        if vanished and not await self._is_ready():
            return catalog.with_doubted(vanished, "the API server is not ready")
        return catalog

    async def _read_core(self) -> list[GroupVersion]:
        body = await self._get("/api", ACCEPT_AGGREGATED)
        try:
            found = decode_aggregated(body)
            if found is not None:
                return found
            versions = decode_version_list(body)
        except DocumentError as error:
            raise self._unreadable("/api", error) from error
        return [await self._read_version("", version) for version in versions]

    async def _read_groups(self) -> list[GroupVersion]:
        body = await self._get("/apis", ACCEPT_AGGREGATED)
        try:
            found = decode_aggregated(body)
            if found is not None:
                return found
            pairs = decode_group_list(body)
        except DocumentError as error:
            raise self._unreadable("/apis", error) from error
        turns = asyncio.Semaphore(_LEGACY_PARALLEL)

        async def read(name: str, version: str) -> GroupVersion:
            async with turns:
                return await self._read_version(name, version)

        async with asyncio.TaskGroup() as readers:
            tasks = [readers.create_task(read(*pair)) for pair in pairs]
        return [task.result() for task in tasks]

    async def _read_version(self, group: str, version: str) -> GroupVersion:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            return decode_resource_list(group, version, await self._get(path, ACCEPT_JSON))
        except AccessError as error:
            return GroupVersion(group, version, problem=error.reason)
        except DocumentError:
            return GroupVersion(group, version, problem="its discovery document is malformed")

    async def _is_ready(self) -> bool:
        try:
            answer = await self._call("/readyz", "text/plain")
        except AccessError:
            return False
        # Who may not ask cannot tell, and believes.
        return answer.is_success or answer.code in (401, 403, 404)

    async def _get(self, path: str, accept: str) -> bytes:
        answer = await self._call(path, accept)
        if not answer.is_success:
            raise answer.error(self._access.cluster, f"reading discovery at {path}")
        return answer.body

    async def _call(self, path: str, accept: str) -> Answer:
        request = Request(
            path=path,
            accept=accept,
            response_seconds=self._limits.answer_seconds,
            idle_seconds=self._limits.answer_seconds,
        )
        return await self._access.call(request, limit_bytes=self._limits.document_bytes)

    def _unreadable(self, path: str, error: DocumentError) -> DiscoveryUnreadableError:
        return DiscoveryUnreadableError(self._access.cluster, path, str(error))
