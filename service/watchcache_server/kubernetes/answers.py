"""Whole answers to one-off calls, and what a Status body in them says.

The answers of lists and watches are streamed and judged elsewhere; these are the small ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from watchcache_server.kubernetes.errors import StatusError
from watchcache_server.kubernetes.json_reading import JsonError, read_json

__all__ = ["Answer"]

_MAX_TEXT = 500
# Nobody is let keep the service from asking again for longer.
_MAX_WAIT_SECONDS = 300.0


class _Details(msgspec.Struct):
    retry_after_seconds: float | None = msgspec.field(default=None, name="retryAfterSeconds")


class _Status(msgspec.Struct):
    kind: str | None = None
    message: str | None = None
    reason: str | None = None
    details: _Details | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and the whole body, which is not shown."""

    code: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"<Answer {self.code}, {len(self.body)} bytes>"

    @property
    def is_success(self) -> bool:
        """Whether the call did what it should."""
        return 200 <= self.code < 300

    def error(self, cluster: str, action: str) -> StatusError:
        """Return the error that says what the API server said; `action` is what was asked of it."""
        status = self._status()
        retry_after = status.details.retry_after_seconds if status.details else None
        header = self.headers.get("Retry-After", "")
        if retry_after is None and header.isascii() and header.isdigit():
            retry_after = float(header)
        return StatusError(
            cluster,
            action,
            code=self.code,
            status_reason=status.reason or "",
            text=(status.message or "")[:_MAX_TEXT],
            retry_after_seconds=None
            if retry_after is None
            else min(retry_after, _MAX_WAIT_SECONDS),
        )

    def _status(self) -> _Status:
        try:
            status = read_json(self.body, _Status)
        except JsonError:
            return _Status()
        return status if status.kind == "Status" else _Status()
