"""The discovery documents of an API server, decoded into parts of a catalog.

Pure. Unknown fields are ignored; an entry without a kind (a placeholder for subresources) is left
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from watchcache_server.kubernetes.catalog import CatalogEntry, GroupVersion
from watchcache_server.kubernetes.json_reading import JsonError, read_json
from watchcache_server.model.resources import ServedResource

__all__ = [
    "ACCEPT_AGGREGATED",
    "DocumentError",
    "decode_aggregated",
    "decode_group_list",
    "decode_resource_list",
    "decode_version_list",
]

T = TypeVar("T", bound="_Document")

# The newest first; plain JSON last is what a server without aggregated discovery answers with.
ACCEPT_AGGREGATED: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json"
)


class DocumentError(ValueError):
    """A discovery document cannot be understood."""


class _Document(msgspec.Struct):
    kind: str | None = None


class _Named(msgspec.Struct):
    name: str | None = None


class _ResponseKind(msgspec.Struct):
    kind: str | None = None


class _AggregatedResource(msgspec.Struct):
    resource: str
    response_kind: _ResponseKind | None = msgspec.field(default=None, name="responseKind")
    scope: str | None = None
    singular: str | None = msgspec.field(default=None, name="singularResource")
    short_names: list[str] | None = msgspec.field(default=None, name="shortNames")
    verbs: list[str] | None = None


class _AggregatedVersion(msgspec.Struct):
    version: str
    resources: list[_AggregatedResource] | None = None
    freshness: str | None = None


class _AggregatedGroup(msgspec.Struct):
    metadata: _Named | None = None
    versions: list[_AggregatedVersion] | None = None


class _AggregatedList(_Document):
    items: list[_AggregatedGroup] | None = None


class _Version(msgspec.Struct):
    version: str


class _Group(msgspec.Struct):
    name: str
    versions: list[_Version] | None = None
    preferred: _Version | None = msgspec.field(default=None, name="preferredVersion")


class _GroupList(_Document):
    groups: list[_Group] | None = None


class _VersionList(_Document):
    versions: list[str] | None = None


class _Resource(msgspec.Struct):
    name: str
    kind: str | None = None
    is_namespaced: bool = msgspec.field(default=False, name="namespaced")
    singular: str | None = msgspec.field(default=None, name="singularName")
    short_names: list[str] | None = msgspec.field(default=None, name="shortNames")
    verbs: list[str] | None = None


class _ResourceList(_Document):
    resources: list[_Resource] | None = None


def decode_aggregated(body: bytes) -> list[GroupVersion] | None:
    """Return the versions in an aggregated document; None when it is a legacy one.

    Raises DocumentError.
    """
    document = _decode(body, _AggregatedList)
    if document.kind != "APIGroupDiscoveryList":
        return None
    return [
        GroupVersion(
            group,
            version.version,
            tuple(_aggregated_resources(group, version)),
            "the API server has not reached it lately" if version.freshness == "Stale" else "",
        )
        for item in document.items or ()
        for group in ((item.metadata.name if item.metadata else None) or "",)
        for version in item.versions or ()
    ]


def decode_version_list(body: bytes) -> list[str]:
    """Return the versions of the core group (the document at /api). Raises DocumentError."""
    return _decode(body, _VersionList, "APIVersions").versions or []


def decode_group_list(body: bytes) -> list[tuple[str, str]]:
    """Return (group, version) pairs, preferred versions first. Raises DocumentError."""
    pairs: list[tuple[str, str]] = []
    for group in _decode(body, _GroupList, "APIGroupList").groups or ():
        preferred = [group.preferred] if group.preferred else []
        versions = [*preferred, *(group.versions or ())]
        pairs += dict.fromkeys((group.name, version.version) for version in versions)
    return pairs


def decode_resource_list(group: str, version: str, body: bytes) -> GroupVersion:
    """Return what is served in one group and version (a legacy document). Raises DocumentError."""
    document = _decode(body, _ResourceList, "APIResourceList")
    return GroupVersion(
        group,
        version,
        tuple(
            CatalogEntry(
                ServedResource(
                    group=group,
                    version=version,
                    resource=each.name,
                    kind=each.kind,
                    is_namespaced=each.is_namespaced,
                    verbs=frozenset(each.verbs or ()),
                ),
                _other_names(each.singular, each.short_names),
            )
            for each in document.resources or ()
            if each.kind and "/" not in each.name
        ),
    )


def _aggregated_resources(group: str, version: _AggregatedVersion) -> Iterator[CatalogEntry]:
    for each in version.resources or ():
        kind = each.response_kind.kind if each.response_kind else None
        if not kind or not each.verbs:
            continue
        yield CatalogEntry(
            ServedResource(
                group=group,
                version=version.version,
                resource=each.resource,
                kind=kind,
                is_namespaced=each.scope == "Namespaced",
                verbs=frozenset(each.verbs),
            ),
            _other_names(each.singular, each.short_names),
        )


def _other_names(singular: str | None, short_names: list[str] | None) -> tuple[str, ...]:
    return tuple(name for name in (singular, *(short_names or ())) if name)


def _decode(body: bytes, model: type[T], kind: str = "") -> T:
    try:
        document = read_json(body, model)
    except JsonError as error:
        raise DocumentError(f"it is malformed: {error}") from error
    if kind and document.kind != kind:
        raise DocumentError(f"it is of kind {document.kind}, not {kind}")
    return document
