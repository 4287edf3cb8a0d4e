"""How an informer stands: what it has asked, what it waits for, and what is said of it.

The base of `Recovery`, which reacts to what goes wrong. Here is the state that all reactions share,
how a request or a wait begins and ends, and how a condition is found: what is held grows old, or
nothing is held yet and that has gone on for too long.
"""

from __future__ import annotations

from watchcache_server.informer.answers import Phase, Verdict
from watchcache_server.informer.backoff import Backoff
from watchcache_server.informer.condition import Condition, Subject
from watchcache_server.informer.effects import CloseStream, DiscardSync, Effect, Request
from watchcache_server.informer.outbox import Outbox
from watchcache_server.informer.plan import Doing, Plan
from watchcache_server.informer.reasons import Reason
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.informer.timers import Deadline, Timers
from watchcache_server.informer.troubles import Troubles
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.states import SourceState

__all__ = ["Standing"]


class Standing:
    """State of one informer."""

    def __init__(self, *, subject: Subject, settings: ReflectorSettings) -> None:
        self._subject = subject
        self._settings = settings
        self._backoff = Backoff(settings.backoff)
        self._timers = Timers()
        self._troubles = Troubles(settings)
        self._plan = Plan(settings)
        self._outbox = Outbox()
        self._condition = Condition(
            state=SourceState.SYNCING,
            reason=Reason.STARTING,
            message=subject.sentence("the first sync has begun"),
        )
        # The moment of the present input.
        self._now = 0.0
        self._jitter = 0.0
        # The request under way.
        self._doing = Doing.NOTHING
        self._phase = Phase.DISCOVERY
        self._is_open = False
        self._has_staged = False
        # What has happened.
        self._is_synced = False
        self._synced_at = float("-inf")
        self._last_served: ServedResource | None = None
        self._denied: tuple[str, ...] = ()
        self._is_confirming = False
        # Why the server could not say where it is; nothing was heard from it since.
        self._doubt: tuple[Reason, str] | None = None
        self._has_refreshed = False
        self._has_dropped = False
        self._has_relisted_undecodable = False
        # Since when a first sync fails, for how it failed last, and whether that is too long.
        self._failing_since: float | None = None
        self._last_failure = ("", "")
        self._has_failed_long = False

    # Requests and waits

    def _enter(self, now: float, jitter: float) -> None:
        self._now = now
        self._jitter = jitter

    def _leave(self) -> list[Effect]:
        self._judge_first_sync()
        return self._outbox.drain(self._condition, self._timers, self._now)

    def _ask(self, asked: tuple[Doing, Phase, Request]) -> None:
        self._doing, self._phase, request = asked
        self._is_open = False
        self._outbox.ask(request)

    def _proceed(self) -> None:
        """Ask what the plan says, now."""
        self._timers.clear(Deadline.RETRY)
        self._ask(self._plan.next_request(self._now, self._jitter))

    def _wait(self, *, at_least: float = 0.0, at_most: float | None = None) -> None:
        """Ask what the plan says, after the backoff."""
        delay = self._backoff.next_delay(
            now=self._now, jitter=self._jitter, at_least=at_least, at_most=at_most
        )
        self._timers.set(Deadline.RETRY, self._now + delay)

    def _end(self) -> None:
        """Note that the request has ended; what it had collected is of no use."""
        self._doing = Doing.NOTHING
        self._is_open = False
        self._plan.is_brief = False
        self._timers.clear(Deadline.INITIAL, Deadline.SETTLE, Deadline.REOPEN)
        if self._has_staged:
            self._has_staged = False
            self._outbox.add(DiscardSync())

    def _close(self) -> None:
        """End the request under way from this side."""
        if self._doing.is_request:
            self._outbox.add(CloseStream())
        self._end()

    def _answered(self) -> None:
        """Note that a list or watch was answered with 200."""
        if self._plan.needs_sync:
            self._set_syncing(Reason.RELISTING, "the objects are being listed")

    def _proven(self) -> None:
        """Note that objects or bookmarks come: identity, rights and kind are there.

        An opening alone does not prove it: proxies and aggregated APIs refuse inside the stream.
        """
        self._timers.clear(Deadline.PURGE)
        self._has_refreshed = False
        self._is_confirming = False
        self._troubles.found()
        self._denied = ()

    # Conditions

    def _set(self, state: SourceState, reason: str, message: str) -> None:
        self._condition = Condition(state=state, reason=reason, message=message)

    def _set_syncing(self, reason: Reason, what: str, said: str = "") -> None:
        """Say that a sync is needed or under way."""
        state = SourceState.STALE if self._is_synced else SourceState.SYNCING
        reason = reason if self._is_synced else Reason.STARTING
        self._set(state, reason, self._subject.sentence(what, said))

    def _lose_contact(self, reason: Reason, what: str, said: str = "") -> None:
        """Say that nothing is heard: what is held grows old, or nothing is held yet."""
        if self._doubt is not None and reason is Reason.THROTTLED:
            # What is asked for patience for ever has a reason, which a list has told.
            reason, said = self._doubt
        if self._is_synced:
            state = SourceState.STALE
        elif reason is Reason.THROTTLED:
            state = SourceState.SYNCING
        else:
            state = SourceState.UNREACHABLE
        self._set(state, reason, self._subject.sentence(what, said))

    def _drop(self, verdict: Verdict, doing: Doing, was_open: bool) -> None:
        """Let a running watch break off once without a word; more is a loss of contact."""
        is_live = self._condition.state is SourceState.LIVE
        is_silent = verdict.reason is Reason.NO_CONTACT
        if doing is Doing.WATCH and was_open and is_live and not (self._has_dropped or is_silent):
            self._has_dropped = True
            return
        what = f"{doing.verb} failed" if doing.verb else "discovery failed"
        self._lose_contact(verdict.reason, what, verdict.message)

    # A first sync that fails

    def _note_failure(self, reason: Reason, said: str) -> None:
        """Note that a request failed, which matters while there is no first state."""
        self._last_failure = (reason, said)
        if self._failing_since is None:
            self._failing_since = self._now
        elif self._now - self._failing_since >= self._settings.first_sync_patience_seconds:
            self._has_failed_long = True

    def _lose_patience(self) -> None:
        """Take a first sync for failed, unless objects come: then the next failure decides."""
        self._has_failed_long = not self._has_staged

    def _judge_first_sync(self) -> None:
        """Say that there is nothing to wait for once a first sync has failed for long.

        Some failures are said to be a sync under way: that the server asks for patience, or must
        be asked for another version. One kind that fails so for ever would otherwise hold up
        everybody who waits for the first state of all kinds together.
        """
        if self._condition.state not in (SourceState.SYNCING, SourceState.UNREACHABLE):
            self._failing_since = None
            self._has_failed_long = False
        elif self._has_failed_long and self._condition.state is SourceState.SYNCING:
            reason, said = self._last_failure
            seconds = self._settings.first_sync_patience_seconds
            what = f"no first state after {seconds:g} s and more; it is still tried"
            self._set(SourceState.UNREACHABLE, reason, self._subject.sentence(what, said))
        if self._failing_since is None or self._condition.state is not SourceState.SYNCING:
            self._timers.clear(Deadline.PATIENCE)
        elif self._timers.at(Deadline.PATIENCE) is None:
            # The next attempt may be minutes away, or hang.
            patience = self._settings.first_sync_patience_seconds
            self._timers.set(Deadline.PATIENCE, self._now + patience)
