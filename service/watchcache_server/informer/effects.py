"""What the reflector asks for: plain values that one small shell performs, in the order given.

Requests (`Discover`, `RefreshToken`, `List`, `Watch`) are answered through an input of the
reflector; at most one is under way at any time. Everything else is done at once and not answered,
except that `Wait` ends in `on_timer`.
"""

from __future__ import annotations

import msgspec

from watchcache_server.informer.objects import Delta, Item
from watchcache_server.model.states import LeftReason, SourceState

__all__ = [
    "Advance",
    "Apply",
    "CloseStream",
    "CommitSync",
    "Count",
    "DiscardSync",
    "Discover",
    "Effect",
    "List",
    "Purge",
    "RefreshToken",
    "Remember",
    "Request",
    "SetState",
    "Stage",
    "Unstage",
    "Wait",
    "Watch",
]


class Discover(msgspec.Struct, frozen=True, gc=False):
    """Find out how the resource is served; `is_fresh` rules out an answer from before now."""

    is_fresh: bool


class RefreshToken(msgspec.Struct, frozen=True, gc=False):
    """The token was refused: get another one, shared by all streams of the identity."""


class List(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Ask for a page of the list. Empty and None mean that the parameter is not sent."""

    resource_version: str = ""
    match: str = ""
    limit: int | None = None
    continue_token: str = ""


class Watch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Ask for a watch with bookmarks. Empty and None mean that the parameter is not sent.

    `timeout_seconds` is the server's limit; `inactivity_seconds` is how long nothing at all may
    come before the connection counts as dead. `response_seconds` is how long the answer may take,
    None for as long as any may.
    """

    resource_version: str
    timeout_seconds: int
    inactivity_seconds: float
    send_initial_events: bool = False
    match: str = ""
    response_seconds: float | None = None


class Wait(msgspec.Struct, frozen=True, gc=False):
    """Call `on_timer` after so many seconds; the one timer, set anew each time."""

    seconds: float


class CloseStream(msgspec.Struct, frozen=True, gc=False):
    """End the request under way; nothing of it may come in any more."""


class Stage(msgspec.Struct, frozen=True, gc=False):
    """Collect these objects beside the store."""

    items: list[Item]


class Unstage(msgspec.Struct, frozen=True, gc=False):
    """Take these objects out of the collection again."""

    items: list[Item]


class CommitSync(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Put the collection, which may be empty, in the place of what the store holds.

    It is the state at `resource_version`.
    """

    resource_version: str


class DiscardSync(msgspec.Struct, frozen=True, gc=False):
    """Forget the collection: the sync failed."""


class Apply(msgspec.Struct, frozen=True, gc=False):
    """Apply these changes, in this order; with them the store is at this version."""

    deltas: list[Delta]
    resource_version: str


class Advance(msgspec.Struct, frozen=True, gc=False):
    """Without any change the store is at this version."""

    resource_version: str


class SetState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Publish the state of the informer.

    `missing_verbs` are those that the ServiceAccount needs and was refused. `next_attempt_seconds`
    is when the next request goes out if none is under way.
    """

    state: SourceState
    reason: str
    message: str
    missing_verbs: tuple[str, ...] = ()
    next_attempt_seconds: float | None = None


class Purge(msgspec.Struct, frozen=True, gc=False):
    """Drop every object, and tell the subscribers why."""

    reason: LeftReason


class Remember(msgspec.Struct, frozen=True, gc=False):
    """Start every informer of this resource in this cluster with a list, for so many seconds."""

    list_seconds: float


class Count(msgspec.Struct, frozen=True, gc=False):
    """Something happened that is worth a metric: which event, and for what reason."""

    event: str
    reason: str


Request = Discover | RefreshToken | List | Watch

Effect = (
    Request
    | Wait
    | CloseStream
    | Stage
    | Unstage
    | CommitSync
    | DiscardSync
    | Apply
    | Advance
    | SetState
    | Purge
    | Remember
    | Count
)
