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
from watchcache.errors import FieldViolation, InvalidArgumentError, Violations
from watchcache.keys import parse_resource
from watchcache.states import Projection
from watchcache.v1alpha1 import extension_pb2

__all__ = ["Content", "Resource", "build_spec"]

_KIND = re.compile(r"[A-Z][A-Za-z0-9]*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

Content = str | bytes | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""Manifests: YAML or JSON text, one object, or several."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource to watch, in some namespaces, with its selectors.

    It is named by `name`: the plural or the kind, with its group and perhaps a version
    ("deployments.apps", "deployments.v1.apps", "pods", "Deployment.apps"). `namespaces` and
    `projection` are those of the registration if not given, and so are `index_paths`, by which
    objects can be filtered ("spec.nodeName"). No namespaces, `()`, means all of them, and is what a
    cluster-scoped resource needs. `namespace_selector` stands in their place: a label selector over
    namespaces ("tier=gold"), which are watched as long as they match.
    """

    name: str
    namespaces: Sequence[str] | None = None
    label_selector: str = ""
    field_selector: str = ""
    projection: Projection | str | None = None
    index_paths: Sequence[str] | None = None
    namespace_selector: str = ""

    def to_message(
        self,
        *,
        field: str,
        namespaces: Sequence[str],
        projection: extension_pb2.Projection.ValueType,
        index_paths: Sequence[str] = (),
        namespace_selector: str = "",
    ) -> extension_pb2.ResourceWatch:
        """Return the entry, with defaults for what it leaves open; errors name it by `field`."""
        is_open = self.namespaces is None and not self.namespace_selector
        message = extension_pb2.ResourceWatch(
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            namespaces=namespaces if is_open else (),
            namespace_selector=namespace_selector if is_open else self.namespace_selector,
            projection=projection,
            index_paths=index_paths if self.index_paths is None else (),
        )
        kind, dot, rest = self.name.partition(".")
        is_kind = _KIND.fullmatch(kind) is not None
        violations = Violations()
        with violations.collecting():
            # Kind and plural are named alike but for the first letter.
            written = f"{kind.lower()}{dot}{rest}" if is_kind else self.name
            name = parse_resource(written, field=field)
            message.group, message.version = name.group, name.version
            if is_kind:
                message.kind = kind
            else:
                message.resource = name.plural
        with violations.collecting():
            own = self.namespaces or ()
            message.namespaces.extend(_namespaces(own, field=f"{field}.namespaces"))
        with violations.collecting():
            own = self.index_paths or ()
            message.index_paths.extend(_names(own, field=f"{field}.index_paths"))
        with violations.collecting():
            if self.projection:
                message.projection = _projection(self.projection, field=f"{field}.projection")
        violations.finish()
        return message


def build_spec(
    *,
    service_account: str = "",
    watch: Sequence[str | Resource] | None = None,
    content: Content | None = None,
    only_these_objects: bool = False,
    clusters: Sequence[str] = (),
    namespaces: Sequence[str] = (),
    namespace_selector: str = "",
    projection: Projection | str | None = None,
    index_paths: Sequence[str] = (),
    ttl: Duration | None = None,
) -> extension_pb2.ExtensionSpec:
    """Make the spec of an extension. Raises InvalidArgumentError."""
    if watch is not None and content is not None:
        raise InvalidArgumentError.of("watch", "give the resources to watch or content, not both")
    spec = extension_pb2.ExtensionSpec(service_account=service_account)
    violations = Violations()
    with violations.collecting():
        spec.clusters.extend(_names(clusters, field="clusters"))
    with violations.collecting():
        if ttl is not None:
            spec.ttl.CopyFrom(duration_message(seconds_of(ttl, field="ttl")))
    kept, defaults = extension_pb2.PROJECTION_UNSPECIFIED, tuple[str, ...]()
    paths: tuple[str, ...] = ()
    with violations.collecting():
        kept = _projection(projection, field="projection")
    with violations.collecting():
        defaults = tuple(_namespaces(namespaces, field="namespaces"))
    with violations.collecting():
        paths = tuple(_names(index_paths, field="index_paths"))
    with violations.collecting():
        if content is not None:
            if namespaces or namespace_selector:
                field = "namespaces" if namespaces else "namespace_selector"
                raise InvalidArgumentError.of(field, "content names its own; write them there")
            _fill_content(spec, content, projection=kept)
            spec.content.only_these_objects = only_these_objects
            spec.content.index_paths.extend(paths)
        elif only_these_objects:
            raise InvalidArgumentError.of(
                "only_these_objects", "it narrows content, and there is none"
            )
        elif watch is not None:
            if namespaces and namespace_selector:
                raise InvalidArgumentError.of(
                    "namespace_selector", "give it or namespaces, which it would choose, not both"
                )
            _fill_watch_set(
                spec,
                watch,
                defaults,
                projection=kept,
                index_paths=paths,
                namespace_selector=namespace_selector,
            )
    violations.finish()
    return spec


def _fill_content(
    spec: extension_pb2.ExtensionSpec,
    content: Content,
    *,
    projection: extension_pb2.Projection.ValueType,
) -> None:
    spec.content.manifests = _manifests(content)
    spec.content.projection = projection


def _fill_watch_set(
    spec: extension_pb2.ExtensionSpec,
    watch: Sequence[str | Resource],
    namespaces: Sequence[str],
    *,
    projection: extension_pb2.Projection.ValueType,
    index_paths: Sequence[str],
    namespace_selector: str,
) -> None:
    spec.resources.SetInParent()
    violations = Violations()
    for index, entry in enumerate(_entries(watch)):
        resource = Resource(entry) if isinstance(entry, str) else entry
        with violations.collecting():
            message = resource.to_message(
                field=f"watch[{index}]",
                namespaces=namespaces,
                projection=projection,
                index_paths=index_paths,
                namespace_selector=namespace_selector,
            )
            spec.resources.items.append(message)
    violations.finish()


def _entries(watch: Sequence[str | Resource]) -> Sequence[str | Resource]:
    if isinstance(watch, str):
        raise InvalidArgumentError.of("watch", f"{watch!r} is one string; give a list of resources")
    return watch


def _names(names: Sequence[str], *, field: str) -> Sequence[str]:
    if isinstance(names, str):
        raise InvalidArgumentError.of(field, f"{names!r} is one string; give a list of names")
    return names


def _namespaces(names: Sequence[str], *, field: str) -> Sequence[str]:
    violations = [
        FieldViolation(
            f"{field}[{index}]",
            f"{name!r} is no namespace; use lower-case letters, digits and '-', with a letter or "
            "digit at both ends, 63 at most",
        )
        for index, name in enumerate(_names(names, field=field))
        if not _LABEL.fullmatch(name)
    ]
    if violations:
        raise InvalidArgumentError.of_all(violations)
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
