"""Reports that a real kube-apiserver can produce, made by one; the dev cluster has to be alike.

Each test is named after its report, and says what must hold instead.
"""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs

import pytest

from tests.contract.api import Api, unique
from tests.contract.definitions import define, new_kind
from tests.contract.objects import version_of
from tests.contract.rights import RBAC, Robot, bind, rights_are_known, rule
from tests.items import source_spec
from tests.reports.follower import following
from watchcache_server.clusters.cluster import Cluster
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import LeftReason, SourceState


def configmaps_of(namespace: str, projection: str = "full") -> SourceSpec:
    """Return the spec of an informer of the namespace's ConfigMaps."""
    return source_spec("configmaps", cluster="hub", namespace=namespace, projection=projection)


async def put(api: Api, path: str, name: str, value: str = "1") -> str:
    """Make a ConfigMap, or change it; return its version."""
    body = {"metadata": {"name": name}, "data": {"value": value}}
    if (await api.call("GET", f"{path}/{name}")).status == 404:
        return str(version_of(await api.create(path, body)))
    return str(version_of(await api.patch(f"{path}/{name}", body)))


@pytest.mark.timeout(120)
async def test_java_1628_an_expired_watch_is_listed_again_and_nothing_is_missed(
    api: Api, hub: Cluster, namespace: str, configmaps: str
) -> None:
    """kubernetes-client/java#1628: what went while the history was lost is gone, and no older."""
    for name in ("stays", "goes"):
        await put(api, configmaps, name)
    async with following(hub, configmaps_of(namespace)) as follower:
        await follower.wait_for(lambda: len(follower.held) == 2)
        await follower.bar()
        known = int(follower.position)
        await api.delete(f"{configmaps}/goes")
        made = await put(api, configmaps, "new")
        for _ in range(3):
            await put(api, configmaps, "stays", unique("value"))
        last = version_of(await api.get(f"{configmaps}/stays"))
        await asyncio.to_thread(api.endpoint.expire_history)
        follower.free()
        await follower.wait_for(lambda: "new" in follower.held)
        assert sorted(follower.held) == ["new", "stays"]
        assert follower.held["new"].resource_version == made
        assert int(follower.synced_at) >= last > known
        assert ("relist", "EXPIRED") in follower.counted_events
        await follower.wait_for(lambda: follower.state_now is SourceState.LIVE)


async def test_argo_cd_1161_nothing_is_lost_between_a_list_and_its_watch(
    api: Api, hub: Cluster, namespace: str, configmaps: str
) -> None:
    """argoproj/argo-cd#1161, #1612: the watch begins where the list was, and each comes once."""
    for name in ("a", "b"):
        await put(api, configmaps, name)
    async with following(hub, configmaps_of(namespace), lists=True) as follower:
        await follower.wait_for(lambda: bool(follower.requests))
        await follower.bar()
        assert sorted(follower.held) == ["a", "b"]
        made = await put(api, configmaps, "c")
        changed = await put(api, configmaps, "a", "2")
        await api.delete(f"{configmaps}/b")
        follower.free()
        await follower.wait_for(lambda: "b" not in follower.held)
        assert [(name, is_there) for name, _, is_there in follower.told] == [
            ("c", True),
            ("a", True),
            ("b", False),
        ]
        assert [version for _, version, is_there in follower.told if is_there] == [made, changed]


@pytest.mark.parametrize("lists", [True, False], ids=["list", "watch"])
async def test_python_819_no_object_of_a_list_is_replayed(
    api: Api, hub: Cluster, namespace: str, configmaps: str, lists: bool
) -> None:
    """kubernetes-client/python#819, #693: objects come by name, so the last one may be the oldest.

    Also snyk/kubernetes-monitor#1506: the version of that one may have expired long ago.
    """
    for name in ("z", "m", "a"):
        await put(api, configmaps, name)
    async with following(hub, configmaps_of(namespace), lists=lists) as follower:
        await follower.wait_for(lambda: follower.is_synced)
        versions = [int(item.resource_version) for item in follower.held.values()]
        assert int(follower.synced_at) >= max(versions)
        last = await put(api, configmaps, "end")
        await follower.wait_for(lambda: bool(follower.told))
        assert follower.told == [("end", last, True)]


async def test_kubernetes_58545_a_deletion_moves_the_position(
    api: Api, hub: Cluster, namespace: str, configmaps: str
) -> None:
    """kubernetes/kubernetes#58545, #63356, client-go#338: it has a version of its own.

    Also tomplus/kubernetes_asyncio#135: the next watch begins there.
    """
    made = await put(api, configmaps, "a")
    async with following(hub, configmaps_of(namespace)) as follower:
        await follower.wait_for(lambda: follower.is_synced)
        await api.delete(f"{configmaps}/a")
        await follower.wait_for(lambda: bool(follower.told))
        ((name, version, is_there),) = follower.told
        assert (name, is_there) == ("a", False)
        assert int(version) > int(made)
        assert int(follower.position) >= int(version)
        count = len(follower.requests)
        await follower.wait_for(lambda: len(follower.requests) > count)
        (asked,) = parse_qs(follower.requests[-1].query)["resourceVersion"]
        assert int(asked) >= int(version)
        assert len(follower.told) == 1


async def test_kube_219_a_quiet_resource_moves_with_the_cluster(
    api: Api, hub: Cluster, namespace: str, configmaps: str
) -> None:
    """kube-rs/kube#219: by bookmarks, which are no objects (kubernetes_asyncio#291)."""
    await put(api, configmaps, "a")
    other = unique("other")
    async with following(hub, configmaps_of(namespace)) as follower:
        await follower.wait_for(lambda: follower.is_synced)
        made = await api.create("/api/v1/namespaces", {"metadata": {"name": other}})
        elsewhere = await put(api, f"/api/v1/namespaces/{other}/configmaps", "b")
        assert version_of(made) < int(elsewhere)
        await follower.wait_for(lambda: int(follower.position) >= int(elsewhere))
        assert follower.told == []
        assert list(follower.held) == ["a"]


@pytest.mark.parametrize("lists", [True, False], ids=["list", "watch"])
async def test_kopf_275_objects_near_the_limit_of_the_server_come_whole(
    api: Api, hub: Cluster, namespace: str, configmaps: str, lists: bool
) -> None:
    """zalando-incubator/kopf#275, tomplus/kubernetes_asyncio#137: no buffer is too short."""
    size = 1_000_000
    await put(api, configmaps, "listed", "x" * size)
    async with following(hub, configmaps_of(namespace), lists=lists) as follower:
        await follower.wait_for(lambda: follower.is_synced)
        await put(api, configmaps, "watched", "y" * size)
        await follower.wait_for(lambda: "watched" in follower.held)
        assert all(len(item.body) > size for item in follower.held.values())
        assert ("undecodable", "malformed") not in follower.counted_events


@pytest.mark.timeout(120)
async def test_python_700_custom_objects_are_told_once(
    api: Api, hub: Cluster, namespace: str
) -> None:
    """kubernetes-client/python#700, #503, python-base#81: over several watches."""
    kind = new_kind()
    await define(api, kind)
    spec = source_spec(kind.plural, cluster="hub", group=kind.group, namespace=namespace)
    async with following(hub, spec) as follower:
        await follower.wait_for(lambda: follower.is_synced)
        await api.create(kind.path(namespace), kind.object("w"))
        await follower.wait_for(lambda: bool(follower.told))
        count = len(follower.requests)
        await follower.wait_for(lambda: len(follower.requests) > count + 1)
        assert [name for name, _, _ in follower.told] == ["w"]


@pytest.mark.timeout(120)
async def test_kubernetes_79610_a_kind_that_goes_and_comes_is_followed(
    api: Api, hub: Cluster, namespace: str
) -> None:
    """kubernetes/kubernetes#79610, #84494, open-policy-agent/gatekeeper#694: GONE, then LIVE."""
    kind = new_kind()
    await define(api, kind)
    await api.create(kind.path(namespace), kind.object("w"))
    spec = source_spec(kind.plural, cluster="hub", group=kind.group, namespace=namespace)
    async with following(hub, spec) as follower:
        await follower.wait_for(lambda: "w" in follower.held)
        await api.delete(kind.definition_path)
        await follower.wait_for(lambda: follower.state_now is SourceState.GONE)
        assert follower.held == {}
        asked = len(follower.requests)
        await asyncio.sleep(2.0)
        assert len(follower.requests) - asked <= 4, "no request for what is not served"
        await define(api, kind)
        await api.create(kind.path(namespace), kind.object("again"))
        await follower.wait_for(lambda: list(follower.held) == ["again"])


@pytest.mark.timeout(120)
async def test_ocm_enhancements_126_a_revoked_right_ends_what_is_held(
    api: Api, hub: Cluster, account: Robot, configmaps: str
) -> None:
    """open-cluster-management-io/enhancements#126: though the server lets a running watch go on."""
    await put(api, configmaps, "a")
    grant = await bind(api, account.namespace, [rule("configmaps", "list watch")], account.subject)
    await rights_are_known(api, account.namespace)
    robot = hub.as_service_account(account.namespace, "robot")
    async with following(hub, configmaps_of(account.namespace), access=robot) as follower:
        await follower.wait_for(lambda: "a" in follower.held)
        await api.delete(f"{RBAC}/namespaces/{account.namespace}/rolebindings/{grant}")
        await follower.wait_for(lambda: follower.state_now is SourceState.FORBIDDEN)
        await follower.wait_for(lambda: bool(follower.purged))
        assert (follower.purged, follower.held) == ([LeftReason.RIGHTS_REVOKED], {})
        await bind(api, account.namespace, [rule("configmaps", "list watch")], account.subject)
        await follower.wait_for(lambda: "a" in follower.held)
    robot.release()


@pytest.mark.parametrize("projection", ["metadata", "without_managed_fields"])
async def test_odigos_4573_managed_fields_of_a_server_are_not_kept(
    api: Api, hub: Cluster, namespace: str, configmaps: str, projection: str
) -> None:
    """odigos-io/odigos#4573: the server sends them with every object, also as metadata alone."""
    await put(api, configmaps, "listed")
    assert "managedFields" in (await api.get(f"{configmaps}/listed"))["metadata"]
    async with following(hub, configmaps_of(namespace, projection)) as follower:
        await follower.wait_for(lambda: follower.is_synced)
        await put(api, configmaps, "watched")
        await follower.wait_for(lambda: "watched" in follower.held)
        for item in follower.held.values():
            assert b"managedFields" not in item.body
            assert (b'"value"' in item.body) is (projection != "metadata")
