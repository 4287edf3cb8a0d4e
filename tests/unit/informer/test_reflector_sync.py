"""Rules of the first state: WatchList and its fallback to a paged list (informers 1.1 and 1.2)."""

from __future__ import annotations

import pytest

from tests.unit.informer.shell import (
    Shell,
    added,
    bookmark,
    deleted,
    error,
    initial_end,
    item,
    modified,
)
from watchcache_server.informer.decoding import Broken, WatchEvent
from watchcache_server.informer.effects import (
    CloseStream,
    CommitSync,
    DiscardSync,
    Discover,
    List,
    Purge,
    Remember,
    SetState,
    Stage,
    Watch,
)
from watchcache_server.informer.errors import (
    MalformedError,
    NotAListError,
    OverLimitError,
    StatusAnswerError,
    TruncatedListError,
)
from watchcache_server.informer.inputs import NotServed
from watchcache_server.informer.statuses import StatusFields
from watchcache_server.model.states import LeftReason, SourceState

LISTING = 3600.0
INITIAL = Watch(
    resource_version="",
    match="NotOlderThan",
    send_initial_events=True,
    timeout_seconds=300,
    inactivity_seconds=310.0,
)


def listing() -> Shell:
    """Return a shell whose reflector has begun a list."""
    return Shell(list_seconds=LISTING).start()


# WatchList


def test_it_starts_with_discovery_and_says_so() -> None:
    """Nothing is known before discovery, and the first state is SYNCING."""
    shell = Shell().started()
    assert shell.request == Discover(is_fresh=False)
    assert shell.state is SourceState.SYNCING


def test_a_start_happens_once() -> None:
    """A second start changes nothing."""
    shell = Shell().started()
    assert shell.started().effects == []
    shell.answer(503)
    assert shell.started().effects == []


def test_the_first_state_is_asked_for_consistently() -> None:
    """Row 11: WatchList with no version is the newest state, never a lagging server's."""
    assert Shell().start().request == INITIAL


def test_initial_events_are_collected_beside_the_store() -> None:
    """1.2: readers see nothing of a sync before its end."""
    shell = Shell().start().opened().events(added("a", "3"))
    assert shell.effects == [Stage([item("a", "3")])]
    assert shell.store == {}
    assert shell.state is SourceState.SYNCING


def test_the_annotated_bookmark_ends_them_and_gives_the_version() -> None:
    """1.2: swap atomically, take the bookmark's version, keep the same stream."""
    shell = Shell().start().opened().events(added("a", "3"), added("b", "7"))
    shell.events(initial_end("10"), modified("a", "12"))
    assert shell.effects[0] == CommitSync(resource_version="10")
    assert shell.store == {"a": "12", "b": "7"}
    assert shell.version == "12"
    assert shell.state is SourceState.LIVE
    assert isinstance(shell.request, Watch)


def test_nothing_is_a_state_too() -> None:
    """1.6: an empty list is synced."""
    shell = Shell().start().sync()
    assert (shell.store, shell.version, shell.state) == ({}, "10", SourceState.LIVE)


@pytest.mark.parametrize(
    ("event", "store"),
    [
        pytest.param(modified("a", "5"), {"a": "5"}, id="MODIFIED"),
        pytest.param(deleted("a", "5"), {}, id="DELETED"),
        pytest.param(deleted("z", "5"), {"a": "3"}, id="DELETED of an unknown object"),
        pytest.param(bookmark("5"), {"a": "3"}, id="a plain BOOKMARK"),
    ],
)
def test_live_events_before_the_end_are_taken(event: WatchEvent, store: dict[str, str]) -> None:
    """1.2: they should not come; they go to the collection, are counted, and end nothing."""
    shell = Shell().start().opened().events(added("a", "3"), event)
    assert [name for name, _ in shell.counts()] == ["early_event"]
    assert shell.state is SourceState.SYNCING
    shell.events(initial_end("10"))
    assert shell.store == store
    assert shell.version == "10"


def test_silence_before_the_end_means_list() -> None:
    """Row 29: no event for 30 s: an old server or a proxy; list, and remember it for hours."""
    shell = Shell().start().opened()
    assert shell.wait == 30.0
    shell.timer()
    assert shell.has(CloseStream)
    assert Remember(6 * 3600.0) in shell.effects
    assert shell.request == List(limit=500)


def test_events_put_off_the_deadline() -> None:
    """A large state may take longer than the deadline, as long as it keeps coming."""
    shell = Shell().start().opened()
    for version in range(9):
        shell.pass_time(20.0).events(added("a", str(version + 1)))
    shell.pass_time(10.0).events()
    shell.pass_time(29.0)
    assert shell.watch.send_initial_events
    shell.pass_time(1.0)
    assert shell.request == List(limit=500)
    assert shell.staging is None


def test_live_events_do_not_put_off_the_deadline() -> None:
    """Row 29: a 1.18 server streams on and on, and its end of the initial events never comes."""
    shell = Shell().start().opened().events(added("a", "1"))
    for version in range(2, 6):
        shell.pass_time(10.0)
        if isinstance(shell.request, List):
            break
        shell.events(modified("a", str(version)))
    assert shell.request == List(limit=500)


def test_an_end_without_the_bookmark_means_list() -> None:
    """Row 29: the stream ended before its state was complete."""
    shell = Shell().start().opened().events(added("a", "3")).eof()
    assert shell.has(DiscardSync)
    assert shell.has(Remember)
    assert shell.request == List(limit=500)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(400, id="400"),
        pytest.param(413, id="413"),
        pytest.param(422, id="422: the gate is off"),
    ],
)
def test_a_server_that_refuses_watch_list_is_listed(code: int) -> None:
    """1.2 and 1.5: LIST, and remember it."""
    shell = Shell().start().answer(code)
    assert Remember(6 * 3600.0) in shell.effects
    assert shell.request == List(limit=500)


def test_a_server_without_progress_requests_is_listed() -> None:
    """1.2: an in-stream ERROR because of its etcd."""
    shell = Shell().start().opened().events(error(500, message="no progress"))
    assert shell.request == List(limit=500)


@pytest.mark.parametrize("jitter", [0.0, 0.5])
def test_a_refused_connection_or_429_tries_watch_list_again(jitter: float) -> None:
    """1.2: back off, and retry the same; neither says anything about WatchList."""
    shell = Shell(jitter=jitter).start().failure("refused")
    assert shell.wait == pytest.approx(0.8 * (1 + jitter))
    assert shell.retry().request == INITIAL
    shell.answer(429)
    assert shell.retry().request == INITIAL


@pytest.mark.parametrize("code", [410, 504])
def test_watch_list_of_a_version_that_is_lost_asks_for_the_newest(code: int) -> None:
    """1.2: 410 or TooLarge: retry with the version unset."""
    shell = Shell().live().pass_time(20).events(error(410))
    assert shell.watch.resource_version == "10"
    causes = ("ResourceVersionTooLarge",) if code == 504 else ()
    shell.answer(code, causes=causes).retry()
    assert shell.request == INITIAL


def test_initial_watches_that_break_off_are_listed_for_once() -> None:
    """Row 31: a state that never comes through one way is asked for the other way."""
    shell = Shell().start()
    for _ in range(3):
        assert shell.request == INITIAL
        shell.opened().events(added("a", "3")).failure("cut")
        assert not shell.has(Remember)
        shell.retry()
    assert shell.request == List(limit=500)
    shell.items(item("a", "3")).listed("10").opened().events(error(410))
    shell.retry()
    assert shell.watch.send_initial_events


def test_the_watch_goes_on_only_as_long_as_any_other() -> None:
    """The initial watch may be long, and then is opened again in time: that checks the right."""
    shell = Shell().start().opened().pass_time(20.0)
    shell.events(initial_end("10"))
    shell.pass_time(24.9)
    assert shell.watch.send_initial_events
    shell.pass_time(0.1)
    assert shell.has(CloseStream)
    assert shell.watch.resource_version == "10"
    assert not shell.watch.send_initial_events


def test_a_long_sync_is_followed_by_a_fresh_watch() -> None:
    """A sync that took longer than a watch may last is at once followed by a new one."""
    shell = Shell().start().opened()
    for _ in range(6):
        shell.pass_time(15.0).events(added("a", "1"))
    shell.events(initial_end("10")).timer()
    assert shell.watch.resource_version == "10"


# Paged list


def test_what_is_remembered_is_listed() -> None:
    """1.2: remembered per cluster and resource, and known at the start."""
    assert listing().request == List(limit=500)


def test_what_is_remembered_is_forgotten_in_time() -> None:
    """After hours a server may have been upgraded."""
    shell = Shell(list_seconds=100.0).start()
    shell.items(item("a", "3")).listed("10").opened().events(modified("a", "11"))
    shell.pass_time(101.0).opened().events(error(410))
    assert shell.watch.send_initial_events


def test_pages_are_followed_to_the_empty_token() -> None:
    """1.2: only an empty continue ends a list; empty pages with a token are legal."""
    shell = listing().items(item("a", "3")).listed("10", "t1")
    assert shell.request == List(limit=500, continue_token="t1")
    shell.listed("10", "t2")
    assert shell.request == List(limit=500, continue_token="t2")
    assert shell.store == {}
    shell.items(item("b", "4")).listed("10")
    assert shell.store == {"a": "3", "b": "4"}


def test_a_page_that_points_to_itself_is_a_failure() -> None:
    """Such a list would never end; it is begun again, later."""
    shell = listing().items(item("a", "3")).listed("10", "t1").listed("10", "t1")
    assert shell.has(DiscardSync)
    assert (shell.request, shell.wait) == (None, 0.8)
    assert "followed by itself" in shell.message
    shell.retry()
    assert shell.request == List(limit=500)
    shell.listed("10", "t1").listed("10")
    assert shell.state is SourceState.LIVE


def test_a_list_is_followed_by_a_watch_from_its_version() -> None:
    """Rows 6, 12, 19, 27: the version of the list, not of any item, however high that is."""
    shell = listing().items(item("a", "300"), item("b", "7")).listed("10")
    assert shell.watch.resource_version == "10"
    assert not shell.watch.send_initial_events
    assert shell.watch.match == ""
    assert shell.state is SourceState.LIVE


def test_the_version_of_a_list_is_that_of_its_first_page() -> None:
    """A server whose pages are not of one snapshot is watched from the first: nothing is lost."""
    shell = listing().listed("10", "t").listed("15")
    assert shell.watch.resource_version == "10"


def test_a_page_that_expires_begins_the_list_again() -> None:
    """Row 7: drop the pages and restart; never take the inconsistent rest."""
    shell = listing().items(item("a", "3")).listed("10", "t").answer(410)
    assert shell.effects[0] != CommitSync(resource_version="10")
    assert shell.has(DiscardSync)
    assert shell.request == List(limit=500)


def test_pages_that_expire_twice_are_asked_for_in_one_piece() -> None:
    """Row 7: then unpaged."""
    shell = listing()
    for _ in range(2):
        shell.listed("10", "t").answer(410)
    assert shell.request == List(limit=None)


def test_a_server_that_pages_and_expires_unasked_is_not_hurried() -> None:
    """A list that expires again and again waits between its attempts."""
    shell = listing()
    for _ in range(3):
        assert shell.request is not None
        shell.listed("10", "t").answer(410)
    assert shell.request is None
    assert shell.wait == 0.8
    assert shell.state is SourceState.UNREACHABLE


@pytest.mark.parametrize("reason", ["cut", "idle", "response_timeout"])
def test_a_list_that_breaks_off_has_failed_and_gets_smaller_pages(reason: str) -> None:
    """Rows 48 and 49: never an empty list; the next one asks for less at a time."""
    shell = Shell(list_seconds=LISTING).start()
    for limit in (250, 125, 62, 50, 50):
        shell.items(item("a", "3")).failure(reason)
        assert shell.has(DiscardSync)
        assert not shell.has(CommitSync)
        assert shell.state is SourceState.UNREACHABLE
        assert shell.retry().request == List(limit=limit)
    shell.items(item("a", "3")).listed("10").opened().events(error(504))
    assert shell.retry().request == List(limit=500)


def test_a_list_over_the_time_of_the_server_gets_smaller_pages() -> None:
    """Row 49: 504 after 60 s."""
    assert listing().answer(504).retry().request == List(limit=250)


def test_a_relist_in_one_piece_that_breaks_off_gets_pages() -> None:
    """Row 48: not older than the last version has no pages, so ask for the newest in pages."""
    shell = listing().listed("10").opened().pass_time(20).events(error(410))
    assert shell.request == List(resource_version="10", match="NotOlderThan")
    shell.failure("cut").retry()
    assert shell.request == List(limit=500)


def test_an_unpaged_list_that_breaks_off_gets_pages_again() -> None:
    """Neither way of asking is tried for ever."""
    shell = listing()
    for _ in range(2):
        shell.listed("10", "t").answer(410)
    assert shell.failure("cut").retry().request == List(limit=500)


@pytest.mark.parametrize(
    ("broken", "reason", "message"),
    [
        pytest.param(TruncatedListError("it ended"), "CONNECTION_FAILED", "it ended", id="cut"),
        pytest.param(NotAListError("HTML"), "CONNECTION_FAILED", "HTML", id="HTML"),
        pytest.param(MalformedError("bad"), "UNDECODABLE", "bad", id="not JSON"),
        pytest.param(OverLimitError("big"), "UNDECODABLE", "big", id="too large"),
        pytest.param(
            StatusAnswerError(StatusFields(code=500, message="broken")),
            "SERVER_ERROR",
            "broken",
            id="a Status with 200",
        ),
    ],
)
def test_a_body_that_is_no_list_fails_the_list(
    broken: Exception, reason: str, message: str
) -> None:
    """1.5: the state says what came instead; the store stays."""
    shell = listing().items(item("a", "3"))
    shell.broken(broken)  # type: ignore[arg-type]
    assert shell.has(DiscardSync)
    assert (shell.state, shell.reason) == (SourceState.UNREACHABLE, reason)
    assert message in shell.message
    assert shell.wait == 0.8


def test_an_undecodable_initial_watch_is_listed_the_third_time() -> None:
    """1.3: what cannot be read in one way is tried in the other."""
    shell = Shell().start()
    for _ in range(3):
        assert shell.request == INITIAL
        shell.opened().events(added("a", "3"), Broken(MalformedError("bad"))).retry()
    assert shell.request == List(limit=500)


# Taking over


def test_objects_of_a_reflector_before_are_stale_until_synced() -> None:
    """What the store holds is served as what it is; the first sync is its difference."""
    shell = Shell(holds_objects=True).start()
    assert (shell.state, shell.reason) == (SourceState.STALE, "RELISTING")
    assert shell.request == INITIAL
    assert shell.failure("refused").state is SourceState.STALE
    assert shell.retry().sync(added("a", "3")).state is SourceState.LIVE


def test_objects_of_a_reflector_before_leave_with_their_kind() -> None:
    """They are under the same rules as any other."""
    shell = Shell(holds_objects=True).started().vanished(NotServed())
    assert Purge(LeftReason.KIND_GONE) in shell.effects


def test_a_load_of_all_objects_is_known_as_one() -> None:
    """The shell bounds how many of them run at once."""
    shell = Shell().start()
    assert shell.reflector.is_syncing
    assert not shell.sync().reflector.is_syncing
    assert listing().reflector.is_syncing


# Relists


def test_a_relist_is_never_older_than_what_was_seen() -> None:
    """Rows 1 and 8: not older than the last version, never 0."""
    shell = Shell().live().events(modified("a", "17")).pass_time(20).events(error(410))
    assert shell.watch.resource_version == "17"
    assert shell.watch.match == "NotOlderThan"
    assert shell.watch.send_initial_events


def test_old_data_is_served_as_stale_while_relisting() -> None:
    """1.4: keep serving the old data marked stale, then swap."""
    shell = Shell().live().pass_time(20).events(error(410))
    assert shell.state is SourceState.STALE
    shell.opened().events(added("a", "12"))
    assert (shell.state, shell.reason) == (SourceState.STALE, "RELISTING")
    assert shell.store == {"a": "3", "b": "7"}
    shell.events(initial_end("20"))
    assert (shell.state, shell.store) == (SourceState.LIVE, {"a": "12"})


def test_a_relist_that_is_older_than_asked_is_not_taken() -> None:
    """Row 8: a server that ignores the parameter would go back in time."""
    shell = listing().listed("10").opened().pass_time(20).events(error(410))
    shell.items(item("a", "3")).listed("9")
    assert shell.has(DiscardSync)
    assert not shell.has(CommitSync)
    assert shell.retry().request == List(limit=500)


def test_an_initial_end_that_is_older_than_asked_is_not_taken() -> None:
    """Row 8, for a watch: it is closed, and the newest state is asked for."""
    shell = Shell().live().pass_time(20).events(error(410))
    shell.opened().events(added("a", "3"), initial_end("9"), modified("a", "10"))
    assert shell.has(CloseStream)
    assert not shell.has(CommitSync)
    assert shell.retry().request == INITIAL


def test_the_newest_state_is_older_only_if_the_storage_was_rewound() -> None:
    """1.1: a consistent list below the last version is a new epoch: replace the store."""
    shell = listing().listed("10").opened().pass_time(20).events(error(410))
    shell.answer(410)
    assert shell.request == List(limit=500)
    shell.items(item("c", "2")).listed("4")
    assert CommitSync(resource_version="4") in shell.effects
    assert ("rewound", "newer_known") in shell.counts()
    assert shell.watch.resource_version == "4"
    assert shell.store == {"c": "2"}


def test_versions_that_do_not_compare_are_never_a_rewind() -> None:
    """KEP-5504: metrics-server, Calico and Porch have versions of their own."""
    shell = listing().listed("zz").opened().pass_time(20).events(error(410)).listed("aa")
    assert CommitSync(resource_version="aa") in shell.effects


def test_relists_one_after_the_other_are_not_hurried() -> None:
    """Row 6: 410 at once after a sync would be a hot loop."""
    shell = Shell().live().events(error(410))
    assert shell.request is None
    assert shell.wait == 0.8


def test_a_sync_says_when_it_is_live() -> None:
    """The state comes after the commit that makes it true."""
    shell = Shell().start().sync(added("a", "3"))
    kinds = [type(effect) for effect in shell.effects]
    assert kinds.index(CommitSync) < kinds.index(SetState)
    assert "up to date" in shell.message
