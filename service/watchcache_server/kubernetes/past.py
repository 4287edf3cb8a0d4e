"""The past: which objects ended since an upstream version, read from the API server's own history.

A list tells what there is and never what went. So a watch of its own goes over what happened from
one version to another, and keeps the ends. It costs what it reads, once, and takes a second or two
where nothing happens: the API server says how far it is by a bookmark, shortly before such a watch
ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from watchcache_server.informer.decoding import (
    Bookmark,
    Broken,
    Deleted,
    EventDecoder,
    StreamError,
    WatchEvent,
)
from watchcache_server.informer.objects import Item
from watchcache_server.informer.source import Source, Unverified
from watchcache_server.informer.streams import EventStream
from watchcache_server.informer.versions import Order, compare_versions
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.errors import AccessError, TransportError
from watchcache_server.kubernetes.pace import Pace
from watchcache_server.kubernetes.requests import resource_path, watch_request
from watchcache_server.kubernetes.slices import SlicedReader
from watchcache_server.kubernetes.verification import VerificationLimits, verify
from watchcache_server.model.states import Projection

__all__ = ["Ended", "PastLostError", "PastReader"]

# A bookmark comes two seconds before a watch ends.
_WATCH_SECONDS: Final = 3
_PAUSE_SECONDS: Final = 0.2
# A watch that is not at its end so long after it should be is dead.
_SPARE_SECONDS: Final = 3.0
# What fails so often in a row will fail again.
_ATTEMPTS: Final = 3
_LIMIT_SECONDS: Final = 30.0


class PastLostError(Exception):
    """What happened in between cannot be read any more; the text says why."""


class _NotNowError(Exception):
    """The API server failed in a way that may be over soon."""


class Ended:
    """The ends that were read: of objects that are gone, and of those that left the selector."""

    def __init__(self) -> None:
        self.deleted: list[Item] = []
        self.left: list[Item] = []


class PastReader:
    """Reads the past as one identity."""

    __slots__ = ("_access", "_limits", "_max_event_bytes", "_pace", "_reader", "_tenant")

    def __init__(
        self,
        access: ApiAccess,
        *,
        tenant: str,
        pace: Pace,
        max_event_bytes: int,
        limits: VerificationLimits,
        clock: Callable[[], float],
    ) -> None:
        """`tenant` is who shares in the pace: after a restart many pasts are read at one moment."""
        self._access = access
        self._tenant = tenant
        self._pace = pace
        self._max_event_bytes = max_event_bytes
        self._limits = limits
        self._reader = SlicedReader(clock)

    async def ended(self, source: Source, since: str, until: str) -> Ended:
        """Return what ended after version `since` and up to `until`, at which the source is.

        What ended later the source has yet to come to, and tells itself. Raises PastLostError.
        """
        if compare_versions(since, until) is Order.EQUAL:
            return Ended()
        if compare_versions(since, until) is not Order.OLDER:
            raise PastLostError("the API server is behind what was told, or was set back")
        ends: dict[str, Item] = {}
        await self._pace.take(self._tenant)
        try:
            async with asyncio.timeout(_LIMIT_SECONDS):
                await self._read_up_to(source, since, until, ends)
                return await self._sorted(source, ends)
        except TimeoutError:
            raise PastLostError(
                f"the API server did not tell of it within {_LIMIT_SECONDS:g} s"
            ) from None
        except (AccessError, _NotNowError) as error:
            raise PastLostError(str(error)) from error

    async def _read_up_to(
        self, source: Source, since: str, until: str, ends: dict[str, Item]
    ) -> None:
        """Read one watch after the other; what fails in passing is read again."""
        failures = 0
        while True:
            try:
                since = await self._read_in_time(source, since, until, ends)
                failures = 0
            except (TransportError, _NotNowError):
                failures += 1
                if failures == _ATTEMPTS:
                    raise
            if compare_versions(since, until) is not Order.OLDER:
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _read_in_time(
        self, source: Source, since: str, until: str, ends: dict[str, Item]
    ) -> str:
        try:
            async with asyncio.timeout(_WATCH_SECONDS + _SPARE_SECONDS):
                return await self._read(source, since, until, ends)
        except TimeoutError:
            raise _NotNowError("the API server leaves its watches open and silent") from None

    async def _read(self, source: Source, since: str, until: str, ends: dict[str, Item]) -> str:
        """Read one watch; return the version that it came to."""
        served = source.served
        if served is None:
            raise PastLostError("its kind is not served")
        request = watch_request(
            resource_path(
                served.group, served.version, served.resource, namespace=source.namespace
            ),
            resource_version=since,
            timeout_seconds=_WATCH_SECONDS,
            label_selector=source.spec.label_selector,
            field_selector=source.spec.field_selector,
            is_metadata_only=True,
        )
        decoder = EventDecoder(
            api_version=served.api_version, kind=served.kind, projection=Projection.METADATA
        )
        stream = EventStream(decoder, self._max_event_bytes)
        async with await self._access.open(request) as response:
            if response.status != 200:
                error = _NotNowError if _is_passing(response.status) else PastLostError
                raise error(f"the API server answered {response.status}")
            while chunk := await self._reader.chunk(response):
                for event in stream.feed(chunk):
                    since = _take(event, until, ends)
                if compare_versions(since, until) is not Order.OLDER:
                    break
        return since

    async def _sorted(self, source: Source, ends: Mapping[str, Item]) -> Ended:
        """Tell deletions from objects that only left the selector, by asking for each."""
        ended = Ended()
        served = source.served
        if not source.spec.is_selecting or served is None:
            ended.deleted.extend(ends.values())
            return ended

        def told(subject: Unverified, is_deleted: bool) -> None:
            (ended.deleted if is_deleted else ended.left).append(ends[subject.uid])

        subjects = [Unverified(item.namespace, item.name, item.uid) for item in ends.values()]
        await verify(self._access, lambda: served, subjects, self._limits, told)
        return ended


def _is_passing(code: int) -> bool:
    return code == 429 or code >= 500


def _take(event: WatchEvent, until: str, ends: dict[str, Item]) -> str:
    """Take an event in; return the version that the watch has come to."""
    match event:
        case StreamError():
            error = _NotNowError if _is_passing(event.status.code) else PastLostError
            raise error(
                f"the API server ended the watch: {event.status.code} {event.status.message}"
            )
        case Broken():
            raise PastLostError(f"an event could not be read: {event.error}")
        case Bookmark():
            return event.resource_version
    item = event.item
    if compare_versions(item.resource_version, until) is not Order.NEWER:
        if isinstance(event, Deleted):
            ends[item.uid] = item
        else:
            # Under a selector it has come back.
            ends.pop(item.uid, None)
    return item.resource_version
