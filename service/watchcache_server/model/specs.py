"""What an extension wants, as plain values: checked, and the same for the same wish.

A spec names resources; `sources` multiplies them out into one `SourceSpec` for each informer, and
`choices` into what chooses further ones while it runs. Two specs that mean the same give equal
`ExtensionSpec` values, which is what makes Register idempotent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from watchcache_server.model.errors import InvalidRequestError
from watchcache_server.model.states import Projection

__all__ = [
    "Choice",
    "ExtensionKey",
    "ExtensionSpec",
    "NamespaceSet",
    "ResourceWatch",
    "SourceSpec",
    "overlap",
]


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
    def text_bytes(self) -> int:
        """Size of the selectors and paths that each description of the informer repeats."""
        return len("".join((self.label_selector, self.field_selector, *self.indexes)).encode())

    @property
    def wide(self) -> SourceSpec:
        """The same of all namespaces."""
        return msgspec.structs.replace(self, namespace="")

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


class NamespaceSet(msgspec.Struct, frozen=True, order=True):
    """The namespaces of a cluster that match a label selector, in canonical form; never empty."""

    cluster: str
    selector: str

    @property
    def source(self) -> SourceSpec:
        """What is read to know them."""
        return SourceSpec(
            cluster=self.cluster,
            group="",
            version="v1",
            resource="namespaces",
            kind="",
            namespace="",
            label_selector=self.selector,
            field_selector="",
            projection=Projection.METADATA.value,
        )


class Choice(msgspec.Struct, frozen=True, order=True):
    """What is watched in each namespace of a set: `scope` is the source without its namespace."""

    scope: SourceSpec
    namespaces: NamespaceSet

    def source_in(self, namespace: str) -> SourceSpec:
        """Return the source of one namespace."""
        return msgspec.structs.replace(self.scope, namespace=namespace)


class ResourceWatch(msgspec.Struct, frozen=True, order=True):
    """One entry of a watch set, checked and canonical.

    `namespaces` empty means all, or those that match `namespace_selector` if that is not empty.
    """

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
    namespace_selector: str = ""

    @property
    def text_bytes(self) -> int:
        """Size of the selectors and paths that descriptions repeat."""
        selectors = self.label_selector, self.field_selector, self.namespace_selector
        return len("".join((*selectors, *self.indexes)).encode())

    def sources(self, cluster: str) -> Iterator[SourceSpec]:
        """Yield a source for each namespace on a cluster, as if nothing chose them."""
        for namespace in self.namespaces or ("",):
            names = tuple(n for n in self.names if namespace in ("", n[0]))
            if names or not self.names:
                yield SourceSpec(
                    cluster=cluster,
                    group=self.group,
                    version=self.version,
                    resource=self.resource,
                    kind=self.kind,
                    namespace=namespace,
                    label_selector=self.label_selector,
                    field_selector=self.field_selector,
                    projection=self.projection,
                    names=names,
                    is_scope_open=self.is_scope_open,
                    indexes=self.indexes,
                )


class ExtensionSpec(msgspec.Struct, frozen=True):
    """What an extension wants, canonical: sorted and without repetitions."""

    service_account: str
    clusters: tuple[str, ...]
    resources: tuple[ResourceWatch, ...]
    ttl_seconds: float | None = None

    def sources(self) -> tuple[SourceSpec, ...]:
        """Return one SourceSpec for each informer that the spec names, sorted.

        An entry that covers all namespaces swallows those that differ from it in their namespaces
        only. Raises InvalidRequestError when two entries would hold the same objects in different
        ways, or could, by the namespaces that are chosen for them.
        """
        found = self._multiplied(self._named)
        wide = {source for source in found if not source.namespace}
        kept = sorted(source for source in found if source in wide or source.wide not in wide)
        chosen = {choice.scope for choice in self.choices()}
        # What is chosen may be anywhere. Where it is named too, it is one and the same source.
        apart = [source for source in kept if not (source.namespace and source.wide in chosen)]
        _refuse_overlaps({*apart, *chosen}, chosen)
        return tuple(kept)

    def choices(self) -> tuple[Choice, ...]:
        """Return what is watched in namespaces that a selector chooses, sorted.

        What an entry that covers all namespaces has swallowed is not among it.
        """
        wide = {source for source in self._multiplied(self._named) if not source.namespace}
        found = {
            Choice(scope, NamespaceSet(cluster, watch.namespace_selector))
            for watch in self.resources
            if watch.namespace_selector
            for cluster in self.clusters
            for scope in watch.sources(cluster)
            if scope not in wide
        }
        return tuple(sorted(found))

    @property
    def _named(self) -> list[ResourceWatch]:
        return [watch for watch in self.resources if not watch.namespace_selector]

    def _multiplied(self, watches: Iterable[ResourceWatch]) -> set[SourceSpec]:
        return {
            source
            for watch in watches
            for cluster in self.clusters
            for source in watch.sources(cluster)
        }


def _refuse_overlaps(sources: Iterable[SourceSpec], chosen: Collection[SourceSpec]) -> None:
    wide: dict[tuple[str, str, str], list[SourceSpec]] = {}
    narrow: dict[tuple[str, str, str, str], list[SourceSpec]] = {}
    for source in sorted(sources, key=lambda each: (bool(each.namespace), each)):
        type_key = (source.cluster, source.group, source.resource or source.kind)
        rivals = wide.setdefault(type_key, [])
        # The order puts the cluster-wide sources of a type before its namespaced ones.
        local = narrow.setdefault((*type_key, source.namespace), []) if source.namespace else []
        for rival in (*rivals, *local):
            if overlap(rival, source):
                raise _overlap_error(
                    rival, source, is_chosen=not {rival, source}.isdisjoint(chosen)
                )
        (local if source.namespace else rivals).append(source)


def _overlap_error(
    first: SourceSpec, second: SourceSpec, *, is_chosen: bool
) -> InvalidRequestError:
    namespace = first.namespace or second.namespace
    scope = f"namespace {namespace}" if namespace else "all namespaces"
    cover = "cover"
    if is_chosen:
        cover = "could cover"
        scope = namespace and f"{scope}, should its labels match a namespace_selector,"
        scope = scope or "namespaces that match a namespace_selector"
    return InvalidRequestError.of(
        "spec.resources",
        f"two entries {cover} the same {first.type_name} objects in {scope} with different "
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
