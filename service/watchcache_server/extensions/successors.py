"""Successors: which informers of a spec may take objects over from one that retires.

A spec may have hundreds of informers, and all of them may retire at once, so they are looked up by
type and namespace instead of being compared with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.source import Source

__all__ = ["Successors"]

_Type = tuple[str, str, str]


class Successors:
    """The informers that a spec asks for, by what they watch."""

    def __init__(self, informers: Iterable[Informer]) -> None:
        self._by_type: dict[_Type, dict[str, list[Informer]]] = {}
        for informer in informers:
            source = informer.source
            for type_key in _types(source):
                by_namespace = self._by_type.setdefault(type_key, {})
                by_namespace.setdefault(source.namespace, []).append(informer)

    def of(self, retiring: Informer) -> list[Informer]:
        """Return those that may hold an object of a retiring informer."""
        source = retiring.source
        return list(
            dict.fromkeys(
                informer
                for type_key in _types(source)
                for informer in self._near(type_key, source.namespace)
                if informer.source.may_share_objects(source)
            )
        )

    def _near(self, type_key: _Type, namespace: str) -> Iterator[Informer]:
        by_namespace = self._by_type.get(type_key, {})
        for place in (namespace, "") if namespace else list(by_namespace):
            yield from by_namespace.get(place, ())


def _types(source: Source) -> Iterator[_Type]:
    """Yield the names of what a source watches, as far as they are known."""
    for name in (source.resource, source.kind):
        if name:
            yield source.spec.cluster, source.group, name
