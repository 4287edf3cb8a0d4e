"""Index paths: at which fields the objects of an informer are indexed.

A path is written as keys joined by '.', each followed by `[]` where it holds a list of which every
entry counts: `spec.nodeName`, `metadata.ownerReferences[].uid`, `spec.finalizers[]`. A path is one
way to write what it means, so that equal texts are equal paths.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from watchcache_server.model.states import Projection

__all__ = ["EACH", "LONGEST_PATH", "held_value", "path_problem", "path_segments"]

EACH: Final = "[]"
LONGEST_PATH: Final = 200
_MOST_SEGMENTS: Final = 16
_LONGEST_VALUE: Final = 256
_PATH = re.compile(r"[A-Za-z_$][\w$-]*+(?:\[\])*+(?:\.[A-Za-z_$][\w$-]*+(?:\[\])*+)*+", re.ASCII)
_SEGMENT = re.compile(r"\[\]|[\w$-]+", re.ASCII)
# What is left of an object whose spec and status never leave the API server.
_OF_METADATA: Final = frozenset(("apiVersion", "kind", "metadata"))


def path_segments(path: str) -> tuple[str, ...]:
    """Return the keys of a path, with EACH for each entry of a list."""
    return tuple(_SEGMENT.findall(path))


def path_problem(path: str, projection: Projection = Projection.FULL) -> str | None:
    """Say why a text is no path, or none that `projection` keeps; None when it is one."""
    if not path:
        return "is empty; name a field, such as spec.nodeName"
    if len(path) > LONGEST_PATH:
        return f"is {len(path)} characters long; use at most {LONGEST_PATH}"
    if not _PATH.fullmatch(path):
        return (
            f"{path!r} is no field path; use keys of letters, digits, '_', '$' and '-' joined by "
            "'.', with [] behind a key that holds a list, such as metadata.ownerReferences[].uid"
        )
    segments = path_segments(path)
    if len(segments) > _MOST_SEGMENTS:
        return f"has {len(segments)} steps; use at most {_MOST_SEGMENTS}, each [] counted as one"
    is_kept = projection is not Projection.METADATA or segments[0] in _OF_METADATA
    if projection is not Projection.FULL and segments[:2] == ("metadata", "managedFields"):
        is_kept = False
    if not is_kept:
        return f"{path} is not kept by the projection of this entry; use another of the two"
    return None


def held_value(value: str) -> str:
    """Return what stands for a value in an index: itself, or its digest if it is very long."""
    if len(value) <= _LONGEST_VALUE:
        return value
    return f"sha256:{hashlib.sha256(value.encode()).hexdigest()}"
