"""What is said of something that an extension does not watch: what it does watch, and what is near.

A forgotten namespace, group or letter is most often why nothing is found.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from watchcache_server.informer.source_scope import SourceScope

__all__ = ["elsewhere", "instead_of"]

_NAMES_SHOWN: Final = 10
_SHORT_LETTERS: Final = 4


def elsewhere(
    sources: Iterable[SourceScope], cluster: str, group: str, resource: str, namespace: str
) -> str:
    """Say where a resource is watched when it is not there; empty when it is nowhere.

    `namespace` is that of an object, empty for one that was named without.
    """
    same = [each for each in sources if (each.group, each.resource) == (group, resource)]
    scopes = {each.namespace for each in same if each.spec.cluster == cluster}
    if scopes & {"", namespace}:
        return "of its kind it watches some objects only; let the spec select this one too"
    if scopes:
        mend = "add its namespace to the spec" if namespace else "name it with its namespace"
        return f"it is watched in namespace {_listed(scopes)} only; {mend}"
    clusters = {each.spec.cluster for each in same}
    if clusters:
        return f"it is watched on cluster {_listed(clusters)} only; name that, or add it"
    return ""


def instead_of(sources: Iterable[SourceScope], names: Iterable[tuple[str, str]]) -> str:
    """Say what may have been meant by resources, given as (group, plural), or what there is."""
    watched, asked = list(sources), list(names)
    near = {
        _name(source)
        for source in watched
        if any(_is_near(source, group, plural) for group, plural in asked)
    }
    if near:
        return f"did you mean {_listed(near, ' or ')}?"
    return f"it watches {_listed({_place(each) for each in watched}) or 'nothing'}"


def _is_near(source: SourceScope, group: str, plural: str) -> bool:
    if (source.group, source.resource) == (group, plural):
        return False
    known = [each for each in (source.resource, source.kind.lower()) if each]
    is_short = any(_is_short_for(plural, each) for each in known)
    return is_short or bool(difflib.get_close_matches(plural, known))


def _is_short_for(short: str, name: str) -> bool:
    """Tell whether it begins the name, or may be its short name: cm, svc, sts."""
    if name.startswith(short):
        return True
    letters = iter(name)
    has_all = all(letter in letters for letter in short)
    return has_all and len(short) <= _SHORT_LETTERS and short[:1] == name[:1]


def _name(source: SourceScope) -> str:
    name = source.resource or source.kind
    return f"{name}.{source.group}" if source.group else name


def _place(source: SourceScope) -> str:
    return f"{_name(source)} in {source.namespace}" if source.namespace else _name(source)


def _listed(names: Iterable[str], last: str = ", ") -> str:
    ordered = sorted(names)
    more = len(ordered) - _NAMES_SHOWN
    shown = last.join(ordered[:_NAMES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
