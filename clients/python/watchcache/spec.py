"""What an extension wants, from Python values to the message of the contract.

`Resource` is one entry of a watch set; `build_spec` makes the whole. The client checks only what
it needs in order to read its arguments: the service checks the rest, and names all broken rules at
once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watchcache.durations import Duration, duration_message, seconds_of
from watchcache.errors import InvalidArgumentError
from watchcache.keys import parse_resource
from watchcache.states import Projection
from watchcache.v1alpha1 import extension_pb2

__all__ = ["Content", "Resource", "build_spec"]

_KIND = re.compile(r"[A-Z][A-Za-z0-9]*")

Content = str | bytes | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""Manifests: YAML or JSON text, one object, or several."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource to watch, in some namespaces, with its selectors.

    It is named by `name`: the plural or the kind, with its group and perhaps a version
    ("deployments.apps", "deployments.v1.apps", "pods", "Deployment.apps"). `namespaces` and
    `projection` are those of the registration if not given; an empty one, `()`, means all of
    them, and is what a cluster-scoped resource needs.
    """

    name: str
    namespaces: Sequence[str] | None = None
    label_selector: str = ""
    field_selector: str = ""
    projection: Projection | str | None = None

    def to_message(
        self, *, field: str, namespaces: Sequence[str], projection: Projection | str | None
    ) -> extension_pb2.ResourceWatch:
        """Return the entry, with defaults for what it leaves open; errors name it by `field`."""
        kind, dot, rest = self.name.partition(".")
        is_kind = _KIND.fullmatch(kind) is not None
        # Kind and plural are named alike but for the first letter.
        name = parse_resource(f"{kind.lower()}{dot}{rest}" if is_kind else self.name, field=field)
        message = extension_pb2.ResourceWatch(
            group=name.group,
            version=name.version,
            namespaces=namespaces
            if self.namespaces is None
            else _names(self.namespaces, field=f"{field}.namespaces"),
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            projection=_projection(self.projection or projection, field=f"{field}.projection"),
        )
        if is_kind:
            message.kind = kind
        else:
            message.resource = name.plural
        return message


def build_spec(
    *,
    service_account: str = "",
    watch: Sequence[str | Resource] | None = None,
    content: Content | None = None,
    only_these_objects: bool = False,
    clusters: Sequence[str] = (),
    namespaces: Sequence[str] = (),
    projection: Projection | str | None = None,
    ttl: Duration | None = None,
) -> extension_pb2.ExtensionSpec:
    """Make the spec of an extension. Raises InvalidArgumentError."""
    if watch is not None and content is not None:
        raise InvalidArgumentError.of("watch", "give the resources to watch or content, not both")
    spec = extension_pb2.ExtensionSpec(
        service_account=service_account, clusters=_names(clusters, field="clusters")
    )
    if ttl is not None:
        spec.ttl.CopyFrom(duration_message(seconds_of(ttl, field="ttl")))
    if content is not None:
        if namespaces:
            raise InvalidArgumentError.of("namespaces", "content names its own; write them there")
        spec.content.manifests = _manifests(content)
        spec.content.only_these_objects = only_these_objects
        spec.content.projection = _projection(projection, field="projection")
    elif only_these_objects:
        raise InvalidArgumentError.of("only_these_objects", "it narrows content, and there is none")
    elif watch is not None:
        defaults = _names(namespaces, field="namespaces")
        spec.resources.SetInParent()
        for index, entry in enumerate(_entries(watch)):
            resource = Resource(entry) if isinstance(entry, str) else entry
            message = resource.to_message(
                field=f"watch[{index}]", namespaces=defaults, projection=projection
            )
            spec.resources.items.append(message)
    return spec


def _entries(watch: Sequence[str | Resource]) -> Sequence[str | Resource]:
    if isinstance(watch, str):
        raise InvalidArgumentError.of("watch", f"{watch!r} is one string; give a list of resources")
    return watch


def _names(names: Sequence[str], *, field: str) -> Sequence[str]:
    if isinstance(names, str):
        raise InvalidArgumentError.of(field, f"{names!r} is one string; give a list of names")
    return names


def _projection(
    value: Projection | str | None, *, field: str
) -> extension_pb2.Projection.ValueType:
    if not value:
        return extension_pb2.PROJECTION_UNSPECIFIED
    return extension_pb2.Projection.Value(f"PROJECTION_{Projection.of(value, field=field)}")


def _manifests(content: Content) -> bytes:
    if isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return content.encode()
    if not isinstance(content, Mapping):
        content = {"apiVersion": "v1", "kind": "List", "items": list(content)}
    try:
        return json.dumps(content, default=dict).encode()
    except TypeError as error:
        raise InvalidArgumentError.of(
            "content", f"it is not made of JSON values: {error}"
        ) from error
