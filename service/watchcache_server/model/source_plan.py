"""Which informers an extension is to run, given which namespaces match at the moment.

`plan_sources` is a function of the spec, of what runs already, and of what is known of each set of
namespaces. Whatever happens to a set, the same function says what follows; what is not named in its
answer differently than before is not touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from watchcache_server.model.specs import Choice, NamespaceSet, SourceSpec

__all__ = ["Bounds", "SourcePlan", "plan_sources"]


class Bounds(NamedTuple):
    """How many informers there may be, and bytes of text in the descriptions of all of them."""

    sources: int
    text_bytes: int


class SourcePlan(NamedTuple):
    """What is to run.

    `wanted`: what the spec asks for, in the order in which it is to start. `leaving`: what runs in
    a namespace that is no longer chosen, and is to end once it has seen what was there until then.
    Anything else that runs is no longer asked for. `crowded_out`: for how many namespaces of each
    set there is no room; those without any are left out.
    """

    wanted: tuple[SourceSpec, ...]
    leaving: frozenset[SourceSpec]
    crowded_out: Mapping[NamespaceSet, int]


def plan_sources(
    named: Collection[SourceSpec],
    choices: Collection[Choice],
    members: Mapping[NamespaceSet, Collection[str] | None],
    running: Collection[SourceSpec],
    bounds: Bounds,
) -> SourcePlan:
    """Say what is to run.

    `named` and `choices` are those of the spec. `members` are the namespaces of each set, None
    while they are not known: what runs of it stays then. What is named comes first, then what runs,
    then the rest by namespace, as far as there is room; sets take room too.
    """
    is_running, is_named = set(running), set(named)
    by_scope = _by_scope(is_running, {choice.scope for choice in choices})
    chosen: dict[SourceSpec, set[NamespaceSet]] = {}
    for choice in choices:
        names = members[choice.namespaces]
        sources: Iterable[SourceSpec] = by_scope.get(choice.scope, ())
        if names is not None:
            sources = map(choice.source_in, names)
        for source in sources:
            chosen.setdefault(source, set()).add(choice.namespaces)
    for source in named:
        chosen.pop(source, None)
    leaving = frozenset(
        source
        for sources in by_scope.values()
        for source in sources
        if source not in chosen and source not in is_named
    )
    room = _Room(bounds)
    room.take([*named, *leaving, *{choice.namespaces.source for choice in choices}])
    wanted, crowded_out = list(named), dict[NamespaceSet, set[str]]()
    for source in sorted(chosen, key=lambda s: (s not in is_running, s.namespace, s)):
        if room.has(source):
            room.take([source])
            wanted.append(source)
        else:
            for namespaces in chosen[source]:
                crowded_out.setdefault(namespaces, set()).add(source.namespace)
    return SourcePlan(
        tuple(wanted), leaving, {each: len(names) for each, names in crowded_out.items()}
    )


def _by_scope(
    running: Iterable[SourceSpec], scopes: Collection[SourceSpec]
) -> dict[SourceSpec, list[SourceSpec]]:
    """Return what runs in some namespace, by what it is there, if that is one of the scopes."""
    found: dict[SourceSpec, list[SourceSpec]] = {}
    for source in running:
        if source.namespace and source.wide in scopes:
            found.setdefault(source.wide, []).append(source)
    return found


class _Room:
    """What is left of the bounds."""

    def __init__(self, bounds: Bounds) -> None:
        self._sources, self._text_bytes = bounds

    def has(self, source: SourceSpec) -> bool:
        """Tell whether there is room for one more."""
        return self._sources >= 1 and self._text_bytes >= source.text_bytes

    def take(self, sources: Iterable[SourceSpec]) -> None:
        """Take that these are there, whether there is room or not."""
        for source in sources:
            self._sources -= 1
            self._text_bytes -= source.text_bytes
