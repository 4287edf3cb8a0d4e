"""Rules of what is logged: a line for each change, none for a repetition."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.unit.observability.speaker import FAULT, KEY, SPEC, tell_all
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.model.states import CheckOutcome, SourceState
from watchcache_server.observability.log_reporter import LogReporter

PENDING, SYNCING, LIVE = SourceState.PENDING, SourceState.SYNCING, SourceState.LIVE
FORBIDDEN, UNREACHABLE, STOPPED = (
    SourceState.FORBIDDEN,
    SourceState.UNREACHABLE,
    SourceState.STOPPED,
)


class Log:
    """Keeps the lines that people see, and those for whoever wants every detail, apart."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []
        self.details: list[str] = []

    def debug(self, text: str, **fields: Any) -> None:
        self.details.append(text)

    def __getattr__(self, level: str) -> Any:
        return lambda text, **fields: self.lines.append((level, text, fields))

    @property
    def texts(self) -> list[str]:
        """The texts of the lines that people see."""
        return [text for _, text, _ in self.lines]


class Timer:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def log() -> Log:
    """Give an empty log."""
    return Log()


@pytest.fixture
def timer() -> Timer:
    """Give a clock."""
    return Timer()


@pytest.fixture
def reporter(log: Log, timer: Timer) -> LogReporter:
    """Give a reporter that writes to that log by that clock."""
    return LogReporter(log, clock=timer)


def go(reporter: LogReporter, *states: SourceState, reason: str = "") -> None:
    """Let an informer go through states."""
    for before, after in itertools.pairwise(states):
        reporter.source_state_changed(KEY, SPEC, before, after, reason, "needs list")


def test_a_failing_informer_is_told_with_all_that_a_person_needs(
    log: Log, reporter: LogReporter
) -> None:
    """Extension, cluster, resource, namespace, state, reason, and the sentence that says it."""
    go(reporter, SYNCING, FORBIDDEN, reason="VERBS_MISSING")
    [(level, text, fields)] = log.lines
    assert (level, text) == ("warning", "informer is not live")
    assert fields == {
        "extension": "team-a/shop",
        "cluster": "hub",
        "resource": "deployments.apps",
        "namespace": "team-a",
        "state": "forbidden",
        "reason": "VERBS_MISSING",
        "message": "needs list",
    }


def test_what_differs_from_its_api_server_is_told_each_time(
    log: Log, reporter: LogReporter
) -> None:
    """With all that was counted; that all is well, or could not be told, is a detail."""
    counts = {"held": 3, "listed": 2, "missing": 0, "outdated": 0, "surplus": 1}
    for outcome in CheckOutcome:
        is_mismatch = outcome is CheckOutcome.MISMATCH
        for _ in range(2):
            reporter.consistency_checked(KEY, SPEC, outcome, "why", counts if is_mismatch else {})
    assert log.lines == 2 * [
        (
            "warning",
            "informer differs from its API server",
            {
                "extension": "team-a/shop",
                "cluster": "hub",
                "resource": "deployments.apps",
                "namespace": "team-a",
                "outcome": "mismatch",
                "message": "why",
                **counts,
            },
        )
    ]
    assert log.details == 6 * ["informer compared with its API server"]


def test_trying_again_in_vain_is_told_once(log: Log, reporter: LogReporter) -> None:
    """An informer that is on its way to where it was is no news."""
    retries = [UNREACHABLE, SYNCING] * 20
    go(reporter, PENDING, SYNCING, *retries, LIVE, reason="NO_CONTACT")
    assert log.texts == ["informer is not live", "informer is live"]


def test_another_reason_is_news(log: Log, reporter: LogReporter) -> None:
    """The state alone does not say what to do."""
    go(reporter, SYNCING, UNREACHABLE, reason="NO_CONTACT")
    go(reporter, UNREACHABLE, SYNCING, UNREACHABLE, reason="THROTTLED")
    assert [fields["reason"] for _, _, fields in log.lines] == ["NO_CONTACT", "THROTTLED"]


def test_reading_again_while_live_is_no_news(log: Log, reporter: LogReporter) -> None:
    """A relist that succeeds leaves the informer as it was."""
    go(reporter, PENDING, SYNCING, LIVE, SYNCING, LIVE, SYNCING, LIVE)
    assert log.texts == ["informer is live"]


def test_failing_again_after_it_was_live_is_news(log: Log, reporter: LogReporter) -> None:
    """What was well between is told each time."""
    go(reporter, LIVE, UNREACHABLE, LIVE, UNREACHABLE, reason="NO_CONTACT")
    assert log.texts == ["informer is not live", "informer is live", "informer is not live"]


@pytest.mark.parametrize("how", ["stopped", "ended"])
def test_what_was_said_is_forgotten_with_its_informer(
    how: str, log: Log, reporter: LogReporter
) -> None:
    """One that is registered anew is told anew."""
    go(reporter, SYNCING, FORBIDDEN, reason="VERBS_MISSING")
    if how == "stopped":
        go(reporter, FORBIDDEN, STOPPED)
    else:
        reporter.extension_ended(KEY, "DEREGISTERED")
    go(reporter, SYNCING, FORBIDDEN, reason="VERBS_MISSING")
    assert log.texts.count("informer is not live") == 2


@pytest.mark.parametrize(
    ("outcome", "lines"),
    [
        pytest.param("created", 1, id="created"),
        pytest.param("updated", 1, id="updated"),
        pytest.param("unchanged", 0, id="unchanged"),
    ],
)
def test_a_register_that_changes_nothing_is_a_detail(
    outcome: str, lines: int, log: Log, reporter: LogReporter
) -> None:
    """Clients register again whenever they reconnect."""
    reporter.extension_registered(KEY, outcome, 3)
    assert len(log.lines) == lines
    assert len(log.lines) + len(log.details) == 1


def test_a_fault_is_told_with_its_traceback_and_its_number(log: Log, reporter: LogReporter) -> None:
    """The caller was told the incident, and it is found by it."""
    reporter.rpc_failed("Register", "c0ffee", FAULT)
    [(level, _, fields)] = log.lines
    assert level == "error"
    assert (fields["incident"], fields["exc_info"]) == ("c0ffee", FAULT)


def test_the_same_fault_of_an_informer_is_told_once_a_minute(
    log: Log, timer: Timer, reporter: LogReporter
) -> None:
    """The next line says how often it happened meanwhile."""
    for timer.now in (0.0, 5.0, 10.0, 59.0, 61.0, 62.0):
        reporter.informer_failed(KEY, SPEC, FAULT)
    assert [fields["repeated"] for _, _, fields in log.lines] == [0, 3]


def test_another_fault_is_told_at_once(log: Log, reporter: LogReporter) -> None:
    """Faults are told apart by extension, informer, type and text."""
    reporter.informer_failed(KEY, SPEC, FAULT)
    reporter.informer_failed(KEY, SPEC, RuntimeError("another text"))
    reporter.informer_failed(KEY, SPEC, ValueError("a fault"))
    reporter.informer_failed(ExtensionKey("team-b", "shop"), SPEC, FAULT)
    assert len(log.lines) == 4


def test_what_is_remembered_is_bounded(log: Log, reporter: LogReporter) -> None:
    """Texts and names without end do not fill the memory; the oldest are forgotten."""
    for number in range(5000):
        reporter.informer_failed(KEY, SPEC, RuntimeError(str(number)))
        reporter.token_failed("hub", "team-a", str(number), "TOKEN_REQUEST_FAILED")
    assert len(reporter._faults) == len(reporter._said) == 2000


def test_a_cluster_is_told_when_it_goes_and_when_it_comes_back(
    log: Log, reporter: LogReporter
) -> None:
    """Each failed request is no line of its own."""
    reporter.request_answered("hub", "GET", 200, 0.1)
    for _ in range(10):
        reporter.request_failed("hub", "GET", "refused", 0.1)
    reporter.request_answered("hub", "GET", 200, 0.1)
    reporter.request_answered("hub", "GET", 200, 0.1)
    assert log.texts == ["cluster does not answer", "cluster answers again"]


def test_a_token_is_told_when_it_fails_and_when_it_comes(log: Log, reporter: LogReporter) -> None:
    """One that comes as it should is a detail."""
    reporter.token_issued("hub", "team-a", "shop", 3600.0)
    for _ in range(3):
        reporter.token_failed("hub", "team-a", "shop", "TOKEN_REQUEST_FORBIDDEN")
    reporter.token_issued("hub", "team-a", "shop", 3600.0)
    assert log.texts == ["no token", "token issued"]


@pytest.mark.parametrize(
    ("method", "subject", "text"),
    [
        pytest.param("discovery_refreshed", ("hub",), "discovery read", id="discovery"),
        pytest.param("credentials_refreshed", ("hub", "plugin"), "credentials read", id="plugin"),
    ],
)
def test_a_reading_is_told_when_it_goes_otherwise_than_before(
    method: str, subject: tuple[str, ...], text: str, log: Log, reporter: LogReporter
) -> None:
    """Good or bad, the same again is no news."""
    more = (60,) if method == "discovery_refreshed" else ()
    for outcome in ("ok", "ok", "failed", "failed", "ok"):
        getattr(reporter, method)(*subject, outcome, *more)
    assert [(level, told) for level, told, _ in log.lines] == [
        ("info", text),
        ("warning", text),
        ("info", text),
    ]


def test_clocks_are_told_once_while_they_are_apart(log: Log, reporter: LogReporter) -> None:
    """A skew of a second is what a Date header cannot tell from none."""
    for seconds in (0.0, 1.0, -30.0, -31.0, 0.0, 12.0):
        reporter.clock_skew_measured("hub", seconds)
    assert [fields["skew_seconds"] for _, _, fields in log.lines] == [-30, 12]


def test_whoever_wants_every_detail_gets_it(log: Log, reporter: LogReporter) -> None:
    """What happens all the time is there at debug, or not at all for single messages."""
    tell_all(reporter)
    assert {"informer synced", "informer event", "rpc handled"} <= set(log.details)
    assert {"subscriber reset", "watch stream ended, its reader took nothing"} <= set(log.texts)
    assert {"service account was recreated", "token rotated"} <= set(log.texts)


@pytest.mark.parametrize("key", [KEY, None], ids=["Watch", "WatchExtensions"])
def test_a_reader_that_takes_nothing_is_named_as_far_as_it_has_a_name(
    log: Log, key: ExtensionKey | None
) -> None:
    """A stream of extensions belongs to none of them."""
    LogReporter(log).stream_stalled(key)
    [(level, _, fields)] = log.lines
    assert level == "warning"
    assert fields == ({} if key is None else {"extension": str(key)})


def test_tls_files_are_told_when_they_cannot_be_used_and_when_they_can(
    log: Log, reporter: LogReporter
) -> None:
    """With what is wrong; whoever reports them does so once for each change."""
    reporter.tls_changed("hub", "the CA in /etc/ca.crt cannot be used: not PEM")
    reporter.tls_changed("hub", "")
    (first, _, told), (second, _, _) = log.lines
    assert (first, second) == ("warning", "info")
    assert told["problem"] == "the CA in /etc/ca.crt cannot be used: not PEM"


def test_a_storage_that_was_set_back_is_told_to_all(log: Log, reporter: LogReporter) -> None:
    """Other events of informers are details."""
    reporter.informer_counted(SPEC, "relist", "EXPIRED")
    reporter.informer_counted(SPEC, "rewound", "newer_known")
    [(level, text, fields)] = log.lines
    assert (level, text) == ("warning", "the storage of the API server was set back")
    assert fields["cluster"] == SPEC.cluster
