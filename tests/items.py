"""Short ways to make what the store is fed with: objects, specs of sources, served resources."""

from __future__ import annotations

import json
from collections.abc import Iterable

from watchcache_server.informer.objects import Item
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import SourceSpec

__all__ = ["item", "served", "source_spec"]


def item(
    name: str = "web",
    *,
    namespace: str = "team-a",
    uid: str = "uid-1",
    version: str = "1",
    labels: dict[str, str] | None = None,
    owners: Iterable[str] = (),
    body: bytes | None = None,
) -> Item:
    """Make an object; its body names it unless one is given."""
    if body is None:
        metadata = {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": version}
        body = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}).encode()
    return Item(namespace, name, uid, version, labels or {}, tuple(owners), body)


def source_spec(
    resource: str = "pods",
    *,
    cluster: str = "hub",
    group: str = "",
    version: str = "v1",
    kind: str = "",
    namespace: str = "",
    label_selector: str = "",
    field_selector: str = "",
    projection: str = "full",
    names: Iterable[tuple[str, str]] = (),
    is_scope_open: bool = False,
    indexes: Iterable[str] = (),
) -> SourceSpec:
    """Make the spec of a source: all pods of cluster hub, but for what is given."""
    return SourceSpec(
        cluster=cluster,
        group=group,
        version=version,
        resource=resource,
        kind=kind,
        namespace=namespace,
        label_selector=label_selector,
        field_selector=field_selector,
        projection=projection,
        names=tuple(names),
        is_scope_open=is_scope_open,
        indexes=tuple(indexes),
    )


def served(
    resource: str = "pods",
    kind: str = "Pod",
    *,
    group: str = "",
    version: str = "v1",
    is_namespaced: bool = True,
) -> ServedResource:
    """Make a resource as discovery describes it, with every verb that is needed."""
    verbs = frozenset({"get", "list", "watch"})
    return ServedResource(group, version, resource, kind, is_namespaced, verbs)
