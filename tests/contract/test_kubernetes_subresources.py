"""Contract: generation, and the subresources status and scale."""

from __future__ import annotations

from typing import Any

from tests.contract.api import Api
from tests.contract.objects import deployment


class TestGeneration:
    """The counter of changes that a controller should act on."""

    async def test_only_a_changed_spec_raises_it(self, api: Api, namespace: str) -> None:
        """It starts at 1 and grows with the spec, not with labels or status."""
        deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        made = await api.create(deployments, deployment("a", replicas=1))
        assert made["metadata"]["generation"] == 1
        steps: list[tuple[str, dict[str, Any], int]] = [
            ("", {"spec": {"replicas": 2}}, 2),
            ("", {"metadata": {"labels": {"l": "1"}}}, 2),
            ("/status", {"status": {"replicas": 2}}, 2),
            ("", {"spec": {"replicas": 2}}, 2),
            ("", {"spec": {"replicas": 3}}, 3),
        ]
        for subresource, change, generation in steps:
            changed = await api.patch(f"{deployments}/a{subresource}", change)
            assert changed["metadata"]["generation"] == generation, change

    async def test_kinds_without_a_spec_have_none(self, api: Api, configmaps: str) -> None:
        """A ConfigMap has no generation, however often it changes."""
        await api.create(configmaps, {"metadata": {"name": "a"}})
        changed = await api.patch(f"{configmaps}/a", {"data": {"k": "v"}})
        assert "generation" not in changed["metadata"]


class TestStatus:
    """The status subresource: two halves of an object with two writers."""

    async def test_each_endpoint_writes_its_own_half(self, api: Api, namespace: str) -> None:
        """The object's endpoint passes over a status; the status endpoint passes over a spec."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        made = await api.create(path, {**deployment("a", replicas=1), "status": {"replicas": 9}})
        assert made["status"] == {}

        both: dict[str, Any] = {"spec": {"replicas": 2}, "status": {"replicas": 2}}
        main = await api.patch(f"{path}/a", both)
        assert (main["spec"]["replicas"], main["status"]) == (2, {})

        both = {"spec": {"replicas": 3}, "status": {"replicas": 3}}
        status = await api.patch(f"{path}/a/status", both)
        assert (status["spec"]["replicas"], status["status"]) == (2, {"replicas": 3})
        assert await api.get(f"{path}/a/status") == await api.get(f"{path}/a") == status

        status["status"]["readyReplicas"] = 1
        replaced = await api.replace(f"{path}/a/status", status)
        assert replaced["status"] == {"replicas": 3, "readyReplicas": 1}

    async def test_the_writer_of_a_status_is_recorded_apart(self, api: Api, namespace: str) -> None:
        """Managed fields tell writes to the status subresource from writes to the object."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        await api.create(path, deployment("a"))
        changed = await api.patch(f"{path}/a/status", {"status": {"replicas": 1}})
        entries = [
            (entry["operation"], entry.get("subresource"))
            for entry in changed["metadata"]["managedFields"]
        ]
        assert sorted(entries, key=str) == [("Update", "status"), ("Update", None)]

    async def test_scale_is_a_view_of_the_replicas(self, api: Api, namespace: str) -> None:
        """The scale subresource reads and writes the number of replicas alone."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        made = await api.create(path, deployment("a", replicas=1))
        scale = await api.get(f"{path}/a/scale")
        assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert scale["spec"] == {"replicas": 1}
        assert scale["status"] == {"replicas": 0, "selector": "app=a"}
        assert scale["metadata"]["uid"] == made["metadata"]["uid"]
        scaled = await api.patch(f"{path}/a/scale", {"spec": {"replicas": 4}})
        assert scaled["spec"] == {"replicas": 4}
        assert (await api.get(f"{path}/a"))["spec"]["replicas"] == 4
