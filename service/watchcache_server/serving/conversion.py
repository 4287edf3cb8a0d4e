"""Between the messages of the contract and the values of the core.

What comes in is checked field by field: every rule that is broken is collected, so that a caller is
told of all of them at once. What goes out is a plain translation. Specs are up to
`spec_conversion`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from weakref import WeakValueDictionary

from google.protobuf import duration_pb2, timestamp_pb2

from watchcache.v1alpha1 import event_pb2, extension_pb2, watch_cache_service_pb2
from watchcache_server.informer.filters import Filter
from watchcache_server.model.consistency import Consistency
from watchcache_server.model.errors import FieldViolation, InvalidRequestError
from watchcache_server.model.index_paths import held_value, path_problem
from watchcache_server.model.names import dns_label_problem, dns_subdomain_problem
from watchcache_server.model.selectors import LabelSelector, SelectorError
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.model.states import Projection, View
from watchcache_server.serving.broken_rules import BrokenRules

__all__ = [
    "PROJECTIONS",
    "consistency_of",
    "extension_key",
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


def extension_key(namespace: str, name: str) -> ExtensionKey:
    """Check and return the key of an extension. Raises InvalidRequestError."""
    checker = BrokenRules()
    checker.check("namespace", dns_label_problem(namespace))
    checker.check("name", dns_subdomain_problem(name))
    checker.finish()
    return ExtensionKey(namespace, name)


def registration_of(
    request: watch_cache_service_pb2.RegisterRequest,
) -> tuple[ExtensionKey, float, list[FieldViolation]]:
    """Return the key and the wait of a registration, and what is wrong with them."""
    checker, wait = BrokenRules(), 0.0
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
    checker = BrokenRules()
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
    checker: BrokenRules, fields: Sequence[watch_cache_service_pb2.FieldValue]
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
