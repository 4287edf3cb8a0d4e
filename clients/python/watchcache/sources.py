"""What a mirror knows of the informers behind it: pure.

`SourceTable` answers whether a resource may be read and how old its data is on account of its
informers. The statuses that come before a snapshot is complete belong to that snapshot: until it
takes the place of what is held, the held data is judged by the statuses that it came with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from watchcache.keys import ResourceName
from watchcache.states import Projection, SourceState
from watchcache.status import Source

__all__ = ["SourceTable"]

_Identity = tuple[str, str, str, str, str, str, Projection, tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class _Seen:
    source: Source
    stale_since: float
    """The moment, by the mirror's clock, as of which the data is; meaningful unless live."""


class SourceTable:
    """The informers in view, with the moment as of which the data of each is."""

    def __init__(self) -> None:
        self._held: dict[_Identity, _Seen] = {}
        self._stream: dict[_Identity, _Seen] = {}
        self._is_opening = False
        self._is_collecting = False

    @property
    def latest(self) -> tuple[Source, ...]:
        """The newest status of each informer, those of an unfinished snapshot included."""
        is_newer = bool(self._stream) and (self._is_opening or self._is_collecting)
        seen = self._stream if is_newer else self._held
        return tuple(entry.source for entry in seen.values())

    def begin_stream(self) -> None:
        """Expect the status of each informer; those that are not named are no more."""
        self._stream = {}
        self._is_opening = True
        self._is_collecting = False

    def begin_snapshot(self) -> None:
        """Take the statuses of the stream as those of a snapshot that is under way."""
        self._is_opening = False
        self._is_collecting = True

    def abandon_stream(self) -> None:
        """Forget the stream; the statuses that came with the data stay."""
        self._is_opening = self._is_collecting = False
        self._stream = dict(self._held)

    def commit(self) -> None:
        """Let the statuses of the stream be those of the data that is held."""
        self._is_opening = self._is_collecting = False
        self._held = dict(self._stream)

    def end_statuses(self) -> None:
        """Note that all statuses at the start of a stream have come."""
        if self._is_opening:
            self.commit()

    def update(self, source: Source, *, now: float, wall_time: datetime) -> None:
        """Take in a status that came at `now`."""
        seen = _Seen(source, now - _age_when_sent(source, wall_time))
        _put(self._stream, seen)
        if not (self._is_opening or self._is_collecting):
            _put(self._held, seen)

    def covering(
        self, resource: ResourceName, *, namespace: str | None = None, cluster: str | None = None
    ) -> list[Source]:
        """Return the informers behind a resource, or behind one namespace or cluster of it."""
        return [
            seen.source
            for seen in self._held.values()
            if _covers(seen.source, resource, namespace, cluster)
        ]

    def clusters_of(self, resource: ResourceName) -> set[str]:
        """Return the clusters on which a resource is watched."""
        return {source.cluster for source in self.covering(resource)}

    def age_seconds(self, sources: Iterable[Source] | None, *, now: float) -> float:
        """Return how old the data of these informers is, or of all; 0 while all are live.

        Informers that hold nothing have no data, so they add nothing.
        """
        chosen = None if sources is None else {_identity(source) for source in sources}
        return max(
            (
                now - seen.stale_since
                for identity, seen in self._held.items()
                if (chosen is None or identity in chosen)
                and seen.source.is_loaded
                and not seen.source.is_current
            ),
            default=0.0,
        )


def _identity(source: Source) -> _Identity:
    return (
        source.cluster,
        source.group,
        source.resource or source.kind,
        source.namespace,
        source.label_selector,
        source.field_selector,
        # While one takes over from another, they may differ in nothing else.
        source.projection,
        source.index_paths,
        source.namespace_selector,
    )


def _put(table: dict[_Identity, _Seen], seen: _Seen) -> None:
    # An informer is named by its kind alone, or its plural alone, until discovery knows both.
    for known in [key for key, entry in table.items() if _is_same(entry.source, seen.source)]:
        del table[known]
    if seen.source.state is not SourceState.STOPPED:
        table[_identity(seen.source)] = seen


def _is_same(known: Source, source: Source) -> bool:
    if _identity(known)[:2] + _identity(known)[3:] != _identity(source)[:2] + _identity(source)[3:]:
        return False
    same_resource = bool(known.resource) and known.resource == source.resource
    same_kind = bool(known.kind) and known.kind == source.kind
    return same_resource or same_kind


def _covers(
    source: Source, resource: ResourceName, namespace: str | None, cluster: str | None
) -> bool:
    # While only the kind of an informer is known, it may be the one that is asked for.
    is_it = source.resource == str(resource) or (
        not source.resource and source.group == resource.group
    )
    return (
        is_it
        and (not namespace or source.namespace in ("", namespace))
        and cluster in (None, source.cluster)
    )


def _age_when_sent(source: Source, wall_time: datetime) -> float:
    """Return how old the data was when the status came.

    The service's own two times do not suffer from a difference between the clocks, but miss how
    long ago the state began; so the larger one counts.
    """
    contact = source.last_contact_time or source.state_time
    if contact is None:
        return 0.0
    by_service = (source.state_time - contact).total_seconds() if source.state_time else 0.0
    return max(by_service, (wall_time - contact).total_seconds(), 0.0)
