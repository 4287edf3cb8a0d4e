"""Which request comes next: a function of what is known and of what is still to be done.

Whatever happens only changes the plan; the next request is always derived from it. So no failure
can leave an informer between two steps.
"""

from __future__ import annotations

import enum

from watchcache_server.informer.answers import Phase
from watchcache_server.informer.effects import Discover, List, RefreshToken, Request, Watch
from watchcache_server.informer.paging import Paging
from watchcache_server.informer.position import Position
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.model.resources import ServedResource

__all__ = ["Doing", "Plan"]


class Doing(enum.Enum):
    """The request under way."""

    NOTHING = "nothing"
    DISCOVER = "discover"
    REFRESH_TOKEN = "refresh_token"
    LIST = "list"
    INITIAL_WATCH = "initial_watch"
    WATCH = "watch"
    # Whether a right is there: list one object, or open a watch and close it.
    TRY_LIST = "try_list"
    TRY_WATCH = "try_watch"
    # Whether the server is still at or ahead of the position.
    TRY_VERSION = "try_version"
    STOPPED = "stopped"

    @property
    def is_request(self) -> bool:
        """Whether an answer is expected."""
        return self not in (Doing.NOTHING, Doing.STOPPED)

    @property
    def verb(self) -> str:
        """The right that the request needs; empty when it is not one of the resource."""
        return _VERBS.get(self, "")


_VERBS = {
    Doing.LIST: "list",
    Doing.TRY_LIST: "list",
    Doing.TRY_VERSION: "list",
    Doing.INITIAL_WATCH: "watch",
    Doing.WATCH: "watch",
    Doing.TRY_WATCH: "watch",
}


class Plan:
    """What is known, and what is to be done before a watch may run."""

    def __init__(self, settings: ReflectorSettings) -> None:
        self._settings = settings
        self.position = Position()
        self.paging = Paging(settings)
        # How the resource is served; None until discovery has said so, and again when it may have
        # changed.
        self.served: ServedResource | None = None
        self.needs_fresh_discovery = False
        self.needs_token = False
        self.needs_sync = True
        # The next sync is a list; until then, every sync is.
        self.lists_once = False
        self.lists_until = float("-inf")
        # When the position was last confirmed by an event, a bookmark or a list.
        self.confirmed_at = float("-inf")
        # The server is to say where it is before the watch goes on: it may be behind the position.
        self.is_unsure = False
        # For how long the last watch was asked for.
        self.asked_seconds = 0
        # It sends bookmarks, so that a watch which brings nothing at all is not in order.
        self.has_bookmarks = False
        # The server was not there when it was asked last: its storage may have been set back.
        self.was_away = False
        # The watch under way, or the next one, is to bring a bookmark soon.
        self.is_brief = False

    def next_request(self, now: float, jitter: float) -> tuple[Doing, Phase, Request]:
        """Return what to ask next."""
        if self.needs_token:
            return Doing.REFRESH_TOKEN, Phase.DISCOVERY, RefreshToken()
        if self.served is None:
            return Doing.DISCOVER, Phase.DISCOVERY, Discover(self.needs_fresh_discovery)
        if self.needs_sync:
            return self._sync(now)
        silence = now - self.confirmed_at
        if self.is_unsure or silence >= self._settings.rewind_probe_seconds:
            return Doing.TRY_VERSION, Phase.LIST, List(limit=1)
        if self.is_brief:
            brief = self._settings.brief_watch_seconds
            return Doing.WATCH, Phase.WATCH, self._watch(brief, response_seconds=float(brief))
        return Doing.WATCH, Phase.WATCH, self._watch(self.watch_seconds(jitter))

    def next_page(self, continue_token: str) -> tuple[Doing, Phase, Request]:
        """Return the request for the rest of the list under way."""
        return Doing.LIST, Phase.LIST_REST, self.paging.rest(continue_token)

    def try_other(self, verb: str) -> tuple[Doing, Phase, Request]:
        """Return a request that tells whether the other verb than this is allowed."""
        if verb == "watch":
            return Doing.TRY_LIST, Phase.LIST, List(limit=1)
        return Doing.TRY_WATCH, Phase.WATCH, self._watch(1)

    def watch_seconds(self, jitter: float) -> int:
        """Return the lifetime of a watch: three quarters of the longest, or up to all of it."""
        return int(self._settings.watch_seconds * (0.75 + 0.25 * jitter))

    def confirm(self, now: float) -> None:
        """Note that the server was seen to be at or ahead of the position."""
        self.confirmed_at = now
        self.is_unsure = self.was_away = False

    def put_off_confirming(self, now: float) -> None:
        """Note that the server could not say where it is: go on, and ask again after a watch."""
        self.confirm(now)
        self.confirmed_at -= self._settings.rewind_probe_seconds - self._settings.watch_seconds

    def start_afresh(self) -> None:
        """Forget everything that was seen of the resource."""
        self.position.forget()
        self.needs_sync = True
        self.is_unsure = False

    def _sync(self, now: float) -> tuple[Doing, Phase, Request]:
        floor = self.position.floor
        if self.lists_once or now < self.lists_until:
            phase = Phase.RELIST if floor else Phase.LIST
            return Doing.LIST, phase, self.paging.first(floor)
        seconds = self._settings.initial_watch_seconds
        watch = Watch(
            resource_version=floor,
            match="NotOlderThan",
            send_initial_events=True,
            timeout_seconds=seconds,
            inactivity_seconds=seconds + self._settings.inactivity_margin_seconds,
        )
        return Doing.INITIAL_WATCH, Phase.INITIAL, watch

    def _watch(self, seconds: int, response_seconds: float | None = None) -> Watch:
        self.asked_seconds = seconds
        return Watch(
            resource_version=self.position.version,
            timeout_seconds=seconds,
            inactivity_seconds=seconds + self._settings.inactivity_margin_seconds,
            response_seconds=response_seconds,
        )
