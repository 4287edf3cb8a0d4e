"""Whole answers to one-off calls, and what a Status body in them says.

The answers of lists and watches are streamed and judged elsewhere; these are the small ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from watchcache_server.informer.answers import retry_after_seconds
from watchcache_server.informer.statuses import read_status
from watchcache_server.kubernetes.errors import StatusError

__all__ = ["Answer"]

# Nobody is let keep the service from asking again for longer.
_MAX_WAIT_SECONDS = 300.0


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
        status = read_status(self.body, is_strict=True)
        header = self.headers.get("Retry-After", "")
        waits = (
            status.retry_after_seconds,
            retry_after_seconds(header, self.headers.get("Date", "")),
        )
        wait_seconds = max((wait for wait in waits if wait is not None), default=None)
        return StatusError(
            cluster,
            action,
            code=self.code,
            status_reason=status.reason,
            text=status.message,
            retry_after_seconds=None
            if wait_seconds is None
            else min(wait_seconds, _MAX_WAIT_SECONDS),
        )
