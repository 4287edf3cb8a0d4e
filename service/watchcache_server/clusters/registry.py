"""The clusters that the service knows, by name.

    registry = await open_clusters(["hub=~/.kube/config#hub", "~/.kube/edge"])
    registry.get("hub"), registry.default, registry.statuses()
    await registry.close()

Names are those of the contexts unless NAME= gives another; they are unique. Opening reads
configuration and connects to nothing: a cluster that is down is no reason not to start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from watchcache_server.clusters.cluster import Cluster, ClusterOptions, ClusterStatus
from watchcache_server.clusters.errors import ClusterNameTakenError, UnknownClusterError
from watchcache_server.clusters.kubeconfig import read_context
from watchcache_server.clusters.loading import ConnectionConfig, load_context, load_in_cluster
from watchcache_server.clusters.sources import KubeconfigSource, parse_source
from watchcache_server.kubernetes.reporting import SILENT, AccessReporter

__all__ = ["IN_CLUSTER_NAME", "ClusterRegistry", "open_clusters"]

IN_CLUSTER_NAME: Final = "hub"
_IN_CLUSTER_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"


class ClusterRegistry:
    """Clusters by name, one of which is the default."""

    def __init__(self, clusters: Sequence[Cluster], *, default: str = "") -> None:
        """Take clusters of different names; without a `default` the first one is it.

        Raises UnknownClusterError when the default is none of them.
        """
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self.default = default or (clusters[0].name if clusters else "")
        if self.default not in self._clusters:
            raise UnknownClusterError(self.default, self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._clusters))

    def get(self, name: str = "") -> Cluster:
        """Return a cluster; without a name the default one. Raises UnknownClusterError."""
        cluster = self._clusters.get(name or self.default)
        if cluster is None:
            raise UnknownClusterError(name, self.names)
        return cluster

    def statuses(self) -> tuple[ClusterStatus, ...]:
        """Say how the clusters are, by what is known, ordered by name."""
        return tuple(self._clusters[name].status() for name in self.names)

    async def close(self) -> None:
        """Close the connections of all clusters."""
        for cluster in self._clusters.values():
            await cluster.close()


async def open_clusters(
    sources: Sequence[str] = (),
    *,
    default: str = "",
    environment: Mapping[str, str] = os.environ,
    options: ClusterOptions | None = None,
    reporter: AccessReporter = SILENT,
) -> ClusterRegistry:
    """Make the clusters that `sources` name, each as [NAME=]PATH[#CONTEXT].

    Without sources: the in-cluster environment under the name `hub`, else the files of $KUBECONFIG,
    else ~/.kube/config. Raises a ClusterConfigError, or
    UnknownClusterError when `default` is none of them.
    """
    configs: dict[str, tuple[str, ConnectionConfig]] = {}
    if not sources and environment.get(_IN_CLUSTER_VARIABLE):
        configs[IN_CLUSTER_NAME] = ("the in-cluster environment", load_in_cluster(environment))
    else:
        for source in _sources(sources, environment):
            context = read_context(source.path, source.context)
            name = source.name or context.context
            where = f"{source.path}#{context.context}"
            if name in configs:
                raise ClusterNameTakenError(name, configs[name][0], where)
            configs[name] = (where, await load_context(context))
    clusters = [
        Cluster(name, config, options=options, reporter=reporter)
        for name, (_, config) in configs.items()
    ]
    return ClusterRegistry(clusters, default=default)


def _sources(sources: Sequence[str], environment: Mapping[str, str]) -> Sequence[KubeconfigSource]:
    if sources:
        return [parse_source(text) for text in sources]
    listed = [each for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    if listed:
        return [KubeconfigSource(Path(each).expanduser()) for each in listed]
    return [KubeconfigSource(Path("~/.kube/config").expanduser())]
