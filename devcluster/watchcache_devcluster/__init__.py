"""A small in-process Kubernetes API server for demos, tests and fault injection.

`DevCluster` is the cluster, `Fault` a piece of trouble for it, `ApiError` what it answers when it
refuses. What it serves and how closely it follows kube-apiserver is in the README.
"""

from __future__ import annotations

from watchcache_devcluster.certificates import Credential
from watchcache_devcluster.cluster import DevCluster
from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.faults import Fault, FaultKind, FaultSet

__all__ = ["ApiError", "Credential", "DevCluster", "Fault", "FaultKind", "FaultSet"]
