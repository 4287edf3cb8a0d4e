"""A reader that distrusts what it is told: the promises of subscriptions, as assertions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from watchcache_server.informer.cursors import Advance, Cursor, Event, Limits, Outcome
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.held import Held
from watchcache_server.informer.held import Known as Known_
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Store
from watchcache_server.informer.subscription import advance, begin_snapshot, resume
from watchcache_server.model.states import EventKind, LeftReason

__all__ = ["Key", "Known", "Reader", "content", "key_of"]


class Key(NamedTuple):
    cluster: str
    group: str
    resource: str
    namespace: str
    name: str


class Known(NamedTuple):
    uid: str
    resource_version: str
    labels: tuple[str, ...]
    body: bytes


def key_of(source: Source, namespace: str, name: str) -> Key:
    """Return the name by which a subscriber knows an object."""
    return Key(source.spec.cluster, source.group, source.resource, namespace, name)


def content(store: Store, wanted: Filter) -> dict[Key, Known]:
    """Return what passes a filter, looked up one by one and without the code under test."""
    found: dict[Key, Known] = {}
    for source in store.sources():
        for entry in source.table:
            key = key_of(source, entry.namespace, entry.name)
            is_wanted = (
                (not wanted.clusters or key.cluster in wanted.clusters)
                and (not wanted.resources or (key.group, key.resource) in wanted.resources)
                and (not wanted.namespaces or key.namespace in wanted.namespaces)
                and _matches(wanted.label_selector, entry.labels)
            )
            if is_wanted:
                assert key not in found, f"{key} is held by two sources"
                body = entry.body()
                found[key] = Known(entry.uid, entry.resource_version, entry.labels, body)
    return found


def _matches(selector: str, labels: tuple[str, ...]) -> bool:
    """Match selectors of the form `key=value`, the only ones that readers here use."""
    if not selector:
        return True
    key, _, value = selector.partition("=")
    return (key, value) in zip(labels[::2], labels[1::2], strict=True)


class Reader:
    """Applies events to a dict, and asserts that each one is possible where it comes."""

    def __init__(
        self,
        store: Store,
        wanted: Filter,
        limits: Limits,
        answers: dict[tuple[Filter, Cursor], Advance] | None = None,
    ) -> None:
        self.store = store
        # Answers that others were given, which are as good for whoever stands where they stood.
        self.answers = {} if answers is None else answers
        self.wanted = wanted
        self.limits = limits
        self.held: dict[Key, Known] = {}
        self.deleted: set[str] = set()
        # Where uids are made up at random, one may be used again.
        self.may_come_back = True
        store.interest.add(wanted.topics or (), store.revision)
        self.cursor = begin_snapshot(store, wanted)
        self.is_deleted: Callable[[str], bool] = lambda uid: True
        self.may_follow: Callable[[Known, Known], bool] = lambda before, after: True
        self.reset_count = 0
        self.coalesced_count = 0
        self.events: list[Event] = []
        # The newest place that a resume token could name; a snapshot has none.
        self.token: tuple[int, int | None] | None = None
        # After a lost stream changes come again, until all is told.
        self.is_repeating = False
        self._is_synced = False
        # What it came with, until it has been told all that differs.
        self.difference: Held | None = None

    def copy(self) -> Reader:
        """Return another reader that stands where this one stands."""
        other = Reader(self.store, self.wanted, self.limits, self.answers)
        other.cursor = self.cursor
        other.held = dict(self.held)
        other.deleted = set(self.deleted)
        other.may_come_back = self.may_come_back
        other.is_deleted = self.is_deleted
        other.may_follow = self.may_follow
        other.token = self.token
        other.is_repeating = self.is_repeating
        other._is_synced = self._is_synced
        return other

    def step(self) -> Outcome:
        """Advance once; begin anew when the past is lost."""
        step = advance(self.store, self.wanted, self.cursor, self.limits, self.difference)
        if self.difference is None:
            again = advance(self.store, self.wanted, self.cursor, self.limits)
            assert step == again, "the same cursor gives the same answer"
        assert len(step.events) <= self.limits.events
        return self._take(step)

    def step_with_another(self) -> Outcome:
        """Advance by what somebody was told at the same place, perhaps long ago."""
        place = (self.wanted, self.cursor)
        if place not in self.answers or not self.store.covers(self.cursor.revision):
            return self.step()
        return self._take(self.answers[place])

    def lose(self) -> None:
        """Lose the stream and come back, with the newest token and all that was applied since."""
        if self.token is None:
            self._begin_anew()
        else:
            self.cursor = resume(self.store, *self.token)
            self.is_repeating = True

    def begin_with(self, held: Held, cursor: Cursor) -> None:
        """Begin with the difference to what is held."""
        self.difference = held
        self.cursor = cursor
        self.is_repeating = True

    def end(self, key: Key, uid: str, is_deleted: bool) -> None:
        """Be told that an object is gone, or out of view."""
        assert not is_deleted or self.is_deleted(uid)
        known = self.held.get(key)
        if known is not None and known.uid == uid:
            del self.held[key]

    def end_difference(self) -> None:
        """Have been told all that differs."""
        self.difference = None
        self.is_repeating = False
        truth = content(self.store, self.wanted)
        assert self.held == truth, (sorted(self.held), sorted(truth))

    def _begin_anew(self) -> None:
        self.held = {}
        self.difference = None
        self.cursor = begin_snapshot(self.store, self.wanted)
        self.token = None
        self.is_repeating = self._is_synced = False

    def _take(self, step: Advance) -> Outcome:
        if step.outcome is Outcome.EXPIRED:
            assert not step.events
            self._begin_anew()
            self.reset_count += 1
            return step.outcome
        if self.difference is None:
            self.answers.setdefault((self.wanted, self.cursor), step)
        self.coalesced_count += step.is_coalesced
        for event in step.events:
            self._apply(event, is_coalesced=step.is_coalesced)
        assert step.cursor.revision >= self.cursor.revision
        self.cursor = step.cursor
        if step.outcome is Outcome.AT_HEAD:
            assert self.cursor.walk is None
            self._is_synced = True
        is_at_head = step.outcome is Outcome.AT_HEAD and self.difference is None
        if is_at_head and self.cursor.revision == self.store.revision:
            truth = content(self.store, self.wanted)
            assert self.held == truth, (sorted(self.held), sorted(truth))
            self.is_repeating = False
        if self._is_synced and self.cursor.walk is None:
            self.token = (self.cursor.revision, self.cursor.behind_since)
        return step.outcome

    def catch_up(self) -> None:
        """Advance to the present."""
        expired = 0
        # Each step that is not the last gets an event or looks at `scanned` places.
        for _ in range(10_000):
            outcome = self.step()
            if outcome is Outcome.AT_HEAD:
                assert self.cursor == Cursor(self.store.revision)
                return
            expired += outcome is Outcome.EXPIRED
            assert expired < 2, "a fresh snapshot does not expire while nothing changes"
        raise AssertionError("a reader never reached the present, though nothing changed")

    def _apply(self, event: Event, *, is_coalesced: bool) -> None:
        entry = event.entry
        key = key_of(event.source, entry.namespace, entry.name)
        known = self.held.get(key)
        self.events.append(event)
        if self.is_repeating or is_coalesced:
            self._take_as_it_is(key, event)
            return
        if event.kind is EventKind.ADDED:
            assert known is None, f"{key} was ADDED twice"
            is_back = entry.uid in self.deleted and not self.may_come_back
            assert not is_back, f"{key} came back after its DELETED"
            assert event.left_reason is None
            self._hold(key, event)
            return
        assert known is not None, f"{event.kind} for {key}, which was not known"
        assert known.uid == entry.uid, f"{event.kind} of {key} under another uid"
        if event.kind is EventKind.MODIFIED:
            assert event.left_reason is None
            self._hold(key, event)
            assert self.may_follow(known, self.held[key]), f"{key} went back"
            return
        del self.held[key]
        if event.kind is EventKind.DELETED:
            assert event.left_reason is None
            assert self.is_deleted(entry.uid), f"{key} was called deleted, and is not"
            self.deleted.add(entry.uid)
        else:
            assert isinstance(event.left_reason, LeftReason)

    def _take_as_it_is(self, key: Key, event: Event) -> None:
        """Apply an event of what may be known or not."""
        known = self.held.get(key)
        if event.kind in (EventKind.ADDED, EventKind.MODIFIED):
            self._hold(key, event)
            is_exact = isinstance(self.difference, Known_)
            assert not is_exact or known != self.held[key], f"{key} was held so"
            assert self.is_repeating or known != self.held[key], f"{key} was told twice"
            if not self.is_repeating and known is not None and known.uid == event.entry.uid:
                assert self.may_follow(known, self.held[key]), f"{key} went back"
            return
        assert (event.kind is EventKind.LEFT) == isinstance(event.left_reason, LeftReason)
        assert event.kind is EventKind.LEFT or self.is_deleted(event.entry.uid)
        if known is not None and known.uid == event.entry.uid:
            del self.held[key]

    def _hold(self, key: Key, event: Event) -> None:
        entry = event.entry
        self.held[key] = Known(entry.uid, entry.resource_version, entry.labels, entry.body())
