"""Rules of a running watch: positions, ends, silence, lifetimes (informers 1.1, 1.3 and 1.4)."""

from __future__ import annotations

import pytest

from tests.unit.informer.shell import (
    Shell,
    added,
    bookmark,
    deleted,
    error,
    item,
    modified,
)
from watchcache_server.informer.decoding import Broken, WatchEvent
from watchcache_server.informer.effects import (
    Advance,
    Apply,
    CloseStream,
    CommitSync,
    Count,
    List,
    SetState,
    Watch,
)
from watchcache_server.informer.errors import MalformedError, UnexpectedError
from watchcache_server.informer.objects import Remove, Upsert
from watchcache_server.model.states import SourceState

SERVED_FOR = 20.0


def watching() -> Shell:
    """Return a shell with a live watch at version 10 that was opened again."""
    shell = Shell().live().events(bookmark("10")).eof()
    assert shell.watch.resource_version == "10"
    return shell.opened().pass_time(SERVED_FOR)


# Events


def test_events_of_a_chunk_are_one_change_of_the_store() -> None:
    """In the order of arrival, with the version after the last of them."""
    shell = watching().events(modified("a", "11"), added("c", "12"), deleted("b", "13"))
    assert shell.effects == [
        Apply(
            [
                Upsert(item("a", "11")),
                Upsert(item("c", "12"), is_addition=True),
                Remove(item("b", "13")),
            ],
            "13",
        )
    ]


@pytest.mark.parametrize(
    ("events", "version"),
    [
        pytest.param([added("c", "11")], "11", id="ADDED"),
        pytest.param([modified("a", "12")], "12", id="MODIFIED"),
        pytest.param(
            [deleted("a", "13")], "13", id="row 20: DELETED has the version of the deletion"
        ),
        pytest.param([deleted("z", "13")], "13", id="DELETED of an unknown object"),
        pytest.param([bookmark("14")], "14", id="BOOKMARK"),
        pytest.param([added("c", "11"), bookmark("14")], "14", id="a bookmark behind events"),
        pytest.param([bookmark("14"), added("c", "15")], "15", id="events behind a bookmark"),
        pytest.param([modified("a", "12"), deleted("b", "7")], "12", id="row 20: an old deletion"),
    ],
)
def test_every_live_event_moves_the_position(events: list[WatchEvent], version: str) -> None:
    """Row 23: the next watch starts behind the last live event, and never further back."""
    shell = watching().events(*events)
    assert shell.version == version
    assert shell.eof().watch.resource_version == version


def test_a_bookmark_alone_only_advances() -> None:
    """Row 25: a bookmark is no object and no change."""
    assert watching().events(bookmark("14")).effects == [Advance("14")]


def test_an_old_deletion_is_applied_all_the_same() -> None:
    """Row 20: the order is that of the stream, whatever the version says."""
    shell = watching().events(deleted("b", "7"))
    assert shell.effects == [Apply([Remove(item("b", "7"))], "10")]


def test_versions_that_do_not_compare_are_taken_as_they_come() -> None:
    """Row 18: with versions that are no numbers, the order of arrival is all there is."""
    shell = watching().events(modified("a", "zz"), modified("a", "aa"))
    assert shell.eof().watch.resource_version == "aa"


def test_half_an_event_is_a_sign_of_life_and_nothing_else() -> None:
    """A chunk without a whole event has no effect."""
    assert watching().events().effects == []


def test_events_of_a_watch_that_is_not_open_are_not_taken() -> None:
    """Only what was asked for counts."""
    shell = watching().eof()
    assert shell.events(added("c", "11")).effects == []


def test_a_watch_is_opened_once() -> None:
    """A second word of its opening changes nothing."""
    shell = Shell().live().eof().opened()
    assert shell.opened().effects == []


# The request


def test_a_resumed_watch_never_asks_for_initial_events() -> None:
    """1.2: on resume do not send sendInitialEvents again, nor a match."""
    assert watching().eof().watch == Watch(
        resource_version="10", timeout_seconds=45, inactivity_seconds=55.0
    )


@pytest.mark.parametrize(
    ("jitter", "seconds"), [(0.0, 45), (0.5, 52), (0.999, 59)], ids=["least", "middle", "most"]
)
def test_a_watch_lasts_at_most_a_minute(jitter: float, seconds: int) -> None:
    """Rows 33 and 70: an own random limit, since the right is checked at the opening only."""
    shell = Shell(jitter=jitter).live().eof()
    assert shell.watch.timeout_seconds == seconds
    assert shell.watch.inactivity_seconds == seconds + 10.0


def test_a_server_that_does_not_end_a_watch_is_left() -> None:
    """Row 70: the limit holds also if the server ignores it and sends on."""
    shell = watching()
    shell.pass_time(54.9 - SERVED_FOR).events(modified("a", "11"))
    assert not shell.has(CloseStream)
    shell.timer()
    assert shell.has(CloseStream)
    assert shell.watch.resource_version == "11"
    assert shell.state is SourceState.LIVE


# Ends


def test_a_clean_end_is_followed_at_once() -> None:
    """Row 41: rewatch at the last version; no wait, no change of state."""
    shell = watching().events(modified("a", "11")).pass_time(24.0).eof()
    assert shell.watch.resource_version == "11"
    assert shell.effects == [Count("watch_ended", "eof"), shell.request]


def test_a_watch_that_lived_without_events_ended_well() -> None:
    """Row 4: a quiet resource is no failure."""
    shell = watching().eof()
    assert shell.request is not None


def test_a_watch_that_ends_at_once_and_empty_is_a_failure() -> None:
    """1.4: lived less than 1 s without an event: back off."""
    shell = watching().eof().opened().pass_time(0.9).eof()
    assert shell.counts() == [("watch_ended", "quick")]
    assert shell.request is None
    assert shell.wait == 0.8
    assert shell.state is SourceState.LIVE, "once is nothing"


def test_a_short_watch_with_an_event_ended_well() -> None:
    """A slow consumer is cut without an ERROR, after events."""
    shell = watching().eof().opened().events(bookmark("11")).eof()
    assert shell.watch.resource_version == "11"


@pytest.mark.parametrize(
    "event", [bookmark("11"), modified("a", "11")], ids=["a bookmark", "an event"]
)
def test_short_watches_with_an_event_are_no_hot_loop(event: WatchEvent) -> None:
    """Once such an end is followed at once; a row of them waits longer each time, and is LIVE."""
    shell = watching().eof().opened().events(event).eof()
    assert shell.request is not None
    shell.opened().events(event).eof()
    assert (shell.request, shell.wait) == (None, 0.8)
    shell.retry().opened().events(event).eof()
    assert (shell.request, shell.wait) == (None, 1.6)
    assert shell.state is SourceState.LIVE


def test_a_watch_that_lasts_ends_the_row_of_short_ones() -> None:
    """After one that lived its time the next short one is followed at once again."""
    shell = watching().eof().opened().events(bookmark("11")).eof()
    shell.opened().events(bookmark("12")).pass_time(SERVED_FOR).eof()
    shell.opened().events(bookmark("13")).eof()
    assert shell.request is not None


def test_five_quick_ends_mean_relist() -> None:
    """1.4: some proxies close the watch instead of sending 410."""
    shell = watching().eof()
    for _ in range(4):
        shell.opened().eof().retry()
        assert not shell.watch.send_initial_events
    shell.opened().eof().retry()
    assert shell.watch.send_initial_events
    assert shell.watch.resource_version == "10"
    assert shell.store == {"a": "3", "b": "7"}
    assert shell.state is SourceState.STALE


def test_a_watch_that_lasts_ends_the_row_of_quick_ends() -> None:
    """Only ends one after the other count."""
    shell = watching().eof()
    for _ in range(4):
        shell.opened().eof().retry()
    shell.opened().pass_time(30.0).eof().opened().eof().retry()
    assert not shell.watch.send_initial_events


@pytest.mark.parametrize("reason", ["cut", "reset", "tls"])
def test_a_watch_that_breaks_off_goes_on_where_it_was(reason: str) -> None:
    """Rows 41 and 55: keep the version, back off, reconnect; no relist and no word about it."""
    shell = watching().events(modified("a", "11")).failure(reason)
    assert shell.wait == 0.8
    assert not shell.has(SetState)
    assert shell.retry().watch == Watch(
        resource_version="11", timeout_seconds=45, inactivity_seconds=55.0
    )


def test_an_answer_that_ends_before_it_begins_has_broken_off() -> None:
    """An end without an opening is no clean end."""
    shell = watching().eof().eof()
    assert shell.wait == 0.8


def test_silence_for_too_long_is_stale_at_once() -> None:
    """Rows 32 to 34: the peer may have been dead for the whole time."""
    shell = watching().failure("idle", "nothing came for 55 s")
    assert (shell.state, shell.reason) == (SourceState.STALE, "NO_CONTACT")
    assert shell.retry().watch.resource_version == "10"


def test_a_reconnect_that_fails_is_stale() -> None:
    """Row 38: fresh is not the same as synced once."""
    shell = watching().failure("reset").retry().failure("refused", "connection refused")
    assert (shell.state, shell.reason) == (SourceState.STALE, "CONNECTION_FAILED")
    assert "connection refused" in shell.message
    assert shell.published is not None
    assert shell.published.next_attempt_seconds == pytest.approx(1.6)
    assert shell.store == {"a": "3", "b": "7"}


def test_a_watch_that_opens_and_breaks_again_and_again_is_stale() -> None:
    """Opening alone proves nothing."""
    shell = watching().failure("reset").retry().opened().failure("reset")
    assert shell.state is SourceState.STALE


@pytest.mark.parametrize("is_by_event", [True, False])
def test_a_watch_that_works_is_live_again(is_by_event: bool) -> None:
    """An event, or a second without an end, is proof."""
    shell = watching().failure("reset").retry().failure("refused").retry().reopened()
    assert shell.state is SourceState.STALE
    if is_by_event:
        shell.events(bookmark("12"))
    else:
        shell.pass_time(1.0)
    assert shell.state is SourceState.LIVE


def test_a_watch_opened_before_its_failure_settles_the_next_one_anew() -> None:
    """After a proof, one break is again nothing."""
    shell = watching().failure("reset").retry().opened().pass_time(2.0).failure("reset")
    assert shell.state is SourceState.LIVE


def test_a_live_watch_may_be_opened_again_on_request() -> None:
    """The shell gives memory back so after a large sync; it is no failure."""
    shell = watching().events(modified("a", "11")).reopen()
    assert shell.has(CloseStream)
    assert shell.watch.resource_version == "11"
    assert shell.state is SourceState.LIVE
    assert shell.reopen().effects == [], "not while it is being opened"


def test_nothing_is_opened_again_where_nothing_runs() -> None:
    """Only a running watch has something to reopen."""
    assert Shell().start().reopen().effects == []


def test_a_bookmark_can_be_had_soon() -> None:
    """A server sends one two seconds before the end of a watch: such a short one is opened."""
    shell = watching().events(modified("a", "11")).hasten()
    assert shell.has(CloseStream)
    assert (shell.watch.resource_version, shell.watch.timeout_seconds) == ("11", 3)
    assert shell.watch.response_seconds == 3.0, "a kept connection may be dead"
    assert shell.state is SourceState.LIVE
    assert shell.hasten().effects == [], "not while it is being opened"
    shell.opened()
    assert shell.hasten().effects == [], "not before its bookmark has come"
    shell.events(modified("a", "12"))
    assert shell.hasten().effects == [], "an event is none"
    shell.events(bookmark("15"))
    assert shell.effects[-1] == Advance("15")
    assert shell.hasten().watch.timeout_seconds == 3, "one that came may not be enough"
    assert shell.watch.resource_version == "15"


def test_a_short_watch_that_is_silent_beyond_its_end_is_opened_again() -> None:
    """Its connection is dead, and somebody waits."""
    shell = watching().hasten().opened().pass_time(3.9)
    assert shell.hasten().effects == []
    shell.pass_time(0.2).hasten()
    assert shell.has(CloseStream)
    assert shell.watch.timeout_seconds == 3


def test_after_a_short_watch_they_are_long_again() -> None:
    """Whether it has brought its bookmark or not: then the server is asked where it is."""
    shell = watching().hasten().opened().pass_time(3.0).eof().listed("10")
    assert shell.watch.timeout_seconds == 45
    shell = watching().hasten().opened().events(bookmark("15")).pass_time(2.0).eof()
    assert shell.watch.timeout_seconds == 45
    assert shell.watch.resource_version == "15"
    assert shell.state is SourceState.LIVE


def test_a_bookmark_is_had_only_where_a_watch_runs() -> None:
    """Whatever else is under way comes to a version by itself."""
    assert Shell().start().hasten().effects == []
    waiting = watching().failure("reset")
    assert waiting.hasten().effects == []


def test_a_version_from_the_past_is_looked_into() -> None:
    """The server says at once whether its storage was set back; the objects are listed again."""
    shell = watching().events(modified("a", "11")).suspect()
    assert shell.has(CloseStream)
    assert shell.list == List(limit=1)
    shell.listed("9")
    assert shell.state is SourceState.STALE
    assert shell.request is not None


def test_a_version_from_the_past_that_was_none_is_forgotten() -> None:
    """The watch goes on where it was."""
    shell = watching().events(modified("a", "11")).suspect().listed("12")
    assert shell.watch.resource_version == "11"
    assert shell.state is SourceState.LIVE
    assert Shell().start().suspect().effects == [], "only a running watch has something to lose"


# Errors inside the stream


def test_an_expired_version_is_listed_anew() -> None:
    """Rows 1, 2, 4 and 62: 410 in the stream is hidden from consumers; close before reopening."""
    shell = watching().events(modified("a", "11"), error(410))
    assert shell.store["a"] == "11", "what came before counts"
    assert shell.has(CloseStream)
    assert shell.watch.send_initial_events
    assert shell.watch.resource_version == "11"
    assert ("relist", "EXPIRED") in shell.counts()


def test_410_as_a_status_is_listed_anew() -> None:
    """1.4: kube-rs loops on the same version there."""
    shell = watching().eof().answer(410)
    assert shell.watch.send_initial_events
    assert shell.state is SourceState.STALE


def test_429_in_the_stream_waits_and_keeps_the_version() -> None:
    """1.4: the longer of retryAfterSeconds and backoff; no relist."""
    shell = watching().events(error(429, retry_after_seconds=7.0))
    assert shell.wait == 7.0
    assert not shell.retry().watch.send_initial_events


def test_an_internal_error_is_retried_for_half_a_minute() -> None:
    """1.4: at the same version for 30 s, then relist."""
    shell = watching()
    began = shell.now
    while not shell.watch.send_initial_events:
        asked_at = shell.now
        assert asked_at - began < 60.0
        shell.opened().events(error(500, "InternalError")).retry()
    assert asked_at - began >= 30.0
    assert shell.store == {"a": "3", "b": "7"}


def test_an_event_ends_the_patience_with_internal_errors() -> None:
    """Errors half an hour apart have nothing to do with each other."""
    shell = watching().events(error(500)).retry().opened().events(bookmark("11"))
    shell.pass_time(30.0).events(error(500)).retry()
    assert not shell.watch.send_initial_events


def test_a_corrupt_object_is_listed_anew() -> None:
    """1.4: StorageReadError: no event will tell of its removal."""
    shell = watching().events(error(500, "StorageReadError"))
    assert shell.watch.send_initial_events


@pytest.mark.parametrize(
    "status", [{"code": 504}, {"code": 500, "causes": ("ResourceVersionTooLarge",)}]
)
def test_a_timeout_in_the_stream_asks_for_the_newest(status: dict[str, object]) -> None:
    """1.4: back off, then relist with the version unset."""
    shell = watching().events(error(**status))  # type: ignore[arg-type]
    assert shell.wait == 0.8
    assert shell.retry().watch.resource_version == ""
    assert shell.watch.send_initial_events


def test_the_third_unknown_error_means_relist() -> None:
    """1.4: ERROR without code, reason and object."""
    shell = watching()
    for _ in range(3):
        assert not shell.watch.send_initial_events
        shell.opened().events(error(0)).retry()
    assert shell.watch.send_initial_events


def test_what_cannot_be_read_is_asked_for_again() -> None:
    """1.3: drop the rest, keep the version; never skip an event and go on."""
    shell = watching().events(modified("a", "11"), Broken(UnexpectedError("a Table")))
    assert shell.has(CloseStream)
    assert shell.version == "11"
    assert ("undecodable", "unexpected") in shell.counts()
    assert shell.retry().watch.resource_version == "11"


def test_what_cannot_be_read_three_times_is_listed_once_and_then_reported() -> None:
    """1.3: relist once, then a condition of this resource, while everything else goes on."""
    shell = watching()
    bad = Broken(MalformedError("nested too deeply"))
    for _ in range(3):
        assert not shell.watch.send_initial_events
        shell.opened().events(bad).retry()
    assert shell.watch.send_initial_events
    shell.sync(added("a", "11"), version="12").events(bad).retry()
    for _ in range(6):
        assert not shell.watch.send_initial_events
        assert shell.watch.resource_version == "12"
        shell.opened().events(bad).retry()
    assert (shell.state, shell.reason) == (SourceState.STALE, "UNDECODABLE")
    assert "nested too deeply" in shell.message
    assert shell.store == {"a": "11"}
    shell.opened().events(modified("a", "13"))
    assert shell.state is SourceState.LIVE


# A storage that was set back


def test_long_silence_is_checked_against_the_server() -> None:
    """1.1: a rewound server accepts a watch from the future and stays quiet: probe it.

    Where a server sends no bookmarks silence says little, so it is asked after minutes.
    """
    shell = Shell(list_seconds=100.0).start().listed("10").opened()
    heard_at = shell.now
    while isinstance(shell.pass_time(50.0).eof().request, Watch):
        shell.opened()
    assert 260.0 <= shell.now - heard_at <= 350.0
    assert shell.request == List(limit=1)
    shell.listed("11")
    assert shell.watch.resource_version == "10", "the answer is no position"
    assert shell.state is SourceState.LIVE


def silent() -> Shell:
    """Return a shell that asks the server for its version after long silence."""
    shell = watching()
    shell.now += 400.0
    return shell.eof()


def test_a_server_behind_the_position_was_rewound() -> None:
    """1.1: new epoch: replace the store and say so."""
    shell = silent().items(item("x", "4")).listed("5")
    assert shell.watch.send_initial_events
    assert shell.watch.resource_version == ""
    assert shell.state is SourceState.STALE
    assert ("relist", "rewound") in shell.counts()
    shell.sync(added("x", "4"), version="5")
    assert CommitSync(resource_version="5") in shell.effects
    assert ("rewound", "newer_known") in shell.counts()
    assert shell.store == {"x": "4"}


@pytest.mark.parametrize("ending", ["eof", "silence"])
def test_a_whole_watch_without_a_bookmark_is_checked(ending: str) -> None:
    """Where a server sends them one comes two seconds before the end, if all is well."""
    shell = watching()
    for version in ("11", "11", "12"):
        shell.eof().opened().pass_time(43.0).events(bookmark(version)).pass_time(1.5)
    shell.eof().opened()
    if ending == "eof":
        shell.pass_time(44.5).eof()
    else:
        shell.pass_time(60.0)
    assert shell.request == List(limit=1)
    assert shell.listed("13").watch.resource_version == "12"
    shell.opened().pass_time(2.0)
    assert shell.state is SourceState.LIVE


def test_a_watch_that_a_server_ends_early_is_not_checked() -> None:
    """It had no time for its bookmark: servers that stop end all that run."""
    shell = watching().eof().opened()
    assert isinstance(shell.pass_time(30.0).eof().request, Watch)


@pytest.mark.parametrize("code", [403, 410])
def test_the_check_never_stands_in_the_way_of_the_watch(code: int) -> None:
    """Who may watch need not be allowed to list; the watch itself tells what is wrong."""
    shell = silent().answer(code)
    assert shell.watch.resource_version == "10"
    assert shell.state is SourceState.LIVE


@pytest.mark.parametrize("code", [429, 500, 503])
@pytest.mark.parametrize("end", ["event", "bookmark", "check", "sync"])
def test_a_server_that_cannot_tell_leaves_a_doubt(code: int, end: str) -> None:
    """Row 67: it may hold back all events of a kind that it cannot convert, over an open watch.

    What is held is STALE and the reason is said, until something is heard of the objects; the watch
    goes on, and brings what it can.
    """
    shell = silent().answer(code, message="conversion webhook failed: connection refused")
    for _ in range(3):
        assert shell.watch.resource_version == "10"
        shell.opened().pass_time(10.0)
        assert shell.state is SourceState.STALE
        assert "conversion webhook failed: connection refused" in shell.message
        shell.pass_time(34.5).eof()
        shell.answer(code, message="conversion webhook failed: connection refused")
    shell.opened()
    if end == "event":
        shell.events(modified("a", "11"))
    elif end == "bookmark":
        shell.events(bookmark("11"))
    elif end == "check":
        shell.pass_time(44.5).eof().listed("11").opened().pass_time(1.0)
    else:
        shell.events(error(410)).retry().sync(version="20")
    assert shell.state is SourceState.LIVE


def test_a_server_that_was_away_is_asked_where_it_is() -> None:
    """1.1: to restore a storage the servers are stopped; soon it holds more than was lost.

    Once, when it is there again, and before anything of the watch is read.
    """
    shell = watching().failure("reset").retry().failure("refused").retry().answer(503).retry()
    shell.opened()
    assert shell.request == List(limit=1)
    assert ("watch_ended", "away") in shell.counts()
    shell.listed("7")
    assert shell.watch.send_initial_events
    assert ("relist", "rewound") in shell.counts()
    shell.sync(added("a", "3"), version="8")
    assert ("rewound", "newer_known") in shell.counts()
    assert (shell.state, shell.store) == (SourceState.LIVE, {"a": "3"})


@pytest.mark.parametrize("reason", ["reset", "cut", "idle"])
def test_a_watch_that_breaks_and_is_open_again_at_once_is_not_checked(reason: str) -> None:
    """The server was there all the time."""
    shell = watching().failure(reason).retry().opened().pass_time(2.0)
    assert isinstance(shell.request, Watch)
    assert shell.state is SourceState.LIVE


def test_what_is_put_off_for_long_is_asked_for_otherwise() -> None:
    """Row 67: a cache of the server that is never filled has a reason, which a list tells."""
    shell = watching().eof()
    began = shell.now
    while shell.request != List(limit=1):
        shell.answer(429, message="storage is (re)initializing").retry()
    assert 15.0 <= shell.now - began <= 60.0
    shell.answer(500, message="conversion webhook failed")
    for _ in range(3):
        assert (shell.state, shell.reason) == (SourceState.STALE, "SERVER_ERROR")
        assert "conversion webhook failed" in shell.message
        shell.answer(429, message="storage is (re)initializing").retry()
        if isinstance(shell.request, List):
            shell.answer(500, message="conversion webhook failed")
    assert shell.opened().events(modified("a", "12")).state is SourceState.LIVE


def test_a_cache_that_does_not_get_to_the_newest_state_is_passed_by() -> None:
    """Rows 8 and 67: a server that lags, or cannot convert; a list is read from the storage."""
    shell = Shell().start()
    shell.opened().events(error(504, causes=("ResourceVersionTooLarge",)))
    assert shell.state is SourceState.SYNCING
    assert shell.retry().request == List(limit=500)
    shell.items(item("x", "70")).listed("90")
    assert (shell.state, shell.store) == (SourceState.LIVE, {"x": "70"})
    shell.opened().pass_time(20.0).events(error(410))
    assert shell.watch.send_initial_events, "only this once"


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_sync_that_is_put_off_for_long_is_a_list(is_synced: bool) -> None:
    """Row 67: with pages and of the newest state, since that is read from the storage itself."""
    shell = Shell().live().pass_time(20.0).events(error(410)) if is_synced else Shell().start()
    while not isinstance(shell.request, List):
        shell.answer(429, message="storage is (re)initializing").retry()
    assert shell.request == List(limit=500)
    shell.answer(500, message="conversion webhook failed")
    assert "conversion webhook failed" in shell.message
    assert shell.state is (SourceState.STALE if is_synced else SourceState.UNREACHABLE)
    shell.retry().items(item("x", "70")).listed("90")
    assert (shell.state, shell.store) == (SourceState.LIVE, {"x": "70"})


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_check_that_fails_goes_on_to_the_watch(is_broken: bool) -> None:
    """Neither a failed connection nor an answer that cannot be read stops the watch."""
    shell = silent()
    if is_broken:
        shell.broken(MalformedError("bad"))
    else:
        shell.failure("refused")
    assert shell.watch.resource_version == "10"


def test_a_bookmark_from_the_past_asks_the_server() -> None:
    """A version below the position is either a fault or a storage that was set back."""
    shell = watching().events(modified("a", "11"), bookmark("5"), modified("a", "6"))
    assert shell.version == "11"
    assert shell.has(CloseStream)
    assert shell.wait == 0.8
    assert (shell.state, shell.reason) == (SourceState.STALE, "SERVER_BEHIND")
    assert shell.retry().request == List(limit=1)
    assert shell.listed("11").watch.resource_version == "11"
