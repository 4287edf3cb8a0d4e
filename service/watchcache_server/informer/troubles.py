"""Counts what may happen a few times before more is to be done about it."""

from __future__ import annotations

from watchcache_server.informer.reflector_settings import ReflectorSettings

__all__ = ["Troubles"]


class Troubles:
    """Each method notes one trouble and says whether its limit is reached; then it counts anew."""

    __slots__ = ("_counts", "_settings", "_since", "_undecodable_at")

    def __init__(self, settings: ReflectorSettings) -> None:
        self._settings = settings
        self._counts: dict[str, int] = {}
        # When those began whose limit is a time.
        self._since: dict[str, float] = {}
        self._undecodable_at = ""

    def __repr__(self) -> str:
        return f"<Troubles {self._counts}>"

    def quick_end(self) -> bool:
        """Note a watch that ended at once and without an event."""
        return self._count("quick_end", self._settings.quick_end_limit)

    def unknown_error(self) -> bool:
        """Note an error that says nothing."""
        return self._count("unknown_error", self._settings.unknown_error_limit)

    def initial_failure(self) -> bool:
        """Note that a watch broke off before it had sent the present state."""
        return self._count("initial_failure", self._settings.initial_failure_limit)

    def undecodable(self, version: str) -> bool:
        """Note bytes that cannot be used, at this version."""
        if version != self._undecodable_at:
            self._undecodable_at = version
            self._counts.pop("undecodable", None)
        return self._count("undecodable", self._settings.undecodable_limit)

    def internal_error(self, now: float) -> bool:
        """Note an internal error of the server; the limit is a time since the first of them."""
        is_reached = self._lasts("internal_error", now, self._settings.internal_error_seconds)
        if is_reached:
            del self._since["internal_error"]
        return is_reached

    def vanished(self, now: float) -> bool:
        """Note a look that found no such kind; the limit is a time since the first of them."""
        return self._lasts("vanished", now, self._settings.vanished_seconds)

    def found(self) -> None:
        """Note that the kind is there."""
        self._since.pop("vanished", None)

    def put_off(self, now: float) -> bool:
        """Note that a watch was put off; the limit is a time since the first of them."""
        return self._lasts("put_off", now, self._settings.first_sync_patience_seconds)

    def opened(self) -> None:
        """Note that a watch was not put off."""
        self._since.pop("put_off", None)

    def settle(self) -> None:
        """Note that a watch stays open."""
        self._counts.pop("quick_end", None)

    def progress(self) -> None:
        """Note a live event or bookmark: all is well again."""
        self._counts.clear()
        self._since.clear()

    def _lasts(self, trouble: str, now: float, seconds: float) -> bool:
        return now - self._since.setdefault(trouble, now) >= seconds

    def _count(self, trouble: str, limit: int) -> bool:
        count = self._counts.get(trouble, 0) + 1
        is_reached = count >= limit
        self._counts[trouble] = 0 if is_reached else count
        return is_reached
