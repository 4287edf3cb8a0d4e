"""Judges the history of a Watch stream: what the contract promises, checked on what was received.

Feed it what came, in order: records made by hand, `records_of` a WatchResponse, or
`records_of_client` what the Python client yields. It keeps a copy of what a subscriber holds and
notes each violation by the rule that it breaks. At the end, when nothing changes any more, `finish`
compares the copy with the API server.

Over a lost connection each change comes at least once: the service goes on after the newest token,
so what came after it may come again. The checker then goes back to where the token was given; a
stream is judged as what it is, a continuation from there. Beside it a plain receiver applies what
comes as it comes and goes back to nothing; by the time of Synced both have to hold the same.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from tests.history_records import (
    Batch,
    Bookmark,
    Change,
    Disconnected,
    Draining,
    Gone,
    Key,
    Kind,
    Record,
    Reset,
    Started,
    Synced,
)
from watchcache.holdings import object_id

__all__ = ["HistoryChecker", "Rule", "Violation"]


K = TypeVar("K")
V = TypeVar("V")


class Rule(enum.Enum):
    """The rules that a history can break."""

    OPENING = "a stream begins with Started, once, and a new one follows only a lost one"
    RESUMABLE = "a stream goes on only where a token was given"
    SNAPSHOT = "after Started and after Reset there is one Synced"
    TOKEN = "a token comes with each state that can be resumed, and never within a snapshot"
    LAST = "nothing comes after Draining"
    UNIQUE = "no change arrives twice"
    KNOWN = "only what was ADDED can change or end"
    IDENTITY = "another object under the same name is a DELETED or LEFT and an ADDED"
    ORDERED = "the changes of an object arrive in order"
    REVISIONS = "each change has a greater revision than those before"
    ATOMIC = "whoever applies each message holds exactly the objects, also over lost connections"
    REASON = "LEFT has a reason, and nothing else has one"
    SELECTED = "what matches the selector is seen, and nothing else"
    DELETED_ONCE = "what was DELETED never comes back"
    DELETED_TRULY = "only what is gone from its cluster is DELETED"
    NO_GAP = "at the end a subscriber holds what the API server has"


class Violation(NamedTuple):
    """A broken rule, and where."""

    rule: Rule
    position: int
    description: str

    def __str__(self) -> str:
        return f"record {self.position}: {self.description} ({self.rule.value})"


class _Held(NamedTuple):
    uid: str
    resource_version: str


class _Undo(NamedTuple):
    """What was before a change."""

    key: Key
    held: _Held | None
    revision: int | None
    last_revision: int
    died: str | None


@dataclass
class _State:
    """What can be gone back to."""

    held: dict[Key, _Held] = field(default_factory=dict)
    revisions: dict[Key, int] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    last_revision: int = 0


class HistoryChecker:
    """Notes in `violations` what is wrong with the records fed to it.

    `held` is given when the history begins with a token from an earlier one: what was held there.
    `matches` says which labels the subscriber's label selector lets through. Where informers have
    selectors of their own (`is_selected_upstream`) an object may have LEFT for one of those, with
    the last content that was known of it.
    """

    def __init__(
        self,
        held: Mapping[Key, tuple[str, str]] | None = None,
        *,
        matches: Callable[[Mapping[str, str]], bool] | None = None,
        is_selected_upstream: bool = False,
    ) -> None:
        self.violations: list[Violation] = []
        self.change_count = 0
        self.reset_count = 0
        self.resumed_count = 0
        self.coalesced_count = 0
        self._matches = matches
        self._is_selected_upstream = is_selected_upstream
        self._state = _State()
        # What undoes the changes since the newest token, the latest last; None where there is none.
        self._undo: list[_Undo] | None = None
        if held is not None:
            self._state.held = {key: _Held(*each) for key, each in held.items()}
            self._undo = []
        # What a plain receiver holds.
        self._applied = dict(self._state.held)
        self._position = 0
        self._is_open = False
        self._is_snapshot = False
        self._is_synced = False
        self._is_draining = False
        self._is_coalesced = False
        # The life of the extension that the stream is of, and that of the newest token.
        self._extension_uid = self._token_uid = ""
        # Up to the next token: resumed after a restart, when what was told last may be told once
        # more, or told the difference to what is held.
        self._is_restarted = self._is_differing = False

    @property
    def held(self) -> Mapping[Key, tuple[str, str]]:
        """What a subscriber holds: uid and resourceVersion of each object."""
        return self._state.held

    @property
    def position(self) -> int:
        """The number of the newest record; a call of `finish` counts as one."""
        return self._position

    @property
    def is_complete(self) -> bool:
        """Whether a subscriber has a whole state, rather than a snapshot under way."""
        return self._is_open and not self._is_snapshot

    @property
    def is_synced(self) -> bool:
        """Whether Synced came since the stream began."""
        return self._is_open and self._is_synced

    def feed(self, *records: Record) -> None:
        """Judge the next records."""
        for record in records:
            self._position += 1
            self._feed(record)

    def finish(
        self,
        expected: Mapping[Key, tuple[str, str]],
        *,
        deleted_uids: Collection[str] | None = None,
    ) -> None:
        """Compare with the API server: uid and resourceVersion of each object that should be held.

        Call it when nothing changes any more and all was received. With `deleted_uids`, all that
        were ever deleted there, whatever else was called DELETED is a violation.
        """
        self._position += 1
        if self._is_snapshot or self._undo is None:
            self._note(Rule.SNAPSHOT, "the history ends before a snapshot was complete")
        else:
            self._compare_receiver()
        held = self._state.held
        for key in sorted(expected.keys() - held.keys()):
            self._note(Rule.NO_GAP, f"{key} is missing: its ADDED never came")
        for key in sorted(held.keys() - expected.keys()):
            self._note(Rule.NO_GAP, f"{key} is still held: its DELETED or LEFT never came")
        for key in sorted(held.keys() & expected.keys()):
            if tuple(held[key]) != tuple(expected[key]):
                self._note(
                    Rule.NO_GAP, f"{key} is held as {tuple(held[key])}, not {tuple(expected[key])}"
                )
        living = {uid for uid, _ in expected.values()}
        for uid in sorted(self._state.deleted):
            if uid in living or (deleted_uids is not None and uid not in deleted_uids):
                self._note(Rule.DELETED_TRULY, f"{uid} was called DELETED and still exists")

    def assert_clean(self) -> None:
        """Raise AssertionError that lists the violations, if there are any."""
        if self.violations:
            shown = "\n".join(map(str, self.violations[:20]))
            raise AssertionError(f"{len(self.violations)} violations:\n{shown}")

    def _note(self, rule: Rule, description: str) -> None:
        self.violations.append(Violation(rule, self._position, description))

    def _feed(self, record: Record) -> None:
        if isinstance(record, Started):
            self._start(record)
            return
        if not self._is_open:
            self._note(Rule.OPENING, f"{type(record).__name__} came outside of a stream")
        if self._is_draining and not isinstance(record, Disconnected):
            self._note(Rule.LAST, f"{type(record).__name__} came after Draining")
        match record:
            case Batch():
                self._is_coalesced = record.is_coalesced
                self.coalesced_count += record.is_coalesced
                for change in record.changes:
                    self.change_count += 1
                    self._apply(change)
                self._take_token(record)
            case Gone():
                self._let_go(record)
            case Synced():
                self._end_snapshot()
                self._take_token(record)
            case Bookmark():
                self._take_token(record)
            case Draining():
                self._is_draining = True
                self._take_token(record)
            case Reset():
                self.reset_count += 1
                self._begin_snapshot()
            case Disconnected():
                self._is_open = False

    def _start(self, record: Started) -> None:
        if self._is_open:
            self._note(Rule.OPENING, "Started came within a stream")
        self._is_open = True
        self._is_synced = self._is_draining = False
        is_another = record.extension_uid != self._extension_uid
        self._extension_uid = record.extension_uid
        self._is_restarted = record.is_resumed and record.extension_uid != self._token_uid
        self._is_differing = record.is_difference
        if self._is_restarted or is_another:
            # Each life of an extension counts for itself.
            self._state.revisions.clear()
            self._state.last_revision = 0
        if record.is_difference:
            self._is_snapshot = False
            self._state.held = dict(self._applied)
            self._state.revisions.clear()
            self._undo = []
            return
        if not record.is_resumed:
            self._begin_snapshot()
            return
        self.resumed_count += 1
        if self._undo is None:
            self._note(Rule.RESUMABLE, "a stream was resumed, though no token had come")
        else:
            self._go_back(self._undo)

    def _let_go(self, gone: Gone) -> None:
        held = self._state.held
        for key in [key for key, thing in held.items() if object_id(thing.uid) in gone.ids]:
            thing = held.pop(key)
            self._applied.pop(key, None)
            if gone.kind is Kind.DELETED:
                self._state.deleted.add(thing.uid)

    def _begin_snapshot(self) -> None:
        self._is_snapshot = True
        self._is_synced = False
        self._undo = None
        # Deleted objects stay deleted, whatever else is forgotten.
        self._state = _State(deleted=self._state.deleted)

    def _end_snapshot(self) -> None:
        if self._is_synced:
            self._note(Rule.SNAPSHOT, "Synced came a second time")
        self._is_synced = True
        if self._is_snapshot:
            self._is_snapshot = False
            self._applied = dict(self._state.held)
        else:
            self._compare_receiver()

    def _compare_receiver(self) -> None:
        """Compare what a plain receiver holds with what follows from the newest token."""
        held, applied = self._state.held, self._applied
        for key in sorted(held.keys() | applied.keys()):
            if held.get(key) != applied.get(key):
                self._note(
                    Rule.ATOMIC,
                    f"{key}: who applied all holds {applied.get(key)}, not {held.get(key)}",
                )
        self._applied = dict(held)

    def _take_token(self, record: Batch | Synced | Bookmark | Draining) -> None:
        name = type(record).__name__
        if record.has_token:
            if self._is_snapshot:
                self._note(Rule.TOKEN, f"{name} has a token within a snapshot")
            self._undo = []
            self._token_uid = self._extension_uid
            self._is_restarted = self._is_differing = False
        elif self._is_restarted or self._is_differing:
            pass  # It is open what was missed.
        elif not self._is_snapshot and not isinstance(record, Batch):
            # A batch has none while a source that synced late is walked.
            self._note(Rule.TOKEN, f"{name} has no token, though all was delivered")

    def _go_back(self, undo: list[_Undo]) -> None:
        state = self._state
        for each in reversed(undo):
            _restore(state.held, each.key, each.held)
            _restore(state.revisions, each.key, each.revision)
            state.last_revision = each.last_revision
            if each.died is not None:
                state.deleted.discard(each.died)
        undo.clear()

    def _apply(self, change: Change) -> None:
        state, key = self._state, change.key
        held = state.held.get(key)
        self._check(change, held)
        is_end = change.kind in (Kind.DELETED, Kind.LEFT)
        is_first_death = change.kind is Kind.DELETED and change.uid not in state.deleted
        if self._undo is not None:
            died = change.uid if is_first_death else None
            before = state.revisions.get(key)
            self._undo.append(_Undo(key, held, before, state.last_revision, died))
        state.revisions[key] = change.revision
        if change.kind is not Kind.ADDED:
            state.last_revision = max(state.last_revision, change.revision)
        if is_first_death:
            state.deleted.add(change.uid)
        if not is_end:
            state.held[key] = _Held(change.uid, change.resource_version)
        elif held is not None and (held.uid == change.uid or not self._is_coalesced):
            del state.held[key]
        if self._is_snapshot:
            return  # A receiver puts a snapshot in the place of what it holds once it is complete.
        if not is_end:
            self._applied[key] = _Held(change.uid, change.resource_version)
        elif key in self._applied and self._applied[key].uid == change.uid:
            del self._applied[key]

    def _check(self, change: Change, held: _Held | None) -> None:
        what = (
            f"{change.kind.value} of {change.key} (uid {change.uid}, rv {change.resource_version})"
        )
        if (change.kind is Kind.LEFT) != bool(change.left_reason):
            self._note(Rule.REASON, f"{what} has reason {change.left_reason!r}")
        if self._matches is not None and change.labels is not None:
            self._check_selected(change, what, is_matching=self._matches(change.labels))
        if change.kind is Kind.ADDED:
            self._check_addition(change, held, what)
        elif held is None:
            self._check_unheld(change, what)
        elif held.uid != change.uid:
            if change.kind is Kind.MODIFIED or not self._is_coalesced:
                self._note(Rule.IDENTITY, f"{what} came while {held.uid} was held")
        elif change.kind is Kind.MODIFIED:
            self._check_newer(change, held, what)
        if not (self._is_restarted or self._is_differing):
            # Otherwise objects are told as they are found, not changes in their order.
            self._check_revision(change, what)

    def _check_addition(self, change: Change, held: _Held | None, what: str) -> None:
        if held is not None and self._is_coalesced and held.uid == change.uid:
            self._check_newer(change, held, what)
        elif held is not None and self._is_differing:
            # It has taken the place of the other, whose end is told by its id.
            self._state.deleted.add(held.uid)
        elif held is not None:
            rule = Rule.UNIQUE if held.uid == change.uid else Rule.IDENTITY
            self._note(rule, f"{what} came while {held.uid} was held")
        if change.uid in self._state.deleted:
            self._note(Rule.DELETED_ONCE, f"{what} came after its DELETED")

    def _check_unheld(self, change: Change, what: str) -> None:
        if not self._may_be_unknown(change):
            rule = Rule.UNIQUE if change.uid in self._state.deleted else Rule.KNOWN
            self._note(rule, f"{what} came though it was not held")

    def _check_revision(self, change: Change, what: str) -> None:
        state = self._state
        if change.revision <= state.revisions.get(change.key, 0):
            self._note(Rule.REVISIONS, f"{what} has revision {change.revision}, as one before it")
        elif change.kind is not Kind.ADDED and change.revision <= state.last_revision:
            # A source that is loaded late brings its objects with the revisions that they have.
            self._note(
                Rule.REVISIONS,
                f"{what} has revision {change.revision}, after {state.last_revision}",
            )

    def _check_newer(self, change: Change, held: _Held, what: str) -> None:
        if change.resource_version == held.resource_version:
            if not self._is_restarted:
                self._note(Rule.UNIQUE, f"{what} changes nothing")
        elif _is_older(change.resource_version, held.resource_version):
            self._note(Rule.ORDERED, f"{what} came after rv {held.resource_version}")

    def _may_be_unknown(self, change: Change) -> bool:
        """Tell whether such a change of an object that is not held breaks no promise."""
        if self._is_coalesced:
            return True
        # What came after the token may have been known by then, and be gone by now.
        is_resumed = not self._is_snapshot and not self._is_synced
        return is_resumed and change.kind is not Kind.MODIFIED

    def _check_selected(self, change: Change, what: str, *, is_matching: bool) -> None:
        if change.kind in (Kind.ADDED, Kind.MODIFIED) and not is_matching:
            self._note(Rule.SELECTED, f"{what} does not match: {change.labels}")
        is_unselected = change.left_reason.endswith("SELECTION") and not self._is_selected_upstream
        if is_unselected and is_matching:
            self._note(Rule.SELECTED, f"{what} still matches: {change.labels}")


def _restore(values: dict[K, V], key: K, before: V | None) -> None:
    if before is None:
        values.pop(key, None)
    else:
        values[key] = before


def _is_older(first: str, second: str) -> bool:
    return first.isdigit() and second.isdigit() and int(first) < int(second)
