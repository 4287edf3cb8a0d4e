"""Rules of the clusters by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.credentials import Credentials
from tests.unit.clusters.kubeconfigs import document, write
from tests.unit.kubernetes.api_double import serve
from watchcache_server.clusters import registry as registry_module
from watchcache_server.clusters.cluster import ClusterOptions
from watchcache_server.clusters.errors import (
    ClusterNameTakenError,
    ContextUnknownError,
    InClusterUnavailableError,
    KubeconfigMissingError,
    UnknownClusterError,
)
from watchcache_server.clusters.loading import load_in_cluster
from watchcache_server.clusters.registry import ClusterRegistry, open_clusters


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Give a kubeconfig with the contexts dev and staging."""
    config = document()
    config["contexts"].append({"name": "staging", "context": {"cluster": "c"}})
    return write(tmp_path / "config", config)


async def test_clusters_are_named_after_their_contexts(kubeconfig: Path) -> None:
    """Unless another name is given; the first one is the default."""
    registry = await open_clusters([f"{kubeconfig}", f"edge={kubeconfig}#staging"])
    assert registry.names == ("dev", "edge")
    assert registry.default == "dev"
    assert registry.get() is registry.get("dev")
    assert registry.get("edge").own.identity == "the user of context staging"
    assert [status.name for status in registry.statuses()] == ["dev", "edge"]
    await registry.close()


async def test_another_default_can_be_named(kubeconfig: Path) -> None:
    """It must be one of them."""
    sources = [f"{kubeconfig}", f"{kubeconfig}#staging"]
    registry = await open_clusters(sources, default="staging")
    assert registry.get().name == "staging"
    await registry.close()
    with pytest.raises(UnknownClusterError, match="'prod' is not known; known are dev, staging"):
        await open_clusters(sources, default="prod")


async def test_an_unknown_cluster_is_told_with_the_known_ones(kubeconfig: Path) -> None:
    """The caller sees what there is."""
    registry = await open_clusters([f"{kubeconfig}"])
    with pytest.raises(UnknownClusterError) as caught:
        registry.get("prod")
    assert str(caught.value) == "cluster 'prod' is not known; known are dev"
    assert (caught.value.name, caught.value.known) == ("prod", ("dev",))
    await registry.close()


async def test_two_clusters_of_one_name_are_refused(kubeconfig: Path) -> None:
    """Both places are named, and how to tell them apart."""
    with pytest.raises(ClusterNameTakenError) as caught:
        await open_clusters([f"{kubeconfig}", f"dev={kubeconfig}#staging"])
    assert f"{kubeconfig}#dev" in str(caught.value)
    assert f"{kubeconfig}#staging" in str(caught.value)
    assert "NAME=PATH#CONTEXT" in str(caught.value)


async def test_the_first_bad_source_is_the_error(kubeconfig: Path, tmp_path: Path) -> None:
    """A service with half of its clusters would be silently blind."""
    with pytest.raises(KubeconfigMissingError):
        await open_clusters([f"{kubeconfig}", f"{tmp_path}/absent"])
    with pytest.raises(ContextUnknownError):
        await open_clusters([f"{kubeconfig}#prod"])


async def test_without_sources_the_environment_counts(kubeconfig: Path, tmp_path: Path) -> None:
    """$KUBECONFIG, each of its files with its current context."""
    other = write(tmp_path / "other", document(context="prod"))
    registry = await open_clusters(environment={"KUBECONFIG": f"{kubeconfig}::{other}"})
    assert registry.names == ("dev", "prod")
    await registry.close()


async def test_without_anything_the_home_folder_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for kubectl."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(KubeconfigMissingError, match=str(tmp_path / ".kube" / "config")):
        await open_clusters(environment={})


async def test_in_a_pod_the_pod_counts() -> None:
    """Before $KUBECONFIG; a pod without its token says so."""
    pod = {
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBECONFIG": "/absent",
    }
    with pytest.raises(InClusterUnavailableError):
        await open_clusters(environment=pod)


async def test_the_cluster_of_a_pod_is_the_hub(
    tmp_path: Path, pki: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that the service runs beside."""
    token = write(tmp_path / "token", "t")
    monkeypatch.setattr(
        registry_module,
        "load_in_cluster",
        lambda environment: load_in_cluster(environment, token_file=token, ca_file=pki.ca_file),
    )
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    registry = await open_clusters(environment=pod)
    assert (registry.names, registry.default) == (("hub",), "hub")
    assert registry.get().server == "https://10.0.0.1:443"
    await registry.close()


async def test_sources_win_over_the_pod(kubeconfig: Path) -> None:
    """Who names clusters gets those."""
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    registry = await open_clusters([f"{kubeconfig}"], environment=pod)
    assert registry.names == ("dev",)
    await registry.close()


async def test_opening_connects_to_nothing(kubeconfig: Path) -> None:
    """A cluster that is down is no reason not to start; probing tells, one by one."""
    registry = await open_clusters(
        [f"{kubeconfig}"], options=ClusterOptions(token_lifetime_seconds=900)
    )
    assert registry.get().tokens.lifetime_seconds == 900
    await registry.close()


async def test_a_cluster_that_is_down_hides_no_other(pki: Credentials, tmp_path: Path) -> None:
    """Each is known by its own answers."""
    async with serve(pki) as api:
        api.answer("/version", {"gitVersion": "v1.36.3"})
        trust = {"certificate-authority": str(pki.ca_file)}
        up = write(tmp_path / "up", document(cluster={"server": api.url, **trust}))
        down = {"server": "https://127.0.0.1:1", **trust}
        write(tmp_path / "down", document(cluster=down, context="down"))
        registry = await open_clusters([f"{up}", f"{tmp_path}/down"])
        for name in registry.names:
            await registry.get(name).probe()
        found = {status.name: status.is_reachable for status in registry.statuses()}
        assert found == {"dev": True, "down": False}
        await registry.close()


def test_a_registry_of_nothing_is_refused() -> None:
    """There is no default then."""
    with pytest.raises(UnknownClusterError, match="known are none"):
        ClusterRegistry([])
