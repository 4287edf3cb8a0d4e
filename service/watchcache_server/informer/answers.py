"""What an answer means: the one place that decides what happens after an error.

`judge` takes what came back and in which phase of the informer, and returns a verdict. It knows
nothing of counters, time or positions: that a third unknown error leads to a relist, say, is the
reflector's.
"""

from __future__ import annotations

import enum
from email.utils import parsedate_to_datetime

import msgspec

from watchcache_server.informer.decoding import StreamError
from watchcache_server.informer.inputs import Answer, Failure
from watchcache_server.informer.reasons import Reason
from watchcache_server.informer.statuses import StatusFields

__all__ = ["Outcome", "Phase", "Verdict", "judge", "retry_after_seconds"]


class Phase(enum.Enum):
    """What was asked."""

    DISCOVERY = "discovery"
    # The first page of a list that asks for the newest state.
    LIST = "list"
    # A list that asks for a state not older than the one known.
    RELIST = "relist"
    # A further page.
    LIST_REST = "list_rest"
    # A watch that begins with the present state, until that has ended.
    INITIAL = "initial"
    WATCH = "watch"


class Outcome(enum.Enum):
    """What is to happen. None of them empties the store."""

    # Wait, then ask the same again.
    RETRY = "retry"
    # The same for some time, then list anew.
    RETRY_BRIEFLY = "retry_briefly"
    # The same, and list anew the third time.
    UNKNOWN = "unknown"
    # List anew, not older than the last known state.
    RELIST = "relist"
    # List anew, whatever the newest state is.
    RELIST_NEWEST = "relist_newest"
    # The rest of the list is lost: begin it again.
    RESTART_LIST = "restart_list"
    # The server does not know how to begin a watch with the present state: list.
    LIST_INSTEAD = "list_instead"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    # Ask discovery whether the resource is still there.
    NOT_FOUND = "not_found"
    # Never answered otherwise while the server stays as it is.
    REFUSED = "refused"
    # The request is wrong: ask again after minutes.
    BAD_REQUEST = "bad_request"


class Verdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is to happen and why; `message` is what the server or the transport said."""

    outcome: Outcome
    reason: Reason
    message: str = ""
    retry_after_seconds: float = 0.0


# Failures other than those of the connection.
_OF_FAILURE = {
    "idle": Reason.NO_CONTACT,
    "status": Reason.SERVER_ERROR,
    "discovery_unreadable": Reason.SERVER_ERROR,
    "stuck_list": Reason.SERVER_ERROR,
}

# Nobody is let keep an informer from asking again for longer.
_LONGEST_WAIT_SECONDS = 300.0

# The same in every phase, whether as an HTTP status or inside a stream.
_BY_CODE = {
    401: (Outcome.UNAUTHENTICATED, Reason.TOKEN_REFUSED),
    403: (Outcome.FORBIDDEN, Reason.VERBS_MISSING),
    404: (Outcome.NOT_FOUND, Reason.NOT_FOUND),
    405: (Outcome.REFUSED, Reason.VERB_NOT_SERVED),
    406: (Outcome.REFUSED, Reason.REQUEST_REFUSED),
    415: (Outcome.REFUSED, Reason.REQUEST_REFUSED),
    429: (Outcome.RETRY, Reason.THROTTLED),
}

_EXPIRED = {
    Phase.WATCH: Outcome.RELIST,
    Phase.LIST_REST: Outcome.RESTART_LIST,
}

# A server that does not know a parameter of ours says one of these: do without the parameter.
_PARAMETER_CODES = (400, 413, 422)
_WITHOUT_PARAMETER = {
    Phase.INITIAL: Outcome.LIST_INSTEAD,
    Phase.RELIST: Outcome.RELIST_NEWEST,
}


def judge(phase: Phase, what: Answer | StreamError | Failure) -> Verdict:
    """Decide what follows from an HTTP answer, an ERROR inside a watch, or a failed transport."""
    if isinstance(what, Failure):
        return Verdict(
            outcome=Outcome.RETRY,
            reason=_OF_FAILURE.get(what.reason, Reason.CONNECTION_FAILED),
            message=what.message,
        )
    status = what.status
    if isinstance(what, StreamError):
        outcome, reason = _decide_in_stream(phase, status)
        retry_after = status.retry_after_seconds
        said = f"ERROR {status.code or 'without a code'}"
    else:
        outcome, reason = _decide_answer(phase, what)
        retry_after = max(what.retry_after_seconds or 0.0, status.retry_after_seconds or 0.0)
        said = f"status {what.code}"
    return Verdict(
        outcome=outcome,
        reason=reason,
        message=status.message or status.reason or said,
        retry_after_seconds=min(retry_after or 0.0, _LONGEST_WAIT_SECONDS),
    )


def _decide_answer(phase: Phase, answer: Answer) -> tuple[Outcome, Reason]:
    # A Status that comes with 200 counts by its own code; HTML with 200 has none.
    code = answer.status.code if answer.code == 200 else answer.code
    known = _decide(phase, code, answer.status)
    if known is not None:
        return known
    if 500 <= code < 600:
        return Outcome.RETRY, Reason.SERVER_ERROR
    # Redirects, captive portals and whatever else does not come from an API server.
    return Outcome.RETRY, Reason.CONNECTION_FAILED


def _decide_in_stream(phase: Phase, status: StatusFields) -> tuple[Outcome, Reason]:
    known = _decide(phase, status.code, status)
    if known is not None:
        return known
    if phase is Phase.INITIAL and status.code not in (502, 503):
        # The server has begun and cannot go on: its storage lacks what it needs for that.
        return Outcome.LIST_INSTEAD, Reason.SERVER_ERROR
    if status.reason == "StorageReadError":
        # An object that cannot be read was removed from the storage: no event tells of it.
        return Outcome.RELIST, Reason.SERVER_ERROR
    if status.code == 504:
        return Outcome.RELIST_NEWEST, Reason.SERVER_ERROR
    if status.code == 500:
        return Outcome.RETRY_BRIEFLY, Reason.SERVER_ERROR
    if 500 < status.code < 600:
        return Outcome.RETRY, Reason.SERVER_ERROR
    return Outcome.UNKNOWN, Reason.SERVER_ERROR


def _decide(phase: Phase, code: int, status: StatusFields) -> tuple[Outcome, Reason] | None:
    if status.is_too_large:
        return Outcome.RELIST_NEWEST, Reason.SERVER_BEHIND
    if code == 410:
        return _EXPIRED.get(phase, Outcome.RELIST_NEWEST), Reason.EXPIRED
    if code in _PARAMETER_CODES:
        default = Outcome.BAD_REQUEST if code == 400 else Outcome.REFUSED
        reason = Reason.BAD_REQUEST if code == 400 else Reason.REQUEST_REFUSED
        return _WITHOUT_PARAMETER.get(phase, default), reason
    return _BY_CODE.get(code)


def retry_after_seconds(header: str, date: str = "") -> float | None:
    """Read a Retry-After header, seconds or a date; None when it says nothing usable.

    A date is compared with the answer's own Date header, so that no clock but the server's counts.
    """
    if header.isascii() and header.strip().isdigit():
        return float(header)
    try:
        wait = parsedate_to_datetime(header) - parsedate_to_datetime(date)
    except (TypeError, ValueError, OverflowError):
        # No dates, none of this calendar, or one with and one without a time zone.
        return None
    return max(0.0, wait.total_seconds())
