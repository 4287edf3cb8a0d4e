"""What a registration is refused for, before anything changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from watchcache_server.clusters.cluster import ServiceAccountAccess
from watchcache_server.clusters.registry import ClusterRegistry
from watchcache_server.kubernetes.errors import AccessError, ServiceAccountNotFoundError
from watchcache_server.kubernetes.served import Served
from watchcache_server.model.errors import (
    InvalidRequestError,
    LimitExceededError,
    ServiceAccountGoneError,
)
from watchcache_server.model.specs import ExtensionKey, ExtensionSpec, SourceSpec
from watchcache_server.settings import Settings

__all__ = ["check_account", "check_clusters", "check_scopes", "check_size"]


def check_clusters(spec: ExtensionSpec, clusters: ClusterRegistry) -> None:
    """Refuse a spec that names clusters that there are not."""
    known = clusters.names
    unknown = [repr(name) for name in spec.clusters if name not in known]
    if unknown:
        raise InvalidRequestError.of(
            "spec.clusters",
            f"there is no cluster {' or '.join(unknown)}; known are {', '.join(known)}",
            reason="UNKNOWN_CLUSTER",
        )


def check_size(key: ExtensionKey, spec: ExtensionSpec, settings: Settings) -> None:
    """Refuse a spec that is too large, before it is multiplied out."""
    named = [each for each in spec.resources if not each.namespace_selector]
    selectors = {each.namespace_selector for each in spec.resources} - {""}
    count = sum(max(1, len(each.namespaces)) for each in named) + len(selectors)
    count *= len(spec.clusters)
    if count > settings.max_sources:
        raise LimitExceededError(
            f"extension {key}",
            f"the spec asks for {count} informers, one for each resource, namespace and cluster, "
            f"and for each selector of namespaces, more than the {settings.max_sources} that an "
            "extension may have; watch all namespaces with one, or register several extensions",
            setting="max_sources",
        )
    # Each informer is described with selectors and paths, in answers that hold an extension.
    size = len(spec.clusters) * sum(
        max(1, len(each.namespaces)) * each.text_bytes for each in spec.resources
    )
    limit = settings.max_spec_bytes
    if size > limit:
        raise InvalidRequestError.of(
            "spec.resources",
            f"repeats its selectors in each of {count} informers, {size} bytes in all, more "
            f"than the {limit} allowed; write shorter selectors, watch all namespaces with one "
            "entry, register several extensions, or raise the setting max_spec_bytes",
            reason="SPEC_TOO_LARGE",
        )


async def check_scopes(spec: ExtensionSpec, clusters: ClusterRegistry, seconds: float) -> None:
    """Refuse to choose namespaces for what has none, as far as that is known soon enough."""
    scopes = [choice.scope for choice in spec.choices()]
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_is_namespaced(scope, clusters, seconds)) for scope in scopes]
    for scope, each in zip(scopes, asked, strict=True):
        if not each.result():
            raise InvalidRequestError.of(
                "spec.resources.items.namespace_selector",
                f"{scope.type_name} of cluster {scope.cluster} is not namespaced, so that no "
                "namespace can be chosen for it; leave the namespace_selector out",
            )


async def _is_namespaced(scope: SourceSpec, clusters: ClusterRegistry, seconds: float) -> bool:
    discovery = clusters.get(scope.cluster).discovery
    try:
        async with asyncio.timeout(seconds):
            found = await discovery.resolve(
                scope.group, scope.version, scope.resource or scope.kind
            )
    except TimeoutError:
        # Its informers will say so.
        return True
    return not isinstance(found, Served) or found.resource.is_namespaced


async def check_account(
    key: ExtensionKey,
    spec: ExtensionSpec,
    accesses: Sequence[ServiceAccountAccess],
    seconds: float,
) -> None:
    """Ask for tokens, all at once: that the ServiceAccount is missing is better said at once."""
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_is_account_missing(access, seconds)) for access in accesses]
    if asked and all(each.result() for each in asked):
        raise ServiceAccountGoneError(", ".join(spec.clusters), key.namespace, spec.service_account)


async def _is_account_missing(access: ServiceAccountAccess, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await access.credentials.authorization()
    except ServiceAccountNotFoundError:
        return True
    except (AccessError, TimeoutError):
        # Its informers will say so, and recover.
        return False
    return False
