"""ListExtensions and WatchExtensions: the extensions and how they are doing."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Final

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.model.errors import InvalidRequestError, ServiceDrainingError
from watchcache_server.model.names import dns_label_problem, dns_subdomain_problem
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.serving.conversion import to_timestamp
from watchcache_server.serving.describing import extension_message
from watchcache_server.serving.reading import page_size_of
from watchcache_server.serving.writing import PatientWriter, Writer

__all__ = ["ExtensionListing"]

_PAGE_SIZE: Final = 100
_LARGEST_PAGE: Final = 1000
_PAGE_BYTES: Final = 1024 * 1024
_HEARTBEAT_SECONDS: Final = 30.0


class ExtensionListing:
    """Serves what concerns extensions as a whole."""

    def __init__(
        self,
        registry: ExtensionRegistry,
        *,
        stalled_seconds: float,
        wall_clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._stalled_seconds = stalled_seconds
        self._wall_clock = wall_clock

    async def list(self, request: pb.ListExtensionsRequest) -> pb.ListExtensionsResponse:
        """Return a page of extensions, ordered by namespace and name."""
        _check_scope(request.namespace, "")
        limit = page_size_of(request.page_size, _PAGE_SIZE, _LARGEST_PAGE)
        after = _decode_token(request.page_token)
        response = pb.ListExtensionsResponse()
        size = 0
        last: ExtensionKey | None = None
        for extension in self._registry.extensions(request.namespace):
            if extension.ended or (after is not None and extension.key <= after):
                continue
            message = extension_message(extension, self._registry)
            size += message.ByteSize()
            is_full = len(response.extensions) >= limit or size > _PAGE_BYTES
            if last is not None and is_full:
                response.next_page_token = base64.urlsafe_b64encode(str(last).encode()).decode()
                break
            response.extensions.append(message)
            last = extension.key
            # Those with hundreds of informers take a millisecond each.
            await asyncio.sleep(0)
        return response

    async def watch(self, request: pb.WatchExtensionsRequest, writer: Writer) -> None:
        """Send the present state of the extensions asked for, then each change."""
        _check_scope(request.namespace, request.name)
        patient = PatientWriter(
            writer,
            limit_seconds=self._stalled_seconds,
            subject="WatchExtensions stream",
            stalled=lambda: None,
        )
        sent: dict[ExtensionKey, str] = {}
        version = -1
        is_first = True
        while True:
            since, version = version, self._registry.version
            await self._say_changes(request, patient, sent, since)
            if is_first:
                is_first = False
                await self._say_synced(patient)
            if self._registry.is_draining:
                raise ServiceDrainingError
            if self._registry.version != version:
                continue
            if not await self._registry.pulse.wait(_HEARTBEAT_SECONDS):
                await self._say_synced(patient)

    async def _say_changes(
        self,
        request: pb.WatchExtensionsRequest,
        writer: Writer,
        sent: dict[ExtensionKey, str],
        since: int,
    ) -> None:
        """Say what has changed since a version; `sent` are the uids of what was sent."""
        registry = self._registry
        present = {
            each.key: each
            for each in registry.extensions(request.namespace)
            if request.name in ("", each.key.name)
        }
        for key in [key for key in sent if key not in present]:
            del sent[key]
            reason = registry.ended.get(key, "DEREGISTERED")
            removed = pb.RemovedExtension(namespace=key.namespace, name=key.name, reason=reason)
            await _write(writer, pb.WatchExtensionsResponse(removed=removed))
        for key, extension in present.items():
            is_news = sent.get(key) != extension.uid or extension.registry_version > since
            # One that ended during a write is said to be removed in the next round.
            if is_news and not extension.ended:
                sent[key] = extension.uid
                message = extension_message(extension, registry)
                await _write(writer, pb.WatchExtensionsResponse(extension=message))

    async def _say_synced(self, writer: Writer) -> None:
        synced = pb.ExtensionsSynced(time=to_timestamp(self._wall_clock()))
        await _write(writer, pb.WatchExtensionsResponse(synced=synced))


async def _write(writer: Writer, message: pb.WatchExtensionsResponse) -> None:
    await writer.write(message.SerializeToString())


def _check_scope(namespace: str, name: str) -> None:
    problem = dns_label_problem(namespace) if namespace else None
    if problem is not None:
        raise InvalidRequestError.of("namespace", problem)
    if not name:
        return
    if not namespace:
        raise InvalidRequestError.of("namespace", "is required when a name is given")
    problem = dns_subdomain_problem(name)
    if problem is not None:
        raise InvalidRequestError.of("name", problem)


def _decode_token(token: str) -> ExtensionKey | None:
    if not token:
        return None
    try:
        text = base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except ValueError:
        text = ""
    namespace, slash, name = text.partition("/")
    if not slash or dns_label_problem(namespace) or dns_subdomain_problem(name):
        raise InvalidRequestError.of(
            "page_token",
            "is none of ours, or was altered; send next_page_token as it came",
            reason="PAGE_TOKEN_INVALID",
        )
    return ExtensionKey(namespace, name)
