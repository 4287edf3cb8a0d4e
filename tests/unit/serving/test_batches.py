"""Rules of messages that are made once for all who stand at the same place."""

from __future__ import annotations

import pytest

from tests.items import item
from tests.unit.extensions.test_informer import World
from tests.unit.serving.watched import change, delete
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.informer.cursors import Cursor, Outcome
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.held import Known, KnownGroup, object_id, version_id
from watchcache_server.informer.objects import Upsert
from watchcache_server.informer.resume import ResumeToken
from watchcache_server.informer.subscription import begin_snapshot
from watchcache_server.model.states import LeftReason, View
from watchcache_server.serving.batches import Batch, BatchCache, resume_token


class Cached(World):
    """An extension with objects, and the messages that are kept of it."""

    def __init__(self, max_bytes: int = 1_000_000, batch_bytes: int = 1_000_000) -> None:
        super().__init__()
        self.cache = BatchCache(max_bytes=max_bytes, batch_bytes=batch_bytes)
        self.held = self.synced("a", "b")

    def next(
        self,
        cursor: Cursor,
        *,
        wanted: Filter = EVERYTHING,
        view: View = View.KEY,
        is_synced: bool = True,
    ) -> Batch:
        """Take the step behind a cursor."""
        extension = self.extension
        return self.cache.next(
            extension.key, extension.store, wanted, view, cursor, is_synced=is_synced
        )

    @property
    def start(self) -> Cursor:
        """Where a snapshot begins."""
        return begin_snapshot(self.extension.store, EVERYTHING)


@pytest.fixture
async def world() -> Cached:
    """Give an extension with two objects."""
    return Cached()


def test_the_same_place_has_the_same_message(world: Cached) -> None:
    """The very same bytes, also after more has happened."""
    start = world.start
    first = world.next(start)
    change(world.held, "c", "11")
    assert world.next(start) is first
    assert world.cache.bytes == len(first.message)


def test_another_place_has_another(world: Cached) -> None:
    """Another cursor, filter, view, and whether tokens are given."""
    start = world.start
    first = world.next(start)
    assert world.next(first.cursor) is not first
    assert world.next(start, wanted=Filter(namespaces=("team-a",))) is not first
    assert world.next(start, view=View.FULL) is not first
    assert world.next(start, is_synced=False) is not first


def test_a_message_says_what_the_step_says(world: Cached) -> None:
    """How many events, how old, and where it leads."""
    head = world.next(world.start).cursor
    change(world.held, "c", "11", read_at=5.0)
    delete(world.held, "a", "12")
    batch = world.next(head)
    message = pb.WatchResponse.FromString(batch.message).batch
    assert [each.object.key.name for each in message.events] == ["c", "a"]
    assert (batch.event_count, batch.oldest_read_at) == (2, 5.0)
    assert batch.outcome is Outcome.AT_HEAD
    token = ResumeToken.decode(message.resume_token)
    assert token.revision == batch.cursor.revision == world.extension.store.revision


def test_before_the_end_of_a_snapshot_there_is_no_token(world: Cached) -> None:
    """There would be no way to say what of it was sent."""
    batch = world.next(world.start, is_synced=False)
    assert not pb.WatchResponse.FromString(batch.message).batch.resume_token
    store = world.extension.store
    assert resume_token(world.extension.key, store, EVERYTHING, world.start) == b""


def test_at_rest_there_is_no_message_and_nothing_is_kept(world: Cached) -> None:
    """Whoever is up to date is told nothing."""
    batch = world.next(world.next(world.start).cursor)
    assert (batch.message, batch.event_count, batch.outcome) == (b"", 0, Outcome.AT_HEAD)
    kept = world.cache.bytes
    world.next(batch.cursor)
    assert world.cache.bytes == kept


def test_what_the_history_no_longer_reaches_is_not_given(world: Cached) -> None:
    """Though the message is kept: what a right was lost for must not be sent."""
    head = world.next(world.start).cursor
    change(world.held, "secret", "11")
    assert world.next(head).message
    world.held.purge(LeftReason.RIGHTS_REVOKED)
    assert world.next(head).outcome is Outcome.EXPIRED


async def test_messages_are_bounded_in_bytes() -> None:
    """Those that were used last are kept."""
    filters = [Filter(namespaces=("team-a", f"other-{number}")) for number in range(4)]
    size = len(Cached().next(Cursor(0), wanted=filters[0]).message)
    world = Cached(max_bytes=3 * size + size // 2)
    kept = [world.next(Cursor(0), wanted=wanted) for wanted in filters[:3]]
    assert world.next(Cursor(0), wanted=filters[0]) is kept[0]
    world.next(Cursor(0), wanted=filters[3])
    assert world.cache.bytes == 3 * size
    assert world.next(Cursor(0), wanted=filters[0]) is kept[0], "it was used since"
    assert world.next(Cursor(0), wanted=filters[1]) is not kept[1]


async def test_one_large_message_does_not_push_all_others_out() -> None:
    """It is made anew for each who wants it."""
    world = Cached(max_bytes=400)
    start = world.start
    kept = world.next(start)
    assert world.cache.bytes == len(kept.message) < 200
    large = world.next(start, view=View.FULL)
    assert len(large.message) > 200
    assert world.cache.bytes == len(kept.message)
    assert world.next(start, view=View.FULL) is not large


async def test_nothing_is_kept_where_nothing_may_be() -> None:
    """A bound of zero is one."""
    world = Cached(max_bytes=0)
    assert world.next(world.start).message
    assert world.cache.bytes == 0


async def test_messages_of_one_extension_are_forgotten(world: Cached) -> None:
    """Those of others stay."""
    other = Cached()
    other.cache = world.cache
    mine, theirs = world.next(world.start), other.next(other.start)
    world.cache.forget(world.extension.store)
    assert world.cache.bytes == len(theirs.message)
    assert other.next(other.start) is theirs
    assert world.next(world.start) is not mine


# Upstream versions in tokens


def positions(token: bytes) -> dict[bytes, int]:
    """Return the upstream versions of a token."""
    return dict(ResumeToken.decode(token).positions)


def batch_token(world: Cached, cursor: Cursor) -> bytes:
    """Return the token of the next batch."""
    token: bytes = pb.WatchResponse.FromString(world.next(cursor).message).batch.resume_token
    return token


def bookmark_token(world: Cached, cursor: Cursor, wanted: Filter = EVERYTHING) -> bytes:
    """Return the token of a bookmark."""
    return resume_token(world.extension.key, world.extension.store, wanted, cursor)


def at_head(world: Cached) -> Cursor:
    """Return the cursor of who is up to date."""
    return Cursor(world.extension.store.revision)


def test_a_token_names_the_versions_up_to_which_all_was_told(world: Cached) -> None:
    """Of each source in view, by its identity; so it leads on after a restart."""
    other = world.synced("c", namespace="team-b")
    identity = world.held.source.identity
    assert positions(bookmark_token(world, at_head(world))) == {
        identity: 10,
        other.source.identity: 10,
    }
    head = at_head(world)
    world.held.apply([Upsert(item("d", version="11"))], 0.0, "11")
    expected = {identity: 11, other.source.identity: 10}
    assert positions(batch_token(world, head)) == expected
    assert positions(bookmark_token(world, head)) == expected | {identity: 10}
    world.held.advance("15")
    assert positions(bookmark_token(world, at_head(world))) == expected | {identity: 15}
    only = Filter(namespaces=("team-b",))
    assert positions(bookmark_token(world, at_head(world), only)) == {other.source.identity: 10}


@pytest.mark.parametrize("count", [16, 17])
async def test_many_versions_come_with_bookmarks_only(count: int) -> None:
    """They would make each batch larger than what it says."""
    world = Cached()
    for number in range(count - 1):
        world.synced(namespace=f"other-{number}")
    head = at_head(world)
    world.held.apply([Upsert(item("d", version="11"))], 0.0, "11")
    assert len(positions(batch_token(world, head))) == (count if count == 16 else 0)
    assert len(positions(bookmark_token(world, head))) == count


def test_who_is_behind_gets_no_versions(world: Cached) -> None:
    """It holds no state that ever was."""
    revision = world.extension.store.revision
    assert positions(bookmark_token(world, Cursor(revision)))
    behind = bookmark_token(world, Cursor(revision, behind_since=revision))
    assert positions(behind) == {}
    assert ResumeToken.decode(behind).behind_since == revision


def test_while_objects_pass_to_another_source_there_are_no_versions(world: Cached) -> None:
    """Neither source alone says what was told."""
    world.extension.retire_informer(world.held)
    assert positions(bookmark_token(world, at_head(world))) == {}
    successor = world.synced("a", "b", label_selector="a=b")
    assert positions(bookmark_token(world, at_head(world))) == {}
    world.extension.remove_informer(world.held)
    assert positions(bookmark_token(world, at_head(world))) == {successor.source.identity: 10}


def test_after_a_removal_only_who_has_heard_of_it_gets_versions(world: Cached) -> None:
    """Another life would not know that there is something left to tell."""
    other = world.synced("c", namespace="team-b")
    before = at_head(world)
    world.extension.remove_informer(world.held)
    assert positions(bookmark_token(world, before)) == {}
    assert positions(bookmark_token(world, at_head(world))) == {other.source.identity: 10}


def test_a_version_that_is_no_number_is_not_named(world: Cached) -> None:
    """Nor any other then: what is missing would be taken for another spec."""
    world.synced(namespace="team-b").advance("11")
    world.held.advance("odd")
    assert positions(bookmark_token(world, at_head(world))) == {}


def test_what_is_for_one_reader_is_neither_kept_nor_given_a_token(world: Cached) -> None:
    """It depends on what that reader holds."""
    extension, start = world.extension, world.start
    known = Known()
    source = world.held.source
    group = KnownGroup("hub", "", "pods", "team-a", "v1", source.spec.projection)
    known.add(group, object_id("uid-a") + version_id("1"))
    batch = world.cache.next(
        extension.key, extension.store, EVERYTHING, View.KEY, start, is_synced=True, held=known
    )
    message = pb.WatchResponse.FromString(batch.message).batch
    assert [event.object.key.name for event in message.events] == ["b"]
    assert (message.coalesced, message.resume_token) == (True, b"")
    assert world.cache.bytes == 0
    whole = pb.WatchResponse.FromString(world.next(start).message).batch
    assert [event.object.key.name for event in whole.events] == ["a", "b"]
    assert not whole.coalesced
