"""From a checked kubeconfig context, or the environment of a pod, to what a connection is made of.

The one place that touches kubernetes_asyncio: its loaders resolve the context (server, relative
paths, CA and certificate files, verification, TLS server name) into an explicit Configuration; its
global default is never set and its models are never used. What it would write to temporary files
(certificate and key data), read only once (token files), run without a limit (plugins) or leave out
in older versions (proxies) is taken out before and done here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config.config_exception import ConfigException
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from kubernetes_asyncio.config.kube_config import KubeConfigLoader

from watchcache_server.clusters.errors import (
    InClusterUnavailableError,
    KubeconfigFieldRefusedError,
    KubeconfigMalformedError,
)
from watchcache_server.clusters.kubeconfig import ContextConfig
from watchcache_server.kubernetes.exec_plugin import API_VERSIONS, ExecPlugin
from watchcache_server.kubernetes.tls import TlsMaterial

__all__ = ["ConnectionConfig", "load_context", "load_in_cluster"]

_OWN_CLUSTER_FIELDS: Final = frozenset({"certificate-authority-data", "proxy-url", "extensions"})
_OWN_USER_FIELDS: Final = frozenset(
    {"client-certificate-data", "client-key-data", "token", "tokenFile", "exec", "extensions"}
)
_EXEC_FIELDS: Final = frozenset(
    {
        "apiVersion",
        "command",
        "args",
        "env",
        "installHint",
        "provideClusterInfo",
        "interactiveMode",
    }
)
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionConfig:
    """How to reach one API server, and as whom: by token, token file, plugin or certificate.

    With both a token and a token file the file wins, and the token serves until it can be read.
    """

    url: str
    tls: TlsMaterial | None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    token: str | None = None
    token_file: Path | None = None
    plugin: ExecPlugin | None = None
    identity: str = ""

    def __repr__(self) -> str:
        return f"<ConnectionConfig {self.url} as {self.identity}>"


async def load_context(config: ContextConfig) -> ConnectionConfig:
    """Resolve a context of a kubeconfig. Raises a ClusterConfigError; opens no connection."""
    configuration = await _resolve(config)
    url = str(configuration.host)
    is_tls = url.startswith("https")
    if not is_tls and (
        config.user.get("client-certificate") or config.user.get("client-certificate-data")
    ):
        raise KubeconfigMalformedError(
            config.path,
            f"the user of context {config.context}",
            "has a client certificate, which an http server cannot see; use https",
        )
    return ConnectionConfig(
        url=url,
        tls=_tls_material(config, configuration) if is_tls else None,
        tls_server_name=configuration.tls_server_name or None,
        proxy_url=config.cluster.get("proxy-url") or None,
        token=config.user.get("token") or None,
        token_file=config.file(config.user, "tokenFile"),
        plugin=_plugin(config) if config.user.get("exec") else None,
        identity=f"the user of context {config.context}",
    )


def load_in_cluster(
    environment: Mapping[str, str] = os.environ,
    *,
    token_file: Path = Path(SERVICE_TOKEN_FILENAME),
    ca_file: Path = Path(SERVICE_CERT_FILENAME),
) -> ConnectionConfig:
    """Resolve the environment of a pod. Raises InClusterUnavailableError."""
    configuration = Configuration()
    loader = InClusterConfigLoader(
        token_filename=str(token_file),
        cert_filename=str(ca_file),
        try_refresh_token=False,
        environ=dict(environment),
    )
    try:
        loader.load_and_set(configuration)
    except (ConfigException, OSError, UnicodeDecodeError) as error:
        raise InClusterUnavailableError(str(error).rstrip(".")) from error
    return ConnectionConfig(
        url=str(configuration.host),
        tls=TlsMaterial(ca_file=ca_file),
        token_file=token_file,
        identity="the service's own ServiceAccount",
    )


async def _resolve(config: ContextConfig) -> Configuration:
    document = {
        "current-context": config.context,
        "contexts": [
            {"name": config.context, "context": {"cluster": "cluster", "user": "user"}},
        ],
        "clusters": [{"name": "cluster", "cluster": _without(config.cluster, _OWN_CLUSTER_FIELDS)}],
        "users": [{"name": "user", "user": _without(config.user, _OWN_USER_FIELDS)}],
    }
    configuration = Configuration()
    loader = KubeConfigLoader(document, config_base_path=str(config.folder))
    try:
        await loader.load_and_set(configuration)
    except ConfigException as error:
        raise KubeconfigMalformedError(
            config.path, f"context {config.context}:", str(error)
        ) from error
    return configuration


def _without(section: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    # Data wins over a file in a kubeconfig, so the file beside it is not even looked for.
    shadowed = {name.removesuffix("-data") for name in names if section.get(name)}
    return {
        name: value
        for name, value in section.items()
        if value and name not in names and name not in shadowed
    }


def _tls_material(config: ContextConfig, configuration: Configuration) -> TlsMaterial:
    def path(name: str) -> Path | None:
        value = getattr(configuration, name)
        return Path(value) if value else None

    return TlsMaterial(
        ca_file=path("ssl_ca_cert"),
        ca_data=config.data(config.cluster, "certificate-authority-data"),
        certificate_file=path("cert_file"),
        certificate_data=config.data(config.user, "client-certificate-data"),
        key_file=path("key_file"),
        key_data=config.data(config.user, "client-key-data"),
        is_verifying=configuration.verify_ssl,
    )


def _plugin(config: ContextConfig) -> ExecPlugin:
    section = config.user["exec"]
    where = f"exec of the user of context {config.context}"
    if not isinstance(section, dict):
        raise KubeconfigMalformedError(config.path, where, "must be a mapping")
    for name in section:
        if name not in _EXEC_FIELDS:
            raise KubeconfigFieldRefusedError(
                config.path, config.context, f"{name!r} (exec)", "remove it, or mend its spelling"
            )
    if section.get("interactiveMode") == "Always":
        raise KubeconfigFieldRefusedError(
            config.path,
            config.context,
            "interactiveMode Always",
            "a service has no terminal; use a plugin that needs none",
        )
    command, api_version = section.get("command"), section.get("apiVersion")
    if not isinstance(command, str) or not command:
        raise KubeconfigMalformedError(config.path, where, "needs a command")
    if api_version not in API_VERSIONS:
        raise KubeconfigMalformedError(
            config.path, where, f"needs an apiVersion of {' or '.join(API_VERSIONS)}"
        )
    return ExecPlugin(
        command=command,
        arguments=_arguments(config, where, section.get("args")),
        environment=_environment(config, where, section.get("env")),
        api_version=api_version,
        install_hint=str(section.get("installHint") or ""),
        folder=config.folder,
        cluster_info=_cluster_info(config) if section.get("provideClusterInfo") else None,
    )


def _arguments(config: ContextConfig, where: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise KubeconfigMalformedError(config.path, f"args of {where}", "must be a list of strings")
    return tuple(value)


def _environment(config: ContextConfig, where: str, value: Any) -> dict[str, str]:
    rule = "must be a list of mappings with name and value, both strings"
    found: dict[str, str] = {}
    if value is None:
        return found
    if not isinstance(value, list):
        raise KubeconfigMalformedError(config.path, f"env of {where}", rule)
    for entry in value:
        name = entry.get("name") if isinstance(entry, dict) else None
        text = entry.get("value") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not isinstance(text, str):
            raise KubeconfigMalformedError(config.path, f"env of {where}", rule)
        found[name] = text
    return found


def _cluster_info(config: ContextConfig) -> dict[str, Any]:
    """Return what a plugin is told of the cluster (ExecCredential spec.cluster)."""
    names = (
        "server",
        "tls-server-name",
        "insecure-skip-tls-verify",
        "certificate-authority-data",
        "proxy-url",
        "disable-compression",
    )
    info = {name: config.cluster[name] for name in names if config.cluster.get(name)}
    for extension in config.cluster.get("extensions") or ():
        if isinstance(extension, dict) and extension.get("name") == _EXEC_EXTENSION:
            info["config"] = extension.get("extension")
    return info
