"""Extensions with objects in them, without clusters or connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from tests.unit.observability.speaker import SPEC
from watchcache_server.clusters.cluster import ClusterStatus
from watchcache_server.extensions.extension import Clock, Extension
from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.objects import Item
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import ExtensionKey, ExtensionSpec, SourceSpec
from watchcache_server.observability.reporter import Reporters

NOW = 1_000_000.0


class Owner:
    """Hears what an extension asks of its owner, and does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


class Registry:
    """Holds extensions, and tokens for them."""

    def __init__(self) -> None:
        self.extensions: dict[ExtensionKey, Extension] = {}
        self.expiries: dict[ExtensionKey, dict[str, float | None]] = {}

    def __iter__(self) -> Iterator[Extension]:
        return iter(self.extensions.values())

    def credentials_of(self, extension: Extension) -> dict[str, Any]:
        return {
            cluster: SimpleNamespace(account=SimpleNamespace(expires_in_seconds=seconds))
            for cluster, seconds in self.expiries.get(extension.key, {}).items()
        }

    def register(self, name: str, *informers: tuple[SourceSpec, int]) -> Extension:
        """Add an extension whose informers hold so many objects, the kinds of which are served."""
        key = ExtensionKey("team-a", name)
        extension = self.extensions[key] = Extension(
            key,
            ExtensionSpec("shop", ("hub",), ()),
            clock=Clock(now=lambda: NOW, wall=lambda: NOW),
            reporter=Reporters(),
            max_changes=1000,
            max_history_bytes=1_000_000,
            max_ends=1000,
            max_index_values=64,
            deliveries_per_second=1000,
            owner=Owner(),
        )
        for spec, count in informers:
            informer = extension.add_informer(spec)
            informer.bind(served(spec))
            hold(informer, count)
        return extension


def spec_of(resource: str, *, cluster: str = "hub", namespace: str = "team-a") -> SourceSpec:
    """Return the spec of an informer."""
    return SourceSpec(
        cluster=cluster,
        group="apps",
        version="v1",
        resource=resource,
        kind="",
        namespace=namespace,
        label_selector="",
        field_selector="",
        projection=SPEC.projection,
    )


def served(spec: SourceSpec) -> ServedResource:
    """Return what discovery says of it."""
    return ServedResource(
        spec.group,
        "v1",
        spec.resource,
        spec.resource.title(),
        is_namespaced=True,
        verbs=frozenset(),
    )


def hold(informer: Informer, count: int) -> None:
    """Let an informer sync with so many objects."""
    body = b'{"metadata":{"name":"web"}}'
    informer.stage(
        Item(informer.namespace, f"object-{number}", f"uid-{number}", "7", {}, (), body)
        for number in range(count)
    )
    informer.commit(NOW)


class Clusters:
    """The clusters, as they were last seen."""

    def __init__(self, **ages: float | None) -> None:
        self.ages = ages or {"hub": 1.0}
        self.tls_problems: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.ages)

    def get(self) -> Any:
        return SimpleNamespace(status=lambda: self.statuses()[0])

    def statuses(self) -> tuple[ClusterStatus, ...]:
        return tuple(
            ClusterStatus(
                name=name,
                server=f"https://{name}.example:6443",
                identity="",
                is_reachable=age is not None and age < 10,
                version="v1.36.3",
                contact_age_seconds=age,
                problem="" if age is not None and age < 10 else "connection refused",
                tls_problem=self.tls_problems.get(name, ""),
            )
            for name, age in self.ages.items()
        )


class Streams:
    """Open Watch streams that are so far behind."""

    cached_bytes = 4096

    def __init__(self, *lags: tuple[int, float]) -> None:
        self._lags = lags
        self.stream_count = len(lags)

    def lags(self) -> Iterable[tuple[int, float]]:
        return self._lags
