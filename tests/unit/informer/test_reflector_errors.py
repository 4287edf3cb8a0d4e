"""Rules of failing requests: waits, states, and what stays untouched (informers 1.5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.informer.shell import (
    PODS,
    Shell,
    added,
    bookmark,
    error,
    initial_end,
    item,
    modified,
)
from watchcache_server.informer.backoff import BackoffSettings
from watchcache_server.informer.bodies import ListMetadata
from watchcache_server.informer.effects import Discover, List, RefreshToken, SetState
from watchcache_server.informer.errors import MalformedError
from watchcache_server.informer.inputs import TokenProblem
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.model.states import SourceState

LISTING = 3600.0
_STORE = {"a": "3", "b": "7"}


def reconnecting() -> Shell:
    """Return a shell that held objects and asks for a watch."""
    shell = Shell().live().pass_time(20.0).eof()
    assert shell.store == _STORE
    return shell


@pytest.mark.parametrize("reason", ["refused", "dns", "tls", "reset", "connect_timeout"])
@pytest.mark.parametrize("is_synced", [True, False])
def test_a_failed_transport_keeps_the_position(reason: str, is_synced: bool) -> None:
    """1.5: back off, keep the version; a refused connection is no reason to list again."""
    shell = reconnecting() if is_synced else Shell().start()
    asked = shell.request
    shell.failure(reason, "no way")
    assert shell.wait == 0.8
    assert shell.state is (SourceState.STALE if is_synced else SourceState.UNREACHABLE)
    assert shell.retry().request == asked
    assert shell.store == (_STORE if is_synced else {})


@pytest.mark.parametrize("code", [500, 502, 503, 504])
@pytest.mark.parametrize("is_synced", [True, False])
def test_a_server_error_keeps_the_position(code: int, is_synced: bool) -> None:
    """Row 40: 5xx: keep the data, back off, say what the server said, and never stop trying."""
    shell = reconnecting() if is_synced else Shell().start()
    asked = shell.request
    shell.answer(code, message="conversion webhook failed")
    assert shell.state is (SourceState.STALE if is_synced else SourceState.UNREACHABLE)
    assert shell.reason == "SERVER_ERROR"
    assert "conversion webhook failed" in shell.message
    assert shell.retry().request == asked


@pytest.mark.parametrize(
    "failures",
    [
        pytest.param(["refused"] * 9, id="transport"),
        pytest.param([500, "refused", 429, 503, "dns", 502, 500, "cut", 504], id="a mixture"),
    ],
)
def test_one_timer_serves_all_failures(failures: list[str | int]) -> None:
    """Row 46: list and watch, transport and status share one backoff."""
    shell = Shell(list_seconds=LISTING).start()
    waits = []
    for failure in failures:
        if isinstance(failure, int):
            shell.answer(failure)
        else:
            shell.failure(failure)
        waits.append(shell.wait)
        shell.retry()
    assert waits == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 30.0])


def test_a_success_does_not_reset_the_timer() -> None:
    """Rows 45 and 46: a server that fails every other time gets no hot loop."""
    shell = Shell().start().failure("refused").retry().sync().pass_time(2.0)
    assert shell.failure("reset").wait == 1.6


def test_health_resets_the_timer() -> None:
    """1.5: two minutes without a failure."""
    shell = Shell().start().failure("refused").retry().sync()
    for _ in range(4):
        shell.pass_time(40.0).eof().opened().events(modified("a", "11"))
    assert shell.failure("reset").wait == 0.8


@pytest.mark.parametrize(
    ("retry_after", "in_status", "wait"),
    [
        pytest.param(5.0, None, 5.0, id="in the header"),
        pytest.param(None, 7.0, 7.0, id="in the Status"),
        pytest.param(0.1, None, 0.8, id="less than the backoff"),
        pytest.param(None, None, 0.8, id="nowhere"),
    ],
)
@pytest.mark.parametrize("code", [429, 503])
def test_the_longer_of_retry_after_and_backoff_counts(
    code: int, retry_after: float | None, in_status: float | None, wait: float
) -> None:
    """1.5: wherever the server says it."""
    shell = reconnecting()
    shell.answer(code, retry_after=retry_after, retry_after_seconds=in_status)
    assert shell.wait == pytest.approx(wait)
    assert shell.retry().watch.resource_version == "10", "and no relist"


@pytest.mark.parametrize("is_synced", [True, False])
def test_throttling_is_not_unreachable(is_synced: bool) -> None:
    """A server that asks for patience is there: a first sync is still under way."""
    shell = reconnecting() if is_synced else Shell().start()
    shell.answer(429, message="too many requests")
    assert shell.state is (SourceState.STALE if is_synced else SourceState.SYNCING)
    assert shell.reason == "THROTTLED"


ENDLESS: dict[str, Callable[[Shell], object]] = {
    "429": lambda shell: shell.answer(429, message="the webhook is down"),
    "429 that asks for minutes": lambda shell: shell.answer(
        429, retry_after=250.0, message="the webhook is down"
    ),
    "504 that the version is too large": lambda shell: shell.answer(
        504, causes=("ResourceVersionTooLarge",), message="the webhook is down"
    ),
    "410": lambda shell: shell.answer(410, message="the webhook is down"),
}


@pytest.mark.parametrize("case", ENDLESS)
@pytest.mark.parametrize("list_seconds", [0.0, LISTING])
def test_a_first_sync_that_fails_for_long_holds_nobody_up(case: str, list_seconds: float) -> None:
    """Whatever the failure is taken for, after 15 s it is one, with the words of the server.

    So a CRD whose conversion webhook is down keeps no one waiting for the other kinds.
    """
    shell = Shell(list_seconds=list_seconds).start()
    began = shell.now
    while shell.now < began + 15.0:
        if shell.request is not None:
            ENDLESS[case](shell)
        if shell.request is None:
            shell.timer()
    shell.pass_time(15.0)
    assert shell.now - began < 60.0
    assert shell.state is SourceState.UNREACHABLE
    assert "the webhook is down" in shell.message
    for _ in range(5):
        if shell.request is None:
            shell.retry()
        ENDLESS[case](shell)
        assert shell.state is SourceState.UNREACHABLE, "and it does not come and go"


def test_a_first_sync_that_failed_for_long_succeeds_by_itself() -> None:
    """It is tried on, and the first state ends it; the next failure is one of a live informer."""
    shell = Shell().start().answer(429).pass_time(0.0)
    while shell.state is not SourceState.UNREACHABLE:
        if shell.request is None:
            shell.timer()
        else:
            shell.answer(429)
    if shell.request is None:
        shell.retry()
    shell.opened().events(added("a", "3"))
    assert shell.state is SourceState.UNREACHABLE, "it has no state yet"
    shell.events(initial_end("10"))
    assert shell.state is SourceState.LIVE
    shell.events(error(429)).retry().answer(429)
    assert shell.state is SourceState.STALE


def test_a_first_sync_whose_objects_come_has_not_failed() -> None:
    """One failure, and then a list that takes minutes."""
    shell = Shell(list_seconds=LISTING).start().answer(429).retry()
    for number in range(10):
        shell.items(item(f"object-{number}", "3")).pass_time(10.0)
        assert shell.state is SourceState.SYNCING
    assert shell.listed("10").state is SourceState.LIVE


def test_an_attempt_that_hangs_is_not_waited_for() -> None:
    """After a failure, a request that nobody answers counts as one after 15 s."""
    shell = Shell().start().answer(429).retry()
    shell.pass_time(14.0)
    assert shell.state is SourceState.SYNCING
    shell.pass_time(2.0)
    assert shell.state is SourceState.UNREACHABLE


def test_html_instead_of_a_list_is_a_fault_of_the_way() -> None:
    """1.5: a captive portal answers 200."""
    shell = Shell(list_seconds=LISTING).start().answer(200, message="<html> log in")
    assert (shell.state, shell.reason) == (SourceState.UNREACHABLE, "CONNECTION_FAILED")


def test_a_bad_request_is_parked_for_minutes() -> None:
    """1.5: 400 is our bug or a field selector that the server does not know."""
    shell = Shell(list_seconds=LISTING).start()
    shell.answer(400, message="field label not supported: spec.foo")
    assert shell.wait >= 300.0
    assert (shell.state, shell.reason) == (SourceState.UNREACHABLE, "BAD_REQUEST")
    assert "field label not supported: spec.foo" in shell.message
    assert shell.retry().request == List(limit=500)


def test_a_bad_request_keeps_the_data() -> None:
    """400 to a watch that ran before."""
    shell = reconnecting().answer(400)
    assert (shell.state, shell.reason) == (SourceState.STALE, "BAD_REQUEST")
    assert shell.store == _STORE


def test_a_bad_request_that_was_a_good_one_is_not_parked() -> None:
    """What was answered before is refused by somebody on the way: it is asked again soon."""
    shell = reconnecting().answer(400)
    assert shell.wait == 0.8
    assert shell.retry().opened().events(bookmark("11")).state is SourceState.LIVE


def test_a_watch_list_that_is_a_bad_request_is_one_as_a_list() -> None:
    """A field selector that the server does not know first costs a list, then is reported."""
    shell = Shell().start().answer(400).answer(400)
    assert shell.reason == "BAD_REQUEST"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (405, "VERB_NOT_SERVED"),
        (406, "REQUEST_REFUSED"),
        (415, "REQUEST_REFUSED"),
        (422, "REQUEST_REFUSED"),
    ],
)
@pytest.mark.parametrize("is_synced", [True, False])
def test_what_the_server_does_for_nobody_waits_for_discovery(
    code: int, reason: str, is_synced: bool
) -> None:
    """1.5: permanent for this resource until it is served differently."""
    shell = reconnecting() if is_synced else Shell(list_seconds=LISTING).start()
    for _ in range(9):
        shell.answer(code)
        assert shell.state is (SourceState.STALE if is_synced else SourceState.GONE)
        assert shell.reason == reason
        assert shell.wait <= 15.0
        assert shell.store == (_STORE if is_synced else {})
        assert shell.retry().request == Discover(is_fresh=True)
        shell.discovered()


def test_a_relist_with_a_match_that_is_refused_goes_without() -> None:
    """1.5: 422: the match is unsupported, so ask for the newest state."""
    shell = Shell(list_seconds=LISTING).start().listed("10").opened().pass_time(20.0)
    shell.answer(410)
    assert shell.list.match == "NotOlderThan"
    shell.answer(422)
    assert shell.request == List(limit=500)


def test_the_newest_state_that_is_not_to_be_had_is_not_hurried() -> None:
    """410 to a list without a version makes no sense, and must not become a hot loop."""
    shell = Shell(list_seconds=LISTING).start().answer(410)
    assert shell.request is None
    assert shell.wait == 0.8
    assert shell.state is SourceState.SYNCING


def test_a_version_from_the_future_waits_and_asks_for_the_newest() -> None:
    """1.1: the server lags behind; it says so after 3 s and asks for a second of patience."""
    shell = Shell(list_seconds=LISTING).start().listed("10").opened().pass_time(20.0)
    shell.answer(410).answer(504, causes=("ResourceVersionTooLarge",), retry_after_seconds=1.0)
    assert shell.wait == 1.0
    assert shell.retry().request == List(limit=500)


def test_discovery_that_fails_is_tried_again() -> None:
    """Row 67: a failing aggregated API is a failure of this informer, and of no other."""
    shell = Shell().started().answer(503, message="unavailable")
    assert (shell.state, shell.reason) == (SourceState.UNREACHABLE, "SERVER_ERROR")
    assert "discovery failed" in shell.message
    assert shell.retry().request == Discover(is_fresh=False)
    shell.failure("dns").retry()
    assert shell.request == Discover(is_fresh=False)


def test_a_list_that_cannot_be_read_is_tried_again() -> None:
    """The store stays, and the state says why it is old."""
    shell = Shell(list_seconds=LISTING).start().listed("10").opened().pass_time(20.0)
    shell.answer(410)
    for _ in range(7):
        shell.items(item("a", "3")).broken(MalformedError("bad")).retry()
        assert (shell.state, shell.reason) == (SourceState.STALE, "UNDECODABLE")
    assert shell.version == "10"


def test_the_next_attempt_is_published_with_every_failure() -> None:
    """People see when it tries again."""
    shell = Shell().start()
    for seconds in (0.8, 1.6, 3.2):
        shell.failure("refused")
        assert shell.published is not None
        assert shell.published.next_attempt_seconds == pytest.approx(seconds)
        shell.retry()
        assert not shell.has(SetState), "asking is no news"


def test_messages_name_the_thing_and_cut_what_was_said() -> None:
    """Resource, namespace and cluster; of a foreign text one short line."""
    shell = Shell(namespace="team-a").start().answer(500, message="x" * 9999 + "\nsecond line")
    assert shell.message.startswith("pods in namespace team-a of cluster hub: watch failed (xxx")
    assert len(shell.message) < 400
    assert "\n" not in shell.message
    other = Shell().start().failure("refused", "connection refused")
    assert other.message == (
        "pods in all namespaces of cluster hub: watch failed (connection refused)"
    )


def test_figures_are_settings() -> None:
    """The named settings are what counts."""
    settings = ReflectorSettings(backoff=BackoffSettings(first_seconds=0.1))
    shell = Shell(settings=settings).start().failure("refused")
    assert shell.wait == 0.1


# Stop


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param(Shell(), id="before the start"),
        pytest.param(Shell().started(), id="discovering"),
        pytest.param(Shell(list_seconds=LISTING).start().items(item("a", "3")), id="listing"),
        pytest.param(Shell().live(), id="watching"),
        pytest.param(Shell().start().failure("refused"), id="waiting"),
    ],
)
def test_a_stop_is_the_end(shell: Shell) -> None:
    """Rows 63 and 85: it closes what runs, forgets what it collected, and never asks again."""
    shell.stop()
    assert shell.request is None
    assert shell.staging is None
    assert shell.state is SourceState.STOPPED
    reflector, moment = shell.reflector, {"now": shell.now + 999.0, "jitter": 0.0}
    assert reflector.on_timer(**moment) == []
    assert reflector.stop(**moment) == []
    assert reflector.start(**moment) == []
    assert reflector.reopen(**moment) == []
    assert reflector.on_opened(**moment) == []
    assert reflector.on_eof(**moment) == []
    assert reflector.on_events([modified("a", "4")], **moment) == []
    assert reflector.on_items([item("a", "4")], **moment) == []
    assert reflector.on_listed(ListMetadata(resource_version="4"), **moment) == []
    assert reflector.on_discovered(PODS, **moment) == []
    assert reflector.on_token(None, **moment) == []
    assert reflector.on_token(TokenProblem(reason="R", message="m"), **moment) == []


def test_answers_to_nothing_are_not_taken() -> None:
    """An answer that comes when nothing was asked changes nothing."""
    shell = Shell().start().failure("refused")
    assert shell.answer(410).effects == []
    assert shell.failure("reset").effects == []
    assert shell.broken(MalformedError("bad")).effects == []


def test_its_text_shows_where_it_stands() -> None:
    """One line tells a debugger resource, state, request and position."""
    shell = Shell().live()
    assert repr(shell.reflector) == "<Reflector pods live watch <Position 10>>"
    assert shell.reflector.condition.state is SourceState.LIVE
    assert repr(shell.reflector._timers) == "<Timers {'reopen': 1045.0}>"
    assert repr(shell.reflector._troubles) == "<Troubles {}>"


def test_a_token_problem_is_not_an_answer_to_a_token() -> None:
    """Only a refreshed token goes on."""
    shell = Shell().start().answer(401)
    assert shell.request == RefreshToken()
    assert shell.failure("refused").retry().request == RefreshToken()
