"""What an extension wants, as plain values: checked, and the same for the same wish.

A spec names resources; `sources` multiplies them out into one `SourceSpec` for each informer. Two
specs that mean the same give equal `ExtensionSpec` values, which is what makes Register idempotent.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from watchcache_server.model.errors import InvalidRequestError
from watchcache_server.model.states import Projection

__all__ = ["ExtensionKey", "ExtensionSpec", "ResourceWatch", "SourceSpec", "overlap"]


class ExtensionKey(msgspec.Struct, frozen=True, order=True):
    """Namespace and name of an extension."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class SourceSpec(msgspec.Struct, frozen=True, order=True):
    """Identity of one informer within its extension.

    `version` may be empty (the server's preferred one). Exactly one of `resource` (plural) and
    `kind` may be empty. `namespace` empty means the whole cluster. `names` not empty: only these
    objects are kept, as (namespace, name). `is_scope_open`: the namespace counts only if the kind
    turns out to be namespaced; otherwise the whole cluster is meant. `indexes` are the field paths
    that its objects are indexed by.
    """

    cluster: str
    group: str
    version: str
    resource: str
    kind: str
    namespace: str
    label_selector: str
    field_selector: str
    projection: str
    names: tuple[tuple[str, str], ...] = ()
    is_scope_open: bool = False
    indexes: tuple[str, ...] = ()

    @property
    def type_name(self) -> str:
        """The resource or kind with its group, as kubectl writes it."""
        name = self.resource or self.kind
        return f"{name}.{self.group}" if self.group else name

    @property
    def is_selecting(self) -> bool:
        """Whether the API server's DELETED may only mean that a selector ceased to match.

        A selector on the name alone cannot cease to match.
        """
        if self.label_selector:
            return True
        return bool(self.field_selector) and not all(
            term.startswith(("metadata.name=", "metadata.namespace="))
            for term in self.field_selector.split(",")
        )

    @property
    def pinned_name(self) -> str:
        """The one name that the field selector lets through; empty when there is none."""
        for term in self.field_selector.split(","):
            if term.startswith("metadata.name="):
                return term.removeprefix("metadata.name=")
        return ""


class ResourceWatch(msgspec.Struct, frozen=True, order=True):
    """One entry of a watch set, checked and canonical. `namespaces` empty means all."""

    group: str
    version: str
    resource: str
    kind: str
    namespaces: tuple[str, ...] = ()
    label_selector: str = ""
    field_selector: str = ""
    projection: str = Projection.FULL.value
    names: tuple[tuple[str, str], ...] = ()
    is_scope_open: bool = False
    indexes: tuple[str, ...] = ()


class ExtensionSpec(msgspec.Struct, frozen=True):
    """What an extension wants, canonical: sorted and without repetitions."""

    service_account: str
    clusters: tuple[str, ...]
    resources: tuple[ResourceWatch, ...]
    ttl_seconds: float | None = None

    def sources(self) -> tuple[SourceSpec, ...]:
        """Return one SourceSpec for each informer, sorted.

        An entry that covers all namespaces swallows those that differ from it in their namespaces
        only. Raises InvalidRequestError when two entries would hold the same objects in different
        ways.
        """
        found = {
            SourceSpec(
                cluster=cluster,
                group=watch.group,
                version=watch.version,
                resource=watch.resource,
                kind=watch.kind,
                namespace=namespace,
                label_selector=watch.label_selector,
                field_selector=watch.field_selector,
                projection=watch.projection,
                names=names,
                is_scope_open=watch.is_scope_open,
                indexes=watch.indexes,
            )
            for watch in self.resources
            for namespace in (watch.namespaces or ("",))
            for names in [tuple(n for n in watch.names if namespace in ("", n[0]))]
            if names or not watch.names
            for cluster in self.clusters
        }
        wide = {source for source in found if not source.namespace}
        kept = sorted(
            source
            for source in found
            if not source.namespace or msgspec.structs.replace(source, namespace="") not in wide
        )
        _refuse_overlaps(sorted(kept, key=lambda source: bool(source.namespace)))
        return tuple(kept)


def _refuse_overlaps(sources: Iterable[SourceSpec]) -> None:
    wide: dict[tuple[str, str, str], list[SourceSpec]] = {}
    narrow: dict[tuple[str, str, str, str], list[SourceSpec]] = {}
    for source in sources:
        type_key = (source.cluster, source.group, source.resource or source.kind)
        rivals = wide.setdefault(type_key, [])
        # The order of the input puts the cluster-wide sources of a type before its namespaced ones.
        local = narrow.setdefault((*type_key, source.namespace), []) if source.namespace else []
        for rival in (*rivals, *local):
            if overlap(rival, source):
                raise _overlap_error(rival, source)
        (local if source.namespace else rivals).append(source)


def _overlap_error(first: SourceSpec, second: SourceSpec) -> InvalidRequestError:
    namespace = first.namespace or second.namespace
    scope = f"namespace {namespace}" if namespace else "all namespaces"
    return InvalidRequestError.of(
        "spec.resources",
        f"two entries cover the same {first.type_name} objects in {scope} with different "
        "selectors, versions or projections; an object can have one source only: join them into "
        "one entry, or register two extensions",
        reason="OVERLAPPING_WATCHES",
    )


def overlap(first: SourceSpec, second: SourceSpec) -> bool:
    """Tell whether two different sources of one type could hold the same object."""
    if first.namespace and second.namespace and first.namespace != second.namespace:
        return False
    if first.pinned_name and second.pinned_name and first.pinned_name != second.pinned_name:
        return False
    return not (first.names and second.names and not set(first.names) & set(second.names))
