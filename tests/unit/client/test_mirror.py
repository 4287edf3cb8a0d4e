"""A mirror holds what the stream says, knows its age, and refuses reads that would mislead."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.client.fake_service import (
    DEREGISTERED,
    UNAVAILABLE,
    FakeService,
    batch,
    bookmark,
    event,
    reset,
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
from tests.unit.client.waiting import LIMIT_SECONDS, eventually
from watchcache import (
    Backoff,
    Change,
    Disconnected,
    Extension,
    InvalidArgumentError,
    Key,
    MirrorClosedError,
    NotSyncedError,
    NotWatchedError,
    Reset,
    ResetReason,
    StaleError,
    Started,
    StartMode,
    Synced,
    UnavailableError,
)

_QUICK = Backoff(0.001, 0.01)
_RESUMED = Started(StartMode.RESUMED, "extension-1", 10.0)
_AWAY = Disconnected(UnavailableError("the service is away"), 1.0)

# What it holds.


async def test_it_holds_what_the_stream_says() -> None:
    """Reads give the newest state, by key in each of its forms."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        await watch.say_snapshot(event("ADDED", "a"), event("ADDED", "b", namespace="team-b"))
        await watch.say(changes(event("MODIFIED", "a", rv=2)))
        for key in ("team-a/a", "hub/team-a/a", Key("team-a", "a"), Key("team-a", "a", "hub")):
            assert mirror.get("pods", key)["metadata"]["resourceVersion"] == "2"
        assert mirror.get("pods", "team-a/z") is None
        assert mirror.version("pods", "team-a/a") == ("uid-a", "2")
        assert mirror.version("pods", "team-a/z") is None
        assert [pod["metadata"]["name"] for pod in mirror.list("pods")] == ["a", "b"]
        assert mirror.keys("pods", namespace="team-b") == [Key("team-b", "b", "hub")]
        assert len(mirror.list("pods", cluster="hub")) == 2
        assert mirror.snapshot() == {
            ("pods", Key("team-a", "a", "hub")): ("uid-a", "2"),
            ("pods", Key("team-b", "b", "hub")): ("uid-b", "1"),
        }


async def test_a_reader_may_change_what_it_gets() -> None:
    """Each read decodes anew, so nobody can spoil what others read."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        await watch.say_snapshot(event("ADDED", "a"))
        mirror.get("pods", "team-a/a")["metadata"].clear()
        assert mirror.get("pods", "team-a/a")["metadata"]["name"] == "a"


async def test_another_decoder_decodes_every_read() -> None:
    """What reads return is what `decode` makes of the JSON."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch, decode=len)
    async with mirror:
        await watch.say_snapshot(event("ADDED", "a", body=b"{ }"))
        assert (mirror.get("pods", "team-a/a"), mirror.list("pods")) == (3, [3])


async def test_objects_are_found_by_labels_and_owner() -> None:
    """Indexed lookups follow changes, and a namespace narrows them."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    owner = [{"uid": "uid-web", "kind": "ReplicaSet"}]
    async with mirror:
        await watch.say_snapshot(
            event("ADDED", "a", body=body("a", labels={"app": "web"}, ownerReferences=owner)),
            event("ADDED", "b", body=body("b", labels={"app": "web"}), namespace="team-b"),
            event("ADDED", "c", body=body("c")),
        )

        def names(found: list[Any]) -> list[str]:
            return sorted(pod["metadata"]["name"] for pod in found)

        assert names(mirror.by_label("pods", {"app": "web"})) == ["a", "b"]
        assert names(mirror.by_label("pods", {"app": "web"}, namespace="team-b")) == ["b"]
        assert names(mirror.by_owner("pods", "uid-web")) == ["a"]
        await watch.say(changes(event("DELETED", "a", rv=2)))
        assert names(mirror.by_label("pods", {"app": "web"})) == ["b"]
        assert mirror.by_owner("pods", "uid-web") == []


async def test_the_cluster_may_be_left_out_where_there_is_one() -> None:
    """With several, a key without a cluster is an error that names them."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        await watch.say(
            SNAPSHOT,
            status(),
            status(cluster="edge"),
            status("nodes"),
            changes(event("ADDED", "a"), event("ADDED", "a", rv=5, cluster="edge")),
            changes(event("ADDED", "n", resource="nodes", namespace="")),
            Synced(),
        )
        assert mirror.version("pods", "edge/team-a/a") == ("uid-a", "5")
        assert mirror.version("nodes", "n") == ("uid-n", "1")
        with pytest.raises(InvalidArgumentError, match="may be in edge, hub"):
            mirror.get("pods", "team-a/a")


# What it tells.


async def test_listeners_are_told_the_difference() -> None:
    """A change before its eyes and one that a snapshot shows are told alike; LEFT stays LEFT."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    told: list[tuple[str, str]] = []

    def listen(changes: Any) -> None:
        told.extend((change.type.value, change.key.name) for change in changes)

    async with mirror:
        stop = mirror.on_change(listen)
        await watch.say_snapshot(event("ADDED", "a"), event("ADDED", "b"))
        await watch.say(changes(event("MODIFIED", "a", rv=2), event("DELETED", "b", rv=3)))
        await watch.say(_AWAY, _RESUMED, status(), Reset(ResetReason.HISTORY_EXPIRED))
        await watch.say(changes(event("ADDED", "c", rv=4), is_snapshot=True), Synced())
        stop()
        await watch.say(changes(event("ADDED", "d", rv=5)))
    assert told == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
        ("LEFT", "a"),
        ("ADDED", "c"),
    ]


@pytest.mark.looptime
async def test_a_listener_may_read_whatever_the_age() -> None:
    """It is told of the newest state there is; refusing it would end the mirror."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch, max_age=30)
    told: list[list[Key]] = []
    async with mirror:
        await watch.say(SNAPSHOT, status(), status("secrets", "FORBIDDEN"), Synced())
        mirror.on_change(lambda _: told.extend([mirror.keys("pods"), mirror.keys("secrets")]))
        await watch.say(_AWAY)
        await asyncio.sleep(60)
        await watch.say(_RESUMED, status(), status("secrets", "FORBIDDEN"))
        await watch.say(changes(event("ADDED", "a")))
        assert told == [[Key("team-a", "a", "hub")], []]
        with pytest.raises(StaleError):
            mirror.keys("pods")


async def test_an_error_of_a_listener_ends_the_mirror_loudly() -> None:
    """A mirror that half of its listeners follow would be silent about it; so it is raised."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)

    def listen(changes: list[Change[Any]]) -> None:
        raise LookupError(len(changes))

    async def hold() -> None:
        async with mirror:
            mirror.on_change(listen)
            await watch.say_snapshot(event("ADDED", "a"))
            await asyncio.sleep(LIMIT_SECONDS)

    with pytest.raises(ExceptionGroup) as caught:
        await hold()
    assert caught.group_contains(LookupError)


async def test_an_error_of_the_body_passes_as_it_is() -> None:
    """The user's own exception is not wrapped."""
    mirror = mirror_of(ScriptedWatch())
    with pytest.raises(LookupError):
        async with mirror:
            raise LookupError


async def test_a_cancelled_body_stays_cancelled() -> None:
    """The task that holds the mirror can be cancelled from outside."""
    mirror = mirror_of(ScriptedWatch())
    entered = asyncio.Event()

    async def hold() -> None:
        async with mirror:
            entered.set()
            await asyncio.sleep(LIMIT_SECONDS)

    task = asyncio.create_task(hold())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(MirrorClosedError):
        mirror.list("pods")


@pytest.mark.looptime
async def test_the_end_of_what_was_missed_is_no_snapshot() -> None:
    """A resumed stream says Synced when all is caught up on: what is held stays, and is current."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    told: list[Change[Any]] = []
    async with mirror:
        await watch.say_snapshot(event("ADDED", "a"))
        mirror.on_change(told.extend)
        await watch.say(_AWAY)
        await asyncio.sleep(60)
        await watch.say(_RESUMED, status(), changes(event("ADDED", "b", rv=2)))
        assert mirror.age == pytest.approx(60)
        await watch.say(Synced())
        assert mirror.age == pytest.approx(0)
        assert {key.name for key in mirror.keys("pods")} == {"a", "b"}
        assert [change.key.name for change in told] == ["b"]


# When it may be read.


async def test_reading_waits_for_the_first_snapshot() -> None:
    """Before it, an empty answer would be a lie; the error says what is awaited."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        assert (mirror.is_synced, mirror.is_stale, mirror.age) == (False, True, float("inf"))
        await watch.say(_AWAY)
        with pytest.raises(NotSyncedError, match="the service is away"):
            mirror.list("pods")
        await watch.say(SNAPSHOT, status(state="SYNCING"), changes(event("ADDED", "a")))
        for read in (lambda: mirror.list("pods"), lambda: mirror.get("pods", "team-a/a")):
            with pytest.raises(NotSyncedError, match="pods on hub is SYNCING"):
                read()
        await watch.say(status(), Synced())
        assert mirror.is_synced
        assert not mirror.is_stale
        assert len(mirror.list("pods")) == 1


@pytest.mark.parametrize("state", ["FORBIDDEN", "GONE", "UNREACHABLE", "SYNCING", "PENDING"])
async def test_a_resource_that_is_not_loaded_cannot_be_read(state: str) -> None:
    """An informer that failed delays no other, but what it would hold is not known."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    bad = status("secrets", state, message="needs list on secrets")
    async with mirror:
        await watch.say(SNAPSHOT, status(), bad, changes(event("ADDED", "a")), Synced())
        assert len(mirror.list("pods")) == 1
        assert [source.state for source in mirror.not_live] == [state]
        with pytest.raises(NotSyncedError, match=f"{state} .needs list on secrets"):
            mirror.list("secrets")
        await watch.say(status("secrets"), changes(event("ADDED", "s", rv=9, resource="secrets")))
        assert len(mirror.list("secrets")) == 1
        assert mirror.not_live == ()


async def test_a_resource_that_is_not_watched_cannot_be_read() -> None:
    """A misspelt or unregistered resource is an error, not an empty list."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        await watch.say(SNAPSHOT, status(namespace="team-a"), Synced())
        for arguments, told in (
            (("secrets", None), "does not watch secrets; register it"),
            (("pods", "team-b"), "pods in namespace team-b"),
        ):
            with pytest.raises(NotWatchedError, match=told):
                mirror.list(arguments[0], namespace=arguments[1])
        with pytest.raises(NotWatchedError, match="on cluster edge"):
            mirror.get("pods", "edge/team-a/a")


async def test_a_mirror_of_keys_has_no_objects() -> None:
    """It knows which objects there are; their content is read from the service."""
    key = event("ADDED", "a")
    key.object.ClearField("json")
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        await watch.say_snapshot(key)
        assert mirror.keys("pods") == [Key("team-a", "a", "hub")]
        with pytest.raises(InvalidArgumentError, match="keys only"):
            mirror.get("pods", "team-a/a")


async def test_a_mirror_is_entered_once() -> None:
    """Outside of its context it is not fed, so it cannot be read."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    with pytest.raises(MirrorClosedError, match="not running"):
        mirror.list("pods")
    async with mirror:
        await watch.say_snapshot()
        assert mirror.list("pods") == []
        assert "team-a/shop, 0 objects" in repr(mirror)
    with pytest.raises(MirrorClosedError, match="not running"):
        mirror.list("pods")
    with pytest.raises(RuntimeError, match="once"):
        await mirror.__aenter__()


# Together with a service.


async def test_a_snapshot_that_breaks_off_leaves_the_old_state(
    service: FakeService, extension: Extension
) -> None:
    """Until a whole new one is there, what was held is what is read."""
    again = asyncio.Event()

    async def wait() -> None:
        await again.wait()

    service.scripts = [
        [started(), source(), batch(event("ADDED", "a")), synced(b"t0"), UNAVAILABLE],
        [started("RESUMED"), reset("EPOCH_CHANGED"), batch(event("ADDED", "b")), UNAVAILABLE],
        [wait, started(), source(), batch(event("ADDED", "b"), event("ADDED", "c")), synced(b"t1")],
    ]
    async with extension.mirror(backoff=_QUICK) as mirror:
        await eventually(lambda: len(service.watches) == 3)
        assert {key.name for key in mirror.keys("pods")} == {"a"}
        again.set()
        await eventually(lambda: {key.name for key in mirror.keys("pods")} == {"b", "c"})
        assert mirror.resume_token == b"t1"
    assert [request.resume_token for request in service.watches] == [b"", b"t0", b""]


async def test_what_comes_twice_after_a_break_is_told_once(
    service: FakeService, extension: Extension
) -> None:
    """Delivery is at least once; the mirror makes it once."""
    changes = [event("MODIFIED", "a", rv=2), event("DELETED", "b", rv=3), event("ADDED", "c", rv=4)]
    service.scripts = [
        [
            started(),
            source(),
            batch(event("ADDED", "a"), event("ADDED", "b")),
            synced(b"t0"),
            batch(*changes),
            UNAVAILABLE,
        ],
        [started("RESUMED"), source(), batch(*changes, token=b"t1"), bookmark(b"t2")],
    ]
    told: list[tuple[str, str]] = []
    async with extension.mirror(backoff=_QUICK) as mirror:
        mirror.on_change(lambda changes: told.extend((c.type.value, c.key.name) for c in changes))
        await eventually(lambda: mirror.resume_token == b"t2")
        assert set(mirror.keys("pods")) == {Key("team-a", "a", "hub"), Key("team-a", "c", "hub")}
    assert told == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
        ("ADDED", "c"),
    ]


async def test_a_deregistered_extension_ends_the_mirror(
    service: FakeService, extension: Extension
) -> None:
    """A read after that says so."""
    service.scripts = [[started(), source(), synced(), DEREGISTERED]]
    async with extension.mirror(backoff=_QUICK) as mirror:
        await eventually(lambda: mirror.failure)
        with pytest.raises(MirrorClosedError, match="has ended"):
            mirror.list("pods")


async def test_bookmarks_come_often_enough_for_max_age(
    service: FakeService, extension: Extension
) -> None:
    """A quiet cluster never looks like a dead one: three bookmarks fit into the age."""
    service.scripts = [[], [], []]
    for options in ({"max_age": "6s"}, {}, {"max_age": "1h", "bookmark_interval": "1m"}):
        async with extension.mirror(**options):  # type: ignore[arg-type]
            await eventually(lambda: service.streams_open)
        await eventually(lambda: not service.streams_open)
    intervals = [request.bookmark_interval.ToTimedelta() for request in service.watches]
    assert intervals == [timedelta(seconds=2), timedelta(seconds=10), timedelta(minutes=1)]
    with pytest.raises(InvalidArgumentError, match="max_age"):
        extension.mirror(max_age="2s")
