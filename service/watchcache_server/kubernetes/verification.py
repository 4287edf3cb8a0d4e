"""Verification: what became of objects that left a selector of the API server.

Under a selector DELETED may only mean that an object ceased to match. A GET by name tells: 404, or
another uid, is a deletion; the object itself is none. What cannot be found out in a few attempts is
taken for none either: nobody is told of a deletion that was not seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from watchcache_server.informer.decoding import ItemDecoder
from watchcache_server.informer.errors import DataError
from watchcache_server.informer.source import Unverified
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.errors import AccessError
from watchcache_server.kubernetes.informer_sink import InformerSink
from watchcache_server.kubernetes.requests import get_request, resource_path
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.states import Projection

__all__ = ["VerificationLimits", "Verifier", "verify"]

_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationLimits:
    """How many objects are asked for at once, and how long an answer may take."""

    parallel: int = 8
    answer_seconds: float = 5.0


class Verifier:
    """Asks for the unverified objects of one informer, a few at a time."""

    def __init__(
        self, access: ApiAccess, sink: InformerSink, limits: VerificationLimits | None = None
    ) -> None:
        self._access = access
        self._sink = sink
        self._limits = limits or VerificationLimits()
        self._wake = asyncio.Event()
        self._served: ServedResource | None = None

    def look(self, served: ServedResource) -> None:
        """Look whether there is something to ask."""
        self._served = served
        self._wake.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await verify(
                self._access, self._resource, self._sink.unverified(), self._limits, self._resolve
            )

    def _resource(self) -> ServedResource:
        assert self._served is not None, "it is looked for once discovery has found it"
        return self._served

    def _resolve(self, subject: Unverified, is_deleted: bool) -> None:
        self._sink.resolve(subject, is_deleted=is_deleted)


async def verify(
    access: ApiAccess,
    resource: Callable[[], ServedResource],
    subjects: Collection[Unverified],
    limits: VerificationLimits,
    told: Callable[[Unverified, bool], None],
) -> None:
    """Ask what became of objects, a few at a time; tell of each whether it was deleted.

    `resource` says how they are served at that moment.
    """
    left = iter(subjects)

    async def ask() -> None:
        for subject in left:
            told(subject, await _is_deleted(access, resource(), subject, limits))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(limits.parallel, len(subjects))):
            group.create_task(ask())


async def _is_deleted(
    access: ApiAccess, served: ServedResource, subject: Unverified, limits: VerificationLimits
) -> bool:
    """Ask whether an object was deleted; False also when that cannot be found out."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            await asyncio.sleep(_PAUSE_SECONDS)
        answer = await _ask(access, served, subject, limits.answer_seconds)
        if answer is not None and answer.code != 429 and answer.code < 500:
            return _tells_deletion(answer, served, subject)
    return False


async def _ask(
    access: ApiAccess, served: ServedResource, subject: Unverified, answer_seconds: float
) -> Answer | None:
    try:
        path = resource_path(
            served.group,
            served.version,
            served.resource,
            namespace=subject.namespace,
            name=subject.name,
        )
        async with asyncio.timeout(answer_seconds):
            return await access.call(get_request(path, is_metadata_only=True))
    except (AccessError, TimeoutError):
        return None


def _tells_deletion(answer: Answer, served: ServedResource, subject: Unverified) -> bool:
    if answer.code != 200:
        return answer.code == 404
    decoder = ItemDecoder(
        api_version=served.api_version, kind=served.kind, projection=Projection.METADATA
    )
    try:
        return decoder.decode(answer.body).uid != subject.uid
    except DataError:
        return False
