"""UploadKnown: what clients say they hold, kept for a while under a handle."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.informer.held import RECORD_BYTES, Known, KnownGroup
from watchcache_server.model.errors import (
    InvalidRequestError,
    KnownNotFoundError,
    LimitExceededError,
)
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.serving.conversion import PROJECTIONS, extension_key, to_duration
from watchcache_server.settings import Settings

__all__ = ["KnownUploads"]

_HANDLE_BYTES: Final = 16
# So many records are taken in before the event loop is left to others.
_SLICE: Final = 4096


class _Upload(NamedTuple):
    key: ExtensionKey
    known: Known
    object_count: int
    expiry: asyncio.TimerHandle


class KnownUploads:
    """The uploads that nobody has used yet."""

    def __init__(self, registry: ExtensionRegistry, settings: Settings) -> None:
        self._registry = registry
        self._settings = settings
        self._uploads: dict[bytes, _Upload] = {}
        #: Objects of all uploads, those under way included.
        self.object_count = 0

    async def take(self, requests: AsyncIterator[pb.UploadKnownRequest]) -> pb.UploadKnownResponse:
        """Take an upload. Raises InvalidRequestError or LimitExceededError."""
        known, key, count = Known(), None, 0
        try:
            while (request := await self._next(requests)) is not None:
                if key is None:
                    key = self._registry.get(extension_key(request.namespace, request.name)).key
                for index, group in enumerate(request.groups):
                    packed = _checked(f"groups[{index}].objects", group)
                    size = len(packed) // RECORD_BYTES
                    self._make_room(size)
                    count += size
                    await _add(known, _group(group), packed)
            if key is None:
                raise InvalidRequestError.of(
                    "namespace", "is missing; send at least one message, which names the extension"
                )
        except BaseException:
            self.object_count -= count
            raise
        handle = secrets.token_bytes(_HANDLE_BYTES)
        seconds = self._settings.known_seconds
        expiry = asyncio.get_running_loop().call_later(seconds, self._forget, handle)
        self._uploads[handle] = _Upload(key, known, count, expiry)
        return pb.UploadKnownResponse(
            handle=handle, object_count=count, expires_after=to_duration(seconds)
        )

    def redeem(self, extension: Extension, handle: bytes) -> Known:
        """Return what was uploaded under a handle, once. Raises KnownNotFoundError."""
        upload = self._uploads.get(handle)
        if upload is None or upload.key != extension.key:
            raise KnownNotFoundError
        upload.expiry.cancel()
        self._forget(handle)
        return upload.known

    async def _next(
        self, requests: AsyncIterator[pb.UploadKnownRequest]
    ) -> pb.UploadKnownRequest | None:
        seconds = self._settings.stalled_write_seconds
        try:
            async with asyncio.timeout(seconds):
                return await anext(requests, None)
        except TimeoutError as error:
            raise LimitExceededError(
                "UploadKnown",
                f"nothing came for {seconds:g} s; upload again, without pauses",
                setting="stalled_write_seconds",
            ) from error

    def _make_room(self, count: int) -> None:
        limit = self._settings.max_known_objects
        if self.object_count + count > limit:
            raise LimitExceededError(
                "UploadKnown",
                f"more than {limit} objects are uploaded at a time; watch without, from a "
                "snapshot, or raise the setting max_known_objects",
                setting="max_known_objects",
            )
        self.object_count += count

    def _forget(self, handle: bytes) -> None:
        self.object_count -= self._uploads.pop(handle).object_count


def _checked(field: str, group: pb.KnownObjects) -> bytes:
    packed = group.objects
    if not packed or len(packed) % RECORD_BYTES:
        raise InvalidRequestError.of(
            field,
            f"has {len(packed)} bytes; it needs {RECORD_BYTES} for each object: an id of 16 and a "
            "version of 8",
        )
    return packed


def _group(group: pb.KnownObjects) -> KnownGroup:
    projection = PROJECTIONS.get(group.projection)
    return KnownGroup(
        cluster=group.cluster,
        group=group.group,
        resource=group.resource,
        namespace=group.namespace,
        version=group.version,
        # One that is not known here is none that is held here.
        projection=projection.value if projection is not None else "",
    )


async def _add(known: Known, group: KnownGroup, packed: bytes) -> None:
    step = _SLICE * RECORD_BYTES
    for start in range(0, len(packed), step):
        known.add(group, packed[start : start + step])
        await asyncio.sleep(0)
