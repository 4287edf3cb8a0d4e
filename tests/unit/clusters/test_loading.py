"""Rules of turning a context, or a pod's environment, into a connection."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio.client import Configuration

from tests.unit.clusters.kubeconfigs import document, write
from watchcache_server.clusters.errors import (
    InClusterUnavailableError,
    KubeconfigFieldRefusedError,
    KubeconfigMalformedError,
)
from watchcache_server.clusters.kubeconfig import read_context
from watchcache_server.clusters.loading import ConnectionConfig, load_context, load_in_cluster

V1 = "client.authentication.k8s.io/v1"


def data(text: str) -> str:
    """Return base64."""
    return base64.b64encode(text.encode()).decode()


async def load(folder: Path, **changes: Any) -> ConnectionConfig:
    """Load a kubeconfig in `folder`."""
    return await load_context(read_context(write(folder / "k", document(**changes))))


async def test_a_token_is_taken(tmp_path: Path) -> None:
    """And the address, without a slash at its end."""
    config = await load(tmp_path, cluster={"server": "https://host:6443/k8s/clusters/c-1/"})
    assert config.url == "https://host:6443/k8s/clusters/c-1"
    assert (config.token, config.token_file, config.plugin) == ("t", None, None)
    assert config.identity == "the user of context dev"
    assert config.tls is not None
    assert config.tls.is_verifying
    assert "token" not in repr(config)


async def test_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    """Not to wherever the service was started."""
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name)
    config = await load(
        tmp_path,
        cluster={"certificate-authority": "ca"},
        user={"client-certificate": "cert", "client-key": "key", "tokenFile": "token"},
    )
    assert config.tls is not None
    assert config.tls.ca_file == tmp_path / "ca"
    assert config.tls.certificate_file == tmp_path / "cert"
    assert config.tls.key_file == tmp_path / "key"
    assert config.token_file == tmp_path / "token"


async def test_data_stays_in_memory_and_wins_over_files(tmp_path: Path) -> None:
    """As in kubectl; the files beside it are not even looked for, and none is written."""
    config = await load(
        tmp_path,
        cluster={"certificate-authority": "absent", "certificate-authority-data": data("CA")},
        user={
            "client-certificate": "absent",
            "client-certificate-data": data("CERT"),
            "client-key": "absent",
            "client-key-data": data("KEY"),
        },
    )
    assert config.tls is not None
    assert config.tls.ca_data == b"CA"
    assert config.tls.certificate_data == b"CERT"
    assert config.tls.key_data == b"KEY"
    assert config.tls.files == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": {"certificate-authority": "absent"}},
        {"user": {"client-certificate": "absent", "client-key": "absent"}},
    ],
)
async def test_an_absent_file_is_named(tmp_path: Path, changes: dict[str, Any]) -> None:
    """With the kubeconfig that names it."""
    with pytest.raises(KubeconfigMalformedError, match=str(tmp_path / "absent")):
        await load(tmp_path, **changes)


async def test_the_other_fields_of_a_cluster_are_honoured(tmp_path: Path) -> None:
    """Verification, the server's name and the proxy."""
    config = await load(
        tmp_path,
        cluster={
            "insecure-skip-tls-verify": True,
            "tls-server-name": "kubernetes",
            "proxy-url": "http://proxy:3128",
        },
    )
    assert config.tls is not None
    assert not config.tls.is_verifying
    assert config.tls_server_name == "kubernetes"
    assert config.proxy_url == "http://proxy:3128"


async def test_http_has_no_tls(tmp_path: Path) -> None:
    """And no client certificate, which nobody would see."""
    config = await load(tmp_path, cluster={"server": "http://127.0.0.1:8001"})
    assert config.tls is None
    with pytest.raises(KubeconfigMalformedError, match="an http server cannot see"):
        await load(
            tmp_path,
            cluster={"server": "http://127.0.0.1:8001"},
            user={"client-certificate-data": data("C"), "client-key-data": data("K")},
        )


async def test_a_plugin_is_taken_with_all_its_settings(tmp_path: Path) -> None:
    """Command, arguments, environment, version, hint, and the cluster where it wants to know."""
    config = await load(
        tmp_path,
        cluster={
            "certificate-authority-data": data("CA"),
            "extensions": [
                {"name": "other", "extension": {"x": 1}},
                {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}},
            ],
        },
        user={
            "exec": {
                "apiVersion": V1,
                "command": "./login",
                "args": ["--now"],
                "env": [{"name": "A", "value": "b"}],
                "installHint": "get it",
                "interactiveMode": "IfAvailable",
                "provideClusterInfo": True,
            }
        },
    )
    plugin = config.plugin
    assert plugin is not None
    assert plugin.program == str(tmp_path / "login")
    assert plugin.arguments == ("--now",)
    assert plugin.environment == {"A": "b"}
    assert plugin.install_hint == "get it"
    assert plugin.cluster_info == {
        "server": "https://127.0.0.1:6443",
        "certificate-authority-data": data("CA"),
        "config": {"audience": "a"},
    }


async def test_a_plugin_that_does_not_ask_is_not_told_of_the_cluster(tmp_path: Path) -> None:
    """By default it is not: provideClusterInfo says so."""
    config = await load(tmp_path, user={"exec": {"apiVersion": V1, "command": "login"}})
    assert config.plugin is not None
    assert config.plugin.cluster_info is None


BAD_PLUGINS: dict[str, tuple[Any, type[Exception], str]] = {
    "no mapping": ("login", KubeconfigMalformedError, "must be a mapping"),
    "no command": ({"apiVersion": V1}, KubeconfigMalformedError, "needs a command"),
    "no version": ({"command": "x"}, KubeconfigMalformedError, "needs an apiVersion"),
    "an old version": (
        {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"},
        KubeconfigMalformedError,
        "needs an apiVersion of",
    ),
    "arguments that are no strings": (
        {"command": "x", "apiVersion": V1, "args": [1]},
        KubeconfigMalformedError,
        "must be a list of strings",
    ),
    "an environment that is a mapping": (
        {"command": "x", "apiVersion": V1, "env": {"A": "b"}},
        KubeconfigMalformedError,
        "must be a list of mappings",
    ),
    "an environment without values": (
        {"command": "x", "apiVersion": V1, "env": [{"name": "A"}]},
        KubeconfigMalformedError,
        "must be a list of mappings",
    ),
    "an environment of strings": (
        {"command": "x", "apiVersion": V1, "env": ["A=b"]},
        KubeconfigMalformedError,
        "must be a list of mappings",
    ),
    "one that needs a terminal": (
        {"command": "x", "apiVersion": V1, "interactiveMode": "Always"},
        KubeconfigFieldRefusedError,
        "a service has no terminal",
    ),
    "a mistyped field": (
        {"command": "x", "apiVersion": V1, "arg": []},
        KubeconfigFieldRefusedError,
        r"'arg' \(exec\)",
    ),
}


@pytest.mark.parametrize("case", BAD_PLUGINS)
async def test_a_bad_plugin_is_refused_before_it_runs(tmp_path: Path, case: str) -> None:
    """With the place in the file and the rule."""
    section, kind, text = BAD_PLUGINS[case]
    with pytest.raises(kind, match=text):
        await load(tmp_path, user={"exec": section})


async def test_the_global_configuration_stays_alone(tmp_path: Path) -> None:
    """kubernetes_asyncio's default is not ours to set: two clusters would mix."""
    before = Configuration.get_default_copy().host
    await load(tmp_path, cluster={"server": "https://elsewhere:1"})
    assert Configuration.get_default_copy().host == before


@pytest.fixture
def pod(tmp_path: Path) -> dict[str, Any]:
    """Give the environment of a pod."""
    (tmp_path / "token").write_text("t\n")
    (tmp_path / "ca.crt").write_text("CA")
    return {
        "environment": {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"},
        "token_file": tmp_path / "token",
        "ca_file": tmp_path / "ca.crt",
    }


def test_a_pod_is_known_by_its_environment(pod: dict[str, Any]) -> None:
    """Address, CA and token file; the token itself is read when it is used."""
    config = load_in_cluster(**pod)
    assert config.url == "https://[fd00::1]:443"
    assert config.tls is not None
    assert config.tls.ca_file == pod["ca_file"]
    assert (config.token, config.token_file) == (None, pod["token_file"])
    assert config.identity == "the service's own ServiceAccount"


NO_PODS: dict[str, dict[str, Any]] = {
    "no environment": {"environment": {}},
    "an empty environment": {
        "environment": {"KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": ""}
    },
    "no token": {"token_file": Path("/absent")},
    "no CA": {"ca_file": Path("/absent")},
}


@pytest.mark.parametrize("case", NO_PODS)
def test_what_is_no_pod_is_told_so(pod: dict[str, Any], case: str) -> None:
    """With what is missing and what to do instead."""
    with pytest.raises(InClusterUnavailableError, match="or name a kubeconfig"):
        load_in_cluster(**{**pod, **NO_PODS[case]})
