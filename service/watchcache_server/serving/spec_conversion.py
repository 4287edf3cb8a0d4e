"""The specs of the contract, checked field by field and brought into canonical form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from watchcache.v1alpha1 import extension_pb2
from watchcache_server.extensions.content import watches_of
from watchcache_server.model.errors import FieldViolation, InvalidRequestError
from watchcache_server.model.index_paths import path_problem
from watchcache_server.model.names import dns_label_problem, dns_subdomain_problem, kind_problem
from watchcache_server.model.selectors import (
    LabelSelector,
    SelectorError,
    canonical_field_selector,
)
from watchcache_server.model.specs import ExtensionKey, ExtensionSpec, ResourceWatch
from watchcache_server.model.states import Projection
from watchcache_server.serving.broken_rules import BrokenRules
from watchcache_server.serving.conversion import PROJECTIONS, seconds_of
from watchcache_server.settings import Settings

__all__ = ["extension_spec"]

# A message of the largest size has millions of entries, and each takes time.
_MOST_ENTRIES: Final = 10_000


def extension_spec(
    key: ExtensionKey,
    message: extension_pb2.ExtensionSpec,
    settings: Settings,
    default_cluster: str,
    *,
    known_clusters: Collection[str] | None = None,
    violations: Iterable[FieldViolation] = (),
) -> ExtensionSpec:
    """Check and return a spec in canonical form.

    Raises InvalidRequestError, with the `violations` found in the rest of the request before.
    """
    _check_entries(message, settings)
    checker = BrokenRules(violations)
    _check_identity(checker, message.service_account, settings)
    for index, cluster in enumerate(message.clusters):
        if not cluster:
            checker.refuse(f"spec.clusters[{index}]", "is empty; name a cluster, or leave it out")
    ttl = None
    with checker.collecting():
        ttl = seconds_of("spec.ttl", message.ttl) if message.HasField("ttl") else None
    if ttl is not None and ttl < 1:
        checker.refuse("spec.ttl", f"{ttl:g} s is too short; use at least 1 s, or leave it out")
    watch_set = message.WhichOneof("watch_set")
    watches: tuple[ResourceWatch, ...] = ()
    projection, indexes = Projection.FULL, tuple[str, ...]()
    if watch_set == "resources":
        watches = tuple(
            _resource_watch(checker, f"spec.resources.items[{index}]", item, settings)
            for index, item in enumerate(message.resources.items)
        )
    elif watch_set == "content":
        content = message.content
        projection = _projection(checker, "spec.content.projection", content.projection)
        indexes = _indexes(
            checker, "spec.content.index_paths", content.index_paths, projection, settings
        )
    if checker.violations and known_clusters is not None:
        # Alone it is the registry's to refuse, with a reason of its own.
        for index, cluster in enumerate(message.clusters):
            if cluster and cluster not in known_clusters:
                known = ", ".join(known_clusters)
                told = f"there is no cluster {cluster!r}; known are {known}"
                checker.refuse(f"spec.clusters[{index}]", told)
    checker.finish()
    if watch_set == "content":
        watches = watches_of(
            message.content.manifests,
            namespace=key.namespace,
            only_these_objects=message.content.only_these_objects,
            projection=projection,
            max_documents=settings.max_manifest_documents,
            indexes=indexes,
        )
    return ExtensionSpec(
        service_account=message.service_account,
        clusters=tuple(sorted(set(message.clusters) or {default_cluster})),
        resources=tuple(sorted(set(watches))),
        ttl_seconds=ttl,
    )


def _check_entries(message: extension_pb2.ExtensionSpec, settings: Settings) -> None:
    """Refuse a spec of too many entries before any of them is read."""
    items = message.resources.items
    count = len(message.clusters) + len(items) + sum(len(item.namespaces) for item in items)
    limit = max(_MOST_ENTRIES, 2 * settings.max_sources)
    if count > limit:
        raise InvalidRequestError.of(
            "spec",
            f"has {count} clusters, resources and namespaces, more than the {limit} allowed; leave "
            "out what is there twice, or watch all namespaces with one entry",
            reason="SPEC_TOO_LARGE",
        )


def _check_identity(checker: BrokenRules, service_account: str, settings: Settings) -> None:
    if settings.identity == "caller":
        if service_account:
            checker.refuse(
                "spec.service_account",
                "this service reads as the user of its kubeconfig (setting identity = caller), not "
                "as ServiceAccounts; leave it empty",
            )
    elif not service_account:
        checker.refuse(
            "spec.service_account",
            "is required: the name of a ServiceAccount in the extension's namespace",
        )
    else:
        checker.check("spec.service_account", dns_subdomain_problem(service_account))


def _projection(
    checker: BrokenRules, field: str, value: extension_pb2.Projection.ValueType
) -> Projection:
    if value == extension_pb2.PROJECTION_UNSPECIFIED:
        return Projection.FULL
    known = PROJECTIONS.get(value)
    if known is None:
        checker.refuse(
            field,
            f"{value} is unknown here; use PROJECTION_FULL, PROJECTION_WITHOUT_MANAGED_FIELDS or "
            "PROJECTION_METADATA",
        )
        return Projection.FULL
    return known


def _indexes(
    checker: BrokenRules,
    field: str,
    paths: Sequence[str],
    projection: Projection,
    settings: Settings,
) -> tuple[str, ...]:
    if len(paths) > settings.max_index_paths:
        checker.refuse(
            field,
            f"has {len(paths)} paths, more than the {settings.max_index_paths} allowed; leave some "
            "out, or raise the setting max_index_paths",
        )
        return ()
    for index, path in enumerate(paths):
        checker.check(f"{field}[{index}]", path_problem(path, projection))
    return tuple(sorted(set(paths)))


def _resource_watch(
    checker: BrokenRules, field: str, item: extension_pb2.ResourceWatch, settings: Settings
) -> ResourceWatch:
    if item.group:
        checker.check(f"{field}.group", dns_subdomain_problem(item.group))
    if item.version:
        checker.check(f"{field}.version", dns_label_problem(item.version))
    kind_or_resource = item.resource or item.kind
    if not kind_or_resource:
        checker.refuse(
            f"{field}.resource",
            "is required: the plural name, such as deployments; or set kind, such as Deployment",
        )
    elif item.resource:
        checker.check(f"{field}.resource", dns_subdomain_problem(item.resource))
    else:
        checker.check(f"{field}.kind", kind_problem(item.kind))
    for index, namespace in enumerate(item.namespaces):
        checker.check(f"{field}.namespaces[{index}]", dns_label_problem(namespace))
    label_selector = field_selector = ""
    try:
        label_selector = str(LabelSelector.parse(item.label_selector))
    except SelectorError as error:
        checker.refuse(f"{field}.label_selector", str(error))
    try:
        field_selector = canonical_field_selector(item.field_selector)
    except SelectorError as error:
        checker.refuse(f"{field}.field_selector", str(error))
    projection = _projection(checker, f"{field}.projection", item.projection)
    namespace_selector = _namespace_selector(checker, field, item)
    return ResourceWatch(
        group=item.group,
        version=item.version,
        resource=item.resource,
        kind=item.kind,
        namespaces=tuple(sorted(set(item.namespaces))),
        label_selector=label_selector,
        field_selector=field_selector,
        projection=projection.value,
        indexes=_indexes(checker, f"{field}.index_paths", item.index_paths, projection, settings),
        namespace_selector=namespace_selector,
    )


def _namespace_selector(checker: BrokenRules, field: str, item: extension_pb2.ResourceWatch) -> str:
    if not item.namespace_selector:
        return ""
    field = f"{field}.namespace_selector"
    if item.namespaces:
        checker.refuse(
            field,
            "is set beside namespaces, which name what it would choose; leave one of the two out, "
            "or write two entries that differ in nothing else",
        )
    try:
        selector = str(LabelSelector.parse(item.namespace_selector))
    except SelectorError as error:
        checker.refuse(field, str(error))
        return ""
    if not selector:
        checker.refuse(field, "is blank; write a selector, or leave it out for all namespaces")
    return selector
