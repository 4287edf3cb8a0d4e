"""The reflector: how one informer lists, watches and recovers, as a machine without I/O.

One reflector follows one resource in one scope of one cluster. The shell tells it what happened and
performs what it returns, in order::

    reflector = Reflector(subject=..., settings=ReflectorSettings())
    reflector.start(now=clock(), jitter=random())
    # [SetState(SYNCING), Discover(is_fresh=False)]
    reflector.on_discovered(resource, ...)
    # [Watch(resource_version="", send_initial_events=True, ...)]
    reflector.on_opened(...)  # the watch was answered with 200
    # [Wait(30.0)]
    reflector.on_events(stream.feed(chunk), ...)
    # [Stage([...])], and at the end [CommitSync("1200"), SetState(LIVE), Wait(...)]
    reflector.on_events(stream.feed(chunk), ...)
    # [Apply([...], "1234")]
    reflector.on_events(stream.finish(), ...)  # at a clean end, what was left
    reflector.on_eof(...)
    # [Watch(resource_version="1234", ...)]

The contract with the shell:

- one request at a time: a request is answered by exactly one of `on_discovered`, `on_token`,
  `on_answer` (any HTTP answer but a usable 200), `on_failure` (none, or broken off), `on_broken`
  (a DataError while reading a list), or by its good course: `on_items`... `on_listed` for a list,
  `on_opened`, `on_events`... `on_eof` for a watch;
- no input of a request comes in after `CloseStream`, or after the input that ended it;
- `on_token` with a problem may answer any request: there was nothing to ask with;
- `Wait` sets the one timer anew; when it fires, `on_timer`. Firing for nothing does no harm;
- every input takes `now` in monotonic seconds and `jitter` in [0, 1).

What it decides: positions, list or watch, errors (`answers`), waits, states. What it leaves to the
store: which of the objects changed. Errors never empty the store; only `Purge` does, after a right
has been missing for the grace time or when discovery confirms that the kind is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from watchcache_server.informer.answers import judge
from watchcache_server.informer.bodies import ListMetadata
from watchcache_server.informer.condition import Condition, Subject
from watchcache_server.informer.decoding import WatchEvent
from watchcache_server.informer.effects import CloseStream, Count, Effect
from watchcache_server.informer.errors import (
    DataError,
    NotAListError,
    StatusAnswerError,
    TruncatedListError,
)
from watchcache_server.informer.following import Following
from watchcache_server.informer.inputs import Answer, Failure, NotServed, Overlapping, TokenProblem
from watchcache_server.informer.objects import Item
from watchcache_server.informer.plan import Doing
from watchcache_server.informer.reasons import Reason
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.informer.timers import Deadline
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.states import SourceState

__all__ = ["Reflector"]


class Reflector(Following):
    """Follows one resource in one scope of one cluster."""

    def __init__(
        self,
        *,
        subject: Subject,
        settings: ReflectorSettings,
        list_seconds: float = 0.0,
        holds_objects: bool = False,
    ) -> None:
        """Make a reflector that has not started.

        `list_seconds` is for how long yet, by a `Remember`, this resource must be listed.
        `holds_objects` says that the store holds those of a reflector before this one.
        """
        super().__init__(subject=subject, settings=settings)
        self._asked = subject
        self._list_seconds = list_seconds
        if holds_objects:
            self._is_synced = True
            self._set_syncing(Reason.RELISTING, "the informer was started again")
        self._on_due = {
            Deadline.PURGE: self._purge_revoked,
            Deadline.INITIAL: self._check_initial,
            Deadline.SETTLE: self._settle,
            Deadline.REOPEN: self._reopen,
            Deadline.PATIENCE: self._lose_patience,
            Deadline.RETRY: self._proceed,
        }

    def __repr__(self) -> str:
        return (
            f"<Reflector {self._subject.resource} {self._condition.state.value} "
            f"{self._doing.value} {self._plan.position!r}>"
        )

    @property
    def condition(self) -> Condition:
        """The state, and why."""
        return self._condition

    @property
    def is_syncing(self) -> bool:
        """Whether the request under way loads all objects."""
        return self._doing in (Doing.LIST, Doing.INITIAL_WATCH)

    @property
    def resource_version(self) -> str:
        """The version that the store is at; empty when it holds nothing."""
        return self._plan.position.version if self._is_synced else ""

    # Inputs

    def start(self, *, now: float, jitter: float) -> list[Effect]:
        """Begin."""
        self._enter(now, jitter)
        if self._doing is Doing.NOTHING and self._timers.at(Deadline.RETRY) is None:
            self._plan.lists_until = now + self._list_seconds
            self._proceed()
        return self._leave()

    def stop(self, *, now: float, jitter: float) -> list[Effect]:
        """End for good."""
        self._enter(now, jitter)
        if self._doing is not Doing.STOPPED:
            self._close()
            self._timers.clear(*Deadline)
            self._doing = Doing.STOPPED
            self._set(SourceState.STOPPED, Reason.STOPPED, "no longer watched")
        return self._leave()

    def reopen(self, *, now: float, jitter: float) -> list[Effect]:
        """Open the running watch again where it is; no failure, and nothing if none runs."""
        self._enter(now, jitter)
        if self._doing is Doing.WATCH and self._is_open:
            self._reopen()
        return self._leave()

    def hasten(self, *, now: float, jitter: float) -> list[Effect]:
        """Open the running watch again for seconds only, so that a bookmark comes in one or two.

        Nothing if none runs, or if such a watch has yet to bring its bookmark; one that is silent
        beyond its end is dead.
        """
        self._enter(now, jitter)
        over = self._opened_at + self._settings.brief_watch_seconds + 1.0
        is_awaited = self._plan.is_brief and now < over
        if self._doing is Doing.WATCH and self._is_open and not is_awaited:
            self._outbox.add(Count("watch_ended", "hasten"))
            self._close()
            self._plan.is_brief = True
            self._proceed()
        return self._leave()

    def suspect(self, *, now: float, jitter: float) -> list[Effect]:
        """Ask the server where it is: it was seen at a version from the past."""
        self._enter(now, jitter)
        if self._doing is Doing.WATCH and self._is_open:
            self._outbox.add(Count("watch_ended", "old_version"))
            self._close()
            self._plan.suspects_rewind = True
            self._proceed()
        return self._leave()

    def distrust(self, *, now: float, jitter: float) -> list[Effect]:
        """List anew: what is held was proven to differ from what the API server lists.

        By a list of the newest state, which is what has proven it; a watch may be told by what has
        forgotten something. Nothing if a sync is wanted or under way already.
        """
        self._enter(now, jitter)
        if self._is_synced and not self._plan.needs_sync:
            self._plan.lists_once = True
            self._plan.position.ask_newest()
            self._need_sync(Reason.INCONSISTENT)
            if self._doing in (Doing.WATCH, Doing.TRY_VERSION):
                self._close()
                what = "what is held differs from what the API server lists"
                self._set_syncing(Reason.INCONSISTENT, what)
                self._proceed()
        return self._leave()

    def on_timer(self, *, now: float, jitter: float) -> list[Effect]:
        """Do what is due."""
        self._enter(now, jitter)
        while (deadline := self._timers.take_due(now)) is not None:
            self._on_due[deadline]()
        return self._leave()

    def on_discovered(
        self, found: ServedResource | NotServed | Overlapping, *, now: float, jitter: float
    ) -> list[Effect]:
        """Take what discovery found."""
        self._enter(now, jitter)
        if self._doing is Doing.DISCOVER:
            self._end()
            if isinstance(found, NotServed):
                self._lose_kind(found.message)
            elif isinstance(found, Overlapping):
                self._lose(self._subject.overlapping(found.message))
            else:
                self._subject = self._asked.scoped(is_namespaced=found.is_namespaced)
                self._find(found)
        return self._leave()

    def on_token(self, problem: TokenProblem | None, *, now: float, jitter: float) -> list[Effect]:
        """Take that there is a new token, or why there is none to ask with."""
        self._enter(now, jitter)
        if problem is not None and self._doing.is_request:
            self._end()
            self._plan.needs_token = True
            self._set(SourceState.UNAUTHENTICATED, problem.reason, problem.message)
            self._wait(at_most=self._settings.unauthenticated_seconds)
        elif problem is None and self._doing is Doing.REFRESH_TOKEN:
            self._end()
            self._plan.needs_token = False
            self._proceed()
        return self._leave()

    def on_opened(self, *, now: float, jitter: float) -> list[Effect]:
        """Take that a watch was answered with 200."""
        self._enter(now, jitter)
        if self._is_open:
            return self._leave()
        if self._doing is Doing.TRY_WATCH:
            self._outbox.add(CloseStream())
            self._tried(is_allowed=True)
        elif self._doing in (Doing.INITIAL_WATCH, Doing.WATCH):
            self._is_open = True
            self._has_events = False
            self._early_since = None
            self._opened_at = self._heard_at = now
            self._answered()
            if self._doing is Doing.INITIAL_WATCH:
                self._timers.set(Deadline.INITIAL, now + self._settings.initial_idle_seconds)
            else:
                self._timers.set(Deadline.SETTLE, now + self._settings.settle_seconds)
                self._limit_lifetime(self._settings.inactivity_margin_seconds)
        return self._leave()

    def on_events(self, events: Sequence[WatchEvent], *, now: float, jitter: float) -> list[Effect]:
        """Take the events of one chunk of a watch; an empty list still says that the peer lives."""
        self._enter(now, jitter)
        if self._is_open:
            self._heard_at = now
            rest = iter(events)
            if self._doing is Doing.INITIAL_WATCH:
                self._collect(rest)
            if self._doing is Doing.WATCH:
                self._follow(rest)
        return self._leave()

    def on_eof(self, *, now: float, jitter: float) -> list[Effect]:
        """Take that a watch ended cleanly."""
        self._enter(now, jitter)
        if not self._is_open:
            if self._doing.is_request:
                self._fail(Failure(reason="cut", message="the answer ended before it began"))
        elif self._doing is Doing.INITIAL_WATCH:
            self._give_up_initial("it ended")
        elif self._has_events or now - self._opened_at >= self._settings.settle_seconds:
            self._end_cleanly()
        else:
            self._end_quickly()
        return self._leave()

    def on_items(self, items: list[Item], *, now: float, jitter: float) -> list[Effect]:
        """Take items of the page that is being read."""
        self._enter(now, jitter)
        if self._doing is Doing.LIST and items:
            self._answered()
            self._stage(items)
        return self._leave()

    def on_listed(self, page: ListMetadata, *, now: float, jitter: float) -> list[Effect]:
        """Take the end of a page; its items came before."""
        self._enter(now, jitter)
        if self._doing is Doing.TRY_LIST:
            self._tried(is_allowed=True)
        elif self._doing is Doing.TRY_VERSION:
            self._compare(page.resource_version)
        elif self._doing is Doing.LIST:
            self._answered()
            self._turn_page(page)
        return self._leave()

    def on_answer(self, answer: Answer, *, now: float, jitter: float) -> list[Effect]:
        """Take an answer that is no success."""
        self._enter(now, jitter)
        if self._doing.is_request:
            if self._doing is Doing.LIST and answer.code == 504:
                self._ease_list()
            self._handle(judge(self._phase, answer))
        return self._leave()

    def on_failure(self, failure: Failure, *, now: float, jitter: float) -> list[Effect]:
        """Take that there was no answer, or that it broke off."""
        self._enter(now, jitter)
        if self._doing.is_request:
            self._fail(failure)
        return self._leave()

    def on_broken(self, error: DataError, *, now: float, jitter: float) -> list[Effect]:
        """Take that the body of a list cannot be used."""
        if isinstance(error, StatusAnswerError):
            return self.on_answer(Answer(code=200, status=error.status), now=now, jitter=jitter)
        if isinstance(error, TruncatedListError | NotAListError):
            failure = Failure(reason=error.reason, message=str(error))
            return self.on_failure(failure, now=now, jitter=jitter)
        self._enter(now, jitter)
        if self._doing is Doing.LIST:
            self._undecodable(error)
        elif self._doing.is_request:
            self._fail(Failure(reason=error.reason, message=str(error)))
        return self._leave()
