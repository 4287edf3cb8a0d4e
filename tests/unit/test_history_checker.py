"""The history checker accepts good histories and catches every kind of bad one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.history_checker import (
    Batch,
    Bookmark,
    Change,
    Disconnected,
    Draining,
    HistoryChecker,
    Key,
    Kind,
    Record,
    Reset,
    Rule,
    Started,
    Synced,
    records_of,
    records_of_client,
)
from tests.items import item, source_spec
from watchcache.backoff import Backoff
from watchcache.objects import decode_json
from watchcache.progress import WatchProgress
from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2
from watchcache_server.informer.cursors import Cursor, Event, Limits, Outcome
from watchcache_server.informer.filters import EVERYTHING
from watchcache_server.informer.objects import Delta, Item, Remove, Upsert
from watchcache_server.informer.store import Store
from watchcache_server.informer.subscription import advance, begin_snapshot, resume
from watchcache_server.model.states import LeftReason

WEB = Key("hub", "apps", "deployments", "a", "web")
DB = Key("hub", "", "pods", "a", "db")

SNAPSHOT, RESUMED = Started(is_resumed=False), Started(is_resumed=True)


def change(
    kind: str,
    revision: int,
    uid: str = "uid-1",
    version: str = "1",
    *,
    key: Key = WEB,
    reason: str | None = None,
) -> Change:
    """Make an event."""
    if reason is None:
        reason = "SELECTION" if kind == "LEFT" else ""
    return Change(Kind(kind), key, uid, version, revision, reason)


def batch(*changes: Change, has_token: bool = True) -> Batch:
    """Make a batch."""
    return Batch(changes, has_token)


def coalesced(*changes: Change) -> Batch:
    """Make a batch whose events stand for several changes each."""
    return Batch(changes, has_token=True, is_coalesced=True)


def snapshot(*changes: Change) -> list[Record]:
    """Make a whole snapshot."""
    return [SNAPSHOT, batch(*changes, has_token=False), Synced()]


def rules(records: Iterable[Record]) -> list[Rule]:
    """Say which rules a history breaks."""
    checker = HistoryChecker()
    checker.feed(*records)
    return [violation.rule for violation in checker.violations]


HELD = change("ADDED", 1)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([], id="nothing"),
        pytest.param([SNAPSHOT, Synced(), Bookmark(), Draining(), Disconnected()], id="empty"),
        pytest.param(
            [
                *snapshot(HELD),
                batch(change("MODIFIED", 2, version="2"), change("MODIFIED", 3, version="10")),
                batch(change("DELETED", 4, version="11")),
            ],
            id="the life of an object",
        ),
        pytest.param(
            [
                *snapshot(HELD),
                batch(change("DELETED", 2), change("ADDED", 3, "uid-2", "2")),
                batch(change("MODIFIED", 4, "uid-2", "3")),
            ],
            id="deleted and created anew",
        ),
        pytest.param(
            [*snapshot(HELD), batch(change("LEFT", 2), change("ADDED", 3, version="3"))],
            id="left and back",
        ),
        pytest.param(
            [
                *snapshot(HELD),
                coalesced(
                    change("DELETED", 2, "uid-7", key=DB),
                    change("ADDED", 5, version="5"),
                    change("MODIFIED", 9, "uid-2", "9", key=DB),
                ),
                batch(change("MODIFIED", 10, "uid-2", "10", key=DB)),
            ],
            id="caught up",
        ),
        pytest.param(
            [
                SNAPSHOT,
                batch(change("ADDED", 7), has_token=False),
                batch(
                    change("MODIFIED", 8, version="2"),
                    change("ADDED", 3, "uid-2", key=DB),
                    has_token=False,
                ),
                Synced(),
            ],
            id="a change within a snapshot",
        ),
        pytest.param(
            [*snapshot(HELD), Disconnected(), *snapshot(HELD)], id="a new snapshot after all"
        ),
        pytest.param(
            [*snapshot(HELD), Reset(), batch(HELD, has_token=False), Synced()], id="reset"
        ),
        pytest.param([SNAPSHOT, batch(HELD, has_token=False), Reset(), Synced()], id="reset early"),
        pytest.param(
            [*snapshot(HELD), Disconnected(), RESUMED, batch(change("MODIFIED", 2, version="2"))],
            id="resumed",
        ),
        pytest.param(
            [
                *snapshot(HELD),
                batch(change("ADDED", 5, "uid-2", key=DB), has_token=False),
                batch(change("DELETED", 6), change("ADDED", 7, "uid-3"), has_token=False),
                Disconnected(),
                RESUMED,
                batch(change("ADDED", 5, "uid-2", key=DB), has_token=False),
                batch(change("DELETED", 6), change("ADDED", 7, "uid-3")),
            ],
            id="resumed, with what came after the token again",
        ),
        pytest.param(
            [*snapshot(HELD), Disconnected(), RESUMED, batch(change("DELETED", 2)), Synced()],
            id="resumed, and all caught up on",
        ),
        pytest.param(
            [
                *snapshot(HELD),
                batch(change("ADDED", 5, "uid-2", key=DB), has_token=False),
                Disconnected(),
                RESUMED,
                batch(change("DELETED", 6, "uid-2", key=DB)),
                Synced(),
            ],
            id="resumed, with the end of what came after the token",
        ),
        pytest.param(
            [
                *snapshot(HELD),
                batch(change("MODIFIED", 9, version="2")),
                batch(
                    change("ADDED", 5, "uid-2", key=DB),
                    change("ADDED", 5, "uid-3", key=DB._replace(name="x")),
                ),
            ],
            id="a source that is loaded late",
        ),
        pytest.param(
            [*snapshot(HELD), batch(change("MODIFIED", 2, version="opaque"))],
            id="versions without order",
        ),
        pytest.param(
            [*snapshot(HELD), batch(change("LEFT", 2, reason="NEW_REASON"))], id="unknown reason"
        ),
    ],
)
def test_good_history_is_accepted(records: list[Record]) -> None:
    """Whatever the contract allows is no violation."""
    assert rules(records) == []


BAD = [
    pytest.param([Bookmark()], Rule.OPENING, id="does not begin"),
    pytest.param([SNAPSHOT, Synced(), SNAPSHOT], Rule.OPENING, id="begins twice"),
    pytest.param(
        [SNAPSHOT, Synced(), Disconnected(), Bookmark()], Rule.OPENING, id="goes on when lost"
    ),
    pytest.param([RESUMED], Rule.RESUMABLE, id="resumed from nothing"),
    pytest.param(
        [SNAPSHOT, batch(HELD, has_token=False), Disconnected(), RESUMED],
        Rule.RESUMABLE,
        id="resumed from within a snapshot",
    ),
    pytest.param(
        [*snapshot(HELD), Reset(), Disconnected(), RESUMED],
        Rule.RESUMABLE,
        id="resumed from within a reset",
    ),
    pytest.param([SNAPSHOT, Synced(), Synced()], Rule.SNAPSHOT, id="synced twice"),
    pytest.param(
        [*snapshot(), Disconnected(), RESUMED, Synced(), Synced()],
        Rule.SNAPSHOT,
        id="synced twice when resumed",
    ),
    pytest.param([*snapshot(), Draining(), Bookmark()], Rule.LAST, id="more after the last"),
    pytest.param([SNAPSHOT, batch(HELD)], Rule.TOKEN, id="token of half a snapshot"),
    pytest.param([SNAPSHOT, Bookmark()], Rule.TOKEN, id="bookmark of half a snapshot"),
    pytest.param([SNAPSHOT, Synced(has_token=False)], Rule.TOKEN, id="synced without a token"),
    pytest.param(
        [*snapshot(), Bookmark(has_token=False)], Rule.TOKEN, id="bookmark without a token"
    ),
    pytest.param(
        [*snapshot(), Draining(has_token=False)], Rule.TOKEN, id="draining without a token"
    ),
    pytest.param([*snapshot(HELD), batch(change("ADDED", 2))], Rule.UNIQUE, id="added twice"),
    pytest.param(
        [*snapshot(HELD), coalesced(change("ADDED", 2))], Rule.UNIQUE, id="told twice on the way"
    ),
    pytest.param(
        [*snapshot(change("ADDED", 1, version="9")), coalesced(change("ADDED", 2, version="8"))],
        Rule.ORDERED,
        id="gone back on the way",
    ),
    pytest.param(
        [*snapshot(HELD), coalesced(change("ADDED", 2, "uid-2", "2"))],
        Rule.IDENTITY,
        id="replaced on the way without an end",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("MODIFIED", 2))], Rule.UNIQUE, id="modified to the same"
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("DELETED", 2), change("DELETED", 3))],
        Rule.UNIQUE,
        id="deleted twice",
    ),
    pytest.param(
        [*snapshot(), batch(change("MODIFIED", 2))], Rule.KNOWN, id="modified, never added"
    ),
    pytest.param([*snapshot(), batch(change("DELETED", 2))], Rule.KNOWN, id="deleted, never added"),
    pytest.param([*snapshot(), batch(change("LEFT", 2))], Rule.KNOWN, id="left, never added"),
    pytest.param(
        [*snapshot(HELD), Reset(), batch(change("MODIFIED", 2, version="2"), has_token=False)],
        Rule.KNOWN,
        id="modified, of before a reset",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("MODIFIED", 2, "uid-2", "2"))],
        Rule.IDENTITY,
        id="created anew, told as modified",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("ADDED", 2, "uid-2", "2"))],
        Rule.IDENTITY,
        id="created anew without the deletion",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("DELETED", 2, "uid-2", "2"))],
        Rule.IDENTITY,
        id="deletion of another object",
    ),
    pytest.param(
        [
            *snapshot(HELD),
            batch(change("MODIFIED", 2, version="10"), change("MODIFIED", 3, version="9")),
        ],
        Rule.ORDERED,
        id="out of order",
    ),
    pytest.param(
        [
            *snapshot(HELD),
            batch(change("MODIFIED", 3, version="2")),
            batch(change("MODIFIED", 3, version="3")),
        ],
        Rule.REVISIONS,
        id="one revision twice",
    ),
    pytest.param(
        [
            *snapshot(HELD, change("ADDED", 1, "uid-2", key=DB)),
            batch(change("MODIFIED", 5, version="2")),
            batch(change("MODIFIED", 4, "uid-2", "3", key=DB)),
        ],
        Rule.REVISIONS,
        id="revisions of two objects out of order",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("LEFT", 3), change("ADDED", 2, version="2"))],
        Rule.REVISIONS,
        id="back before it left",
    ),
    pytest.param(
        [
            *snapshot(HELD),
            batch(change("ADDED", 5, "uid-2", key=DB), has_token=False),
            Disconnected(),
            RESUMED,
            Synced(),
        ],
        Rule.ATOMIC,
        id="what was seen after the token is gone, and nobody says so",
    ),
    pytest.param(
        [*snapshot(HELD), Disconnected(), RESUMED, Synced(), batch(change("DELETED", 5, key=DB))],
        Rule.KNOWN,
        id="deleted, never added, when all was caught up on",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("LEFT", 2, reason=""))], Rule.REASON, id="no reason"
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("DELETED", 2, reason="SELECTION"))],
        Rule.REASON,
        id="deleted for a reason",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("DELETED", 2), change("ADDED", 3, version="3"))],
        Rule.DELETED_ONCE,
        id="back from the dead",
    ),
    pytest.param(
        [*snapshot(HELD), batch(change("DELETED", 2)), Reset(), batch(HELD, has_token=False)],
        Rule.DELETED_ONCE,
        id="back from the dead after a reset",
    ),
    pytest.param(
        [
            *snapshot(HELD),
            batch(change("MODIFIED", 2, version="2")),
            Disconnected(),
            RESUMED,
            batch(change("MODIFIED", 2, version="2")),
        ],
        Rule.UNIQUE,
        id="told again, though a token had come with it",
    ),
    pytest.param(
        [
            *snapshot(HELD),
            batch(change("DELETED", 2), has_token=False),
            Disconnected(),
            RESUMED,
            batch(change("ADDED", 3, "uid-2", "2")),
        ],
        Rule.IDENTITY,
        id="a deletion after the token is lost",
    ),
]


@pytest.mark.parametrize(("records", "expected"), BAD)
def test_bad_history_is_caught(records: list[Record], expected: Rule) -> None:
    """Each kind of violation is noted where it happens, by its rule."""
    assert expected in rules(records)
    assert rules(records[:-1]) == [], "the last record is the bad one"


def test_every_rule_has_a_history_that_breaks_it() -> None:
    """A rule that nothing can break is no rule; two are for the end, one for a selector alone."""
    broken = {case.values[1] for case in BAD}
    assert broken == set(Rule) - {Rule.NO_GAP, Rule.DELETED_TRULY, Rule.SELECTED}


# With a selector


GOLD, SILVER = {"tier": "gold"}, {"tier": "silver"}


@pytest.mark.parametrize(
    ("kind", "labels", "reason", "is_good"),
    [
        pytest.param("ADDED", GOLD, "", True, id="added, matching"),
        pytest.param("ADDED", SILVER, "", False, id="added, not matching"),
        pytest.param("MODIFIED", GOLD, "", True, id="modified, matching"),
        pytest.param("MODIFIED", SILVER, "", False, id="modified, not matching"),
        pytest.param("LEFT", SILVER, "LEFT_REASON_SELECTION", True, id="left, not matching"),
        pytest.param("LEFT", GOLD, "LEFT_REASON_SELECTION", False, id="left, matching"),
        pytest.param("LEFT", GOLD, "LEFT_REASON_SCOPE", True, id="left for another reason"),
        pytest.param("DELETED", GOLD, "", True, id="deleted, matching"),
        pytest.param("MODIFIED", None, "", True, id="labels unknown"),
    ],
)
def test_labels_are_compared_with_the_selector(
    kind: str, labels: dict[str, str] | None, reason: str, is_good: bool
) -> None:
    """Only what matches is ADDED and MODIFIED, and only what no longer matches LEFT for that."""
    checker = HistoryChecker(matches=lambda found: found.get("tier") == "gold")
    checker.feed(*snapshot() if kind == "ADDED" else snapshot(HELD))
    checker.feed(batch(replace(change(kind, 2, version="2", reason=reason), labels=labels)))
    assert [v.rule for v in checker.violations] == ([] if is_good else [Rule.SELECTED])


def test_an_upstream_selector_may_be_why_a_matching_object_left() -> None:
    """The informer's own selector says nothing of the labels that a subscriber asked for."""
    checker = HistoryChecker(matches=lambda found: True, is_selected_upstream=True)
    checker.feed(*snapshot(HELD), batch(replace(change("LEFT", 2), labels=GOLD)))
    checker.assert_clean()


# The end


@pytest.mark.parametrize(
    ("records", "expected", "deleted", "rule"),
    [
        pytest.param(snapshot(HELD), {WEB: ("uid-1", "1")}, None, None, id="equal"),
        pytest.param(
            [*snapshot(HELD), Disconnected()],
            {WEB: ("uid-1", "1")},
            None,
            None,
            id="equal, and then lost",
        ),
        pytest.param(
            [*snapshot(HELD), batch(change("DELETED", 2))], {}, {"uid-1"}, None, id="equal, empty"
        ),
        pytest.param(snapshot(), {WEB: ("uid-1", "1")}, None, Rule.NO_GAP, id="lost ADDED"),
        pytest.param(snapshot(HELD), {}, None, Rule.NO_GAP, id="lost DELETED"),
        pytest.param(snapshot(HELD), {WEB: ("uid-1", "2")}, None, Rule.NO_GAP, id="lost MODIFIED"),
        pytest.param(
            snapshot(HELD), {WEB: ("uid-2", "1")}, None, Rule.NO_GAP, id="lost replacement"
        ),
        pytest.param(
            [SNAPSHOT, batch(HELD, has_token=False)],
            {WEB: ("uid-1", "1")},
            None,
            Rule.SNAPSHOT,
            id="never synced",
        ),
        pytest.param([], {}, None, Rule.SNAPSHOT, id="never begun"),
        pytest.param(
            [*snapshot(HELD), batch(change("DELETED", 2))],
            {},
            set(),
            Rule.DELETED_TRULY,
            id="left, but called deleted",
        ),
        pytest.param(
            [*snapshot(HELD), batch(change("DELETED", 2))],
            {WEB._replace(namespace="b"): ("uid-1", "1")},
            None,
            Rule.DELETED_TRULY,
            id="called deleted, but there",
        ),
    ],
)
def test_end_is_compared_with_the_api_server(
    records: list[Record],
    expected: dict[Key, tuple[str, str]],
    deleted: set[str] | None,
    rule: Rule | None,
) -> None:
    """Nothing is missing, nothing is left over, and DELETED meant deleted."""
    checker = HistoryChecker()
    checker.feed(*records)
    assert checker.violations == []
    checker.finish(expected, deleted_uids=deleted)
    found = {violation.rule for violation in checker.violations}
    assert found - {Rule.NO_GAP} == ({rule} if rule else set()) - {Rule.NO_GAP}
    assert (rule is Rule.NO_GAP) <= (Rule.NO_GAP in found)


def test_history_may_begin_with_an_earlier_token() -> None:
    """What was held when the token was given is where the stream goes on."""
    checker = HistoryChecker({WEB: ("uid-1", "1")})
    checker.feed(RESUMED, batch(change("MODIFIED", 9, version="2")))
    checker.finish({WEB: ("uid-1", "2")})
    checker.assert_clean()


def test_violations_are_shown_with_their_place() -> None:
    """Who reads a failed test sees which record broke which rule."""
    checker = HistoryChecker()
    checker.feed(*snapshot(HELD), batch(change("ADDED", 2)))
    with pytest.raises(
        AssertionError, match=r"1 violations:\nrecord 4: ADDED of deployments\.apps"
    ):
        checker.assert_clean()
    assert checker.change_count == 2
    assert checker.held == {WEB: ("uid-1", "1")}


# From the wire and from the client


def event_message(each: Change) -> event_pb2.Event:
    """Write an event as it is on the wire."""
    key = each.key
    reasons = {"": event_pb2.LEFT_REASON_UNSPECIFIED, "SELECTION": event_pb2.LEFT_REASON_SELECTION}
    return event_pb2.Event(
        type=event_pb2.EventType.Value(f"EVENT_TYPE_{each.kind.value}"),
        object=event_pb2.Object(
            key=event_pb2.ObjectKey(
                cluster=key.cluster,
                group=key.group,
                resource=key.resource,
                namespace=key.namespace,
                name=key.name,
            ),
            uid=each.uid,
            resource_version=each.resource_version,
        ),
        revision=each.revision,
        left_reason=reasons[each.left_reason.removeprefix("LEFT_REASON_")],
        final_state_unknown=each.final_state_unknown,
    )


def wire() -> Iterator[service_pb2.WatchResponse]:
    """Write a stream with every kind of message."""
    response = service_pb2.WatchResponse
    first = event_message(change("ADDED", 1))
    second = event_message(change("LEFT", 2))
    yield response(started=service_pb2.Started(mode=service_pb2.START_MODE_SNAPSHOT))
    yield response(source_status=extension_pb2.SourceStatus())
    yield response(batch=service_pb2.EventBatch(events=[first]))
    yield response(synced=service_pb2.Synced(resume_token=b"1"))
    yield response(batch=service_pb2.EventBatch(events=[second], resume_token=b"2"))
    yield response(bookmark=service_pb2.Bookmark(resume_token=b"3"))
    yield response(reset=service_pb2.Reset(reason=service_pb2.RESET_REASON_HISTORY_EXPIRED))
    yield response(synced=service_pb2.Synced(resume_token=b"4"))
    yield response(draining=service_pb2.Draining(resume_token=b"4"))


def test_messages_of_the_wire_are_read() -> None:
    """Each message of the contract is a record, but for the states of sources."""
    records = [record for response in wire() for record in records_of(response)]
    assert records == [
        SNAPSHOT,
        batch(change("ADDED", 1), has_token=False),
        Synced(),
        batch(change("LEFT", 2, reason="LEFT_REASON_SELECTION")),
        Bookmark(),
        Reset(),
        Synced(),
        Draining(),
    ]
    resumed = service_pb2.Started(mode=service_pb2.START_MODE_RESUMED)
    assert list(records_of(service_pb2.WatchResponse(started=resumed))) == [RESUMED]


@pytest.mark.parametrize(
    ("body", "labels"),
    [
        pytest.param({"json": b'{"metadata":{"labels":{"tier":"gold"}}}'}, GOLD, id="whole"),
        pytest.param(
            {"metadata_json": b'{"metadata":{"labels":{"tier":"gold"}}}'}, GOLD, id="part"
        ),
        pytest.param({"json": b'{"metadata":{}}'}, {}, id="none"),
        pytest.param({}, None, id="no body"),
    ],
)
def test_labels_are_read_where_they_are_wanted(
    body: dict[str, bytes], labels: dict[str, str] | None
) -> None:
    """A selector is checked against the labels in the body that came."""
    message = event_message(change("ADDED", 1))
    message.object.MergeFrom(event_pb2.Object(**body))  # type: ignore[arg-type]
    response = service_pb2.WatchResponse(batch=service_pb2.EventBatch(events=[message]))
    (record,) = records_of(response, reads_labels=True)
    assert isinstance(record, Batch)
    assert record.changes[0].labels == labels
    (record,) = records_of(response)
    assert isinstance(record, Batch)
    assert record.changes[0].labels is None


def test_messages_of_the_client_are_read() -> None:
    """What the Python client makes of a stream is the same history."""
    progress = WatchProgress(
        decode_json,
        backoff=Backoff(),
        bookmark_interval_seconds=30.0,
        patience_seconds=1.0,
        can_register=False,
    )
    records: list[Record] = []
    for response in wire():
        before = progress.resume_token
        message = progress.receive(response)
        has_token = progress.resume_token not in (before, b"")
        if message is not None:
            records += records_of_client(message, has_token=has_token)
    assert records == [
        SNAPSHOT,
        batch(change("ADDED", 1), has_token=False),
        Synced(),
        batch(change("LEFT", 2)),
        Bookmark(),
        Reset(),
        Synced(),
    ]


# The checker and the core agree


def record_of(events: tuple[Event, ...], *, has_token: bool) -> Batch:
    """Read a step of a subscription."""
    return Batch(
        tuple(
            Change(
                kind=Kind(event.kind.name),
                key=Key(
                    event.source.spec.cluster,
                    event.source.group,
                    event.source.resource,
                    event.entry.namespace,
                    event.entry.name,
                ),
                uid=event.entry.uid,
                resource_version=event.entry.resource_version,
                revision=event.revision,
                left_reason="" if event.left_reason is None else event.left_reason.name,
            )
            for event in events
        ),
        has_token,
    )


class Stream:
    """A stream of a store whose every message is fed to a checker; it may be lost and resumed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.checker = HistoryChecker()
        self.checker.feed(SNAPSHOT)
        self.place = begin_snapshot(store, EVERYTHING)
        self.token: Cursor | None = None

    def read(self) -> bool:
        """Receive the next message; return whether there was none."""
        step = advance(self.store, EVERYTHING, self.place, Limits(events=1))
        self.place = step.cursor
        if step.outcome is Outcome.EXPIRED:
            self.checker.feed(Reset())
            self.begin_again()
        elif step.events:
            has_token = self.checker.is_complete and self.place.walk is None
            record = record_of(step.events, has_token=has_token)
            self.checker.feed(replace(record, is_coalesced=step.is_coalesced))
            self.token = self.place if has_token else self.token
        elif step.outcome is Outcome.AT_HEAD:
            self.checker.feed(Bookmark() if self.checker.is_synced else Synced())
            self.token = self.place
            return True
        return False

    def lose(self) -> None:
        """Lose the connection and open another."""
        self.checker.feed(Disconnected())
        if self.token is None:
            self.checker.feed(SNAPSHOT)
            self.begin_again()
        else:
            self.checker.feed(RESUMED)
            self.place = resume(self.store, self.token.revision, self.token.behind_since)

    def begin_again(self) -> None:
        """Go to the beginning of a new snapshot."""
        self.place, self.token = begin_snapshot(self.store, EVERYTHING), None


class Resource:
    """One resource of an API server, and the source that follows it once it is synced."""

    def __init__(self, store: Store, resource: str) -> None:
        self.store = store
        self.source = store.add_source(source_spec(resource))
        self.objects: dict[str, Item] = {}
        self.version = 0

    def sync(self) -> None:
        """Have the source list all that there is."""
        self.source.stage(self.objects.values())
        self.store.commit(self.source, 0.0)

    def purge(self) -> None:
        """Have the source lose all that it holds, until it syncs again."""
        self.store.purge(self.source, LeftReason.KIND_GONE, 0.0)

    def put(self, name: str) -> None:
        """Create or change an object."""
        self.version += 1
        before = self.objects.get(name)
        uid = f"{self.source.number}-{self.version}" if before is None else before.uid
        self.objects[name] = item(name, uid=uid, version=str(self.version))
        self._tell(Upsert(self.objects[name], is_addition=before is None))

    def delete(self, name: str) -> None:
        """Delete an object if there is one."""
        before = self.objects.pop(name, None)
        if before is not None:
            self.version += 1
            self._tell(Remove(item(name, uid=before.uid, version=str(self.version))))

    def recreate(self, name: str) -> None:
        """Delete an object, if there is one, and create another of its name."""
        self.delete(name)
        self.put(name)

    def content(self) -> dict[Key, tuple[str, str]]:
        """Return what a subscriber should hold in the end."""
        resource = self.source.spec.resource
        return {
            Key("hub", "", resource, "team-a", name): (each.uid, each.resource_version)
            for name, each in self.objects.items()
        }

    def _tell(self, delta: Delta) -> None:
        if self.source.is_synced:
            self.store.apply(self.source, [delta], 0.0)


@settings(max_examples=2 * settings().max_examples)
@given(
    max_changes=st.sampled_from((2, 8, 1000)),
    steps=st.lists(
        st.tuples(
            st.sampled_from(
                ("put", "put", "delete", "recreate", "read", "read", "lose", "sync", "purge")
            ),
            st.sampled_from(("x", "y", "z")),
            st.sampled_from((0, 1, 1)),
        ),
        max_size=40,
    ),
)
@example(
    max_changes=1000,
    steps=[
        ("read", "", 0),
        ("put", "x", 1),
        ("put", "y", 1),
        ("sync", "", 1),
        ("read", "", 0),
        ("lose", "", 0),
        ("delete", "x", 1),
    ],
)
def test_streams_of_the_core_are_clean(max_changes: int, steps: list[tuple[str, str, int]]) -> None:
    """Whatever happens to a stream of a real store breaks no rule.

    There are snapshots, changes, sources that sync late and lose everything, lost connections and
    lost history.
    """
    store = Store(b"epoch-01", max_changes=max_changes, max_history_bytes=1 << 20)
    resources = (Resource(store, "pods"), Resource(store, "secrets"))
    resources[0].sync()
    stream = Stream(store)
    for step, name, which in steps:
        resource = resources[which]
        if step in ("read", "lose"):
            getattr(stream, step)()
        elif step in ("sync", "purge"):
            getattr(resource, step)()
        else:
            getattr(resource, step)(name)
    for resource in resources:
        resource.sync()
    while not stream.read():
        pass
    stream.checker.finish(resources[0].content() | resources[1].content())
    stream.checker.assert_clean()
