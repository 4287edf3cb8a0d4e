"""What happens by itself: definitions, namespaces, owners, pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.devcluster.calls import calling
from watchcache_devcluster import ApiError, DevCluster

HOLD = "example.test/hold"


def definition(plural: str = "widgets", kind: str = "Widget", **spec: Any) -> dict[str, Any]:
    """Return a CustomResourceDefinition."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": f"{plural}.demo.test"},
        "spec": {
            "group": "demo.test",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
            **spec,
        },
    }


def owned(name: str, *owners: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a ConfigMap with owners."""
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        for owner in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": references, **metadata}}


async def names(cluster: DevCluster, resource: str) -> list[str]:
    """Return the names of what is there once the controllers have settled."""
    await cluster.settle()
    return [item["metadata"]["name"] for item in (await cluster.list(resource))["items"]]


class TestDefinitions:
    """CustomResourceDefinitions."""

    async def test_a_kind_is_served_when_it_is_established(self, devcluster: DevCluster) -> None:
        """Its conditions say so, its names are accepted, and its objects can be made."""
        await devcluster.create("crd", definition())
        await devcluster.settle()
        made = await devcluster.get("crd", "widgets.demo.test")
        conditions = {entry["type"]: entry["status"] for entry in made["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        assert made["status"]["acceptedNames"]["singular"] == "widget"
        assert made["status"]["storedVersions"] == ["v1"]
        await devcluster.create("widgets", {"metadata": {"name": "a"}, "spec": {"any": 1}})

    async def test_a_kind_that_is_taken_is_not_established(self, devcluster: DevCluster) -> None:
        """Its condition names the conflict; once that is gone, so is the condition."""
        await devcluster.create("crd", definition())
        await devcluster.settle()
        await devcluster.create("crd", definition("gadgets", "Widget"))
        await devcluster.settle()
        made = await devcluster.get("crd", "gadgets.demo.test")
        assert made["status"]["conditions"][0]["message"] == '"Widget" is already in use'
        with pytest.raises(ApiError):
            await devcluster.list("gadgets")
        await devcluster.delete("crd", "widgets.demo.test")
        await devcluster.settle()
        await devcluster.patch("crd", "gadgets.demo.test", {"metadata": {"labels": {"a": "b"}}})
        assert await names(devcluster, "gadgets") == []

    async def test_versions_come_and_go(self, devcluster: DevCluster) -> None:
        """A version that is no longer served is 404; the object stays in the others."""
        await devcluster.create("crd", definition())
        await devcluster.settle()
        await devcluster.create("widgets", {"metadata": {"name": "a"}})
        spec = definition()["spec"]
        old = {**spec["versions"][0], "served": False, "storage": False}
        versions = [{**spec["versions"][0], "name": "v2"}, old]
        await devcluster.patch("crd", "widgets.demo.test", {"spec": {"versions": versions}})
        await devcluster.settle()
        assert (await devcluster.get("widgets", "a"))["apiVersion"] == "demo.test/v2"
        made = await devcluster.get("crd", "widgets.demo.test")
        assert made["status"]["storedVersions"] == ["v1", "v2"]
        async with calling(devcluster) as caller:
            assert (await caller.call("GET", "/apis/demo.test/v1/widgets"))[0] == 404

    async def test_a_definition_takes_its_objects_and_watches_with_it(
        self, devcluster: DevCluster
    ) -> None:
        """Objects are deleted, watches end, the path is 404; another scope may follow."""
        await devcluster.create("crd", definition())
        await devcluster.settle()
        await devcluster.create("widgets", {"metadata": {"name": "a"}})
        await devcluster.create("widgets", {"metadata": {"name": "b", "finalizers": [HOLD]}})
        async with calling(devcluster) as caller:
            async with caller.watch("/apis/demo.test/v1/widgets") as lines:
                for _ in range(3):
                    await lines.next()
                await devcluster.delete("crd", "widgets.demo.test")
                events = [await lines.next() for _ in range(2)]
                assert [event["type"] for event in events] == ["DELETED", "MODIFIED"]
                await devcluster.patch("widgets", "b", {"metadata": {"finalizers": None}})
                assert (await lines.next())["type"] == "DELETED"
                assert await lines.raw_rest() == b""
            assert (await caller.call("GET", "/apis/demo.test/v1/widgets"))[0] == 404
        await devcluster.create("crd", definition(scope="Cluster"))
        await devcluster.settle()
        made = await devcluster.create("widgets", {"metadata": {"name": "a"}})
        assert "namespace" not in made["metadata"]

    async def test_a_held_definition_waits(self, devcluster: DevCluster) -> None:
        """A finalizer of somebody else keeps it, without its objects."""
        held = definition()
        held["metadata"]["finalizers"] = [HOLD]
        await devcluster.create("crd", held)
        await devcluster.settle()
        await devcluster.delete("crd", "widgets.demo.test")
        await devcluster.settle()
        left = await devcluster.get("crd", "widgets.demo.test")
        assert left["metadata"]["finalizers"] == [HOLD]
        await devcluster.patch("crd", "widgets.demo.test", {"metadata": {"finalizers": None}})
        assert await names(devcluster, "crd") == []


class TestNamespaces:
    """A namespace goes when it is empty."""

    async def test_everything_in_it_goes_first(self, devcluster: DevCluster) -> None:
        """What a finalizer holds keeps the namespace, which takes nothing new meanwhile."""
        await devcluster.create("ns", {"metadata": {"name": "shop"}})
        for name, finalizers in (("a", []), ("b", [HOLD])):
            body = {"metadata": {"name": name, "finalizers": finalizers}}
            await devcluster.create("cm", body, "shop")
        marked = await devcluster.delete("ns", "shop")
        assert marked["status"]["phase"] == "Terminating"
        assert await names(devcluster, "cm") == ["b"]
        with pytest.raises(ApiError, match="because it is being terminated"):
            await devcluster.create("cm", {"metadata": {"name": "c"}}, "shop")
        await devcluster.patch("cm", "b", {"metadata": {"finalizers": None}}, "shop")
        assert "shop" not in await names(devcluster, "ns")

    async def test_its_own_finalizers_keep_it(self, devcluster: DevCluster) -> None:
        """Once emptied it waits for the finalizers in its metadata, and for those in its spec."""
        for name in ("one", "two"):
            metadata = {"name": name, "finalizers": [HOLD] if name == "one" else []}
            await devcluster.create("ns", {"metadata": metadata})
        body = await devcluster.get("ns", "two")
        body["spec"]["finalizers"] = ["kubernetes", HOLD]
        await devcluster.replace("ns", body, subresource="finalize")
        for name in ("one", "two"):
            await devcluster.delete("ns", name)
        await devcluster.settle()
        assert (await devcluster.get("ns", "one"))["spec"]["finalizers"] == []
        two = await devcluster.get("ns", "two")
        assert two["spec"]["finalizers"] == [HOLD]
        await devcluster.patch("ns", "one", {"metadata": {"finalizers": None}})
        two["spec"]["finalizers"] = []
        await devcluster.replace("ns", two, subresource="finalize")
        assert not {"one", "two"} & set(await names(devcluster, "ns"))

    async def test_some_namespaces_stay(self, devcluster: DevCluster) -> None:
        """Those that every cluster needs cannot be deleted."""
        with pytest.raises(ApiError, match="this namespace may not be deleted"):
            await devcluster.delete("ns", "default")


class TestOwners:
    """Dependents of a deleted owner."""

    async def test_dependents_go_with_their_last_owner(self, devcluster: DevCluster) -> None:
        """The whole tree goes; a dependent with another living owner stays with that one."""
        one = await devcluster.create("cm", {"metadata": {"name": "one"}})
        two = await devcluster.create("cm", {"metadata": {"name": "two"}})
        child = await devcluster.create("cm", owned("child", one))
        await devcluster.create("cm", owned("grandchild", child))
        await devcluster.create("cm", owned("shared", one, two))
        await devcluster.create("cm", owned("held", one, finalizers=[HOLD]))
        await devcluster.delete("cm", "one")
        assert await names(devcluster, "cm") == ["held", "shared", "two"]
        shared = await devcluster.get("cm", "shared")
        assert [owner["name"] for owner in shared["metadata"]["ownerReferences"]] == ["two"]
        assert (await devcluster.get("cm", "held"))["metadata"]["deletionTimestamp"]

    async def test_dependents_can_be_orphaned(self, devcluster: DevCluster) -> None:
        """They stay, and name the owner no longer."""
        one = await devcluster.create("cm", {"metadata": {"name": "one"}})
        two = await devcluster.create("cm", {"metadata": {"name": "two"}})
        await devcluster.create("cm", owned("child", one))
        await devcluster.create("cm", owned("shared", one, two))
        await devcluster.delete("cm", "one", propagationPolicy="Orphan")
        assert await names(devcluster, "cm") == ["child", "shared", "two"]
        assert "ownerReferences" not in (await devcluster.get("cm", "child"))["metadata"]

    async def test_an_owner_can_go_last(self, devcluster: DevCluster) -> None:
        """In the foreground it waits for its dependents, also for held ones."""
        one = await devcluster.create("cm", {"metadata": {"name": "one", "finalizers": [HOLD]}})
        await devcluster.create("cm", owned("child", one))
        await devcluster.create("cm", owned("held", one, finalizers=[HOLD]))
        await devcluster.delete("cm", "one", propagationPolicy="Foreground")
        assert await names(devcluster, "cm") == ["held", "one"]
        await devcluster.patch("cm", "held", {"metadata": {"finalizers": None}})
        assert await names(devcluster, "cm") == ["one"]
        left = await devcluster.get("cm", "one")
        assert left["metadata"]["finalizers"] == [HOLD]
        await devcluster.patch("cm", "one", {"metadata": {"finalizers": None}})
        assert await names(devcluster, "cm") == []

    async def test_a_new_owner_may_take_over(self, devcluster: DevCluster) -> None:
        """Only the references of now count."""
        one = await devcluster.create("cm", {"metadata": {"name": "one"}})
        two = await devcluster.create("cm", {"metadata": {"name": "two"}})
        await devcluster.create("cm", owned("child", one))
        await devcluster.patch("cm", "child", owned("child", two))
        await devcluster.delete("cm", "one")
        assert await names(devcluster, "cm") == ["child", "two"]

    async def test_an_owner_of_an_unknown_kind_is_none(self, devcluster: DevCluster) -> None:
        """A reference to what is not served does not keep a dependent."""
        one = await devcluster.create("cm", {"metadata": {"name": "one"}})
        ghost = {"apiVersion": "x.test/v1", "kind": "X", "metadata": {"name": "x", "uid": "x"}}
        await devcluster.create("cm", owned("child", one, ghost))
        await devcluster.delete("cm", "one")
        assert await names(devcluster, "cm") == []


class TestPods:
    """Pods that a node runs are given time."""

    async def test_a_pod_goes_when_its_grace_has_passed(self) -> None:
        """It is marked first; its last event comes after the grace, unless it is held."""
        now = 1_700_000_000.0
        async with DevCluster(clock=lambda: now) as cluster:
            for name, finalizers in (("a", []), ("held", [HOLD]), ("forced", [])):
                spec = {"nodeName": "n", "containers": [{"name": "c"}]}
                metadata = {"name": name, "finalizers": finalizers}
                await cluster.create("pods", {"metadata": metadata, "spec": spec})
                marked = await cluster.delete("pods", name)
                assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
                assert marked["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:50Z"
            again = await cluster.delete("pods", "a")
            assert again["metadata"]["deletionGracePeriodSeconds"] == 30
            await cluster.delete("pods", "forced", gracePeriodSeconds=0)
            assert await names(cluster, "pods") == ["a", "held"]
            now += 31
            other = {"nodeName": "n", "containers": [{"name": "c"}]}
            await cluster.create("pods", {"metadata": {"name": "next"}, "spec": other})
            await cluster.delete("pods", "next", gracePeriodSeconds=5)  # wakes the timer
            for _ in range(100):
                await asyncio.sleep(0)
            assert await names(cluster, "pods") == ["held", "next"]
