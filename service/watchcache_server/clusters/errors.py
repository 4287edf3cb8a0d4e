"""Why a cluster cannot be had: what is wrong with its configuration, a class for each cause.

Every text names the file, the context or field, the rule and the mend; none shows a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

__all__ = [
    "ClusterConfigError",
    "ClusterNameTakenError",
    "ContextUnknownError",
    "InClusterUnavailableError",
    "KubeconfigFieldRefusedError",
    "KubeconfigMalformedError",
    "KubeconfigMissingError",
    "KubeconfigUnreadableError",
    "SourceMalformedError",
    "UnknownClusterError",
]


class ClusterConfigError(ValueError):
    """The configuration of a cluster cannot be used."""

    reason: ClassVar[str] = "CLUSTER_CONFIG"


class SourceMalformedError(ClusterConfigError):
    """What was given is not of the form [NAME=]PATH[#CONTEXT]."""

    reason = "CLUSTER_SOURCE_MALFORMED"


class KubeconfigMissingError(ClusterConfigError):
    """The kubeconfig does not exist."""

    reason = "KUBECONFIG_MISSING"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"kubeconfig {path}: no such file; give the path of an existing kubeconfig"
        )
        self.path = path


class KubeconfigUnreadableError(ClusterConfigError):
    """The kubeconfig exists but cannot be read."""

    reason = "KUBECONFIG_UNREADABLE"

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"kubeconfig {path}: cannot be read: {why}; it must be a file that the service may read"
        )
        self.path = path


class KubeconfigMalformedError(ClusterConfigError):
    """The kubeconfig is not one."""

    reason = "KUBECONFIG_MALFORMED"

    def __init__(self, path: Path, where: str, rule: str) -> None:
        super().__init__(f"kubeconfig {path}: {where} {rule}")
        self.path = path
        self.where = where


class ContextUnknownError(ClusterConfigError):
    """The kubeconfig has no context of that name."""

    reason = "CONTEXT_UNKNOWN"

    def __init__(self, path: Path, context: str, known: Sequence[str]) -> None:
        has = f"it has {', '.join(sorted(known))}" if known else "it has none"
        super().__init__(f"kubeconfig {path}: no context {context!r}; {has}")
        self.path = path
        self.context = context
        self.known = tuple(known)


class KubeconfigFieldRefusedError(ClusterConfigError):
    """The kubeconfig asks for something that the service does not do, and must not ignore."""

    reason = "KUBECONFIG_FIELD_REFUSED"

    def __init__(self, path: Path, context: str, field: str, mend: str) -> None:
        super().__init__(f"kubeconfig {path}, context {context}: {field} is not supported; {mend}")
        self.path = path
        self.context = context
        self.field = field


class InClusterUnavailableError(ClusterConfigError):
    """The environment is not that of a pod."""

    reason = "IN_CLUSTER_UNAVAILABLE"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the in-cluster environment cannot be used: {why}; run as a pod with a mounted "
            "ServiceAccount token, or name a kubeconfig"
        )


class ClusterNameTakenError(ClusterConfigError):
    """Two clusters would have one name."""

    reason = "CLUSTER_NAME_TAKEN"

    def __init__(self, name: str, first: str, second: str) -> None:
        super().__init__(
            f"cluster name {name!r} is given twice, by {first} and by {second}; "
            "give one of them another as NAME=PATH#CONTEXT"
        )
        self.name = name


class UnknownClusterError(LookupError):
    """No cluster of that name is known."""

    reason: ClassVar[str] = "UNKNOWN_CLUSTER"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(
            f"cluster {name!r} is not known; known are {', '.join(sorted(known)) or 'none'}"
        )
        self.name = name
        self.known = tuple(known)
