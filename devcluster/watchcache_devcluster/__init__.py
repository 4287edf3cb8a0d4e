"""A small in-process Kubernetes API server for demos, tests and fault injection.

`DevCluster` is the cluster, `Fault` a piece of trouble for it, `ApiError` what it answers when it
refuses. What it serves and how closely it follows kube-apiserver is in the README.
"""

from __future__ import annotations

from .certificates import Credential
from .cluster import DevCluster
from .errors import ApiError
from .faults import Fault, FaultKind, FaultSet

__all__ = ["ApiError", "Credential", "DevCluster", "Fault", "FaultKind", "FaultSet"]
