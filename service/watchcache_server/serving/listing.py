"""ListExtensions and WatchExtensions: the extensions and how they are doing."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from typing import Final

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.model.errors import InvalidRequestError, ServiceDrainingError
from watchcache_server.model.names import dns_label_problem, dns_subdomain_problem
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.serving.conversion import to_timestamp
from watchcache_server.serving.describing import extension_message
from watchcache_server.serving.reading import page_size_of
from watchcache_server.serving.watching import Writer

__all__ = ["ExtensionListing"]

_PAGE_SIZE: Final = 100
_LARGEST_PAGE: Final = 1000
_HEARTBEAT_SECONDS: Final = 30.0
_WRITE_SECONDS: Final = 60.0


class ExtensionListing:
    """Serves what concerns extensions as a whole."""

    def __init__(self, registry: ExtensionRegistry) -> None:
        self._registry = registry

    def list(self, request: pb.ListExtensionsRequest) -> pb.ListExtensionsResponse:
        """Return a page of extensions, ordered by namespace and name."""
        _check_scope(request.namespace, "")
        limit = page_size_of(request.page_size, _PAGE_SIZE, _LARGEST_PAGE)
        after = _decode_token(request.page_token)
        found = [
            extension
            for extension in self._registry.extensions(request.namespace)
            if after is None or extension.key > after
        ]
        response = pb.ListExtensionsResponse(
            extensions=[extension_message(each, self._registry) for each in found[:limit]]
        )
        if len(found) > limit:
            last = str(found[limit - 1].key)
            response.next_page_token = base64.urlsafe_b64encode(last.encode()).decode()
        return response

    async def watch(self, request: pb.WatchExtensionsRequest, writer: Writer) -> None:
        """Send the present state of the extensions asked for, then each change."""
        _check_scope(request.namespace, request.name)
        registry = self._registry
        sent: dict[ExtensionKey, str] = {}
        version = -1
        is_first = True
        while True:
            since, version = version, registry.version
            present = {
                each.key: each
                for each in registry.extensions(request.namespace)
                if request.name in ("", each.key.name)
            }
            for key in [key for key in sent if key not in present]:
                del sent[key]
                removed = pb.RemovedExtension(
                    namespace=key.namespace,
                    name=key.name,
                    reason=registry.ended.get(key, "DEREGISTERED"),
                )
                await _write(writer, pb.WatchExtensionsResponse(removed=removed))
            for key, extension in present.items():
                if sent.get(key) != extension.uid or extension.registry_version > since:
                    sent[key] = extension.uid
                    message = extension_message(extension, registry)
                    await _write(writer, pb.WatchExtensionsResponse(extension=message))
            if is_first:
                is_first = False
                await _write(writer, _synced())
            if registry.is_draining:
                raise ServiceDrainingError
            if registry.version == version and not await registry.pulse.wait(_HEARTBEAT_SECONDS):
                await _write(writer, _synced())


def _synced() -> pb.WatchExtensionsResponse:
    return pb.WatchExtensionsResponse(synced=pb.ExtensionsSynced(time=to_timestamp(time.time())))


async def _write(writer: Writer, message: pb.WatchExtensionsResponse) -> None:
    async with asyncio.timeout(_WRITE_SECONDS):
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
    except (binascii.Error, UnicodeDecodeError):
        text = ""
    namespace, slash, name = text.partition("/")
    if not slash or dns_label_problem(namespace) or dns_subdomain_problem(name):
        raise InvalidRequestError.of(
            "page_token",
            "is none of ours, or was altered; send next_page_token as it came",
            reason="PAGE_TOKEN_INVALID",
        )
    return ExtensionKey(namespace, name)
