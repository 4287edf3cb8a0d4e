"""Rules of where a Watch stream starts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.extensions.test_informer import World
from tests.unit.serving.watched import change, delete
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.informer.cursors import Cursor
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.held import Known
from watchcache_server.informer.resume import ResumeToken, extension_digest
from watchcache_server.informer.subscription import begin_snapshot, resume
from watchcache_server.model.errors import (
    InvalidRequestError,
    KnownNotFoundError,
    ResumeLostError,
)
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.serving.starting import Start, find_start

OTHER_EPOCH = b"8 bytes!"
IDENTITY = b"identity"


class Starting(World):
    """An extension with objects, and one upload for it."""

    def __init__(self) -> None:
        super().__init__()
        self.held = self.synced("a", "b")
        self.known = Known()
        self.redeemed: list[bytes] = []

    def start(self, *, wanted: Filter = EVERYTHING, **request: Any) -> Start:
        """Find where a stream starts that is asked for so."""
        return find_start(self.extension, wanted, pb.WatchRequest(**request), self._redeem)

    def _redeem(self, extension: Extension, handle: bytes) -> Known:
        assert extension is self.extension
        if handle != b"handle":
            raise KnownNotFoundError
        self.redeemed.append(handle)
        return self.known

    def token(self, **changes: Any) -> bytes:
        """Return a token for everything as of now, but for what is given."""
        store = self.extension.store
        whole = ResumeToken(
            extension_digest(self.extension.key), store.epoch, EVERYTHING.digest, store.revision
        )
        return whole._replace(**changes).encode()

    def churn(self, count: int) -> None:
        """Let so many objects come and go."""
        for number in range(count):
            change(self.held, "gone", str(20 + 2 * number))
            delete(self.held, "gone", str(21 + 2 * number))

    @property
    def snapshot(self) -> Cursor:
        """Where a snapshot begins now."""
        return begin_snapshot(self.extension.store, EVERYTHING)


@pytest.fixture
async def world() -> Starting:
    """Give an extension with two objects."""
    return Starting()


def test_who_brings_nothing_begins_with_a_snapshot(world: Starting) -> None:
    """There is nothing to reset, whatever the reader thinks of that."""
    for fails in (False, True):
        start = world.start(fail_on_reset=fails)
        assert start == Start(world.snapshot, pb.START_MODE_SNAPSHOT)


def test_a_snapshot_is_of_what_was_asked_for(world: Starting) -> None:
    """Sources that do not pass the filter are not walked."""
    nowhere = Filter(clusters=("edge",))
    assert world.start(wanted=nowhere).cursor == Cursor(world.extension.store.revision)


def test_a_token_of_this_life_goes_on_where_it_is(world: Starting) -> None:
    """Also beyond the history, and for one that was catching up."""
    revision = world.extension.store.revision
    token, behind = world.token(), world.token(behind_since=0)
    world.churn(60)
    store = world.extension.store
    assert not store.history.covers(revision)
    cursor = resume(store, revision)
    assert world.start(resume_token=token) == Start(cursor, pb.START_MODE_RESUMED)
    cursor = resume(store, revision, 0)
    assert world.start(resume_token=behind) == Start(cursor, pb.START_MODE_RESUMED)


def test_a_token_of_another_life_goes_on_by_upstream_versions(world: Starting) -> None:
    """Its revision means nothing here, be it as large as it is."""
    token = world.token(epoch=OTHER_EPOCH, revision=10_000, positions=((IDENTITY, 305),))
    start = world.start(resume_token=token, fail_on_reset=True)
    assert start.mode == pb.START_MODE_RESUMED
    assert start.positions == {IDENTITY: "305"}
    assert start.cursor == Cursor(world.extension.store.revision)
    assert (start.reset, start.known) == (None, None)


LOST = ["of another life, without versions", "older than all that is kept"]


def lost_token(world: Starting, name: str) -> tuple[bytes, pb.ResetReason.ValueType]:
    """Return a token that leads nowhere, and why it does."""
    if name == LOST[0]:
        return world.token(epoch=OTHER_EPOCH), pb.RESET_REASON_EPOCH_CHANGED
    token = world.token()
    world.churn(1200)
    return token, pb.RESET_REASON_HISTORY_EXPIRED


@pytest.mark.parametrize("name", LOST)
def test_a_token_that_leads_nowhere_begins_anew(world: Starting, name: str) -> None:
    """And it is said why."""
    token, reason = lost_token(world, name)
    start = world.start(resume_token=token)
    assert start == Start(world.snapshot, pb.START_MODE_SNAPSHOT, reset=reason)


WHY = dict(zip(LOST, ("restarted", "older than"), strict=True))


@pytest.mark.parametrize("name", LOST)
def test_who_wants_no_reset_is_told_so_in_its_place(world: Starting, name: str) -> None:
    """It says what it holds then."""
    token, _ = lost_token(world, name)
    with pytest.raises(ResumeLostError, match=WHY[name]) as caught:
        world.start(resume_token=token, fail_on_reset=True)
    assert "UploadKnown" in str(caught.value)


def test_who_says_what_it_holds_is_told_the_difference(world: Starting) -> None:
    """Everything that is there is gone through, and the changes from now on come as they are."""
    start = world.start(known=b"handle")
    store = world.extension.store
    cursor = begin_snapshot(store, EVERYTHING, store.revision)
    assert cursor.walk is not None
    assert cursor.walk.is_repeated
    assert start == Start(cursor, pb.START_MODE_DIFFERENCE, known=world.known)
    assert start.known is world.known


@pytest.mark.parametrize("name", LOST)
@pytest.mark.parametrize("fails", [False, True])
def test_what_is_held_counts_where_the_token_leads_no_further(
    world: Starting, name: str, fails: bool
) -> None:
    """Nothing is reset."""
    token, _ = lost_token(world, name)
    start = world.start(resume_token=token, known=b"handle", fail_on_reset=fails)
    assert (start.mode, start.reset) == (pb.START_MODE_DIFFERENCE, None)


def test_where_the_token_leads_on_the_upload_stays(world: Starting) -> None:
    """It expires by itself."""
    start = world.start(resume_token=world.token(), known=b"handle")
    assert start.mode == pb.START_MODE_RESUMED
    assert start.known is None
    assert world.redeemed == []


def test_an_unknown_handle_is_an_error(world: Starting) -> None:
    """The client uploads again."""
    with pytest.raises(KnownNotFoundError):
        world.start(known=b"made up")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another extension": (
        {"extension": extension_digest(ExtensionKey("team-a", "cart"))},
        "another extension",
    ),
    "another extension of another life": (
        {
            "extension": extension_digest(ExtensionKey("team-a", "cart")),
            "epoch": OTHER_EPOCH,
            "positions": ((IDENTITY, 305),),
        },
        "another extension",
    ),
    "another filter": ({"filter": Filter(namespaces=("x",)).digest}, "another filter"),
    "another filter of another life": (
        {"filter": Filter(namespaces=("x",)).digest, "epoch": OTHER_EPOCH},
        "another filter",
    ),
    "the future": ({"revision": 10_000}, "made up"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_token_of_something_else_is_refused(world: Starting, name: str) -> None:
    """Also with an upload, which is not used up by it."""
    changes, words = WRONG[name]
    with pytest.raises(InvalidRequestError, match=words) as caught:
        world.start(resume_token=world.token(**changes), known=b"handle")
    assert caught.value.reason == "RESUME_TOKEN_INVALID"
    assert [each.field for each in caught.value.violations] == ["resume_token"]
    assert world.redeemed == []


def test_what_is_no_token_is_refused(world: Starting) -> None:
    """It is said that it is none."""
    with pytest.raises(InvalidRequestError, match="is no resume token"):
        world.start(resume_token=b"x")
