"""Filters: which objects of an extension a subscriber or a list asks for.

A filter is decided in two steps: a source passes as a whole or not, and its objects pass by
namespace, labels and the values at index paths. Filters that mean the same are equal and have the
same `digest`, across processes.
"""

from __future__ import annotations

import hashlib
from functools import cached_property

import msgspec

from watchcache_server.informer.interest import Topic
from watchcache_server.informer.source_scope import SourceScope
from watchcache_server.model.label_matcher import LabelMatcher
from watchcache_server.model.selectors import Labels, LabelSelector

__all__ = ["EVERYTHING", "Filter"]


class Filter(msgspec.Struct, frozen=True, dict=True, weakref=True):
    """Parts are joined by AND, entries of one part by OR; an empty part lets everything through.

    `resources` are pairs of group and plural name. `label_selector` is in canonical form. `fields`
    are pairs of index path and value; those of one path are joined by OR, those of different paths
    by AND. A source without one of these paths does not pass.
    """

    clusters: tuple[str, ...] = ()
    resources: tuple[tuple[str, str], ...] = ()
    namespaces: tuple[str, ...] = ()
    label_selector: str = ""
    fields: tuple[tuple[str, str], ...] = ()

    @cached_property
    def digest(self) -> bytes:
        """Eight bytes that tell this filter from others."""
        parts = msgspec.to_builtins(self)
        if not self.fields:
            # So it was before there were any: tokens go on.
            del parts["fields"]
        return hashlib.blake2b(msgspec.json.encode(parts), digest_size=8).digest()

    @cached_property
    def _matcher(self) -> LabelMatcher:
        return LabelMatcher(LabelSelector.parse(self.label_selector))

    @cached_property
    def _resource_set(self) -> frozenset[tuple[str, str]]:
        return frozenset(self.resources)

    @cached_property
    def paths(self) -> frozenset[str]:
        """The index paths that it names."""
        return frozenset(path for path, _ in self.fields)

    @cached_property
    def field_groups(self) -> tuple[frozenset[tuple[str, str]], ...]:
        """The pairs of each path, of which an object has to have one."""
        return tuple(
            frozenset(pair for pair in self.fields if pair[0] == path)
            for path in sorted(self.paths)
        )

    @cached_property
    def _group_set(self) -> frozenset[str]:
        return frozenset(group for group, _ in self.resources)

    @cached_property
    def _cluster_set(self) -> frozenset[str]:
        return frozenset(self.clusters)

    @cached_property
    def _namespace_set(self) -> frozenset[str]:
        return frozenset(self.namespaces)

    def passes_source(self, source: SourceScope) -> bool:
        """Tell whether any object of the source may pass, as far as its type is known."""
        return self.covers(source) and self.paths.issubset(source.spec.indexes)

    def covers(self, source: SourceScope) -> bool:
        """Tell whether the source is in view, whatever it is indexed by."""
        return (
            (not self.clusters or source.spec.cluster in self._cluster_set)
            and (not self.resources or self._passes_type(source.group, source.resource))
            and (
                not self.namespaces
                or not source.namespace
                or source.namespace in self._namespace_set
            )
        )

    def _passes_type(self, group: str, resource: str) -> bool:
        # While only the kind of a source is known, it may be any of its group.
        return (group, resource) in self._resource_set or (
            not resource and group in self._group_set
        )

    @cached_property
    def topics(self) -> frozenset[Topic] | None:
        """What an object has to name, before or after a change, for the change to concern this.

        None when that cannot be said by labels or namespaces.
        """
        selector = LabelSelector.parse(self.label_selector)
        choices = [each for each in selector.requirements if each.operator == "in"]
        if choices:
            fewest = min(choices, key=lambda each: len(each.values))
            return frozenset((fewest.key, value) for value in fewest.values)
        return frozenset(("", namespace) for namespace in self.namespaces) or None

    @property
    def passes_all_objects(self) -> bool:
        """Whether every object of a source that passes does."""
        return not self.namespaces and not self.label_selector and not self.fields

    def passes(self, namespace: str, labels: Labels, fields: Labels = ()) -> bool:
        """Tell whether an object of a passing source passes."""
        return (
            self.passes_namespace(namespace)
            and (not self.label_selector or self._matcher.matches(labels))
            and (not self.fields or self._has_values(fields))
        )

    def _has_values(self, fields: Labels) -> bool:
        pairs = set(zip(fields[::2], fields[1::2], strict=True))
        return not any(group.isdisjoint(pairs) for group in self.field_groups)

    def passes_namespace(self, namespace: str) -> bool:
        """Tell whether an object of a passing source may pass, whatever its labels."""
        return not self.namespaces or namespace in self._namespace_set


EVERYTHING = Filter()
