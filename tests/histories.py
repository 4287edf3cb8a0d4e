"""Short histories of two objects, for the tests of who judges histories."""

from __future__ import annotations

from tests.history_records import Batch, Change, Key, Kind, Record, Started, Synced

__all__ = [
    "DB",
    "GOLD",
    "RESUMED",
    "SILVER",
    "SNAPSHOT",
    "WEB",
    "batch",
    "change",
    "coalesced",
    "snapshot",
]

WEB = Key("hub", "apps", "deployments", "a", "web")
DB = Key("hub", "", "pods", "a", "db")

SNAPSHOT, RESUMED = Started(is_resumed=False), Started(is_resumed=True)
GOLD, SILVER = {"tier": "gold"}, {"tier": "silver"}


def change(
    kind: str,
    revision: int,
    uid: str = "uid-1",
    version: str = "1",
    *,
    key: Key = WEB,
    reason: str | None = None,
) -> Change:
    """Make an event."""
    if reason is None:
        reason = "SELECTION" if kind == "LEFT" else ""
    return Change(Kind(kind), key, uid, version, revision, reason)


def batch(*changes: Change, has_token: bool = True) -> Batch:
    """Make a batch."""
    return Batch(changes, has_token)


def coalesced(*changes: Change) -> Batch:
    """Make a batch whose events stand for several changes each."""
    return Batch(changes, has_token=True, is_coalesced=True)


def snapshot(*changes: Change) -> list[Record]:
    """Make a whole snapshot."""
    return [SNAPSHOT, batch(*changes, has_token=False), Synced()]
