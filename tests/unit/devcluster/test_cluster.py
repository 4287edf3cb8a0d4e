"""The cluster as a whole: how it is reached, and how objects are handled without HTTP."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.unit.devcluster.calls import calling
from watchcache_devcluster import ApiError, DevCluster

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def configmap(name: str, **more: Any) -> dict[str, Any]:
    """Return a ConfigMap."""
    return {"metadata": {"name": name}, **more}


class TestReaching:
    """Addresses, certificates and kubeconfigs."""

    async def test_several_clusters_live_in_one_process(self) -> None:
        """They share nothing: not the port, not the authority, not the objects."""
        async with DevCluster(name="one") as one, DevCluster(name="two") as two:
            await one.create("configmaps", configmap("a"))
            assert one.port != two.port
            assert (await two.list("configmaps"))["items"] == []
            async with aiohttp.ClientSession() as session:
                foreign = ssl.create_default_context(cafile=one.ca_file)
                with pytest.raises(aiohttp.ClientConnectorCertificateError):
                    await session.get(two.url, ssl=foreign)
        with pytest.raises(RuntimeError, match="async with"):
            _ = one.ca_file

    async def test_a_port_in_use_is_an_error(self, devcluster: DevCluster) -> None:
        """The second cluster on a port does not start."""
        with pytest.raises(OSError, match="in use"):
            async with DevCluster(port=devcluster.port):
                pass

    async def test_a_kubeconfig_is_for_its_owner_only(
        self, devcluster: DevCluster, tmp_path: Path
    ) -> None:
        """The file holds a credential, also when it replaces one that all may read."""
        path = tmp_path / "sub" / "kubeconfig"
        path.parent.mkdir()
        path.touch(mode=0o644)
        assert devcluster.write_kubeconfig(path, namespace="shop") == path
        assert path.stat().st_mode & 0o777 == 0o600
        written = yaml.safe_load(path.read_text())
        assert written == devcluster.kubeconfig(namespace="shop")
        (context,) = written["contexts"]
        assert context["context"]["namespace"] == "shop"
        assert written["clusters"][0]["cluster"]["server"] == devcluster.url

    async def test_a_client_certificate_is_a_user(
        self, devcluster: DevCluster, tmp_path: Path
    ) -> None:
        """Its common name is the user, its organizations are the groups."""
        config = devcluster.kubeconfig(client_certificate=True)["users"][0]["user"]
        trust = ssl.create_default_context(cafile=devcluster.ca_file)
        pair = tmp_path / "pair.pem"
        pair.write_bytes(
            base64.b64decode(config["client-certificate-data"])
            + base64.b64decode(config["client-key-data"])
        )
        trust.load_cert_chain(pair)
        path = f"{devcluster.url}/apis/authentication.k8s.io/v1/selfsubjectreviews"
        async with (
            aiohttp.ClientSession() as session,
            session.post(path, json={}, ssl=trust) as answer,
        ):
            info = (await answer.json())["status"]["userInfo"]
        assert info["username"] == "admin"
        assert "system:masters" in info["groups"]

    async def test_another_host_is_in_the_certificate(self) -> None:
        """The address that it listens on is one that its certificate names."""
        async with DevCluster(host="localhost") as cluster:
            assert cluster.url.startswith("https://localhost:")
            async with calling(cluster) as caller:
                assert (await caller.call("GET", "/version"))[0] == 200
        assert DevCluster(host="::1").url.startswith("https://[::1]:")

    async def test_leaving_ends_every_connection(self) -> None:
        """A watch does not keep the cluster from stopping."""
        async with (
            DevCluster() as cluster,
            calling(cluster) as caller,
            caller.watch(CONFIGMAPS) as lines,
        ):
            await lines.next()
            await asyncio.wait_for(cluster.__aexit__(None, None, None), 5)
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await lines.raw_rest()


class TestDirect:
    """Objects without HTTP."""

    async def test_the_life_of_an_object(self, devcluster: DevCluster) -> None:
        """Create, get, replace, patch in every format, list and delete."""
        made = await devcluster.create("cm", configmap("a", data={"k": "1"}))
        assert made["metadata"]["namespace"] == "default"
        assert await devcluster.get("configmaps", "a") == made
        made["data"]["k"] = "2"
        assert (await devcluster.replace("ConfigMap", made))["data"] == {"k": "2"}
        for type_, patch, value in (
            ("merge", {"data": {"k": "3"}}, "3"),
            ("json", [{"op": "replace", "path": "/data/k", "value": "4"}], "4"),
            ("strategic", {"data": {"k": "5"}}, "5"),
        ):
            patched = await devcluster.patch("cm", "a", patch, type=type_)
            assert patched["data"]["k"] == value
        applied = await devcluster.patch("cm", "b", configmap("b", data={"k": "6"}), type="apply")
        assert applied["data"] == {"k": "6"}
        found = await devcluster.list("cm", "default", field_selector="metadata.name=b")
        assert (found["kind"], [item["data"] for item in found["items"]]) == (
            "ConfigMapList",
            [{"k": "6"}],
        )
        gone = await devcluster.delete("cm", "a", propagationPolicy="Background")
        assert int(gone["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
        with pytest.raises(ApiError) as caught:
            await devcluster.get("cm", "a")
        assert caught.value.code == 404
        with pytest.raises(ValueError, match="choose one of"):
            await devcluster.patch("cm", "b", {}, type="bogus")

    async def test_a_status_is_written_by_itself(self, devcluster: DevCluster) -> None:
        """The subresource changes the status only, the object everything else."""
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
        made = await devcluster.create("pods", pod)
        ignored = await devcluster.patch("pods", "p", {"status": {"phase": "Running"}})
        assert ignored["status"]["phase"] == "Pending"
        made["status"]["phase"] = "Running"
        ran = await devcluster.replace("pods", made, subresource="status")
        assert ran["status"]["phase"] == "Running"
        labels = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Failed"}}
        done = await devcluster.patch("pods", "p", labels, subresource="status")
        assert (done["status"]["phase"], done["metadata"]["labels"]) == ("Failed", {"a": "b"})
        assert [entry.get("subresource") for entry in done["metadata"]["managedFields"]] == [
            None,
            "status",
        ]

    async def test_manifests_are_loaded_in_their_order(self, devcluster: DevCluster) -> None:
        """Documents and lists are expanded; what cannot be created says why."""
        text = """
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}}
- {apiVersion: v1, kind: ConfigMapList, items: []}
"""
        created = await devcluster.load(text)
        assert [obj["metadata"]["name"] for obj in created] == ["shop", "a"]
        with pytest.raises(ValueError, match="CustomResourceDefinition must come first"):
            await devcluster.load(b"{apiVersion: demo.test/v1, kind: Widget}")
        with pytest.raises(TypeError, match="must be a mapping"):
            await devcluster.load("- 1")

    async def test_a_token_makes_its_account(self, devcluster: DevCluster) -> None:
        """Asking for a token of an account that is not there makes the account."""
        await devcluster.create("ns", {"metadata": {"name": "shop"}})
        first = await devcluster.token_for("shop", "robot")
        assert first != await devcluster.token_for("shop", "robot")
        assert (await devcluster.get("sa", "robot", "shop"))["metadata"]["name"] == "robot"
        with pytest.raises(ApiError, match='namespaces "absent" not found'):
            await devcluster.token_for("absent", "robot")
        devcluster_error = pytest.raises(ApiError, match="less than 10 minutes")
        with devcluster_error:
            await devcluster.token_for("shop", "robot", lifetime_seconds=599)

    async def test_a_clock_can_be_given(self) -> None:
        """Timestamps and the ends of tokens follow it."""
        now = 1_700_000_000.0
        cluster = DevCluster(clock=lambda: now)
        made = await cluster.create("cm", configmap("a"))
        assert made["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
        token = await cluster.token_for("default", "robot", lifetime_seconds=600)
        async with cluster, calling(cluster) as caller:
            bearer = f"Bearer {token}"
            now += 600 + 60
            assert (await caller.call("GET", "/version", Authorization=bearer))[0] == 200
            now += 1
            assert (await caller.call("GET", "/version", Authorization=bearer))[0] == 401
