"""What end-to-end tests do and wait for: objects, grants, and the messages of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import watchcache
from tests.contract.api import Api, unique
from watchcache import SourceState

__all__ = [
    "configmap",
    "deployment",
    "exhaust",
    "grant",
    "grant_everywhere",
    "next_events",
    "until",
    "wait_live",
    "wait_state",
    "widget_definition",
]

# What recovers by itself does so within this time: the bound of the contract.
_RECOVERY_SECONDS = 20.0


async def grant(api: Api, namespace: str, account: str, group: str, *resources: str) -> None:
    """Let the ServiceAccount list and watch."""
    name = unique("grant")
    rules = [{"apiGroups": [group], "resources": list(resources), "verbs": ["list", "watch"]}]
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    await api.create(f"{base}/roles", {"metadata": {"name": name}, "rules": rules})
    await api.create(
        f"{base}/rolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": name,
            },
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    )


async def grant_everywhere(
    api: Api, namespace: str, account: str, *resources: str, groups: Sequence[str] = ("",)
) -> None:
    """Let the ServiceAccount get, list and watch resources of these groups on the cluster."""
    name = unique("reader")
    base = "/apis/rbac.authorization.k8s.io/v1"
    verbs = ["get", "list", "watch"]
    rules = [{"apiGroups": list(groups), "resources": list(resources), "verbs": verbs}]
    await api.create(f"{base}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    await api.create(
        f"{base}/clusterrolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": name,
            },
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    )


def configmap(name: str, **data: str) -> dict[str, Any]:
    """Make a ConfigMap."""
    return {"metadata": {"name": name}, "data": data}


def deployment(name: str) -> dict[str, Any]:
    """Make a Deployment."""
    labels = {"app": name}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
            },
        },
    }


def widget_definition(group: str) -> dict[str, Any]:
    """Make a CRD for widgets of a group."""
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }


async def until(
    messages: AsyncIterator[watchcache.Message[dict[str, Any]]],
    kind: type[Any],
    *,
    seconds: float = _RECOVERY_SECONDS,
) -> list[watchcache.Message[dict[str, Any]]]:
    """Return the messages up to the first of a kind."""
    found = []
    async with asyncio.timeout(seconds):
        async for message in messages:
            found.append(message)
            if isinstance(message, kind):
                return found
    raise AssertionError(f"the stream ended before a {kind.__name__}")


async def next_events(
    messages: AsyncIterator[watchcache.Message[dict[str, Any]]],
    count: int,
    *,
    seconds: float = _RECOVERY_SECONDS,
) -> list[watchcache.Event[dict[str, Any]]]:
    """Return the next events."""
    found: list[watchcache.Event[dict[str, Any]]] = []
    async with asyncio.timeout(seconds):
        async for message in messages:
            if isinstance(message, watchcache.Batch):
                found.extend(message.events)
                if len(found) >= count:
                    break
    assert len(found) == count, found
    return found


async def exhaust(messages: AsyncIterator[object]) -> None:
    """Read to the end."""
    async for _ in messages:
        pass


async def wait_live(ext: watchcache.Extension, resource: str) -> watchcache.Source:
    """Return the informer of a resource once it is live."""
    async with asyncio.timeout(_RECOVERY_SECONDS):
        while True:
            status = await ext.refresh()
            for source in status.sources:
                if source.resource == resource and source.state is SourceState.LIVE:
                    return source
            await asyncio.sleep(0.1)


async def wait_state(ext: watchcache.Extension, *states: SourceState) -> watchcache.Source:
    """Return the one informer once it is in one of the states."""
    async with asyncio.timeout(3 * _RECOVERY_SECONDS):
        while True:
            (source,) = (await ext.refresh()).sources
            if source.state in states:
                return source
            await asyncio.sleep(0.1)
