"""Succession: objects pass from sources that retire to the source that follows them.

When a spec changes, the new source syncs while the old one still serves. From then on the new one
has the objects, and a subscriber is told of the difference only. The two read the API server at
different times, so what is missing here or older there proves nothing by itself: an object is
called DELETED only where the versions show that it was gone when the new source read. What cannot
be told stays with the old source, until the new one reports it or the old one is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watchcache_server.informer.entries import Entry
from watchcache_server.informer.source import Effect, Source
from watchcache_server.informer.versions import Order, compare_versions
from watchcache_server.model.states import EventKind, LeftReason

__all__ = ["pass_on", "take_over"]


def take_over(
    successor: Source, predecessors: Sequence[Source], resource_version: str
) -> list[Effect]:
    """Take objects over after the first sync; return the difference.

    `resource_version` is that at which the successor read the objects, empty if not known.
    """
    effects: list[Effect] = []
    for entry in list(successor.table.after("", "")):
        passed = _pass_on_one(successor, entry, predecessors)
        effects.extend([Effect(EventKind.ADDED, entry)] if passed is None else passed)
    for predecessor in predecessors:
        for old in list(predecessor.table.after("", "")):
            # It was there before the successor read, and then no longer.
            order = compare_versions(old.resource_version, resource_version)
            is_over = order in (Order.OLDER, Order.EQUAL)
            if is_over and successor.covers(old.namespace, old.name):
                predecessor.release(old)
                effects.append(_ended(old))
    return effects


def pass_on(
    successor: Source, predecessors: Sequence[Source], effects: Iterable[Effect]
) -> tuple[list[Effect], bool]:
    """Take those objects over that a later change has added and a predecessor still holds.

    No object may have more than one change among `effects`. Returns what remains to be told, and
    whether any object was taken over.
    """
    if not predecessors:
        return list(effects), False
    told: list[Effect] = []
    has_moved = False
    for effect in effects:
        passed = None
        if effect.kind is EventKind.ADDED:
            passed = _pass_on_one(successor, effect.entry, predecessors)
        has_moved = has_moved or passed is not None
        told.extend([effect] if passed is None else passed)
    return told, has_moved


def _pass_on_one(
    successor: Source, entry: Entry, predecessors: Sequence[Source]
) -> list[Effect] | None:
    """Take over the object in whose place `entry` stands; None when no predecessor has one."""
    for predecessor in predecessors:
        old = predecessor.table.get(entry.namespace, entry.name)
        if old is not None:
            predecessor.release(old)
            is_same_form = (
                old.version == entry.version
                and predecessor.spec.projection == successor.spec.projection
            )
            return _difference(successor, old, entry, is_same_form=is_same_form)
    return None


def _difference(successor: Source, old: Entry, entry: Entry, *, is_same_form: bool) -> list[Effect]:
    order = compare_versions(old.resource_version, entry.resource_version)
    if is_same_form and order is Order.NEWER:
        successor.run_ahead(old)
        return []
    if old.uid != entry.uid:
        end = Effect(EventKind.LEFT, old, old, LeftReason.SCOPE)
        return [
            _ended(old) if order is Order.OLDER else end,
            Effect(EventKind.ADDED, entry),
        ]
    if is_same_form and order is Order.EQUAL:
        entry.revision, entry.first_revision = old.revision, old.first_revision
        return []
    return [Effect(EventKind.MODIFIED, entry, old)]


def _ended(old: Entry) -> Effect:
    return Effect(EventKind.DELETED, old, old, final_state_unknown=True)
