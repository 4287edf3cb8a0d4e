"""A kubeconfig, read and checked: each field of a context is honoured or refused by name.

Gives plain values; no connection, no plugin and no token file is touched here. A field that this
module does not know is refused, since a mistyped one would otherwise weaken a connection without a
word.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from watchcache_server.clusters.errors import (
    ContextUnknownError,
    KubeconfigFieldRefusedError,
    KubeconfigMalformedError,
    KubeconfigMissingError,
    KubeconfigUnreadableError,
)

__all__ = ["ContextConfig", "read_context"]

_MAX_BYTES: Final = 4 * 1024 * 1024
# Besides its own errors the parser raises what its constructors of tagged scalars (!!bool x,
# !!timestamp x, !!float "") do.
_UNREADABLE: Final = (
    *(yaml.YAMLError, RecursionError, ValueError),
    *(LookupError, AttributeError, TypeError),
)

_CLUSTER_FIELDS: Final = frozenset(
    {
        "server",
        "tls-server-name",
        "insecure-skip-tls-verify",
        "certificate-authority",
        "certificate-authority-data",
        "proxy-url",
        "disable-compression",  # nothing is ever compressed
        "extensions",  # other programs' own
    }
)
_USER_FIELDS: Final = frozenset(
    {
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
        "token",
        "tokenFile",
        "exec",
        "extensions",
    }
)
_CONTEXT_FIELDS: Final = frozenset({"cluster", "user", "namespace", "extensions"})

_IMPERSONATION = "name the identity itself, or let extensions name their ServiceAccounts"
_BASIC = "API servers dropped basic authentication; use a token, a certificate or an exec plugin"
_REFUSED_USER_FIELDS: Final = {
    "auth-provider": "auth providers were removed from Kubernetes; use an exec plugin or a token",
    "username": _BASIC,
    "password": _BASIC,
    "as": _IMPERSONATION,
    "as-uid": _IMPERSONATION,
    "as-groups": _IMPERSONATION,
    "as-user-extra": _IMPERSONATION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextConfig:
    """One context: `cluster` and `user` as in the file, checked, without secrets in the repr."""

    path: Path
    context: str
    cluster: Mapping[str, Any] = field(repr=False)
    user: Mapping[str, Any] = field(repr=False)

    @property
    def folder(self) -> Path:
        """Where relative paths of the file start."""
        return self.path.absolute().parent

    def data(self, section: Mapping[str, Any], name: str) -> bytes | None:
        """Return a base64 field decoded; None when it is absent or empty."""
        text = section.get(name)
        return _decoded(self.path, name, text) if text else None

    def file(self, section: Mapping[str, Any], name: str) -> Path | None:
        """Return a path field, relative to the file's folder; None when it is absent or empty."""
        text = section.get(name)
        return self.folder / str(text) if text else None


def read_context(path: Path, context: str = "") -> ContextConfig:
    """Read a kubeconfig and return one of its contexts, by default the current one.

    Raises a ClusterConfigError of the kind that tells what is wrong.
    """
    config = _read(path)
    contexts = _named(path, config, "contexts", "context")
    chosen = context or _text(path, config, "current-context", "the file")
    if not chosen:
        raise KubeconfigMalformedError(
            path, "current-context", "is not set; set it, or name a context as PATH#CONTEXT"
        )
    if chosen not in contexts:
        raise ContextUnknownError(path, chosen, tuple(contexts))
    where = f"context {chosen}"
    entry = contexts[chosen]
    _refuse_unknown(path, chosen, where, entry, _CONTEXT_FIELDS)
    cluster_name = _text(path, entry, "cluster", where)
    user_name = _text(path, entry, "user", where)
    clusters = _named(path, config, "clusters", "cluster")
    users = _named(path, config, "users", "user")
    if cluster_name not in clusters:
        raise KubeconfigMalformedError(
            path, where, f"names the cluster {cluster_name!r}, which is not in clusters; add it"
        )
    if user_name and user_name not in users:
        raise KubeconfigMalformedError(
            path, where, f"names the user {user_name!r}, which is not in users; add it"
        )
    checked = ContextConfig(
        path=path,
        context=chosen,
        cluster=clusters[cluster_name],
        user=users[user_name] if user_name else {},
    )
    _check_user(checked)
    _check_cluster(checked)
    return checked


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise KubeconfigMissingError(path) from error
    except OSError as error:
        raise KubeconfigUnreadableError(path, error.strerror or type(error).__name__) from error
    if len(content) > _MAX_BYTES:
        raise KubeconfigUnreadableError(path, f"it is larger than {_MAX_BYTES} bytes")
    try:
        config = yaml.safe_load(content)
    except _UNREADABLE as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark is not None else "the file"
        raise KubeconfigMalformedError(path, line, "is not YAML") from error
    if not isinstance(config, dict):
        raise KubeconfigMalformedError(path, "the file", "must be a mapping of kind Config")
    if config.get("kind", "Config") != "Config" or config.get("apiVersion", "v1") != "v1":
        raise KubeconfigMalformedError(path, "the file", "must be of apiVersion v1 and kind Config")
    return config


def _named(path: Path, config: Mapping[str, Any], section: str, key: str) -> dict[str, Any]:
    entries = config.get(section) or []
    if not isinstance(entries, list):
        raise KubeconfigMalformedError(path, section, "must be a list")
    found: dict[str, Any] = {}
    for index, entry in enumerate(entries):
        where = f"{section}[{index}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise KubeconfigMalformedError(path, where, "must be a mapping with a name")
        name = entry["name"]
        value = entry.get(key) or {}
        if not isinstance(value, dict):
            raise KubeconfigMalformedError(path, f"{where}.{key}", "must be a mapping")
        if name in found:
            raise KubeconfigMalformedError(path, where, f"repeats the name {name!r}; names differ")
        found[name] = value
    return found


def _text(path: Path, section: Mapping[str, Any], name: str, where: str) -> str:
    value = section.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise KubeconfigMalformedError(path, f"{name} of {where}", "must be a string")
    return value


def _refuse_unknown(
    path: Path, context: str, where: str, section: Mapping[str, Any], known: frozenset[str]
) -> None:
    for name in section:
        if name not in known:
            raise KubeconfigFieldRefusedError(
                path, context, f"{name!r} ({where})", "remove it, or mend its spelling"
            )


def _check_user(config: ContextConfig) -> None:
    user = config.user
    for name, mend in _REFUSED_USER_FIELDS.items():
        if user.get(name):
            raise KubeconfigFieldRefusedError(config.path, config.context, name, mend)
    present = {name: value for name, value in user.items() if value}
    _refuse_unknown(config.path, config.context, "user", present, _USER_FIELDS)
    for name in _USER_FIELDS - {"exec", "extensions"}:
        _text(config.path, user, name, "the user")
    has_certificate = user.get("client-certificate") or user.get("client-certificate-data")
    has_key = user.get("client-key") or user.get("client-key-data")
    if bool(has_certificate) != bool(has_key):
        raise KubeconfigMalformedError(
            config.path,
            f"the user of context {config.context}",
            "needs both a client certificate and its key",
        )
    has_token = user.get("token") or user.get("tokenFile")
    if user.get("exec") and (has_token or has_certificate):
        raise KubeconfigMalformedError(
            config.path,
            f"the user of context {config.context}",
            "has exec beside a token or a certificate; keep one of them",
        )
    for name in ("client-certificate-data", "client-key-data"):
        config.data(user, name)


def _check_cluster(config: ContextConfig) -> None:
    path, cluster = config.path, config.cluster
    _refuse_unknown(path, config.context, "cluster", cluster, _CLUSTER_FIELDS)
    for name in ("server", "tls-server-name", "certificate-authority", "proxy-url"):
        _text(path, cluster, name, "the cluster")
    where = f"the cluster of context {config.context}"
    for name in ("insecure-skip-tls-verify", "disable-compression"):
        if not isinstance(cluster.get(name, False), bool):
            raise KubeconfigMalformedError(path, f"{name} of {where}", "must be true or false")
    is_insecure = cluster.get("insecure-skip-tls-verify", False)
    has_ca = cluster.get("certificate-authority") or cluster.get("certificate-authority-data")
    if is_insecure and has_ca:
        raise KubeconfigMalformedError(
            path, where, "has both a certificate authority and insecure-skip-tls-verify; keep one"
        )
    config.data(cluster, "certificate-authority-data")
    _check_server(config, where)
    _check_proxy(config)


def _check_proxy(config: ContextConfig) -> None:
    path, proxy = config.path, config.cluster.get("proxy-url") or ""
    try:
        parts = urlsplit(proxy)
        _ = parts.port
    except ValueError as error:
        where = f"proxy-url of the cluster of context {config.context}"
        rule = "must be a URL such as http://proxy:3128"
        raise KubeconfigMalformedError(path, where, rule) from error
    if proxy and parts.scheme not in ("http", "https"):
        raise KubeconfigFieldRefusedError(
            path,
            config.context,
            "proxy-url of another scheme than http or https",
            "use such a proxy",
        )


def _check_server(config: ContextConfig, where: str) -> None:
    server = config.cluster.get("server") or ""
    rule = "must be a URL such as https://host:6443"
    try:
        parts = urlsplit(server)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise KubeconfigMalformedError(config.path, f"server of {where}", rule) from error
    is_plain = parts.scheme in ("http", "https") and host and not (parts.query or parts.fragment)
    if not is_plain or host is None:
        raise KubeconfigMalformedError(config.path, f"server of {where}", rule)
    if parts.username is not None or parts.password is not None:
        raise KubeconfigFieldRefusedError(
            config.path,
            config.context,
            "a user in the server's URL",
            "use a token or a certificate",
        )
    if parts.scheme == "http" and not _is_loopback(host):
        raise KubeconfigFieldRefusedError(
            config.path,
            config.context,
            "an http server on another machine",
            "tokens would cross the network in clear; use https",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _decoded(path: Path, name: str, text: object) -> bytes:
    if isinstance(text, str):
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            pass
    raise KubeconfigMalformedError(path, name, "must be base64")
