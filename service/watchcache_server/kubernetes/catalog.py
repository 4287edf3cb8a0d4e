"""What an API server serves: groups, versions, resources, kinds; and finding one by its name.

Pure. A `Catalog` is made of what `documents` decodes; reading it over the network, and again when
something is missing, is `discovery`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from watchcache_server.kubernetes.served import (
    Finding,
    NotServed,
    Served,
    Unreadable,
    VersionNotServed,
)
from watchcache_server.model.resources import ServedResource

__all__ = ["Catalog", "CatalogEntry", "GroupVersion"]

_MAX_HINTS = 3
_WATCHABLE = frozenset({"list", "watch"})


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One resource. `other_names` are its singular and short names, for hints only."""

    resource: ServedResource
    other_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupVersion:
    """One version of a group, and what is served in it.

    `problem` is not empty when it could not be read now; `entries` then holds what was known
    before.
    """

    group: str
    version: str
    entries: tuple[CatalogEntry, ...] = ()
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> tuple[str, str]:
        """Group and version."""
        return self.group, self.version

    @property
    def names(self) -> frozenset[str]:
        """Plural names of what is served."""
        return frozenset(entry.resource.resource for entry in self.entries)

    def find(self, name: str) -> ServedResource | None:
        """Return the resource of that plural name or kind."""
        found = [
            entry.resource
            for entry in self.entries
            if name in (entry.resource.resource, entry.resource.kind)
        ]
        # Two resources may share a kind: the one that can be watched is meant.
        return min(found, key=lambda each: not each.verbs >= _WATCHABLE, default=None)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything that one API server serves. Versions of a group are in its order of preference."""

    groups: Mapping[str, tuple[GroupVersion, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, versions: Iterable[GroupVersion]) -> Catalog:
        """Make one from all group versions, in the order of preference within a group."""
        groups: dict[str, tuple[GroupVersion, ...]] = {}
        for each in versions:
            groups[each.group] = (*groups.get(each.group, ()), each)
        return cls(groups)

    def __iter__(self) -> Iterator[GroupVersion]:
        for versions in self.groups.values():
            yield from versions

    def __len__(self) -> int:
        return sum(len(each.entries) for each in self)

    @property
    def problems(self) -> Mapping[str, str]:
        """What could not be read, by group/version."""
        return {str(each): each.problem for each in self if each.problem}

    def find(self, group: str, version: str, name: str) -> Finding:
        """Find a resource (plural) or kind by its exact name; no version: the preferred one."""
        versions = self.groups.get(group, ())
        served = [(each.version, found) for each in versions if (found := each.find(name))]
        names = tuple(each for each, _ in served)
        for each, found in served:
            if version in ("", each):
                return Served(found, names)
        for unread in versions:
            if unread.problem and version in ("", unread.version):
                return Unreadable(str(unread), unread.problem)
        return VersionNotServed(names) if names else NotServed(self._hints(group, name))

    def with_kept(self, before: Catalog) -> Catalog:
        """Return this catalog with what `before` knew of what could not be read now."""
        known = {each.key: each.entries for each in before}
        return Catalog.of(
            replace(each, entries=known.get(each.key, ()))
            if each.problem and not each.entries
            else each
            for each in self
        )

    def vanished_since(self, before: Catalog) -> tuple[GroupVersion, ...]:
        """Return the parts of `before` of which something is served no more."""
        now = {each.key: each.names for each in self}
        return tuple(each for each in before if not each.names <= now.get(each.key, frozenset()))

    def with_doubted(self, doubted: Iterable[GroupVersion], problem: str) -> Catalog:
        """Return this catalog with `doubted` versions as they were, marked as unreadable."""
        back = {each.key: replace(each, problem=problem) for each in doubted}
        kept = [back.pop(each.key, each) for each in self]
        return Catalog.of([*kept, *back.values()])

    def _hints(self, group: str, name: str) -> tuple[str, ...]:
        """Return near names as `resource.group`: first the same name in another group."""
        wanted = name.lower()
        same: list[str] = []
        by_name: dict[str, str] = {}
        # The group that was asked for comes first: of two with one name, its one is meant.
        versions = sorted(self, key=lambda each: each.group != group)
        for entry in (entry for each in versions for entry in each.entries):
            resource = entry.resource
            names = (resource.resource, resource.kind.lower())
            if wanted in (*names, *entry.other_names):
                same.append(resource.name)
            for known in names:
                by_name.setdefault(known, resource.name)
        close = difflib.get_close_matches(wanted, by_name, n=_MAX_HINTS, cutoff=0.75)
        hints = dict.fromkeys([*same, *(by_name[each] for each in close)])
        return tuple(hints)[:_MAX_HINTS]
