"""A remedy: whether a mismatch is mended by listing anew, or is one that this does not mend.

A source that differs from its API server is listed anew, once. If the next check finds the same
again, a list is of no use: the server answers lists and watches differently. Then it is only tried
again after ever more checks.
"""

from __future__ import annotations

from typing import Final

from watchcache_server.informer.audit import Finding

__all__ = ["Remedy"]

_MOST_CHECKS: Final = 64


class Remedy:
    """The mismatches of one source, one after the other."""

    __slots__ = ("_last", "_seen")

    def __init__(self) -> None:
        self._last: Finding | None = None
        self._seen = 0

    def is_due(self, finding: Finding) -> bool:
        """Take a mismatch; return whether to list anew."""
        is_again = self._last is not None and finding.is_like(self._last)
        self._seen = self._seen + 1 if is_again else 1
        self._last = finding
        seen = self._seen
        if seen > _MOST_CHECKS:
            return seen % _MOST_CHECKS == 0
        # The first time, and the 4th, 8th, 16th...
        return seen == 1 or (seen >= 4 and seen & (seen - 1) == 0)
