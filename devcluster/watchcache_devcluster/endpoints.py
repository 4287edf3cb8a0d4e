"""What each verb on each resource does: from a request that may proceed to its answer.

`Endpoints.handle` is given who asks for what, with which body, and returns a `Reply`, without
knowing about sockets. Watches are not handled here but by the server, which holds their connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from watchcache_devcluster import errors
from watchcache_devcluster.bodies import (
    duplicate_fields,
    read_delete_options,
    read_object,
    read_patch,
)
from watchcache_devcluster.commits import Commits
from watchcache_devcluster.deletion import Deleter
from watchcache_devcluster.listing import ListOptions, list_page
from watchcache_devcluster.options import WriteOptions
from watchcache_devcluster.patches import json_patch, merge_patch
from watchcache_devcluster.patching import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Patcher
from watchcache_devcluster.requests import RequestInfo
from watchcache_devcluster.resources import Catalog, Resource
from watchcache_devcluster.reviews import Reviews
from watchcache_devcluster.scales import replicas_of, scale_of
from watchcache_devcluster.storage import Record
from watchcache_devcluster.tokens import User
from watchcache_devcluster.views import View, negotiate
from watchcache_devcluster.writer import Writer

__all__ = ["Call", "Endpoints", "Reply"]

_encode = msgspec.json.Encoder().encode
_JSON = frozenset({"", "*/*", "application/json"})
_STATUS_VERBS = frozenset({"get", "patch", "update"})
_SUBRESOURCE_VERBS = {"finalize": frozenset({"update"}), "token": frozenset({"create"})}
_RETURNS_DELETED = frozenset(
    {"persistentvolumeclaims", "persistentvolumes", "pods", "serviceaccounts", "services"}
)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its status and the pieces of its body."""

    status: int
    pieces: Iterable[bytes]
    media_type: str = "application/json"
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a resource, with everything that the verbs need."""

    info: RequestInfo
    resource: Resource
    namespace: str
    name: str
    query: Mapping[str, str]
    view: View
    data: bytes
    media_type: str
    user: User
    agent: str

    def write_options(self) -> WriteOptions:
        """Return what the query says about a write (see `WriteOptions.parse`)."""
        duplicates: tuple[str, ...] = ()
        if self.query.get("fieldValidation") == "Strict" and self.media_type in _JSON:
            duplicates = duplicate_fields(self.data)
        return WriteOptions.parse(self.query, self.agent, self.info.verb, duplicates)

    def object(self) -> Any:
        """Return the object that the body holds."""
        return read_object(self.data, self.media_type, self.resource.kind)


class Endpoints:
    """Carries out requests to resources."""

    def __init__(
        self,
        commits: Commits,
        catalog: Catalog,
        writer: Writer,
        patcher: Patcher,
        deleter: Deleter,
        reviews: Reviews,
        fresh_timeout_seconds: float,
    ) -> None:
        self._commits = commits
        self._storage = commits.storage
        self._catalog = catalog
        self._writer = writer
        self._patcher = patcher
        self._deleter = deleter
        self._reviews = reviews
        self._fresh_timeout_seconds = fresh_timeout_seconds

    def resolve(self, info: RequestInfo) -> Resource:
        """Return the resource of a request, if its path fits the resource's scope.

        Raises:
            ApiError: 404 for a path that nothing serves, 405 for a verb that is not served there.
        """
        resource = self._catalog.find(info.group, info.version, info.resource)
        is_in_namespace = bool(info.namespace) and resource.table != "namespaces"
        if is_in_namespace and not resource.namespaced:
            raise self._catalog.missing(info.group)
        if resource.namespaced and not is_in_namespace:
            if info.path_name:
                raise self._catalog.missing(info.group)
            if info.verb not in {"list", "watch"}:
                raise errors.method_not_allowed()
        if info.subresource:
            if not _has_subresource(resource, info.subresource):
                if resource.is_custom and resource.table != "":
                    self._commits.require(resource, info.namespace, info.path_name)
                raise self._catalog.missing(info.group)
            if info.verb not in _SUBRESOURCE_VERBS.get(info.subresource, _STATUS_VERBS):
                raise errors.method_not_allowed()
            return resource
        needs_name = info.verb in {"delete", "get", "patch", "update"}
        takes_name = needs_name or info.verb == "watch"
        if (
            info.verb not in resource.verbs
            or (needs_name and not info.path_name)
            or (info.path_name and not takes_name)
        ):
            raise errors.method_not_allowed()
        return resource

    async def handle(self, call: Call) -> Reply:
        """Carry out a request, watches excepted."""
        info = call.info
        if info.subresource == "token":
            answer = self._reviews.request_token(call.namespace, call.name, call.object())
            return Reply(201, [_encode(answer)])
        if info.subresource == "scale":
            return self._scale(call)
        if call.resource.verbs == ("create",):
            answer = self._reviews.review(call.resource, call.namespace, call.object(), call.user)
            return Reply(201, [_encode(answer)])
        match info.verb:
            case "get":
                return await self._get(call)
            case "list":
                return await self._list(call)
            case "create":
                options = call.write_options()
                record = self._writer.create(call.resource, call.namespace, call.object(), options)
                return self._one(call, record, 201, options.warnings)
            case "update":
                options = call.write_options()
                record, is_new = self._writer.update(
                    call.resource,
                    call.namespace,
                    call.name,
                    call.object(),
                    options,
                    info.subresource,
                )
                return self._one(call, record, 201 if is_new else 200, options.warnings)
            case "patch":
                return self._patch(call)
            case "delete":
                return self._delete(call)
            case "deletecollection":
                return await self._delete_collection(call)
        raise errors.method_not_allowed()

    def _one(
        self, call: Call, record: Record, status: int = 200, warnings: Sequence[str] = ()
    ) -> Reply:
        return Reply(status, [call.view.render(record), b"\n"], warnings=warnings)

    def _current(self, call: Call) -> Record:
        return self._commits.require(call.resource, call.namespace, call.name)

    async def _get(self, call: Call) -> Reply:
        version = ListOptions(resource_version=call.query.get("resourceVersion", "")).version()
        if version > self._storage.resource_version and not await self._storage.reached(
            version, self._fresh_timeout_seconds
        ):
            raise errors.too_large_resource_version(version, self._storage.resource_version)
        return self._one(call, self._current(call))

    async def _list(self, call: Call) -> Reply:
        options = ListOptions.parse(call.query, call.resource, is_watch=False)
        page = await list_page(
            self._storage,
            self._storage.table(call.resource.table),
            self.scope(call),
            options,
            self._fresh_timeout_seconds,
        )
        metadata: dict[str, Any] = {"resourceVersion": str(page.resource_version)}
        if page.continue_token:
            metadata["continue"] = page.continue_token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        return Reply(200, call.view.render_list(page.records, metadata))

    def scope(self, call: Call) -> str | None:
        """Return the namespace that a collection is limited to, or None for all."""
        return call.namespace if call.namespace or not call.resource.namespaced else None

    def _patch(self, call: Call) -> Reply:
        patch = read_patch(call.data, call.media_type)
        if call.media_type == APPLY_PATCH and not call.query.get("fieldManager"):
            cause = errors.field_invalid(
                "fieldManager", "is required for apply patch", reason="FieldValueRequired"
            )
            raise errors.invalid_options("PatchOptions", [cause])
        if call.media_type != APPLY_PATCH and call.query.get("force"):
            cause = errors.field_invalid(
                "force", "may not be specified for non-apply patch", reason="FieldValueForbidden"
            )
            raise errors.invalid_options("PatchOptions", [cause])
        options = call.write_options()
        record, is_new = self._patcher.patch(
            call.resource,
            call.namespace,
            call.name,
            patch,
            call.media_type,
            options,
            call.info.subresource,
        )
        return self._one(call, record, 201 if is_new else 200, options.warnings)

    def _delete_wish(self, call: Call) -> dict[str, Any]:
        wish = read_delete_options(call.data, call.media_type)
        for field in ("propagationPolicy", "gracePeriodSeconds", "orphanDependents"):
            value: Any = call.query.get(field)
            if value is None:
                continue
            if field == "gracePeriodSeconds":
                if not value.lstrip("-").isdigit():
                    raise errors.bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')
                value = int(value)
            elif field == "orphanDependents":
                value = value.lower() in {"1", "true"}
            wish.setdefault(field, value)
        return wish

    def _delete_options(self, call: Call, wish: dict[str, Any]) -> WriteOptions:
        options = call.write_options()
        if wish.get("dryRun"):
            options = replace(options, dry_run=True)
        return options

    def _delete(self, call: Call) -> Reply:
        wish = self._delete_wish(call)
        record, is_gone = self._deleter.delete(
            call.resource, call.namespace, call.name, wish, self._delete_options(call, wish)
        )
        if not is_gone or call.resource.table in _RETURNS_DELETED:
            return self._one(call, record)
        details = {"name": call.name, "group": call.resource.group, "kind": call.resource.plural}
        details["uid"] = record.decode()["metadata"]["uid"]
        if not call.resource.group:
            del details["group"]
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }
        return Reply(200, [_encode(status), b"\n"])

    async def _delete_collection(self, call: Call) -> Reply:
        wish = self._delete_wish(call)
        options = self._delete_options(call, wish)
        chosen = await list_page(
            self._storage,
            self._storage.table(call.resource.table),
            self.scope(call),
            ListOptions.parse(call.query, call.resource, is_watch=False),
            self._fresh_timeout_seconds,
        )
        deleted = []
        for record in chosen.records:
            outcome, _ = self._deleter.delete(
                call.resource, record.namespace, record.name, wish, options
            )
            deleted.append(outcome)
        metadata = {"resourceVersion": str(self._storage.resource_version)}
        return Reply(200, call.view.render_list(deleted, metadata))

    def _scale(self, call: Call) -> Reply:
        current = self._current(call)
        tree = current.decode()
        if call.info.verb == "get":
            return Reply(200, [_encode(scale_of(tree))])
        if call.info.verb == "patch":
            shown, patch = scale_of(tree), read_patch(call.data, call.media_type)
            is_json_patch = call.media_type == JSON_PATCH
            body = json_patch(shown, patch) if is_json_patch else merge_patch(shown, patch)
        else:
            body = read_object(call.data, call.media_type, "Scale")
        replicas, version = replicas_of(call.namespace, call.name, body)
        change: dict[str, Any] = {"spec": {"replicas": replicas}}
        if version:
            change["metadata"] = {"resourceVersion": version}
        record, _ = self._patcher.patch(
            call.resource,
            call.namespace,
            call.name,
            change,
            MERGE_PATCH,
            call.write_options(),
        )
        return Reply(200, [_encode(scale_of(record.decode()))])

    def call(
        self,
        info: RequestInfo,
        query: Mapping[str, str],
        data: bytes,
        *,
        accept: str,
        media_type: str,
        user: User,
        agent: str,
    ) -> Call:
        """Put together a `Call`; negotiation and resolution happen here."""
        resource = self.resolve(info)
        view = negotiate(
            accept,
            resource,
            query.get("includeObject", ""),
            self._commits.clock,
            is_list=info.verb in {"deletecollection", "list"},
        )
        namespace = info.namespace if resource.namespaced else ""
        return Call(
            info,
            resource,
            namespace,
            info.path_name,
            query,
            view,
            data,
            media_type,
            user,
            agent,
        )


def _has_subresource(resource: Resource, name: str) -> bool:
    match name:
        case "status":
            return resource.has_status
        case "scale":
            return resource.has_scale
        case "token":
            return resource.table == "serviceaccounts"
        case "finalize":
            return resource.table == "namespaces"
    return False


async def in_slices(pieces: Iterable[bytes], size: int) -> AsyncIterator[bytes]:
    """Join small pieces into slices of about `size` bytes."""
    slice_: list[bytes] = []
    held = 0
    for piece in pieces:
        slice_.append(piece)
        held += len(piece)
        if held >= size:
            yield b"".join(slice_)
            slice_, held = [], 0
    if slice_:
        yield b"".join(slice_)
