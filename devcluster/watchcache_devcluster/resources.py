"""What kinds of objects there are: `Resource` and the `Catalog` that finds one.

A `Resource` is one served (group, version, plural) with everything that the rest of the cluster
asks about it. Several versions of one kind share a `table`, the name under which the storage keeps
their objects. The catalog holds the built-in kinds and whatever CustomResourceDefinitions add; what
the built-in kinds are is in `builtin`, and how a CRD becomes resources is in `definitions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from watchcache_devcluster.errors import ApiError, no_such_path, no_such_resource, qualified

__all__ = ["Catalog", "GroupVersion", "Resource"]

STANDARD_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)

Conversion = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Resource:
    """One served (group, version, plural).

    `selectable` are the field labels that objects can be selected by besides their names, and
    `selectable_as` those that this version calls by another name than the storage does.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STANDARD_VERBS
    has_status: bool = False
    has_scale: bool = False
    has_generation: bool = False
    is_custom: bool = False
    selectable: tuple[str, ...] = ()
    selectable_as: tuple[tuple[str, str], ...] = ()
    columns: tuple[Any, ...] = ()
    schema: dict[str, Any] | None = field(default=None, compare=False, hash=False)
    from_storage: Conversion | None = field(default=None, compare=False, hash=False)
    to_storage: Conversion | None = field(default=None, compare=False, hash=False)
    table: str = ""

    def __post_init__(self) -> None:
        if not self.singular:
            object.__setattr__(self, "singular", self.kind.lower())
        if not self.list_kind:
            object.__setattr__(self, "list_kind", f"{self.kind}List")
        if not self.table:
            object.__setattr__(self, "table", qualified(self.plural, self.group))

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def stored_label(self, label: str) -> str:
        """Return what the storage calls a field label of this version."""
        return dict(self.selectable_as).get(label, label)

    @property
    def group_resource(self) -> str:
        """`pods` or `deployments.apps`, as messages name it."""
        return qualified(self.plural, self.group)


GroupVersion = tuple[str, str]


@dataclass(slots=True)
class Catalog:
    """Every served resource, by group and version; the first version of a group is preferred."""

    _versions: dict[GroupVersion, dict[str, Resource]] = field(default_factory=dict)

    def add(self, *resources: Resource) -> None:
        """Serve these resources from now on, replacing one of the same path."""
        for resource in resources:
            group_version = (resource.group, resource.version)
            self._versions.setdefault(group_version, {})[resource.plural] = resource

    def remove(self, *resources: Resource) -> None:
        """Serve these no longer; a group version without resources vanishes with its last one."""
        for resource in resources:
            group_version = (resource.group, resource.version)
            served = self._versions.get(group_version, {})
            served.pop(resource.plural, None)
            if not served:
                self._versions.pop(group_version, None)

    def __iter__(self) -> Iterator[Resource]:
        for served in self._versions.values():
            yield from served.values()

    def group_versions(self) -> list[GroupVersion]:
        """Return every served group version, in the order of preference within a group."""
        order = {pair: index for index, pair in enumerate(self._versions)}
        return sorted(self._versions, key=lambda pair: (_rank(pair[1]), order[pair]))

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of each group but the core one, the preferred one first."""
        groups: dict[str, list[str]] = {}
        for group, _ in self._versions:
            if group:
                groups.setdefault(group, [])
        for group, version in self.group_versions():
            if group:
                groups[group].append(version)
        return groups

    def served(self, group: str, version: str) -> dict[str, Resource]:
        """Return the resources of one group version by plural; empty if it is not served."""
        return self._versions.get((group, version), {})

    def find(self, group: str, version: str, plural: str) -> Resource:
        """Return the resource behind a path, or raise the 404 of an unknown path."""
        resource = self.served(group, version).get(plural)
        if resource is None:
            raise self.missing(group)
        return resource

    def missing(self, group: str) -> ApiError:
        """Return the 404 for a path in a group, which built-in groups answer in a Status."""
        is_built_in = any(other.group == group and not other.is_custom for other in self)
        return no_such_resource() if is_built_in else no_such_path()

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource that serves `apiVersion` and `kind` of a manifest, if any."""
        group, _, version = api_version.rpartition("/")
        for resource in self.served(group, version).values():
            if resource.kind == kind:
                return resource
        return None

    def of_table(self, table: str) -> list[Resource]:
        """Return every version that is kept under one storage name, preferred first."""
        found = [resource for resource in self if resource.table == table]
        return sorted(found, key=lambda resource: _rank(resource.version))

    def resolve(self, name: str | Resource) -> Resource:
        """Find a resource by the name a person would use.

        Accepts `pods`, `deployments.apps`, `cronjobs.v1.batch`, a short name or a kind.

        Raises:
            ApiError: nothing or more than one group serves that name.
        """
        if isinstance(name, Resource):
            return name
        candidates = list(self._candidates(name))
        tables = {resource.table for resource in candidates}
        if len(tables) > 1 and any(not resource.group for resource in candidates):
            candidates = [resource for resource in candidates if not resource.group]
            tables = {resource.table for resource in candidates}
        if len(tables) > 1:
            choices = ", ".join(sorted(tables))
            raise ApiError(
                404,
                "NotFound",
                f'"{name}" names more than one resource; write one of: {choices}',
            )
        if not candidates:
            raise ApiError(
                404,
                "NotFound",
                f'the cluster serves no resource "{name}"; write a plural, `plural.group` or'
                " `plural.version.group`, and create its CustomResourceDefinition first if it"
                " has one",
            )
        return min(candidates, key=lambda resource: _rank(resource.version))

    def _candidates(self, name: str) -> Iterable[Resource]:
        plural, _, rest = name.partition(".")
        version, _, group = rest.partition(".")
        for resource in self:
            names = (resource.plural, resource.singular, resource.kind, *resource.short_names)
            if (not rest and name in names) or (
                rest
                and plural in names
                and (
                    resource.group == rest or (resource.version, resource.group) == (version, group)
                )
            ):
                yield resource


def _rank(version: str) -> tuple[int, int, int, str]:
    """Order versions as Kubernetes does: v2, v1, v1beta2, v1beta1, v1alpha1, anything else."""
    head, _, tail = version.partition("beta")
    stability = 1
    if not tail:
        head, _, tail = version.partition("alpha")
        stability = 2
    if not tail:
        head, tail, stability = version, "0", 0
    if head.startswith("v") and head[1:].isdigit() and tail.isdigit():
        return (stability, -int(head[1:]), -int(tail), "")
    return (3, 0, 0, version)
