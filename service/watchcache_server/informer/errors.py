"""Errors: the ways in which bytes from an API server can be wrong, one class each.

Every one ends the request it was met in and nothing else: the position stays, the store stays,
and the reflector decides whether to ask again. Texts never hold a part of an object.
"""

from __future__ import annotations

from typing import ClassVar

from watchcache_server.informer.statuses import StatusFields

__all__ = [
    "DataError",
    "MalformedError",
    "NotAListError",
    "OverLimitError",
    "StatusAnswerError",
    "TruncatedListError",
    "UnexpectedError",
]


class DataError(Exception):
    """What was received cannot be used; `reason` is stable and fit for a metric label."""

    reason: ClassVar[str] = "data_error"


class OverLimitError(DataError):
    """One event or one item is longer than the limit that the settings give."""

    reason = "over_limit"


class MalformedError(DataError):
    """Not JSON, not UTF-8, or nested deeper than can be read."""

    reason = "malformed"


class UnexpectedError(DataError):
    """Well-formed JSON, but not what was asked for: another kind, a Table, no metadata."""

    reason = "unexpected"


class TruncatedListError(DataError):
    """The body of a list ended before its closing brace: a failed list, never a short one."""

    reason = "truncated_list"


class NotAListError(DataError):
    """The body of a list is something else, a page of a proxy for instance."""

    reason = "not_a_list"


class StatusAnswerError(DataError):
    """The body of a list is a Status although the answer said 200; `status` is to be acted on."""

    reason = "status_answer"

    def __init__(self, status: StatusFields) -> None:
        super().__init__(f"a Status instead of a list: {status.message or status.reason}")
        self.status = status
