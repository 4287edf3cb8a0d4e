"""Keys to be looked at, for the workers of a controller: deduplicated, one worker per key, backoff.

`Queue` turns the changes of a mirror into keys and hands them to workers. What waits is keys, never
changes, so its memory is bounded by the number of objects however slow the workers are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar

from watchcache.backoff import Backoff
from watchcache.durations import Duration, seconds_of
from watchcache.errors import WatchCacheError
from watchcache.keys import Key, parse_resource
from watchcache.pulse import Pulse
from watchcache.schedule import KeySchedule
from watchcache.states import EventType, LeftReason
from watchcache.store import Change, Entry, Store

__all__ = ["Attempt", "Queue", "Related", "Removal", "Worker"]

T = TypeVar("T")

Related = Mapping[str, Callable[[T], Iterable[Key | str]]]
"""For a resource, the function that tells which keys a changed object of it is about."""

Subscribe = Callable[[Callable[[Sequence[Change[T]]], None]], Callable[[], None]]
"""Adds a listener, and returns what ends its being told."""

_log = logging.getLogger("watchcache")


@dataclass(frozen=True, slots=True)
class Removal(Generic[T]):
    """How an object came to be no longer held.

    `is_deleted` says that it is gone from its cluster. If not, it may well be alive: it is only no
    longer seen, for the reason that is given.
    """

    is_deleted: bool
    left_reason: LeftReason | None
    change: Change[T]

    @property
    def object(self) -> T:
        """The object as it was last known."""
        return self.change.object


class Queue(Generic[T]):
    """Keys to be looked at; made by `Mirror.queue`. One worker iterates over it, or several.

    Each key that is handed out has to be worked on within `with queue.attempt(key):`. An error in
    there is logged and the key comes again after a while, longer each time; success forgets the
    errors. Iteration ends after `close`.
    """

    def __init__(
        self,
        store: Store[T],
        resource: str,
        *,
        owned: Sequence[str],
        related: Related[T],
        backoff: Backoff,
        subscribe: Subscribe[T],
        pulse: Pulse,
        check: Callable[[], None],
        qualify: Callable[[Key], Key],
    ) -> None:
        """Take from the mirror what links the two.

        `subscribe` has a listener told of changes, `pulse` beats when the mirror has changed,
        `check` raises where waiting would be in vain, and `qualify` completes a key by its cluster.
        """
        self._store = store
        self._name = resource
        self._owned = {str(parse_resource(name, field="owned")) for name in owned}
        self._related = {
            str(parse_resource(name, field="related")): names for name, names in related.items()
        }
        self._backoff = backoff
        self._schedule: KeySchedule[Key] = KeySchedule()
        self._failures: dict[Key, int] = {}
        self._removals: dict[Key, Removal[T]] = {}
        self._attempted: set[Key] = set()
        self._pulse = pulse
        self._check = check
        self._qualify = qualify
        self._is_closed = False
        self._unsubscribe = subscribe(self.note)
        for key, _ in store.select(self._name):
            self._schedule.add(key)

    def __len__(self) -> int:
        """Return how many keys wait, now or for a time."""
        return len(self._schedule)

    def __repr__(self) -> str:
        return f"<Queue of {self._name}, {len(self)} waiting, {len(self._failures)} failing>"

    def __aiter__(self) -> Worker[T]:
        return Worker(self)

    def add(self, key: Key | str, *, after: Duration = 0.0) -> None:
        """Have `key` come, as soon as its turn comes or after some time."""
        self._add(self._qualify(Key.of(key)), seconds_of(after, field="after"))

    def attempt(self, key: Key) -> Attempt[T]:
        """Return the context in which `key` is worked on."""
        return Attempt(self, key)

    def close(self) -> None:
        """Hand out no more keys; workers that wait end."""
        if not self._is_closed:
            self._is_closed = True
            self._unsubscribe()
            self._pulse.beat()

    def note(self, changes: Sequence[Change[T]]) -> None:
        """Take in what changed in the mirror."""
        for change in changes:
            if change.resource == self._name:
                self._note_removal(change)
                self._schedule.add(change.key)
            if change.resource in self._owned:
                for entry in change.entries:
                    for key in self._owners(entry):
                        self._schedule.add(key)
            names = self._related.get(change.resource)
            if names is not None:
                self._note_related(change, names)

    def _note_removal(self, change: Change[T]) -> None:
        if change.new is not None:
            self._removals.pop(change.key, None)
        else:
            is_deleted = change.type is EventType.DELETED
            self._removals[change.key] = Removal(is_deleted, change.left_reason, change)

    def _note_related(self, change: Change[T], names: Callable[[T], Iterable[Key | str]]) -> None:
        for entry in change.entries:
            for name in names(change.decode(entry.require_body())):
                key = Key.of(name)
                self._schedule.add(key if key.cluster else key._replace(cluster=change.key.cluster))

    def _owners(self, entry: Entry) -> Iterator[Key]:
        """Follow the owner references up to objects of the queue's own resource."""
        seen, waiting = set(), list(entry.owner_uids)
        while waiting:
            uid = waiting.pop()
            found = None if uid in seen else self._store.find_uid(uid)
            seen.add(uid)
            if found is None:
                continue  # Not held: if it comes, that is a change of its own.
            resource, key = found
            if resource == self._name:
                yield key
            elif resource in self._owned and (owner := self._store.get(resource, key)):
                waiting.extend(owner.owner_uids)

    # The side of workers and attempts.

    def is_held(self, key: Key, run: int) -> bool:
        """Say whether a key that was handed out is still being worked on."""
        return self._schedule.is_running(key, run)

    async def take(self) -> tuple[Key, int]:
        """Wait for the next key. Raises StopAsyncIteration after `close`."""
        loop = asyncio.get_running_loop()
        while not self._is_closed:
            self._check()
            taken = self._schedule.take(loop.time())
            if taken is not None:
                return taken
            try:
                async with asyncio.timeout_at(self._schedule.next_due()):
                    await self._pulse.wait()
            except TimeoutError:
                continue  # The time of a key has come.
        raise StopAsyncIteration

    def begin(self, key: Key) -> Removal[T] | None:
        """Note that work on a key begins; return how its object was removed, if it was."""
        if not self._schedule.is_running(key) or key in self._attempted:
            raise RuntimeError(f"{key} was not handed out by this queue, or is attempted already")
        self._attempted.add(key)
        return self._removals.get(key)

    def succeed(self, key: Key, removal: Removal[T] | None, again_seconds: float | None) -> None:
        """Note that the work is done."""
        self._failures.pop(key, None)
        if removal is not None and self._removals.get(key) is removal:
            del self._removals[key]
        if again_seconds is not None:
            self._add(key, again_seconds)
        self._end(key)

    def fail(self, key: Key, error: Exception) -> None:
        """Note that the work failed; the key comes again later."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(failures)
        _log.error(
            "%s %s: attempt %d failed, again in %.1f s: %s",
            self._name,
            key,
            failures,
            delay,
            error,
            # What this package raises explains itself.
            exc_info=None if isinstance(error, WatchCacheError) else error,
        )
        self._add(key, delay)
        self._end(key)

    def give_back(self, key: Key) -> None:
        """Note that the work was cut off; the key comes again at once."""
        self._schedule.add(key)
        self._end(key)

    def _end(self, key: Key) -> None:
        self._attempted.discard(key)
        self._schedule.finish(key)
        self._pulse.beat()

    def _add(self, key: Key, after_seconds: float) -> None:
        if after_seconds:
            now = asyncio.get_running_loop().time()
            self._schedule.add_at(key, now + after_seconds)
        else:
            self._schedule.add(key)
        self._pulse.beat()


class Worker(Generic[T]):
    """What `async for key in queue` uses: it has at most one key at a time."""

    def __init__(self, queue: Queue[T]) -> None:
        self._queue = queue
        self._held: tuple[Key, int] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Key:
        if self._held is not None and self._queue.is_held(*self._held):
            raise RuntimeError(
                f"{self._held[0]} is still held: work on it within `with queue.attempt(key):`, and "
                "for more at a time iterate over the queue in several tasks"
            )
        self._held = await self._queue.take()
        return self._held[0]


class Attempt(Generic[T]):
    """The work on one key.

    `removed` says how the object came to be missing, None while it is held: look at it before
    taking an absent object for a deleted one.
    """

    def __init__(self, queue: Queue[T], key: Key) -> None:
        self._queue = queue
        self._again_seconds: float | None = None
        self.key = key
        self.removed: Removal[T] | None = None

    def again(self, after: Duration) -> None:
        """Have the key come again after some time, if the attempt succeeds."""
        self._again_seconds = seconds_of(after, field="after")

    def __enter__(self) -> Self:
        self.removed = self._queue.begin(self.key)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if error is None:
            self._queue.succeed(self.key, self.removed, self._again_seconds)
        elif isinstance(error, Exception):
            self._queue.fail(self.key, error)
            return True
        else:
            # The worker is being stopped: another one, or the next run, gets the key.
            self._queue.give_back(self.key)
        return False
