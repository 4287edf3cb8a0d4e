"""A mirror keeps what it holds over restarts of the service, and is sent what differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from tests.unit.client.fake_service import (
    UNAVAILABLE,
    FakeService,
    Fault,
    batch,
    event,
    known_gone,
    source,
    started,
    synced,
)
from tests.unit.client.scripted_watch import (
    SNAPSHOT,
    ScriptedWatch,
    body,
    changes,
    mirror_of,
    status,
)
from tests.unit.client.waiting import eventually
from watchcache import (
    Backoff,
    Bookmark,
    Change,
    Disconnected,
    EventType,
    Extension,
    Key,
    KnownGone,
    LeftReason,
    Mirror,
    Reset,
    ResetReason,
    Started,
    StartMode,
    Synced,
    UnavailableError,
)
from watchcache.holdings import HeldObject, object_id, version_id
from watchcache.v1alpha1 import extension_pb2

DIFFERENCE = Started(StartMode.DIFFERENCE, "extension-2", 10.0)
AWAY = Disconnected(UnavailableError("the service is away"), 1.0)
FULL, UNKNOWN = extension_pb2.PROJECTION_FULL, extension_pb2.PROJECTION_UNSPECIFIED


class Listener:
    """Remembers what it is told."""

    def __init__(self, mirror: Mirror[Any]) -> None:
        self.told: list[tuple[str, str, str]] = []
        mirror.on_change(self._listen)

    def _listen(self, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            reason = str(change.left_reason or "")
            self.told.append((change.type.value, change.key.name, reason))

    def take(self) -> list[tuple[str, str, str]]:
        """Return what was told since the last call."""
        told, self.told = self.told, []
        return told


def gone(*uids: str, reason: LeftReason | None = None, resource: str = "pods") -> KnownGone:
    """Return that objects are gone, or have left for a reason."""
    kind = EventType.DELETED if reason is None else EventType.LEFT
    ids = tuple(object_id(uid) for uid in uids)
    return KnownGone(kind, reason, resource, "hub", "team-a", ids)


def held(mirror: Mirror[Any]) -> dict[str, tuple[str, str]]:
    """Return uid and version of each object that is held, by name."""
    return {key.name: tuple(version) for (_, key), version in mirror.snapshot().items()}


async def test_a_difference_changes_what_it_tells_of_and_nothing_else() -> None:
    """Kept, changed, new, replaced under one name, gone and left: listeners are told just that."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    listener = Listener(mirror)
    async with mirror:
        names = ("kept", "changed", "replaced", "deleted", "left")
        await watch.say_snapshot(*(event("ADDED", name, rv=100) for name in names))
        assert len(listener.take()) == 5
        await watch.say(AWAY, DIFFERENCE, status())
        await watch.say(
            changes(
                event("ADDED", "changed", rv=101, revision=1),
                event("ADDED", "new", rv=102, revision=1),
                event("ADDED", "replaced", rv=103, uid="uid-other", revision=1),
            )
        )
        assert listener.take() == [
            ("MODIFIED", "changed", ""),
            ("ADDED", "new", ""),
            ("DELETED", "replaced", ""),
            ("ADDED", "replaced", ""),
        ]
        await watch.say(gone("uid-replaced", "uid-deleted", "uid-never-held"))
        await watch.say(gone("uid-left", reason=LeftReason.SCOPE), Synced())
        assert listener.take() == [("DELETED", "deleted", ""), ("LEFT", "left", "SCOPE")]
        assert held(mirror) == {
            "kept": ("uid-kept", "100"),
            "changed": ("uid-changed", "101"),
            "new": ("uid-new", "102"),
            "replaced": ("uid-other", "103"),
        }
        await watch.say(gone("uid-kept"))
        assert listener.take() == [("DELETED", "kept", "")], "also what is found out later"


async def test_changes_of_another_life_are_no_old_news() -> None:
    """Its revisions begin anew; within one life an event that comes again is passed over."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        await watch.say_snapshot(event("ADDED", "a", rv=1, revision=900))
        resumed = Started(StartMode.RESUMED, "extension-1", 10.0)
        await watch.say(AWAY, resumed, changes(event("MODIFIED", "a", rv=9, revision=899)))
        assert held(mirror) == {"a": ("uid-a", "1")}
        for uid in ("extension-2", "extension-3"):
            other = Started(StartMode.RESUMED, uid, 10.0)
            version = uid[-1]
            await watch.say(AWAY, other)
            await watch.say(changes(event("MODIFIED", "a", rv=int(version), revision=5)))
            assert held(mirror) == {"a": ("uid-a", version)}
            await watch.say(changes(event("MODIFIED", "a", rv=8, revision=4)))
            assert held(mirror) == {"a": ("uid-a", version)}


async def test_a_queue_hands_out_what_the_difference_touches() -> None:
    """Keys of what changed or went, and owners of what went; what is kept is left alone."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    owned = body("a-1", ownerReferences=[{"uid": "uid-owner"}])
    async with mirror:
        queue = mirror.queue("pods", owned=["secrets"], backoff=Backoff(0.001, 0.01))
        await watch.say(SNAPSHOT, status(), status("secrets"))
        pods = [event("ADDED", name) for name in ("owner", "kept", "changed", "gone")]
        await watch.say(changes(*pods, event("ADDED", "a-1", resource="secrets", body=owned)))
        await watch.say(Synced())
        worker = aiter(queue)
        for _ in range(4):
            with queue.attempt(await anext(worker)):
                pass
        assert len(queue) == 0
        await watch.say(AWAY, DIFFERENCE, status(), status("secrets"))
        await watch.say(changes(event("ADDED", "changed", rv=2)), gone("uid-gone"))
        await watch.say(gone("uid-a-1", resource="secrets"))
        await watch.say(Synced())
        keys = []
        while len(queue):
            key = await anext(worker)
            with queue.attempt(key):
                keys.append(key.name)
        assert sorted(keys) == ["changed", "gone", "owner"]


async def test_reads_go_on_during_a_difference() -> None:
    """It is no snapshot: what is held stays readable, and is current with its end."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        await watch.say_snapshot(event("ADDED", "a", rv=1))
        await watch.say(AWAY, DIFFERENCE, status(), changes(event("ADDED", "a", rv=2)))
        assert mirror.version("pods", "team-a/a") == ("uid-a", "2")
        assert mirror.is_synced
        await watch.say(Synced(), Bookmark())
        assert mirror.keys("pods") == [Key("team-a", "a", "hub")]


# What it says that it holds.


def said(watch: ScriptedWatch) -> list[tuple[str, str, str, int]]:
    """Return resource, namespace, uid and projection of what the mirror would upload."""
    given: list[HeldObject] = list(watch.holdings())  # type: ignore[attr-defined]
    return [(each.resource, each.namespace, each.uid, each.projection) for each in given]


async def test_it_says_what_it_holds_with_the_form_in_which_it_does() -> None:
    """The projection is that of the informer; where nobody knows it, the object comes anew."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        assert said(watch) == []
        await watch.say(
            SNAPSHOT,
            status(projection=FULL),
            status("secrets", projection=extension_pb2.PROJECTION_METADATA),
            status("nodes"),
            changes(
                event("ADDED", "a"),
                event("ADDED", "b", namespace="team-b"),
                event("ADDED", "s", resource="secrets"),
                event("ADDED", "n", resource="nodes", namespace=""),
                event("ADDED", "x", resource="leases.coordination.k8s.io"),
                is_snapshot=True,
            ),
        )
        assert said(watch) == [], "a snapshot that is under way is nothing yet"
        await watch.say(Synced())
        expected = [
            ("pods", "team-a", "uid-a", FULL),
            ("pods", "team-b", "uid-b", FULL),
            ("secrets", "team-a", "uid-s", extension_pb2.PROJECTION_METADATA),
            ("nodes", "", "uid-n", UNKNOWN),
            ("leases.coordination.k8s.io", "team-a", "uid-x", UNKNOWN),
        ]
        assert said(watch) == expected
        (first, *_) = watch.holdings()  # type: ignore[attr-defined]
        assert (first.cluster, first.version, first.resource_version) == ("hub", "v1", "1")
        await watch.say(Reset(ResetReason.EPOCH_CHANGED), changes(event("ADDED", "z")), AWAY)
        assert said(watch) == expected, "what a broken snapshot would have replaced is still held"


RESUME_LOST = Fault(grpc.StatusCode.OUT_OF_RANGE, "RESUME_LOST")


@pytest.mark.parametrize("is_lost", [True, False], ids=["token lost", "no token"])
async def test_a_mirror_goes_on_by_what_it_holds(
    service: FakeService, extension: Extension, is_lost: bool
) -> None:
    """Where its token leads nowhere, or a difference broke before it had one."""
    first = [started(), source(projection=FULL), batch(event("ADDED", "a"), event("ADDED", "b"))]
    lost = [RESUME_LOST] if is_lost else [started("DIFFERENCE"), UNAVAILABLE]
    second = [
        started("DIFFERENCE", uid="extension-2"),
        source(projection=FULL),
        batch(event("ADDED", "b", rv=2)),
        known_gone(object_id("uid-a")),
        synced(b"t1"),
    ]
    service.scripts = [[*first, synced(b"t0"), UNAVAILABLE], lost, second]
    async with extension.mirror(backoff=Backoff(0.001, 0.01)) as mirror:
        await eventually(lambda: mirror.resume_token == b"t1")
        assert held(mirror) == {"b": ("uid-b", "2")}
    assert [each.known for each in service.watches] == [b"", b"", b"handle-1"]
    assert [each.resume_token for each in service.watches] == [b"", b"t0", b""]
    (upload,) = service.uploads
    (group,) = upload.groups
    assert (group.resource, group.namespace, group.version) == ("pods", "team-a", "v1")
    assert group.projection == FULL
    records = [object_id(f"uid-{name}") + version_id("1") for name in "ab"]
    assert group.objects == b"".join(records)
