"""Index paths: reads the values at a field path, by the same rules as the service.

A path is keys joined by '.', each followed by `[]` where it holds a list of which every entry
counts: `spec.nodeName`, `metadata.ownerReferences[].uid`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from watchcache.errors import InvalidArgumentError

__all__ = ["check_path", "values_at"]

_PATH = re.compile(r"[A-Za-z_$][\w$-]*(?:\[\])*(?:\.[A-Za-z_$][\w$-]*(?:\[\])*)*", re.ASCII)
_SEGMENT = re.compile(r"\[\]|[\w$-]+", re.ASCII)


def check_path(path: str) -> None:
    """Raise InvalidArgumentError for what is no path."""
    if not _PATH.fullmatch(path):
        raise InvalidArgumentError.of(
            "path",
            f"{path!r} is no field path; use keys joined by '.', with [] behind a key that holds a "
            "list, such as spec.nodeName or metadata.ownerReferences[].uid",
        )


def values_at(body: bytes, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each path with each value that an object has there, as text."""
    # A number is compared as it is written.
    document = json.loads(body, parse_int=str, parse_float=str)
    for path in paths:
        for value in set(_values(document, _SEGMENT.findall(path))):
            yield path, value


def _values(value: Any, segments: list[str]) -> Iterator[str]:
    if not segments:
        if isinstance(value, bool):
            yield "true" if value else "false"
        elif isinstance(value, str):
            yield value
    elif segments[0] == "[]":
        for entry in value if isinstance(value, list) else ():
            yield from _values(entry, segments[1:])
    elif isinstance(value, dict):
        yield from _values(value.get(segments[0]), segments[1:])
