"""Contract: one stored object that is served by more than one group or version.

Such objects share uid and resourceVersion while their bodies differ, so neither tells a body.
"""

from __future__ import annotations

from typing import Any

from tests.contract.api import Api
from tests.contract.objects import names, version_of


def identity(found: dict[str, Any]) -> tuple[str, int]:
    """Return what the views of one object have in common."""
    return found["metadata"]["uid"], version_of(found)


async def test_an_autoscaler_is_one_object_in_two_versions(api: Api, namespace: str) -> None:
    """A HorizontalPodAutoscaler written as v2 is read and watched as v1, in v1's own fields."""
    path = f"/apis/autoscaling/{{}}/namespaces/{namespace}/horizontalpodautoscalers"
    usage = {"type": "Utilization", "averageUtilization": 50}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 3,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": usage}}],
    }
    made = await api.create(path.format("v2"), {"metadata": {"name": "a"}, "spec": spec})
    assert made["apiVersion"] == "autoscaling/v2"
    assert made["spec"] == spec
    old = await api.get(f"{path.format('v1')}/a")
    assert old["apiVersion"] == "autoscaling/v1"
    assert identity(old) == identity(made)
    assert old["spec"]["targetCPUUtilizationPercentage"] == 50
    assert "metrics" not in old["spec"]
    async with api.watch(path.format("v1"), resourceVersion=0) as stream:
        assert await stream.next() == {"type": "ADDED", "object": old}


async def test_an_event_is_one_object_in_two_groups(api: Api, namespace: str) -> None:
    """An Event of the core is an Event of events.k8s.io under other field names."""
    event = {
        "metadata": {"name": "a"},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "web"},
        "reason": "Because",
        "message": "a text",
        "type": "Normal",
        "source": {"component": "test"},
        "count": 3,
    }
    core = f"/api/v1/namespaces/{namespace}/events"
    group = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    made = await api.create(core, event)
    same = await api.get(f"{group}/a")
    assert same["apiVersion"] == "events.k8s.io/v1"
    assert identity(same) == identity(made)
    assert same["regarding"] == event["involvedObject"]
    assert (same["note"], same["reason"]) == (event["message"], event["reason"])
    assert (same["deprecatedCount"], same["deprecatedSource"]) == (3, event["source"])
    assert not {"involvedObject", "message", "count", "source"} & set(same)
    for path, selector in (
        (core, "involvedObject.name=web,reason=Because"),
        (group, "regarding.name=web,reason=Because"),
    ):
        assert names(await api.get(path, fieldSelector=selector)) == ["a"]
        none = selector.replace("web", "other")
        assert names(await api.get(path, fieldSelector=none)) == []

    await api.delete(f"{group}/a")
    await api.get(f"{core}/a", expect=404)
