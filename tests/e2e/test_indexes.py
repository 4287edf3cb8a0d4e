"""Declared indexes: objects are found by the values at the field paths that a spec names."""

from __future__ import annotations

from typing import Any

import pytest

import watchcache
from tests.contract.api import Api
from tests.e2e.acting import grant

_NODE, _PHASE = "spec.nodeName", "status.phase"
_IMAGE = "spec.containers[].image"


def _pod(name: str, node: str, *images: str) -> dict[str, Any]:
    containers = [{"name": f"c{i}", "image": image} for i, image in enumerate(images or ("a:1",))]
    spec: dict[str, Any] = {
        "containers": containers,
        "serviceAccountName": "shop",
        "automountServiceAccountToken": False,
    }
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name}, "spec": spec}


async def _registered(
    api: Api, wc: watchcache.Connection, namespace: str, account: str, *paths: str
) -> watchcache.Extension:
    await grant(api, namespace, account, "", "pods")
    return await wc.register(
        f"{namespace}/indexed",
        service_account=account,
        watch=["pods"],
        namespaces=[namespace],
        index_paths=paths,
        wait="20s",
    )


async def _listed(ext: watchcache.Extension, fields: dict[str, Any]) -> list[str]:
    return [item.key.name async for item in ext.list("pods", fields=fields, consistent=True)]


async def test_pods_are_found_by_their_node(
    api: Api, wc: watchcache.Connection, namespace: str, account: str
) -> None:
    """By one value or several, by entries of lists, and by two paths at once."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for name, node, *images in (
        ("a", "n1"),
        ("b", "n2", "a:1", "b:1"),
        ("c", "n1", "b:1"),
        ("d", ""),
    ):
        await api.create(pods, _pod(name, node, *images))
    ext = await _registered(api, wc, namespace, account, _NODE, _IMAGE)
    assert [source.index_paths for source in ext.sources] == [(_IMAGE, _NODE)]
    assert await _listed(ext, {_NODE: "n1"}) == ["a", "c"]
    assert await _listed(ext, {_NODE: ["n1", "n2"]}) == ["a", "b", "c"]
    assert await _listed(ext, {_IMAGE: "b:1"}) == ["b", "c"]
    assert await _listed(ext, {_IMAGE: "b:1", _NODE: "n1"}) == ["c"]
    assert await _listed(ext, {_NODE: "n3"}) == []
    async with ext.mirror() as mirror:
        await mirror.wait_synced("pods", timeout="20s")
        found = mirror.by_index("pods", _NODE, "n1")
        assert sorted(pod["metadata"]["name"] for pod in found) == ["a", "c"]


async def test_a_watch_follows_a_value(
    api: Api, wc: watchcache.Connection, namespace: str, account: str
) -> None:
    """ADDED when an object begins to have it, LEFT when it ceases to."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await api.create(pods, _pod("a", "n1"))
    ext = await _registered(api, wc, namespace, account, _NODE, _PHASE)
    seen: list[str] = []
    phases = ["Running", "Failed", "Running"]
    async with ext.watch(fields={_PHASE: "Running", _NODE: "n1"}) as watch:
        async for message in watch:
            if isinstance(message, watchcache.Batch):
                seen += [f"{event.type} {event.left_reason or ''}".strip() for event in message]
            elif not isinstance(message, watchcache.Synced):
                continue
            if len(seen) == 3:
                break
            await api.patch(f"{pods}/a/status", {"status": {"phase": phases[len(seen)]}})
    assert seen == ["ADDED", "LEFT SELECTION", "ADDED"]


async def test_other_paths_are_another_informer_that_takes_over(
    api: Api, wc: watchcache.Connection, namespace: str, account: str
) -> None:
    """Who filters by what stays or by nothing is told nothing; what is gone is refused."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await api.create(pods, _pod("a", "n1"))
    ext = await _registered(api, wc, namespace, account, _NODE)
    with pytest.raises(watchcache.InvalidArgumentError, match=r"not indexed by status\.phase"):
        await _listed(ext, {_PHASE: "Pending"})
    async with ext.mirror() as everything, ext.mirror(fields={_NODE: "n1"}) as on_node:
        changes: list[watchcache.Change[Any]] = []
        for mirror in (everything, on_node):
            await mirror.wait_synced("pods", timeout="20s")
            mirror.on_change(changes.extend)
        ext = await _registered(api, wc, namespace, account, _NODE, _PHASE)
        assert await _listed(ext, {_PHASE: "Pending"}) == ["a"]
        await api.create(pods, _pod("b", "n1"))
        await on_node.wait_synced("pods", timeout="20s")
        while len(changes) < 2:
            await everything.wait_synced("pods", timeout="20s")
            await _listed(ext, {_NODE: "n1"})
        assert [(change.type, change.key.name) for change in changes] == [("ADDED", "b")] * 2
        ext = await _registered(api, wc, namespace, account)
        with pytest.raises(watchcache.InvalidArgumentError, match=r"not indexed by spec\.nodeName"):
            await _listed(ext, {_NODE: "n1"})
