"""Reads the values at index paths out of the bytes of an object, without building a tree of it.

For each step of the paths there is one struct that has the named members as raw bytes, so msgspec
passes over everything else. Objects of any shape are read: where a path leads to something else
than it says, to null, or to nothing, there is no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from watchcache_server.informer.nesting import outline
from watchcache_server.model.index_paths import EACH, held_value, path_segments
from watchcache_server.model.selectors import Labels

__all__ = ["DEFAULT_MOST_VALUES", "FieldReader", "FieldValues"]

DEFAULT_MOST_VALUES: Final = 64

_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_OBJECT, _LIST, _TEXT = b"{", b"[", b'"'


class FieldValues(NamedTuple):
    """A flat sorted tuple (path, value, path, value, ...), and how many more were left out."""

    pairs: Labels
    left_out: int = 0


class _Step:
    """What to read of one value: members of an object, entries of a list, or the value itself."""

    def __init__(self, rests: Iterable[tuple[tuple[str, ...], str]]) -> None:
        self.paths: list[str] = []
        by_key: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for segments, path in rests:
            if segments:
                by_key.setdefault(segments[0], []).append((segments[1:], path))
            else:
                self.paths.append(path)
        entries = by_key.pop(EACH, None)
        self._entry = None if entries is None else _Step(entries)
        self._members = [_Step(rest) for rest in by_key.values()]
        names = [f"f{index}" for index in range(len(by_key))]
        members = msgspec.defstruct(
            "Members",
            [(name, msgspec.Raw, msgspec.Raw()) for name in names],
            rename=dict(zip(names, by_key, strict=True)),
            gc=False,
        )
        self._decode = msgspec.json.Decoder(members).decode

    def read(self, raw: bytes) -> Iterator[tuple[str, str]]:
        """Yield each path that ends here or further on with a value."""
        first = raw[:1]
        if first == _OBJECT:
            if self._members:
                found = msgspec.structs.astuple(self._decode(raw))
                for step, member in zip(self._members, found, strict=True):
                    yield from step.read(bytes(member))
        elif first == _LIST:
            if self._entry is not None:
                for entry in _decode_list(raw):
                    yield from self._entry.read(bytes(entry))
        elif self.paths and raw not in {b"", b"null"}:
            value = held_value(_decode_text(raw) if first == _TEXT else raw.decode())
            for path in self.paths:
                yield path, value


class FieldReader:
    """Reads the values at some paths; `most_values` of an object at most."""

    __slots__ = ("_most_values", "_root")

    def __init__(self, paths: Iterable[str], most_values: int = DEFAULT_MOST_VALUES) -> None:
        self._root = _Step([(path_segments(path), path) for path in paths])
        self._most_values = most_values

    def read(self, body: bytes) -> FieldValues:
        """Return the values of an object, which has been decoded before and so is valid.

        Beyond the limit those that sort first are kept, so that it does not depend on their order.
        """
        try:
            found = self._read(body)
        except RecursionError:
            # The paths end long before what the outline leaves out.
            found = self._read(outline(body))
        kept = sorted(found)[: self._most_values]
        return FieldValues(tuple(text for pair in kept for text in pair), len(found) - len(kept))

    def _read(self, body: bytes) -> set[tuple[str, str]]:
        return set(self._root.read(body.lstrip()))
