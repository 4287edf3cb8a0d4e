"""Between the messages of the contract and the values of the core.

What comes in is checked field by field: every rule that is broken is collected, so that a caller is
told of all of them at once. What goes out is a plain translation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

from google.protobuf import duration_pb2, timestamp_pb2

from watchcache.v1alpha1 import event_pb2, extension_pb2, watch_cache_service_pb2
from watchcache_server.extensions.content import watches_of
from watchcache_server.informer.filters import Filter
from watchcache_server.model.consistency import Consistency
from watchcache_server.model.errors import FieldViolation, InvalidRequestError
from watchcache_server.model.index_paths import held_value, path_problem
from watchcache_server.model.names import dns_label_problem, dns_subdomain_problem, kind_problem
from watchcache_server.model.selectors import (
    LabelSelector,
    SelectorError,
    canonical_field_selector,
)
from watchcache_server.model.specs import ExtensionKey, ExtensionSpec, ResourceWatch
from watchcache_server.model.states import Projection, View
from watchcache_server.settings import Settings

__all__ = [
    "PROJECTIONS",
    "consistency_of",
    "extension_key",
    "extension_spec",
    "filter_of",
    "registration_of",
    "seconds_of",
    "to_duration",
    "to_timestamp",
    "view_of",
]

_VIEWS: Final = {
    event_pb2.VIEW_UNSPECIFIED: View.FULL,
    event_pb2.VIEW_FULL: View.FULL,
    event_pb2.VIEW_METADATA: View.METADATA,
    event_pb2.VIEW_KEY: View.KEY,
}
#: Projections by their numbers in the contract.
PROJECTIONS: Final = {
    extension_pb2.PROJECTION_FULL: Projection.FULL,
    extension_pb2.PROJECTION_WITHOUT_MANAGED_FIELDS: Projection.WITHOUT_MANAGED_FIELDS,
    extension_pb2.PROJECTION_METADATA: Projection.METADATA,
}
_FRESHNESS_SECONDS: Final = 5.0
_LONGEST_SECONDS: Final = 10 * 365 * 86400
# A message of the largest size has millions of entries, and each takes time.
_MOST_ENTRIES: Final = 10_000
_MOST_FIELDS: Final = 1000
# More than fit into a status; whoever sends so many sends no others than these by accident.
_MOST_VIOLATIONS: Final = 100


class _Checker:
    """Collects broken rules, up to so many."""

    def __init__(self, violations: Iterable[FieldViolation] = ()) -> None:
        self.violations = list(violations)

    def refuse(self, field: str, description: str) -> None:
        self.violations.append(FieldViolation(field, description))
        if len(self.violations) >= _MOST_VIOLATIONS:
            self.finish()

    def check(self, field: str, problem: str | None) -> None:
        if problem is not None:
            self.refuse(field, problem)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Take the broken rules that are raised inside."""
        try:
            yield
        except InvalidRequestError as error:
            self.violations += error.violations

    def finish(self) -> None:
        if self.violations:
            raise InvalidRequestError(self.violations)


def extension_key(namespace: str, name: str) -> ExtensionKey:
    """Check and return the key of an extension. Raises InvalidRequestError."""
    checker = _Checker()
    checker.check("namespace", dns_label_problem(namespace))
    checker.check("name", dns_subdomain_problem(name))
    checker.finish()
    return ExtensionKey(namespace, name)


def registration_of(
    request: watch_cache_service_pb2.RegisterRequest,
) -> tuple[ExtensionKey, float, list[FieldViolation]]:
    """Return the key and the wait of a registration, and what is wrong with them."""
    checker, wait = _Checker(), 0.0
    with checker.collecting():
        extension_key(request.namespace, request.name)
    with checker.collecting():
        wait = seconds_of("wait", request.wait) if request.HasField("wait") else 0.0
    return ExtensionKey(request.namespace, request.name), wait, checker.violations


def seconds_of(field: str, duration: duration_pb2.Duration) -> float:
    """Return a duration in seconds. Raises InvalidRequestError when it is negative or absurd."""
    seconds = duration.seconds + duration.nanos / 1e9
    if not 0 <= seconds <= _LONGEST_SECONDS:
        raise InvalidRequestError.of(field, f"{seconds:g} s is out of range; use 0 s to ten years")
    return seconds


def consistency_of(
    message: watch_cache_service_pb2.ReadConsistency, longest_seconds: float
) -> Consistency | None:
    """Return how fresh an answer has to be, None when it does not matter.

    Raises InvalidRequestError.
    """
    wait = _FRESHNESS_SECONDS
    if message.HasField("wait"):
        wait = seconds_of("consistency.wait", message.wait)
    wait = min(wait, longest_seconds)
    if message.WhichOneof("requirement") == "min_resource_version":
        version = message.min_resource_version
        if not version:
            raise InvalidRequestError.of(
                "consistency.min_resource_version",
                "is empty; send the metadata.resourceVersion of an object, or leave it out",
            )
        return Consistency(version, wait)
    return Consistency("", wait) if message.consistent else None


def view_of(view: event_pb2.View.ValueType) -> View:
    """Return the view asked for. Raises InvalidRequestError when it is not known here."""
    known = _VIEWS.get(view)
    if known is None:
        raise InvalidRequestError.of(
            "view", f"{view} is unknown here; use VIEW_FULL, VIEW_METADATA or VIEW_KEY"
        )
    return known


# Those of all calls under way, by themselves.
_filters: WeakValueDictionary[Filter, Filter] = WeakValueDictionary()


def filter_of(message: watch_cache_service_pb2.Filter) -> Filter:
    """Check and return a filter in canonical form. Raises InvalidRequestError.

    All who ask for the same have one filter together, with what it has worked out.
    """
    checker = _Checker()
    for part in ("clusters", "resources", "namespaces"):
        count = len(getattr(message, part))
        if count > _MOST_ENTRIES:
            checker.refuse(
                f"filter.{part}",
                f"has {count} entries, more than the {_MOST_ENTRIES} allowed; leave it empty to "
                "let everything through, or send several requests",
            )
    checker.finish()
    selector = ""
    try:
        selector = str(LabelSelector.parse(message.label_selector))
    except SelectorError as error:
        checker.refuse("filter.label_selector", str(error))
    for index, resource in enumerate(message.resources):
        if not resource.resource:
            checker.refuse(
                f"filter.resources[{index}].resource", "is required: the plural name, such as pods"
            )
    for index, namespace in enumerate(message.namespaces):
        checker.check(f"filter.namespaces[{index}]", dns_label_problem(namespace))
    fields = _field_values(checker, message.fields)
    checker.finish()
    wanted = Filter(
        clusters=tuple(sorted(set(message.clusters))),
        resources=tuple(sorted({(each.group, each.resource) for each in message.resources})),
        namespaces=tuple(sorted(set(message.namespaces))),
        label_selector=selector,
        fields=fields,
    )
    return _filters.setdefault(wanted, wanted)


def _field_values(
    checker: _Checker, fields: Sequence[watch_cache_service_pb2.FieldValue]
) -> tuple[tuple[str, str], ...]:
    if len(fields) > _MOST_FIELDS:
        checker.refuse(
            "filter.fields",
            f"has {len(fields)} entries, more than the {_MOST_FIELDS} allowed; send several "
            "requests",
        )
        return ()
    for index, field in enumerate(fields):
        checker.check(f"filter.fields[{index}].path", path_problem(field.path))
    return tuple(sorted({(each.path, held_value(each.value)) for each in fields}))


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
    checker = _Checker(violations)
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


def _check_identity(checker: _Checker, service_account: str, settings: Settings) -> None:
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
    checker: _Checker, field: str, value: extension_pb2.Projection.ValueType
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
    checker: _Checker,
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
    checker: _Checker, field: str, item: extension_pb2.ResourceWatch, settings: Settings
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


def _namespace_selector(checker: _Checker, field: str, item: extension_pb2.ResourceWatch) -> str:
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


def to_timestamp(seconds: float | None) -> timestamp_pb2.Timestamp | None:
    """Return seconds since 1970 as a Timestamp, or None."""
    if seconds is None:
        return None
    whole = int(seconds)
    return timestamp_pb2.Timestamp(seconds=whole, nanos=int((seconds - whole) * 1e9))


def to_duration(seconds: float | None) -> duration_pb2.Duration | None:
    """Return seconds as a Duration, or None."""
    if seconds is None:
        return None
    whole = int(seconds)
    return duration_pb2.Duration(seconds=whole, nanos=int((seconds - whole) * 1e9))
