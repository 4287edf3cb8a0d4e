"""What the reflector is told: the answers, failures and findings of the requests it asked for."""

from __future__ import annotations

import msgspec

from watchcache_server.informer.statuses import StatusFields

__all__ = ["Answer", "Failure", "NotServed", "Overlapping", "TokenProblem"]


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An HTTP answer that is no success, or a Status where a list was expected.

    `status` is what `read_status` made of the body, also when that is plain text or HTML.
    `retry_after_seconds` is what the Retry-After header says (`retry_after_seconds()` reads it).
    """

    code: int
    status: StatusFields = StatusFields()
    retry_after_seconds: float | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """No answer, or one that broke off: the reason and the sentence of the transport."""

    reason: str
    message: str


class NotServed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Discovery says that there is no such resource; `message` may say what there is instead."""

    message: str = ""


class Overlapping(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Discovery says that it is a resource which another entry of the spec watches already."""

    message: str


class TokenProblem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """There are no credentials to ask with; `reason` is stable, `message` is for people."""

    reason: str
    message: str
