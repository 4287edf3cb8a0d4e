"""Succession: what a subscriber is told when a new source takes objects over from an old one."""

from __future__ import annotations

import pytest

from tests.items import item, served, source_spec
from tests.unit.informer.reader import Reader
from watchcache_server.informer.compression import Codec
from watchcache_server.informer.cursors import Cursor, Limits, Outcome, Walk
from watchcache_server.informer.filters import EVERYTHING
from watchcache_server.informer.objects import Item, Remove, Upsert
from watchcache_server.informer.source import Source, Unverified
from watchcache_server.informer.store import Store
from watchcache_server.informer.subscription import advance
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import EventKind, LeftReason

ADDED, MODIFIED, DELETED, LEFT = EventKind
WIDE = source_spec()
NARROW = source_spec(namespace="team-a")
SELECTING = source_spec(label_selector="app=web")
METADATA = source_spec(projection="metadata")


class Scene:
    """A store in which one source has begun to follow another, and a reader that knows the old."""

    def __init__(self, old: SourceSpec, new: SourceSpec, *objects: Item) -> None:
        self.store = Store(b"epoch-01", max_changes=1000, max_history_bytes=1 << 20)
        self.old = self.store.add_source(old)
        assert self.store.bind(self.old, served()) is None
        self.old.stage(objects)
        self.store.commit(self.old, 1.0)
        self.reader = Reader(self.store, EVERYTHING, Limits(events=3))
        self.reader.may_come_back = False
        self.reader.catch_up()
        self.old.is_retiring = True
        self.new = self.store.add_source(new)
        assert self.store.bind(self.new, served()) is None

    def sync(self, *objects: Item, version: str = "20") -> list[tuple[EventKind, str, str]]:
        """Sync the new source as of a resourceVersion; return what the reader is told."""
        self.new.stage(objects)
        self.store.commit(self.new, 2.0, version)
        return self.told()

    def told(self) -> list[tuple[EventKind, str, str]]:
        """Return what the reader is told since it was asked last; it checks each event itself."""
        self.reader.events.clear()
        self.reader.catch_up()
        return [(e.kind, e.entry.uid, e.entry.resource_version) for e in self.reader.events]

    def end(self) -> list[tuple[EventKind, str, str]]:
        """Stop the old source."""
        self.store.remove_source(self.old, LeftReason.SCOPE, 3.0)
        return self.told()


HELD = item(uid="uid-1", version="10")


@pytest.mark.parametrize(
    ("specs", "read", "expected"),
    [
        pytest.param((WIDE, NARROW), [HELD], [], id="unchanged"),
        pytest.param(
            (WIDE, NARROW),
            [item(uid="uid-1", version="11")],
            [(MODIFIED, "uid-1", "11")],
            id="changed",
        ),
        pytest.param(
            (WIDE, NARROW),
            [item(uid="uid-1", version="9")],
            [],
            id="read before the old source saw the latest change",
        ),
        pytest.param(
            (WIDE, NARROW),
            [item(uid="uid-2", version="11")],
            [(DELETED, "uid-1", "10"), (ADDED, "uid-2", "11")],
            id="created anew",
        ),
        pytest.param(
            (WIDE, NARROW),
            [item(uid="uid-0", version="9")],
            [],
            id="read before the object was created anew",
        ),
        pytest.param(
            (WIDE, METADATA),
            [item(uid="uid-0", version="9")],
            [(LEFT, "uid-1", "10"), (ADDED, "uid-0", "9")],
            id="read before it was created anew, in another form",
        ),
        pytest.param(
            (WIDE, NARROW),
            [item(uid="uid-2", version="opaque")],
            [(LEFT, "uid-1", "10"), (ADDED, "uid-2", "opaque")],
            id="other uid, versions without order",
        ),
        pytest.param(
            (WIDE, METADATA), [HELD], [(MODIFIED, "uid-1", "10")], id="same version, other form"
        ),
        pytest.param(
            (WIDE, METADATA),
            [item(uid="uid-1", version="9")],
            [(MODIFIED, "uid-1", "9")],
            id="read earlier, in another form",
        ),
        pytest.param((WIDE, NARROW), [], [(DELETED, "uid-1", "10")], id="gone"),
        pytest.param((WIDE, SELECTING), [], [], id="missing under a selector"),
        pytest.param(
            (SELECTING, WIDE),
            [HELD, item("db", uid="uid-3", version="3")],
            [(ADDED, "uid-3", "3")],
            id="the selector is gone",
        ),
        pytest.param(
            (source_spec(namespace="team-b"), WIDE),
            [HELD],
            [(ADDED, "uid-1", "10")],
            id="nothing was held before",
        ),
    ],
)
def test_subscriber_is_told_the_difference(
    specs: tuple[SourceSpec, SourceSpec],
    read: list[Item],
    expected: list[tuple[EventKind, str, str]],
) -> None:
    """No object is announced twice, none goes back, none is called deleted that may not be."""
    objects = [] if specs[0].namespace == "team-b" else [HELD]
    scene = Scene(*specs, *objects)
    assert scene.sync(*read) == expected


@pytest.mark.parametrize(
    ("version", "is_gone"),
    [
        pytest.param("11", True, id="read later"),
        pytest.param("10", True, id="read at its latest change"),
        pytest.param("9", False, id="read before its latest change"),
        pytest.param("opaque", False, id="versions without order"),
        pytest.param("", False, id="not known when it was read"),
    ],
)
def test_missing_object_is_deleted_only_by_proof(version: str, is_gone: bool) -> None:
    """It may have been created after the new source read."""
    scene = Scene(WIDE, NARROW, HELD)
    assert scene.sync(version=version) == ([(DELETED, "uid-1", "10")] if is_gone else [])
    assert scene.end() == ([] if is_gone else [(LEFT, "uid-1", "10")])


@pytest.mark.parametrize(
    ("read", "version", "expected"),
    [
        pytest.param([], "9", [], id="missing, read earlier still"),
        pytest.param([item(uid="uid-1", version="8")], "9", [], id="older, read earlier still"),
        pytest.param([], "10", [(DELETED, "uid-1", "10")], id="missing, read later"),
        pytest.param(
            [item(uid="uid-1", version="12")], "12", [(MODIFIED, "uid-1", "12")], id="newer"
        ),
        pytest.param([HELD], "11", [], id="the same"),
    ],
)
def test_relist_leaves_what_is_ahead_of_it(
    read: list[Item], version: str, expected: list[tuple[EventKind, str, str]]
) -> None:
    """A list may come from an API server that lags behind what the old source had seen."""
    scene = Scene(WIDE, NARROW, HELD)
    assert scene.sync(item(uid="uid-1", version="8"), version="8") == []
    assert scene.sync(*read, version=version) == expected
    scene.store.apply(scene.new, [Upsert(item(uid="uid-1", version="13"))], 4.0)
    assert scene.new.table.count == 1


def test_what_is_ahead_of_a_selecting_source_stays_in_doubt_over_a_relist() -> None:
    """A relist that lags behind it settles nothing."""
    scene = Scene(WIDE, SELECTING, HELD)
    scene.sync(item(uid="uid-1", version="8"), version="8")
    scene.sync(item(uid="uid-1", version="8"), version="9")
    assert [subject.uid for subject in scene.new.unverified] == ["uid-1"]
    scene.sync(HELD, version="10")
    assert scene.new.unverified == []


def test_what_cannot_be_told_leaves_with_the_old_source() -> None:
    """It is out of scope from then on; that it is deleted is never said without proof."""
    scene = Scene(WIDE, NARROW, HELD, item("b", namespace="team-b", uid="uid-b"))
    assert scene.sync(version="9") == []
    assert scene.end() == [(LEFT, "uid-1", "10"), (LEFT, "uid-b", "1")]


def test_what_was_taken_over_does_not_leave() -> None:
    """The end of the old source takes along only what is its own."""
    scene = Scene(WIDE, NARROW, HELD, item("b", namespace="team-b", uid="uid-b"))
    assert scene.sync(HELD) == []
    assert scene.end() == [(LEFT, "uid-b", "1")]


def test_object_left_behind_is_taken_over_when_it_is_read() -> None:
    """An object that was created while the new source read is passed on by its own event."""
    scene = Scene(WIDE, NARROW)
    born = item("born", uid="uid-9", version="9")
    scene.store.apply(scene.old, [Upsert(born, is_addition=True)], 2.0)
    assert scene.told() == [(ADDED, "uid-9", "9")]
    assert scene.sync(item("mark", uid="mark", version="5"), version="8") == [(ADDED, "mark", "5")]
    scene.store.apply(scene.new, [Upsert(born, is_addition=True)], 3.0)
    assert scene.told() == []
    assert scene.end() == []
    assert scene.new.table.count == 2


def test_object_left_behind_may_be_deleted_by_the_old_source() -> None:
    """As long as nobody has taken it over, the old source says what becomes of it."""
    scene = Scene(WIDE, NARROW, HELD)
    assert scene.sync(version="9") == []
    scene.store.apply(scene.old, [Remove(item(uid="uid-1", version="12"))], 3.0)
    assert scene.told() == [(DELETED, "uid-1", "12")]


def test_relist_takes_over_too() -> None:
    """What a later relist of the new source adds may have been left with the old one."""
    scene = Scene(WIDE, NARROW, HELD)
    assert scene.sync(version="9") == []
    scene.new.stage([item(uid="uid-1", version="11")])
    scene.store.commit(scene.new, 3.0)
    assert scene.told() == [(MODIFIED, "uid-1", "11")]
    assert scene.end() == []


@pytest.mark.parametrize(
    ("new", "name", "is_left"),
    [
        pytest.param(NARROW, "web", True, id="taken over"),
        pytest.param(NARROW, "fresh", True, id="in the scope of the new source"),
        pytest.param(SELECTING, "web", True, id="held by the new source, which selects"),
        pytest.param(SELECTING, "fresh", False, id="perhaps not selected by the new source"),
    ],
)
@pytest.mark.parametrize("is_relisted", [False, True], ids=["on the stream", "by a relist"])
def test_old_source_leaves_alone_what_is_no_longer_its_own(
    new: SourceSpec, name: str, is_left: bool, is_relisted: bool
) -> None:
    """The old stream goes on, and must not bring back what was passed on."""
    scene = Scene(WIDE, new, HELD)
    assert scene.sync(HELD) == []
    change = item(name, uid="uid-1", version="60")
    if is_relisted:
        scene.old.stage([change])
        scene.store.commit(scene.old, 3.0)
    else:
        scene.store.apply(scene.old, [Upsert(change, is_addition=True)], 3.0)
    assert scene.told() == ([] if is_left else [(ADDED, "uid-1", "60")])
    assert scene.old.table.count == (0 if is_left else 1)


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param([Upsert(item(uid="uid-1", version="9"))], [], id="a change on the way"),
        pytest.param(
            [Upsert(item(uid="uid-1", version="9")), Upsert(HELD)], [], id="the one it had"
        ),
        pytest.param(
            [Upsert(HELD), Upsert(item(uid="uid-1", version="9"))],
            [(MODIFIED, "uid-1", "9")],
            id="going back after it caught up",
        ),
        pytest.param(
            [Upsert(item(uid="uid-1", version="11"))], [(MODIFIED, "uid-1", "11")], id="a later one"
        ),
        pytest.param(
            [Upsert(item(uid="uid-0", version="9"))], [], id="a predecessor under its name"
        ),
        pytest.param([Remove(item(uid="uid-0", version="9"))], [], id="the end of a predecessor"),
        pytest.param(
            [Remove(item(uid="uid-1", version="12"))], [(DELETED, "uid-1", "12")], id="its own end"
        ),
    ],
)
def test_new_source_catches_up_with_what_it_took_over(
    deltas: list[Upsert | Remove], expected: list[tuple[EventKind, str, str]]
) -> None:
    """What the old source had told already is not told again, nor undone."""
    scene = Scene(WIDE, NARROW, HELD)
    assert scene.sync(item(uid="uid-1", version="8")) == []
    scene.store.apply(scene.new, deltas, 3.0)
    assert scene.told() == expected


def test_object_ahead_of_a_selecting_source_is_asked_for() -> None:
    """It may have ceased to match since the new source read, which then never hears of it."""
    scene = Scene(WIDE, SELECTING, HELD)
    assert scene.sync(item(uid="uid-1", version="8")) == []
    [subject] = scene.new.unverified
    assert subject == Unverified("team-a", "web", "uid-1")
    scene.store.resolve(scene.new, subject, 3.0, is_deleted=False)
    assert scene.told() == [(LEFT, "uid-1", "10")]


def test_several_changes_of_an_object_left_behind_come_at_once() -> None:
    """Each is judged by what is known when it comes, though they were read in one piece."""
    scene = Scene(WIDE, NARROW)
    versions = ["9", "10", "11", "12"]
    born, *changed = [item("born", uid="uid-9", version=version) for version in versions]
    first = [Upsert(born, is_addition=True), *map(Upsert, changed[:1])]
    scene.store.apply(scene.old, first, 2.0)
    assert scene.told() == [(ADDED, "uid-9", "9"), (MODIFIED, "uid-9", "10")]
    assert scene.sync(version="8") == []
    scene.store.apply(scene.new, [first[0], *map(Upsert, changed)], 3.0)
    assert scene.told() == [(MODIFIED, "uid-9", "11"), (MODIFIED, "uid-9", "12")]
    assert scene.end() == []


def test_entry_that_is_taken_over_leaves_its_dictionary_behind() -> None:
    """A dictionary serves one source alone; the entry is compressed anew, as one of its own."""
    scene = Scene(WIDE, NARROW, HELD)
    old_entry = scene.old.table.get("team-a", "web")
    assert old_entry is not None
    scene.new._training.codec = Codec()
    scene.sync(item(uid="uid-1", version="8"))
    entry = scene.new.table.get("team-a", "web")
    assert entry is not None
    assert entry is not old_entry
    assert entry.codec is scene.new._training.codec
    assert (entry.resource_version, entry.revision) == ("10", old_entry.revision)
    assert scene.new.stored_bytes == len(entry.stored)


def test_doubtful_object_of_the_old_source_is_settled_by_taking_it_over() -> None:
    """The new source has seen it, so nobody need ask for it any more."""
    scene = Scene(SELECTING, WIDE, HELD)
    scene.store.apply(scene.old, [Remove(item(uid="uid-1", version="11"))], 2.0)
    assert scene.old.unverified == [Unverified("team-a", "web", "uid-1")]
    assert scene.sync(item(uid="uid-1", version="11")) == [(MODIFIED, "uid-1", "11")]
    assert scene.old.unverified == []


def test_reader_within_a_snapshot_begins_anew() -> None:
    """Objects that move between sources are more than a walk can follow."""
    objects = [item(f"web-{i}", uid=f"uid-{i}", version="10") for i in range(5)]
    scene = Scene(WIDE, NARROW, *objects)
    slow = Reader(scene.store, EVERYTHING, Limits(events=2))
    assert slow.step() is Outcome.MORE
    scene.sync(*objects)
    assert slow.step() is Outcome.EXPIRED
    slow.catch_up()
    assert slow.reset_count == 1


def test_reader_within_a_snapshot_begins_anew_when_a_single_object_moves() -> None:
    """It may have passed the place where the object is now, and not come to where it was."""
    scene = Scene(WIDE, NARROW, HELD)
    scene.sync(item("mark", uid="mark", version="5"), version="8")
    walk = Walk((scene.new.number, scene.old.number), "team-a", "zzz")
    place = Cursor(scene.store.revision, walk)
    scene.store.apply(scene.new, [Upsert(item(uid="uid-1", version="9"), is_addition=True)], 3.0)
    step = advance(scene.store, EVERYTHING, place)
    assert (step.outcome, step.events) == (Outcome.EXPIRED, ())


def test_purged_successor_gives_the_scope_back() -> None:
    """If the new source lost its objects, the old one may have them until it ends."""
    scene = Scene(WIDE, NARROW, HELD)
    scene.sync(HELD)
    scene.store.purge(scene.new, LeftReason.RIGHTS_REVOKED, 3.0)
    assert scene.told() == [(LEFT, "uid-1", "10")]
    scene.store.apply(scene.old, [Upsert(item(uid="uid-1", version="11"))], 3.0)
    assert scene.told() == [(ADDED, "uid-1", "11")]
    assert scene.sync(item(uid="uid-1", version="11")) == []


def test_source_that_retires_before_its_first_sync_never_syncs() -> None:
    """It stands between two others that both know more, and would hide what they have."""
    scene = Scene(WIDE, NARROW, HELD)
    scene.new.is_retiring = True
    last = scene.store.add_source(WIDE)
    assert scene.store.bind(last, served()) is None
    scene.store.commit(last, 2.0, "9")
    assert scene.sync(HELD) == []
    assert not scene.new.is_synced
    assert scene.old.table.count == 1


def test_only_sources_of_the_same_objects_follow_each_other() -> None:
    """Neither an earlier source nor one of other objects is a predecessor."""
    scene = Scene(WIDE, NARROW)
    other = scene.store.add_source(source_spec("services"))
    other.is_retiring = True
    assert scene.store.predecessors(scene.new) == [scene.old]
    assert scene.store.predecessors(scene.old) == []
    assert scene.store.predecessors(other) == []


def test_retiring_source_binds_beside_its_successor() -> None:
    """Discovery may come back to it; that its objects pass to another is no conflict."""
    scene = Scene(WIDE, NARROW)
    assert scene.store.bind(scene.old, served(version="v2")) is None
    assert isinstance(scene.store.source(scene.old.number), Source)


# What was told as DELETED while the new source still read the past


GONE = Remove(item(uid="uid-1", version="12"))


def test_what_was_deleted_before_the_new_source_synced_does_not_come_back() -> None:
    """A list of before the deletion adds nothing, whether the page came before it or after."""
    scene = Scene(WIDE, NARROW, HELD, item("db", uid="uid-3", version="3"))
    scene.new.stage([HELD])
    scene.store.apply(scene.old, [GONE], 2.0)
    assert scene.told() == [(DELETED, "uid-1", "12")]
    assert scene.sync(HELD, item("db", uid="uid-3", version="3"), version="11") == []
    assert scene.end() == []


def test_the_only_object_does_not_come_back_either() -> None:
    """With it gone the old source has nothing to hand over, and the new one nothing to bring."""
    scene = Scene(WIDE, NARROW, HELD)
    scene.store.apply(scene.old, [GONE], 2.0)
    assert scene.told() == [(DELETED, "uid-1", "12")]
    assert scene.sync(HELD, version="11") == []
    assert scene.new.table.count == 0


def test_what_was_deleted_is_not_brought_back_by_a_stream_that_is_behind() -> None:
    """The changes before the deletion, and then the deletion, say nothing new to anybody."""
    scene = Scene(WIDE, NARROW, HELD)
    scene.store.apply(scene.old, [GONE], 2.0)
    assert scene.told() == [(DELETED, "uid-1", "12")]
    assert scene.sync(version="9") == []
    scene.end()
    scene.store.apply(scene.new, [Upsert(item(uid="uid-1", version="10"), is_addition=True)], 3.0)
    scene.store.apply(scene.new, [Upsert(item(uid="uid-1", version="11")), GONE], 3.0)
    assert scene.told() == []
    scene.store.apply(scene.new, [Upsert(item(uid="uid-2", version="13"), is_addition=True)], 4.0)
    assert scene.told() == [(ADDED, "uid-2", "13")]


def test_what_the_new_source_told_as_deleted_does_not_come_back_from_the_old_one() -> None:
    """The old one may be behind too, and read of an object that a selector had hidden from it."""
    scene = Scene(source_spec(label_selector="app"), SELECTING)
    assert scene.sync(HELD) == [(ADDED, "uid-1", "10")]
    scene.store.apply(scene.new, [GONE], 3.0)
    scene.store.resolve(scene.new, Unverified("team-a", "web", "uid-1"), 4.0, is_deleted=True)
    assert scene.told() == [(DELETED, "uid-1", "10")]
    scene.store.apply(scene.old, [Upsert(HELD, is_addition=True)], 5.0)
    assert scene.told() == []


def test_an_object_of_the_name_of_a_deleted_one_is_added() -> None:
    """It is the uid that never comes back; its name may."""
    scene = Scene(WIDE, NARROW, HELD)
    scene.new.stage([HELD])
    scene.store.apply(scene.old, [GONE], 2.0)
    assert scene.told() == [(DELETED, "uid-1", "12")]
    assert scene.sync(item(uid="uid-2", version="13")) == [(ADDED, "uid-2", "13")]
