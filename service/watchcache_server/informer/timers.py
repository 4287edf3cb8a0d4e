"""The deadlines of one informer, of which the earliest is the one timer that the shell keeps."""

from __future__ import annotations

import enum

__all__ = ["Deadline", "Timers"]


class Deadline(enum.Enum):
    """What is due, in the order in which it is dealt with when several are."""

    # Data whose right was lost is no longer served.
    PURGE = "purge"
    # The initial events of a watch have stalled.
    INITIAL = "initial"
    # A watch has stayed open long enough to count as working.
    SETTLE = "settle"
    # A watch must be opened again, which is the check of its right.
    REOPEN = "reopen"
    # A first sync has failed for so long that nobody waits for it any more.
    PATIENCE = "patience"
    # The wait before the next request is over.
    RETRY = "retry"


class Timers:
    """Deadlines in monotonic seconds."""

    __slots__ = ("_armed", "_at")

    def __init__(self) -> None:
        self._at: dict[Deadline, float] = {}
        self._armed: float | None = None

    def __repr__(self) -> str:
        return f"<Timers { ({deadline.value: at for deadline, at in self._at.items()}) }>"

    def set(self, deadline: Deadline, at: float) -> None:
        """Set a deadline, in place of what it was."""
        self._at[deadline] = at

    def clear(self, *deadlines: Deadline) -> None:
        """Forget deadlines."""
        for deadline in deadlines:
            self._at.pop(deadline, None)

    def at(self, deadline: Deadline) -> float | None:
        """Return when it is due, if it is set."""
        return self._at.get(deadline)

    def take_due(self, now: float) -> Deadline | None:
        """Remove and return the first that is due; to be called when the timer has fired.

        One at a time: dealing with one may clear others.
        """
        self._armed = None
        for deadline in Deadline:
            if deadline in self._at and self._at[deadline] <= now:
                del self._at[deadline]
                return deadline
        return None

    def arm(self, now: float) -> float | None:
        """Return the seconds for which the timer must be set anew; None if it stands right.

        A timer that fires too early does no harm, so it is set anew for an earlier deadline only.
        """
        earliest = min(self._at.values(), default=None)
        if earliest is None or (self._armed is not None and self._armed <= earliest):
            return None
        self._armed = earliest
        return max(0.0, earliest - now)
