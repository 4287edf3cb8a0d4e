"""What the API server says it serves, and how soon we know."""

from __future__ import annotations

from tests.contract.api import Api, eventually
from tests.contract.definitions import define, new_kind
from tests.unit.kubernetes.clock import Clock
from watchcache_server.clusters.cluster import Cluster
from watchcache_server.kubernetes.catalog import Catalog
from watchcache_server.kubernetes.documents import (
    decode_group_list,
    decode_resource_list,
    decode_version_list,
)
from watchcache_server.kubernetes.requests import get_request
from watchcache_server.kubernetes.served import NotServed, Served, VersionNotServed


async def test_built_in_kinds_are_found_with_scope_and_verbs(cluster: Cluster) -> None:
    """By plural and by kind, in the preferred version."""
    for group, name, is_namespaced in (
        ("", "pods", True),
        ("", "Namespace", False),
        ("apps", "Deployment", True),
        ("rbac.authorization.k8s.io", "clusterroles", False),
    ):
        found = await cluster.discovery.resolve(group, "", name)
        assert isinstance(found, Served), name
        assert found.resource.version == "v1"
        assert found.resource.is_namespaced is is_namespaced
        assert {"get", "list", "watch"} <= found.resource.verbs


async def test_what_cannot_be_watched_says_so_by_its_verbs(cluster: Cluster) -> None:
    """A review can only be created."""
    found = await cluster.discovery.resolve("authentication.k8s.io", "", "TokenReview")
    assert isinstance(found, Served)
    assert found.resource.verbs == {"create"}


async def test_near_names_are_hints(cluster: Cluster) -> None:
    """Group forgotten, singular used, version wrong."""
    assert await cluster.discovery.resolve("", "", "deployments") == NotServed(
        ("deployments.apps",)
    )
    assert await cluster.discovery.resolve("", "", "configmap") == NotServed(("configmaps",))
    found = await cluster.discovery.resolve("apps", "v1beta1", "deployments")
    assert found == VersionNotServed(("v1",))


async def test_a_new_kind_is_found_and_a_deleted_one_is_gone(
    cluster: Cluster, api: Api, clock: Clock
) -> None:
    """Within seconds of its definition, and confirmed by a fresh look after it is deleted."""
    kind = new_kind(versions=("v1", "v1alpha1"))
    # Other tests' kinds of this name may be served, and are hints then.
    assert isinstance(await cluster.discovery.resolve(kind.group, "", kind.kind), NotServed)
    await define(api, kind)

    async def is_found() -> bool:
        clock.advance(6)
        return isinstance(await cluster.discovery.resolve(kind.group, "", kind.kind), Served)

    await eventually(is_found, "the new kind is found")
    found = await cluster.discovery.resolve(kind.group, "", kind.plural)
    assert isinstance(found, Served)
    assert found.resource.kind == "Widget"
    assert set(found.versions) == {"v1", "v1alpha1"}
    assert found.resource.version == "v1"
    await api.delete(kind.definition_path)

    async def is_gone() -> bool:
        clock.advance(1)
        found = await cluster.discovery.resolve(kind.group, "", kind.kind, max_age_seconds=0)
        return isinstance(found, NotServed)

    await eventually(is_gone, "the deleted kind is gone")


async def test_both_forms_of_discovery_agree(cluster: Cluster) -> None:
    """The aggregated documents and the legacy ones describe the same server."""
    await cluster.discovery.resolve("", "v1", "pods")
    aggregated = cluster.discovery._catalog
    assert aggregated is not None

    async def read(path: str) -> bytes:
        answer = await cluster.own.call(get_request(path))
        assert answer.is_success
        return answer.body

    pairs = [("", version) for version in decode_version_list(await read("/api"))]
    pairs += decode_group_list(await read("/apis"))
    legacy = Catalog.of(
        [
            decode_resource_list(
                group, version, await read(f"/apis/{group}/{version}" if group else "/api/v1")
            )
            for group, version in pairs
        ]
    )

    def content(catalog: Catalog) -> dict[str, object]:
        return {
            str(each): {entry.resource.resource: entry.resource for entry in each.entries}
            for each in catalog
            if each.entries
        }

    assert content(aggregated) == content(legacy)
    assert {
        group: [each.version for each in versions] for group, versions in aggregated.groups.items()
    } == {group: [each.version for each in versions] for group, versions in legacy.groups.items()}
