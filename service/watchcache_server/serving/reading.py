"""GetObject and ListObjects: reads from the cache.

A list goes on in slices that leave the event loop to others, and from place to place, so that what
changes in between does not disturb it.
"""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

import msgspec

from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.namespaces import ChosenScope
from watchcache_server.extensions.observed import Observed
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.informer.comparison import Scope
from watchcache_server.informer.entries import Entry
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.source import Source
from watchcache_server.informer.source_scope import SourceScope
from watchcache_server.informer.store import Found, Position
from watchcache_server.model.errors import (
    ExtensionNotFoundError,
    FieldViolation,
    InvalidRequestError,
    NotSyncedError,
    ObjectNotFoundError,
)
from watchcache_server.model.names import (
    dns_label_problem,
    dns_subdomain_problem,
    path_segment_problem,
)
from watchcache_server.model.states import SourceState
from watchcache_server.serving.conversion import (
    consistency_of,
    extension_key,
    filter_of,
    to_timestamp,
    view_of,
)
from watchcache_server.serving.fresh_reads import FreshReads, not_synced
from watchcache_server.serving.indexed import require_indexed
from watchcache_server.serving.unwatched import elsewhere, instead_of
from watchcache_server.serving.wire import object_field

__all__ = ["Reading", "page_size_of"]

_PAGE_SIZE: Final = 500
_LARGEST_PAGE: Final = 5000
_PAGE_BYTES: Final = 1024 * 1024
# So many objects are looked at in one go, which takes a millisecond or two.
_SLICE_OBJECTS: Final = 64
_SLICE_SCANNED: Final = 1024


class _PageToken(msgspec.Struct, array_like=True, frozen=True):
    """What a page token holds: a digest of what was asked for, and where the page before ended."""

    question: bytes
    source: tuple[str, ...]
    namespace: str
    name: str


class Reading:
    """Serves reads."""

    def __init__(
        self,
        registry: ExtensionRegistry,
        default_cluster: str,
        *,
        longest_wait_seconds: float = 30.0,
    ) -> None:
        """`longest_wait_seconds` bounds how long a call waits for informers to be fresh."""
        self._registry = registry
        self._default_cluster = default_cluster
        self._longest_wait_seconds = longest_wait_seconds
        self._fresh_reads = FreshReads(registry)

    async def get(self, request: pb.GetObjectRequest) -> pb.GetObjectResponse:
        """Return one object.

        Raises ObjectNotFoundError only when the informer that would hold it is synced; else
        NotSyncedError. NotFreshEnoughError when it is not as fresh as asked for in time.
        """
        extension = self._registry.get(extension_key(request.namespace, request.name))
        view = view_of(request.view)
        key = request.key
        _check_key(key)
        cluster = key.cluster or self._default_cluster
        asked = consistency_of(request.consistency, self._longest_wait_seconds)
        if asked is not None:
            await self._fresh_reads.wait(
                extension,
                asked,
                lambda: _awaited(extension, cluster, key),
                lambda informer: (_scope_in(informer, key),),
            )
        sources, found = extension.store.find(
            cluster, key.group, key.resource, key.namespace, key.name
        )
        if found is None:
            raise _missing(extension, sources, cluster, key)
        return pb.GetObjectResponse(
            object=event_pb2.Object.FromString(
                b"".join(object_field(found.source, found.entry, view))
            ),
            freshness=_freshness(extension.informers_of([found.source])),
        )

    async def list(self, request: pb.ListObjectsRequest) -> pb.ListObjectsResponse:
        """Return a page of objects.

        Raises NotSyncedError when no informer in view has synced, and NotFreshEnoughError when one
        is not as fresh as asked for in time.
        """
        extension = self._registry.get(extension_key(request.namespace, request.name))
        view = view_of(request.view)
        wanted = filter_of(request.filter)
        limit = page_size_of(request.page_size, _PAGE_SIZE, _LARGEST_PAGE)
        question = extension.store.epoch + wanted.digest + request.owner_uid.encode()
        after = _decode_token(request.page_token, question)
        require_indexed(extension, wanted)
        asked = consistency_of(request.consistency, self._longest_wait_seconds)
        if asked is not None and after is None:
            await self._fresh_reads.wait_for(extension, asked, wanted)
        sources = extension.store.sources(wanted)
        _require_synced(extension, sources, wanted)
        told: list[Informer | ChosenScope] = [*extension.informers_of(sources)]
        told += extension.chosen_in(wanted)
        response = pb.ListObjectsResponse(freshness=_freshness(told))
        size = 0
        last: Position | None = None
        async for found in _objects(extension, wanted, request.owner_uid, after):
            encoded = b"".join(object_field(found.source, found.entry, view))
            size += len(encoded)
            is_full = len(response.objects) >= limit or size > _PAGE_BYTES
            if last is not None and is_full:
                response.next_page_token = _encode_token(question, last)
                break
            response.objects.append(event_pb2.Object.FromString(encoded))
            last = extension.store.position(found)
        return response


def _check_key(key: event_pb2.ObjectKey) -> None:
    """Raise InvalidRequestError when there can be no such object."""
    problems = {
        "key.group": key.group and dns_subdomain_problem(key.group),
        "key.resource": dns_subdomain_problem(key.resource)
        if key.resource
        else "is required: the plural name, such as pods",
        "key.namespace": key.namespace and dns_label_problem(key.namespace),
        "key.name": path_segment_problem(key.name),
    }
    violations = [FieldViolation(field, text) for field, text in problems.items() if text]
    if violations:
        raise InvalidRequestError(violations)


async def _objects(
    extension: Extension, wanted: Filter, owner_uid: str, after: Position | None
) -> AsyncIterator[Found]:
    """Yield objects in the order of lists, with pauses for others.

    Raises ExtensionNotFoundError when the extension ends meanwhile.
    """
    store = extension.store
    # Labels are looked at here, so that a pause comes even where none match.
    place, wide = after, msgspec.structs.replace(wanted, label_selector="", fields=())
    is_more = True
    while is_more:
        is_more = False
        objects = (
            store.owned(wide, owner_uid, place) if owner_uid else store.candidates(wanted, place)
        )
        yielded = 0
        for scanned, found in enumerate(objects, 1):
            if _passes(wanted, found.entry):
                yielded += 1
                yield found
            if yielded >= _SLICE_OBJECTS or scanned >= _SLICE_SCANNED:
                place, is_more = store.position(found), True
                break
        if is_more:
            await asyncio.sleep(0)
            if extension.ended:
                key = extension.key
                raise ExtensionNotFoundError(key.namespace, key.name, why=extension.ended)


def _passes(wanted: Filter, entry: Entry) -> bool:
    return wanted.passes(entry.namespace, entry.labels, entry.fields)


def _freshness(told: Iterable[Informer | ChosenScope]) -> pb.Freshness:
    statuses = [each.status for each in told]
    contacts = [status.last_contact_time for status in statuses]
    known = [contact for contact in contacts if contact is not None]
    return pb.Freshness(
        is_live=all(status.state is SourceState.LIVE for status in statuses),
        last_contact_time=to_timestamp(min(known)) if known else None,
    )


def _missing(
    extension: Extension, sources: list[Source], cluster: str, key: event_pb2.ObjectKey
) -> Exception:
    """Return the error that says why there is no such object in the cache."""
    type_name = f"{key.resource}.{key.group}" if key.group else key.resource
    name = f"{key.namespace}/{key.name}" if key.namespace else key.name
    what = f"{type_name} {name} in cluster {cluster}"
    holders = _possible_holders(extension, sources, cluster, key)
    informers = extension.informers_of(holders)
    if not informers:
        chosen = extension.chosen_of(cluster, key.group, key.resource) if key.namespace else []
        for each in chosen:
            known = each.informer
            if key.namespace in (known.names or ()) or not known.is_synced:
                return not_synced(what, known)
        if chosen:
            selectors = " or ".join(sorted({each.choice.namespaces.selector for each in chosen}))
            told = f"its namespace does not match {selectors}, by which the spec chooses them"
            return NotSyncedError(what, told, is_transient=False)
        every = _watched(extension)
        hint = elsewhere(every, cluster, key.group, key.resource, key.namespace)
        if not hint:
            hint = f"add it to the spec; {instead_of(every, [(key.group, key.resource)])}"
        told = f"extension {extension.key} does not watch it; {hint}"
        return NotSyncedError(what, told, is_transient=False)
    if any(source.has_place(key.namespace, key.name) for source in holders):
        return ObjectNotFoundError(f"{what}: there is none")
    if all(source.is_synced for source in holders):
        return ObjectNotFoundError(f"{what}: there is none that matches the selectors of the spec")
    return not_synced(what, next(each for each in informers if not each.is_synced))


def _watched(extension: Extension) -> list[SourceScope]:
    chosen = [each.source for each in extension.chosen.values()]
    return [*extension.store.sources(Filter()), *chosen]


def _possible_holders(
    extension: Extension, sources: list[Source], cluster: str, key: event_pb2.ObjectKey
) -> list[Source]:
    # An informer of which only the kind is known so far may be the one.
    nameless = [
        source
        for source in extension.store.sources(Filter(clusters=(cluster,)))
        if not source.resource and source.group == key.group
    ]
    return [source for source in sources if _lets_through(source, key)] or nameless


def _holders(extension: Extension, cluster: str, key: event_pb2.ObjectKey) -> list[Informer]:
    """Return the informers that would hold an object; what is about to go does not count."""
    sources, _ = extension.store.find(cluster, key.group, key.resource, key.namespace, key.name)
    holders = _possible_holders(extension, sources, cluster, key)
    return [each for each in extension.informers_of(holders) if not each.source.is_retiring]


def _awaited(extension: Extension, cluster: str, key: event_pb2.ObjectKey) -> Sequence[Observed]:
    """Return the informers that would hold an object, or that know whether there is to be one."""
    chosen = extension.chosen_of(cluster, key.group, key.resource) if key.namespace else []
    return _holders(extension, cluster, key) or [each.informer for each in chosen]


def _scope_in(informer: Observed, key: event_pb2.ObjectKey) -> Scope:
    if isinstance(informer, Informer):
        return Scope(key.namespace, key.name)
    return Scope(name=key.namespace)


def _lets_through(source: Source, key: event_pb2.ObjectKey) -> bool:
    """Tell whether the names in the spec of a source, if any, let an object through."""
    scope = source.scope
    is_named = not scope.names or (key.namespace, key.name) in scope.names
    return is_named and scope.pinned_name in ("", key.name)


def _require_synced(extension: Extension, sources: list[Source], wanted: Filter) -> None:
    """Refuse when nothing in view has synced: an empty answer would say that there is nothing."""
    if any(source.is_synced for source in sources):
        return
    what = f"objects of extension {extension.key}"
    informers = extension.informers_of(sources)
    if informers:
        raise not_synced(what, informers[0])
    chosen = extension.chosen_in(wanted)
    if any(each.informer.is_synced for each in chosen):
        # No namespace matches.
        return
    if chosen:
        raise not_synced(what, chosen[0].informer)
    if wanted != Filter() or extension.told():
        hint = instead_of(_watched(extension), wanted.resources)
        raise NotSyncedError(
            what,
            f"nothing that the filter lets through is watched; {hint}",
            is_transient=False,
        )


def page_size_of(asked: int, default: int, largest: int) -> int:
    """Return the page size to use. Raises InvalidRequestError when it is negative."""
    if asked < 0:
        raise InvalidRequestError.of(
            "page_size", f"{asked} is negative; use 0 for the default of {default}"
        )
    return min(asked or default, largest)


def _encode_token(question: bytes, place: Position) -> str:
    body = msgspec.msgpack.encode(_PageToken(question, *place))
    return base64.urlsafe_b64encode(body + struct.pack(">I", zlib.crc32(body))).decode()


def _decode_token(token: str, question: bytes) -> Position | None:
    if not token:
        return None
    altered = InvalidRequestError.of(
        "page_token",
        "is none of ours, or was altered; send next_page_token as it came, or none to begin anew",
        reason="PAGE_TOKEN_INVALID",
    )
    try:
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
        body, checksum = raw[:-4], raw[-4:]
        if struct.pack(">I", zlib.crc32(body)) != checksum:
            raise altered
        found = msgspec.msgpack.decode(body, type=_PageToken)
    except (ValueError, msgspec.MsgspecError) as error:
        raise altered from error
    if found.question != question:
        raise InvalidRequestError.of(
            "page_token",
            "belongs to another filter or owner; keep the request the same for all pages",
            reason="PAGE_TOKEN_INVALID",
        )
    return Position(found.source, found.namespace, found.name)
