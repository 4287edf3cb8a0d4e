"""The tables of what an answer means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache_server.informer.answers import (
    Outcome,
    Phase,
    Verdict,
    judge,
    retry_after_seconds,
)
from watchcache_server.informer.decoding import StreamError
from watchcache_server.informer.inputs import Answer, Failure
from watchcache_server.informer.reasons import Reason
from watchcache_server.informer.statuses import StatusFields, read_status

_TOO_LARGE = StatusFields(code=504, reason="Timeout", causes=("ResourceVersionTooLarge",))
_RESOURCE_PHASES = [phase for phase in Phase if phase is not Phase.DISCOVERY]


def answer(code: int, status: StatusFields = StatusFields()) -> Answer:  # noqa: B008
    """Return an HTTP answer."""
    return Answer(code=code, status=status)


@pytest.mark.parametrize(
    ("code", "phase", "outcome"),
    [
        pytest.param(301, Phase.LIST, Outcome.RETRY, id="3xx is never followed"),
        pytest.param(400, Phase.LIST, Outcome.BAD_REQUEST, id="400 parks a list"),
        pytest.param(400, Phase.WATCH, Outcome.BAD_REQUEST, id="400 parks a watch"),
        pytest.param(400, Phase.INITIAL, Outcome.LIST_INSTEAD, id="400 to WatchList: list"),
        pytest.param(400, Phase.RELIST, Outcome.RELIST_NEWEST, id="400 to a match: without it"),
        pytest.param(401, Phase.LIST, Outcome.UNAUTHENTICATED, id="401 to a list"),
        pytest.param(401, Phase.WATCH, Outcome.UNAUTHENTICATED, id="401 to a watch"),
        pytest.param(401, Phase.DISCOVERY, Outcome.UNAUTHENTICATED, id="401 to discovery"),
        pytest.param(403, Phase.LIST, Outcome.FORBIDDEN, id="403 to a list"),
        pytest.param(403, Phase.INITIAL, Outcome.FORBIDDEN, id="403 to WatchList"),
        pytest.param(403, Phase.WATCH, Outcome.FORBIDDEN, id="403 to a watch"),
        pytest.param(404, Phase.LIST, Outcome.NOT_FOUND, id="404 to a list"),
        pytest.param(404, Phase.WATCH, Outcome.NOT_FOUND, id="404 to a watch"),
        pytest.param(405, Phase.WATCH, Outcome.REFUSED, id="405"),
        pytest.param(406, Phase.LIST, Outcome.REFUSED, id="406"),
        pytest.param(415, Phase.LIST, Outcome.REFUSED, id="415"),
        pytest.param(410, Phase.WATCH, Outcome.RELIST, id="410 as a status at the watch"),
        pytest.param(410, Phase.RELIST, Outcome.RELIST_NEWEST, id="410 to a list with a version"),
        pytest.param(410, Phase.INITIAL, Outcome.RELIST_NEWEST, id="410 to WatchList"),
        pytest.param(410, Phase.LIST_REST, Outcome.RESTART_LIST, id="410 to a page"),
        pytest.param(413, Phase.INITIAL, Outcome.LIST_INSTEAD, id="413 to WatchList"),
        pytest.param(422, Phase.INITIAL, Outcome.LIST_INSTEAD, id="422 to WatchList"),
        pytest.param(422, Phase.RELIST, Outcome.RELIST_NEWEST, id="422 to a match"),
        pytest.param(413, Phase.LIST, Outcome.REFUSED, id="413 to a list"),
        pytest.param(422, Phase.LIST, Outcome.REFUSED, id="422 to a list"),
        pytest.param(422, Phase.WATCH, Outcome.REFUSED, id="422 to a watch"),
        pytest.param(429, Phase.INITIAL, Outcome.RETRY, id="429 to WatchList: the same again"),
        pytest.param(429, Phase.WATCH, Outcome.RETRY, id="429 to a watch is no relist"),
        pytest.param(500, Phase.LIST, Outcome.RETRY, id="500 to a list: one object fails it all"),
        pytest.param(500, Phase.INITIAL, Outcome.RETRY, id="500 to WatchList"),
        pytest.param(502, Phase.WATCH, Outcome.RETRY, id="502"),
        pytest.param(503, Phase.WATCH, Outcome.RETRY, id="503"),
        pytest.param(504, Phase.RELIST, Outcome.RETRY, id="504"),
        pytest.param(418, Phase.LIST, Outcome.RETRY, id="an unknown status"),
    ],
)
def test_a_status_decides(code: int, phase: Phase, outcome: Outcome) -> None:
    """1.5, row by row."""
    assert judge(phase, answer(code)).outcome is outcome


@pytest.mark.parametrize(
    ("phase", "outcome"),
    [(phase, Outcome.RELIST_NEWEST) for phase in _RESOURCE_PHASES],
)
def test_a_version_from_the_future_asks_for_the_newest(phase: Phase, outcome: Outcome) -> None:
    """1.5: 504 with the cause ResourceVersionTooLarge, or its text alone, drops the version."""
    by_text = read_status(b'{"message":"Too large resource version: 9, current: 5"}')
    assert judge(phase, answer(504, _TOO_LARGE)).outcome is outcome
    assert judge(phase, answer(500, by_text)).outcome is outcome
    assert judge(phase, StreamError(_TOO_LARGE)).outcome is outcome


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        pytest.param(
            StatusFields(code=410, message="m"),
            Verdict(outcome=Outcome.RELIST_NEWEST, reason=Reason.EXPIRED, message="m"),
            id="a Status counts by its own code",
        ),
        pytest.param(
            StatusFields(code=403, reason="Forbidden"),
            Verdict(outcome=Outcome.FORBIDDEN, reason=Reason.VERBS_MISSING, message="Forbidden"),
            id="a reason where there is no message",
        ),
        pytest.param(
            read_status(b"<html>Please log in</html>"),
            Verdict(
                outcome=Outcome.RETRY,
                reason=Reason.CONNECTION_FAILED,
                message="<html>Please log in</html>",
            ),
            id="HTML is a fault of the way",
        ),
        pytest.param(
            StatusFields(),
            Verdict(outcome=Outcome.RETRY, reason=Reason.CONNECTION_FAILED, message="status 200"),
            id="nothing usable",
        ),
    ],
)
def test_success_without_a_list_is_an_error(status: StatusFields, verdict: Verdict) -> None:
    """1.5: 200 with a Status is an error by its code; from a proxy it is a failed transport."""
    assert judge(Phase.LIST, answer(200, status)) == verdict


@pytest.mark.parametrize(
    ("body", "phase", "outcome"),
    [
        pytest.param(b'{"code":410,"reason":"Expired"}', Phase.WATCH, Outcome.RELIST, id="410"),
        pytest.param(b'{"reason":"Gone"}', Phase.WATCH, Outcome.RELIST, id="410 by reason"),
        pytest.param(b'{"code":410}', Phase.WATCH, Outcome.RELIST, id="410 by code alone"),
        pytest.param(b'{"code":410}', Phase.INITIAL, Outcome.RELIST_NEWEST, id="410 in WatchList"),
        pytest.param(b'{"code":429}', Phase.WATCH, Outcome.RETRY, id="429"),
        pytest.param(b'{"code":429}', Phase.INITIAL, Outcome.RETRY, id="429 in WatchList"),
        pytest.param(
            b'{"code":500,"reason":"InternalError"}', Phase.WATCH, Outcome.RETRY_BRIEFLY, id="500"
        ),
        pytest.param(
            b'{"code":500,"reason":"StorageReadError"}', Phase.WATCH, Outcome.RELIST, id="storage"
        ),
        pytest.param(
            b'{"code":500}', Phase.INITIAL, Outcome.LIST_INSTEAD, id="no progress requests in etcd"
        ),
        pytest.param(
            b'{"code":504,"reason":"Timeout"}', Phase.WATCH, Outcome.RELIST_NEWEST, id="504"
        ),
        pytest.param(b'{"code":503}', Phase.WATCH, Outcome.RETRY, id="503"),
        pytest.param(b'{"code":503}', Phase.INITIAL, Outcome.RETRY, id="503 in WatchList"),
        pytest.param(b'{"code":401}', Phase.WATCH, Outcome.UNAUTHENTICATED, id="401 from a proxy"),
        pytest.param(b'{"code":403}', Phase.WATCH, Outcome.FORBIDDEN, id="403 from a proxy"),
        pytest.param(b"null", Phase.WATCH, Outcome.UNKNOWN, id="nothing"),
        pytest.param(b'{"code":418}', Phase.WATCH, Outcome.UNKNOWN, id="an unknown code"),
        pytest.param(b"null", Phase.INITIAL, Outcome.LIST_INSTEAD, id="nothing, in WatchList"),
    ],
)
def test_an_error_in_a_stream_decides(body: bytes, phase: Phase, outcome: Outcome) -> None:
    """1.4, row by row."""
    assert judge(phase, StreamError(read_status(body))).outcome is outcome


@pytest.mark.parametrize(
    ("header", "status", "seconds"),
    [
        pytest.param(None, None, 0.0, id="neither"),
        pytest.param(5.0, None, 5.0, id="the header"),
        pytest.param(None, 3.0, 3.0, id="the Status"),
        pytest.param(5.0, 7.0, 7.0, id="the longer of both"),
    ],
)
def test_the_time_to_wait_is_in_the_header_or_the_status(
    header: float | None, status: float | None, seconds: float
) -> None:
    """1.5: 429 says it in either place; plain text from a shutdown filter is no hindrance."""
    given_answer = Answer(
        code=429,
        status=StatusFields(message="shutting down", retry_after_seconds=status),
        retry_after_seconds=header,
    )
    verdict = judge(Phase.WATCH, given_answer)
    assert verdict.retry_after_seconds == seconds
    assert verdict.reason is Reason.THROTTLED


@pytest.mark.parametrize("seconds", [301.0, 86_400.0, 1e300, float("inf")])
def test_nobody_is_obeyed_for_longer_than_minutes(seconds: float) -> None:
    """An answer that was made up, or of a clock set wrong, silences no informer for good."""
    of_header = Answer(code=429, retry_after_seconds=seconds)
    of_status = StreamError(StatusFields(code=503, retry_after_seconds=seconds))
    verdicts = [judge(Phase.WATCH, of_header), judge(Phase.WATCH, of_status)]
    assert [verdict.retry_after_seconds for verdict in verdicts] == [300.0, 300.0]


def test_an_error_in_a_stream_may_say_how_long_to_wait() -> None:
    """1.4: ERROR 429 waits for retryAfterSeconds."""
    status = StatusFields(code=429, retry_after_seconds=4.0)
    assert judge(Phase.WATCH, StreamError(status)).retry_after_seconds == 4.0


@pytest.mark.parametrize(
    ("header", "date", "seconds"),
    [
        pytest.param("5", "", 5.0, id="seconds"),
        pytest.param(" 5 ", "", 5.0, id="seconds and blanks"),
        pytest.param("0", "", 0.0, id="no seconds"),
        pytest.param(
            "Wed, 21 Oct 2026 07:28:30 GMT", "Wed, 21 Oct 2026 07:28:00 GMT", 30.0, id="a date"
        ),
        pytest.param(
            "Wed, 21 Oct 2026 07:27:00 GMT", "Wed, 21 Oct 2026 07:28:00 GMT", 0.0, id="a past date"
        ),
        pytest.param("Wed, 21 Oct 2026 07:28:30 GMT", "", None, id="no date to compare with"),
        pytest.param(
            "Wed, 21 Oct 2026 07:28:30 -0000",
            "Wed, 21 Oct 2026 07:28:00 GMT",
            None,
            id="one date without a time zone",
        ),
        pytest.param("-5", "", None, id="less than nothing"),
        pytest.param(
            "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
            "Wed, 21 Oct 2026 07:28:00 GMT",
            None,
            id="a year beyond all calendars",
        ),
        pytest.param("9" * 400, "", float("inf"), id="more than there is"),
        pytest.param("soon", "", None, id="a word"),
        pytest.param("\u0665", "", None, id="other digits"),
        pytest.param("", "", None, id="nothing"),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, date: str, seconds: float | None) -> None:
    """RFC 9110: both forms; a date counts from the answer's own Date, not from our clock."""
    assert retry_after_seconds(header, date) == seconds


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("refused", Reason.CONNECTION_FAILED),
        ("reset", Reason.CONNECTION_FAILED),
        ("dns", Reason.CONNECTION_FAILED),
        ("tls", Reason.CONNECTION_FAILED),
        ("cut", Reason.CONNECTION_FAILED),
        ("idle", Reason.NO_CONTACT),
    ],
)
def test_a_failed_transport_keeps_everything(phase: Phase, word: str, reason: Reason) -> None:
    """1.5: refused, DNS, TLS, reset: back off, keep the version; never a relist."""
    verdict = judge(phase, Failure(reason=word, message="it failed"))
    assert verdict == Verdict(outcome=Outcome.RETRY, reason=reason, message="it failed")


def test_an_error_without_a_word_says_its_code() -> None:
    """There is always something to tell people."""
    assert judge(Phase.WATCH, StreamError(StatusFields())).message == "ERROR without a code"
    assert judge(Phase.WATCH, StreamError(StatusFields(code=500))).message == "ERROR 500"
    assert judge(Phase.WATCH, answer(503)).message == "status 503"


@given(
    phase=st.sampled_from(Phase),
    code=st.integers(100, 600),
    status=st.builds(StatusFields, code=st.integers(0, 600), message=st.text(max_size=5)),
    is_in_stream=st.booleans(),
)
def test_every_answer_has_a_verdict(
    phase: Phase, code: int, status: StatusFields, is_in_stream: bool
) -> None:
    """Whatever comes, something is to happen and there is a sentence for it."""
    verdict = judge(phase, StreamError(status) if is_in_stream else answer(code, status))
    assert verdict.message
    assert verdict.retry_after_seconds >= 0.0
