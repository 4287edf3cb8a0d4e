"""Rules of what an informer tells its extension."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.items import item, served, source_spec
from tests.unit.extensions.world import Recorder, events_of, spec_of
from tests.unit.kubernetes.clock import Clock as Moment
from watchcache_server.extensions.extension import Clock, Extension
from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.comparison import Scope
from watchcache_server.informer.objects import Remove, Upsert
from watchcache_server.informer.source import Unverified
from watchcache_server.kubernetes.errors import (
    ServiceAccountNotFoundError,
    TokenRequestFailedError,
)
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.model.states import EventKind, LeftReason, SourceState

WALL = 1_000_000.0
SPEC = source_spec(namespace="team-a")


class World:
    """An extension whose owner and reporter remember what they hear."""

    def __init__(self) -> None:
        self.time = Moment(0.0)
        self.owner: Any = Recorder()
        self.reporter: Any = Recorder()
        self.extension = Extension(
            ExtensionKey("team-a", "shop"),
            spec_of(),
            clock=Clock(now=self.time, wall=lambda: WALL + self.time.now),
            reporter=self.reporter,
            max_changes=100,
            max_history_bytes=1_000_000,
            max_ends=1000,
            max_index_values=64,
            deliveries_per_second=1000,
            owner=self.owner,
        )

    def informer(self, **spec: Any) -> Informer:
        """Add an informer for which discovery has found what it watches."""
        informer = self.extension.add_informer(source_spec(**({"namespace": "team-a"} | spec)))
        assert informer.bind(served()) is None
        return informer

    def synced(self, *names: str, **spec: Any) -> Informer:
        """Add one that holds these objects."""
        informer = self.informer(**spec)
        informer.stage(item(name, uid=f"uid-{name}") for name in names)
        informer.commit(self.time(), "10")
        return informer


@pytest.fixture
async def world() -> World:
    """Give an extension."""
    return World()


# What it watches


@pytest.mark.parametrize("is_retiring", [False, True])
def test_a_kind_with_another_plural_name_takes_nothing_over(
    world: World, is_retiring: bool
) -> None:
    """Its objects leave under the name that they had, also for who hears of it late."""
    informer = world.synced("one", resource="", kind="Pod")
    if is_retiring:
        world.extension.retire_informer(informer)
    revision = world.extension.store.revision
    renamed = msgspec.structs.replace(served(), resource="podz")
    assert informer.bind(renamed) is None
    informer.stage([item("one", uid="uid-two")])
    informer.commit(world.time(), "20")
    changes = [each for each in world.extension.store.history.since(revision) if each.entry]
    (left,) = [each for each in changes if each.kind is EventKind.LEFT]
    assert (left.source.resource, left.left_reason) == ("pods", LeftReason.KIND_GONE)
    assert informer.source.resource == "podz"
    assert informer.source.is_retiring is is_retiring
    assert world.extension.store.sources() == [informer.source]
    assert list(world.extension.informers_of([informer.source])) == [informer]
    assert informer.source.table.count == (0 if is_retiring else 1), "what retires learns nothing"


async def test_who_waits_for_a_kind_waits_for_it_under_another_plural_name_too(
    world: World,
) -> None:
    """What comes of the new source is what it is told of."""
    informer = world.synced("one", resource="", kind="Pod")
    waiting = asyncio.ensure_future(informer.freshness.wait(Scope(), "20"))
    await asyncio.sleep(0)
    informer.bind(msgspec.structs.replace(served(), resource="podz"))
    informer.stage([item("one", uid="uid-two")])
    informer.commit(world.time(), "20")
    assert await waiting == ""


def test_a_kind_that_is_found_as_it_was_keeps_its_objects(world: World) -> None:
    """Also one with other verbs."""
    informer = world.synced("one")
    source = informer.source
    assert informer.bind(msgspec.structs.replace(served(), verbs=frozenset({"list"}))) is None
    assert informer.source is source
    assert source.table.count == 1


# States


def test_a_new_informer_waits_to_start(world: World) -> None:
    """Which is no state that anybody is content with."""
    informer = world.informer()
    assert (informer.status.state, informer.status.reason) == (SourceState.PENDING, "STARTING")
    assert not informer.status.state.is_settled
    assert informer.status.version == world.extension.status_version > 0


def test_a_new_state_is_told_with_its_time(world: World) -> None:
    """To subscribers by the version, to whoever owns the extension, and to the reporter."""
    informer = world.informer()
    version = world.extension.status_version
    world.time.advance(5.0)
    informer.set_state(
        SourceState.FORBIDDEN,
        "VERBS_MISSING",
        "needs list",
        missing_verbs=("list",),
        next_attempt_seconds=15.0,
    )
    status = informer.status
    assert (status.state, status.reason, status.message) == (
        SourceState.FORBIDDEN,
        "VERBS_MISSING",
        "needs list",
    )
    assert status.missing_verbs == ("list",)
    assert (status.state_time, status.next_attempt_time) == (WALL + 5.0, WALL + 20.0)
    assert status.version == world.extension.status_version == version + 1
    assert world.owner.of("status_changed")[-1] == [world.extension]
    assert world.reporter.of("source_state_changed") == [
        [
            world.extension.key,
            informer.spec,
            SourceState.PENDING,
            SourceState.FORBIDDEN,
            "VERBS_MISSING",
            "needs list",
        ]
    ]


def test_another_reason_is_news_but_the_state_is_as_old_as_it_is(world: World) -> None:
    """Since when it cannot be reached does not change with what keeps it."""
    informer = world.informer()
    informer.set_state(SourceState.UNREACHABLE, "CONNECTION_FAILED", "refused")
    since, version = informer.status.state_time, informer.status.version
    world.time.advance(5.0)
    informer.set_state(SourceState.UNREACHABLE, "SERVER_ERROR", "500")
    assert informer.status.state_time == since
    assert informer.status.version == version + 1
    assert len(world.reporter.of("source_state_changed")) == 1


def test_what_is_no_news_wakes_nobody(world: World) -> None:
    """Only the time of the next attempt moves."""
    informer = world.informer()
    informer.set_state(SourceState.UNREACHABLE, "CONNECTION_FAILED", "refused")
    version = world.extension.status_version
    world.time.advance(5.0)
    informer.set_state(
        SourceState.UNREACHABLE, "CONNECTION_FAILED", "refused", next_attempt_seconds=2.0
    )
    assert informer.status.next_attempt_time == WALL + 7.0
    assert world.extension.status_version == version
    informer.set_state(SourceState.LIVE, "SYNCED", "")
    assert informer.status.next_attempt_time is None


async def test_its_position_is_that_of_what_it_reads(world: World) -> None:
    """Of a sync, of changes, of a bookmark; those who wait for a version are woken by each."""
    informer = world.informer()
    assert informer.source.position == ""
    informer.stage([item("web", uid="uid-web")])
    informer.commit(0.0, "10")
    assert informer.source.position == "10"
    changes = [asyncio.create_task(informer.freshness.wait(Scope(), "12")) for _ in range(2)]
    bookmark = asyncio.create_task(informer.freshness.wait(Scope(), "15"))
    await asyncio.sleep(0)
    informer.apply([Upsert(item("web", uid="uid-web", version="12"))], 0.0, "12")
    assert [await change for change in changes] == ["", ""]
    informer.advance("15")
    assert await bookmark == ""
    assert informer.source.position == "15"


async def test_those_who_wait_are_told_when_it_ends(world: World) -> None:
    """They look again, and find what there is to say."""
    informer, other = world.synced("web"), world.synced("db", namespace="team-b")
    waiting = [
        asyncio.create_task(each.freshness.wait(Scope(), "99")) for each in (informer, other)
    ]
    await asyncio.sleep(0)
    world.extension.remove_informer(informer)
    assert await waiting[0] == ""
    assert not waiting[1].done()
    world.extension.end("DEREGISTERED")
    assert await waiting[1] == ""


def test_contact_is_noted_by_the_wall_clock(world: World) -> None:
    """It is shown to people."""
    informer = world.informer()
    assert informer.status.last_contact_time is None
    world.time.advance(3.0)
    informer.contact()
    assert informer.status.last_contact_time == WALL + 3.0


# Objects


def test_the_first_sync_is_timed(world: World) -> None:
    """From the registration; a relist is none."""
    informer = world.informer()
    world.time.advance(2.5)
    for _ in range(2):
        informer.stage([item("web")])
        informer.commit(world.time(), "10")
        world.time.advance(10.0)
    assert informer.status.sync_seconds == 2.5
    assert world.reporter.of("synced") == [[informer.spec, 2.5]]
    assert informer.is_synced


def test_a_sync_under_way_can_lose_objects_and_be_dropped(world: World) -> None:
    """Nothing of it is visible before its end."""
    informer = world.informer()
    informer.stage([item("web"), item("gone")])
    informer.unstage([item("gone")])
    assert world.extension.store.object_count == 0
    informer.commit(world.time())
    assert [entry.name for entry in informer.source.table] == ["web"]
    informer.stage([item("ghost")])
    informer.discard()
    informer.stage([item("web")])
    informer.commit(world.time())
    assert [entry.name for entry in informer.source.table] == ["web"]


def test_changes_are_applied_in_order(world: World) -> None:
    """And what changes nothing is no revision."""
    informer = world.synced("web")
    revision = world.extension.store.revision
    informer.apply([Upsert(item("web", uid="uid-web", version="1"))], world.time())
    assert world.extension.store.revision == revision
    informer.apply(
        [
            Upsert(item("web", uid="uid-web", version="11")),
            Remove(item("web", uid="uid-web", version="12")),
        ],
        world.time(),
    )
    assert list(events_of(world.extension, revision)) == [
        ("modified", "web", ""),
        ("deleted", "web", ""),
    ]


def test_what_left_a_selector_waits_for_a_verdict(world: World) -> None:
    """It stays until it is known whether it was deleted."""
    informer = world.synced("web", label_selector="app=web")
    informer.apply([Remove(item("web", uid="uid-web", version="12"))], world.time())
    (subject,) = informer.unverified()
    assert subject == Unverified("team-a", "web", "uid-web")
    assert world.extension.store.object_count == 1
    revision = world.extension.store.revision
    informer.resolve(subject, is_deleted=True)
    assert list(events_of(world.extension, revision)) == [("deleted", "web", "")]
    assert not informer.unverified()


def test_only_a_lost_right_drops_what_is_shared(world: World) -> None:
    """Messages of a kind that is gone may go on to be sent."""
    informer = world.synced("web")
    informer.purge(LeftReason.KIND_GONE)
    assert not world.owner.of("rights_revoked")
    assert not informer.is_synced
    informer.purge(LeftReason.RIGHTS_REVOKED)
    assert world.owner.of("rights_revoked") == [[world.extension]]


def test_a_resource_is_watched_once(world: World) -> None:
    """A second entry that turns out to name the same one is told which the first is."""
    world.informer()
    second = world.extension.add_informer(source_spec("", kind="Pod", namespace="team-a"))
    problem = second.bind(served())
    assert problem is not None
    assert "pods is watched by another entry of the spec already, named as pods" in problem
    assert "remove one of the two" in problem


def test_many_objects_call_for_a_dictionary(world: World) -> None:
    """At a sync and in the live stream; Secrets never do."""
    informer = world.informer()
    informer.stage(item(f"p{number}", uid=f"u{number}") for number in range(300))
    assert world.owner.of("training_due") == [[informer]]
    few = world.synced("web", namespace="team-b")
    changes = [Upsert(item(f"p{n}", namespace="team-b", uid=f"u{n}")) for n in range(300)]
    few.apply(changes, world.time())
    assert world.owner.of("training_due")[-1] == [few]


# What is passed on


def test_counts_go_to_the_reporter(world: World) -> None:
    """With the spec of the informer."""
    informer = world.informer()
    informer.counted("relist", "EXPIRED")
    informer.events_read(3)
    assert world.reporter.of("informer_counted") == [[informer.spec, "relist", "EXPIRED"]]
    assert world.reporter.of("events_read") == [[informer.spec, 3]]


def test_only_a_missing_service_account_is_told_to_the_owner(world: World) -> None:
    """Whatever else keeps a token away may pass."""
    informer = world.informer()
    informer.credentials_failed(TokenRequestFailedError("hub", "team-a", "shop", "500"))
    assert not world.owner.of("service_account_missing")
    informer.credentials_failed(ServiceAccountNotFoundError("hub", "team-a", "shop"))
    assert world.owner.of("service_account_missing") == [[world.extension]]


def test_the_scope_is_that_of_the_kind_where_it_was_left_open(world: World) -> None:
    """A kind without namespaces is read for the whole cluster."""
    informer = world.extension.add_informer(
        source_spec("", kind="Node", namespace="team-a", is_scope_open=True)
    )
    assert informer.namespace == "team-a"
    assert informer.bind(served("nodes", "Node", is_namespaced=False)) is None
    assert informer.namespace == ""
