"""Subscriptions: how one reader goes through the objects and changes of a store.

A reader is a `Cursor`, a small immutable value, and nothing else. `advance` takes a cursor and
returns the next events and the next cursor; it depends on the store and the cursor only, so whoever
stands at the same place with the same filter can be given the very same answer, at any later time.

A cursor is a revision (everything up to it is delivered), during a snapshot a `Walk` too. A reader
that keeps up gets every change (`live_step`). One that the history has overtaken, or that comes
back from before it, gets the latest state of each object that has changed (`catch_up`), until it
is at the present again.
"""

from __future__ import annotations

from watchcache_server.informer.catch_up import CatchUpStep, fall_behind
from watchcache_server.informer.cursors import Advance, Cursor, Limits, Outcome, Walk
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.held import Held
from watchcache_server.informer.live_step import LiveStep
from watchcache_server.informer.store import Store

__all__ = ["advance", "begin_snapshot", "resume"]


def resume(store: Store, revision: int, behind_since: int | None = None) -> Cursor:
    """Return the cursor of a reader that comes back, to which all up to `revision` was told.

    Or, if it was behind, all up to `behind_since`, and since then the latest of each object.
    """
    told_revision = store.revision if store.revision > revision else 0
    return Cursor(revision, told_revision=told_revision, behind_since=behind_since)


def begin_snapshot(store: Store, wanted: Filter, revision: int | None = None) -> Cursor:
    """Return the cursor from which the whole present state is delivered.

    With a `revision` it is for a reader that holds something already: the changes since then
    come too.
    """
    numbers = tuple(source.number for source in store.sources(wanted) if source.is_synced)
    if revision is None:
        return Cursor(store.revision, Walk(numbers) if numbers else None)
    return Cursor(revision, Walk(numbers, is_repeated=True) if numbers else None)


_DEFAULT_LIMITS = Limits()


def advance(
    store: Store,
    wanted: Filter,
    cursor: Cursor,
    limits: Limits = _DEFAULT_LIMITS,
    held: Held | None = None,
) -> Advance:
    """Return the next events behind a cursor, for a reader that `held` something when it came.

    EXPIRED: not even what is left of the changes reaches back to the cursor, or objects moved among
    sources during a snapshot or while the reader was behind; begin a snapshot. AT_HEAD: with these
    events the reader is at the present. MORE: call again.
    """
    if _is_at_rest(cursor, held) and not store.concerns(wanted, cursor.revision):
        return Advance((), Cursor(store.revision), Outcome.AT_HEAD, None)
    if not store.covers(cursor.revision):
        return Advance((), cursor, Outcome.EXPIRED, None)
    if cursor.behind_since is None and not store.history.covers(cursor.revision):
        cursor = fall_behind(cursor)
    kind = LiveStep if cursor.behind_since is None else CatchUpStep
    step = kind(store, wanted, cursor, limits, held)
    is_done = step.run()
    if step.is_lost:
        return Advance((), cursor, Outcome.EXPIRED, None)
    told_revision = cursor.told_revision if cursor.told_revision > step.revision else 0
    behind_since = None if is_done else cursor.behind_since
    return Advance(
        tuple(step.events),
        Cursor(step.revision, step.walk, told_revision, behind_since),
        Outcome.AT_HEAD if is_done else Outcome.MORE,
        step.oldest_read_at,
        is_coalesced=cursor.behind_since is not None or held is not None,
    )


def _is_at_rest(cursor: Cursor, held: Held | None) -> bool:
    """Tell whether a reader was at the present, with nothing left over."""
    return held is None and cursor.walk is None and cursor.behind_since is None
