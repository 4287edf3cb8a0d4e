"""What follows from each verdict: the reactions of a reflector to answers, failures and silence.

The base of `Reflector`, which adds the inputs and the reading of lists and watches. Each outcome of
`answers` has one method here; a reaction changes the plan, publishes the condition, and either asks
again at once or waits. None of them touches the store, except that objects leave it when a right
stays missing or discovery confirms that the kind is gone.
"""

from __future__ import annotations

from collections.abc import Callable

from watchcache_server.informer.answers import Outcome, Verdict
from watchcache_server.informer.condition import Condition, Subject
from watchcache_server.informer.effects import Count, Purge, Remember
from watchcache_server.informer.errors import DataError
from watchcache_server.informer.plan import Doing
from watchcache_server.informer.reasons import Reason
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.informer.standing import Standing
from watchcache_server.informer.timers import Deadline
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.states import LeftReason, SourceState

__all__ = ["Recovery"]

_VERBS = ("list", "watch")

# Nobody was there, or nobody who could answer.
_AWAY = (Reason.CONNECTION_FAILED, Reason.NO_CONTACT, Reason.SERVER_ERROR)


class Recovery(Standing):
    """The reactions of one informer."""

    def __init__(self, *, subject: Subject, settings: ReflectorSettings) -> None:
        super().__init__(subject=subject, settings=settings)
        self._reactions: dict[Outcome, Callable[[Verdict, Doing, bool], None]] = {
            Outcome.RETRY: self._retry,
            Outcome.RETRY_BRIEFLY: self._retry_briefly,
            Outcome.UNKNOWN: self._retry_unknown,
            Outcome.RELIST: self._relist,
            Outcome.RELIST_NEWEST: self._relist_newest,
            Outcome.RESTART_LIST: self._restart_list,
            Outcome.LIST_INSTEAD: self._list_instead,
            Outcome.UNAUTHENTICATED: self._refresh_token,
            Outcome.FORBIDDEN: self._forbid,
            Outcome.NOT_FOUND: self._confirm_kind,
            Outcome.REFUSED: self._refuse,
            Outcome.BAD_REQUEST: self._park,
        }

    def _handle(self, verdict: Verdict) -> None:
        doing, was_open = self._doing, self._is_open
        if doing in (Doing.TRY_LIST, Doing.TRY_WATCH):
            is_forbidden = verdict.outcome is Outcome.FORBIDDEN
            self._tried(is_allowed=False if is_forbidden else None)
            return
        if doing is Doing.TRY_VERSION:
            # A precaution. Where it fails, the watch that follows tells what is wrong.
            self._end()
            self._doubt_server(verdict)
            self._proceed()
            return
        self._outbox.add(Count("request_failed", verdict.reason))
        if verdict.outcome is not Outcome.LIST_INSTEAD:
            self._note_failure(verdict.reason, verdict.message)
        self._end()
        self._reactions[verdict.outcome](verdict, doing, was_open)

    def _retry(self, verdict: Verdict, doing: Doing, was_open: bool) -> None:
        if verdict.reason in _AWAY and not was_open:
            self._plan.was_away = True
        elif verdict.reason is Reason.THROTTLED:
            self._note_put_off(doing)
        self._drop(verdict, doing, was_open)
        self._wait(at_least=verdict.retry_after_seconds)

    def _note_put_off(self, doing: Doing) -> None:
        """Ask otherwise what the server puts off for long: only a list says what keeps it.

        A watch waits for a cache of the server, which may never be filled: the objects of one kind
        cannot be converted. A list with pages is read from the storage itself.
        """
        if not self._troubles.put_off(self._now):
            return
        if doing is Doing.WATCH:
            self._plan.is_unsure = True
        else:
            self._plan.lists_once = True
            self._plan.position.ask_newest()

    def _doubt_server(self, verdict: Verdict) -> None:
        """Take that the server could not say where it is: what is held may be old until it can."""
        if verdict.outcome is not Outcome.RETRY:
            self._plan.confirm(self._now)
            return
        self._plan.put_off_confirming(self._now)
        self._doubt = (verdict.reason, verdict.message)
        self._lose_contact(verdict.reason, "the objects cannot be read", verdict.message)

    def _retry_briefly(self, verdict: Verdict, doing: Doing, was_open: bool) -> None:
        if self._troubles.internal_error(self._now):
            self._need_sync("internal_error")
        self._retry(verdict, doing, was_open)

    def _retry_unknown(self, verdict: Verdict, doing: Doing, was_open: bool) -> None:
        if self._troubles.unknown_error():
            self._need_sync("unknown_error")
        self._retry(verdict, doing, was_open)

    def _need_sync(self, reason: str) -> None:
        self._plan.needs_sync = True
        self._outbox.add(Count("relist", reason))

    def _relist(self, verdict: Verdict, _doing: Doing, _was_open: bool) -> None:
        self._need_sync(verdict.reason)
        self._set_syncing(verdict.reason, "the objects must be listed again", verdict.message)
        if self._now - self._synced_at < self._settings.relist_spacing_seconds:
            self._wait(at_least=verdict.retry_after_seconds)
        else:
            self._proceed()

    def _relist_newest(self, verdict: Verdict, doing: Doing, _was_open: bool) -> None:
        asked_for_floor = bool(self._plan.position.floor)
        if verdict.reason is Reason.SERVER_BEHIND and not asked_for_floor:
            # Its cache does not get to the newest state. A list does not depend on that.
            self._plan.lists_once = True
        self._plan.position.ask_newest()
        self._need_sync(verdict.reason)
        self._set_syncing(verdict.reason, "the objects must be listed again", verdict.message)
        # A version that the server does not have is dropped at once; that it lags behind takes
        # time.
        has_reason_to_wait = verdict.reason in (Reason.SERVER_BEHIND, Reason.SERVER_ERROR)
        if doing is Doing.WATCH or has_reason_to_wait or not asked_for_floor:
            self._wait(at_least=verdict.retry_after_seconds)
        else:
            self._proceed()

    def _restart_list(self, verdict: Verdict, _doing: Doing, _was_open: bool) -> None:
        self._outbox.add(Count("list_restarted", verdict.reason))
        if self._plan.paging.expire():
            self._proceed()
        else:
            self._lose_contact(verdict.reason, "list expired before its end", verdict.message)
            self._wait(at_least=verdict.retry_after_seconds)

    def _list_instead(self, verdict: Verdict, _doing: Doing, _was_open: bool) -> None:
        seconds = self._settings.remember_list_seconds
        self._plan.lists_until = self._now + seconds
        self._outbox.add(Remember(seconds))
        self._outbox.add(Count("watch_list_refused", verdict.reason))
        self._proceed()

    def _refresh_token(self, verdict: Verdict, _doing: Doing, _was_open: bool) -> None:
        self._plan.needs_token = True
        if not self._has_refreshed:
            self._has_refreshed = True
            self._proceed()
            return
        said = self._subject.sentence(
            f"the token of {self._subject.who} was refused, and a new one too", verdict.message
        )
        self._set(SourceState.UNAUTHENTICATED, verdict.reason, said)
        self._wait(at_most=self._settings.unauthenticated_seconds)

    def _forbid(self, verdict: Verdict, doing: Doing, _was_open: bool) -> None:
        # Who may not do something is known: the token was taken.
        self._has_refreshed = False
        if self._is_synced and self._timers.at(Deadline.PURGE) is None:
            grace = self._settings.forbidden_grace_seconds
            self._timers.set(Deadline.PURGE, self._now + grace)
        if not doing.verb:
            said = self._subject.sentence(
                f"{self._subject.who} may not read what the cluster serves", verdict.message
            )
            self._set(SourceState.FORBIDDEN, Reason.DISCOVERY_FORBIDDEN, said)
            self._wait(at_most=self._settings.probe_seconds)
            return
        if doing.verb not in self._denied:
            self._denied = (doing.verb,)
        if self._is_synced:
            self._set_forbidden(())
        # Whoever waits for a first state is told what is missing once it is known whole.
        self._ask(self._plan.try_other(doing.verb))

    def _tried(self, *, is_allowed: bool | None) -> None:
        """Say what exactly is missing, now that the other verb was tried too, and wait."""
        verb = self._doing.verb
        self._end()
        if is_allowed is False:
            self._denied = _VERBS
        elif is_allowed:
            self._denied = tuple(denied for denied in _VERBS if denied != verb)
        self._set_forbidden((verb,) if is_allowed else ())
        self._wait(at_most=self._settings.probe_seconds)

    def _set_forbidden(self, allowed: tuple[str, ...]) -> None:
        self._condition = Condition(
            state=SourceState.FORBIDDEN,
            reason=Reason.VERBS_MISSING,
            message=self._subject.needs(self._denied, allowed),
            missing_verbs=self._denied,
        )

    def _purge_revoked(self) -> None:
        """Drop what may no longer be read: the grace time is over."""
        self._outbox.add(Purge(LeftReason.RIGHTS_REVOKED))
        self._is_synced = False
        self._plan.needs_sync = True
        if self._condition.state is SourceState.STALE:
            self._lose_contact(Reason(self._condition.reason), "the right to read was lost")
        if self._doing in (Doing.WATCH, Doing.TRY_VERSION):
            # It would go on from objects that are no longer there.
            self._close()
            self._proceed()

    def _confirm_kind(self, verdict: Verdict, doing: Doing, _was_open: bool) -> None:
        if doing is Doing.DISCOVER:
            self._lose_kind(verdict.message)
            return
        self._plan.served = None
        self._plan.needs_fresh_discovery = True
        if self._is_confirming:
            # Discovery has confirmed the kind, and yet it is not found: somebody else answers.
            what = f"{doing.verb} found nothing, though discovery knows the kind"
            self._lose_contact(verdict.reason, what, verdict.message)
            self._wait(at_least=verdict.retry_after_seconds)
            return
        self._is_confirming = True
        self._proceed()

    def _find(self, found: ServedResource) -> None:
        """Take what discovery found."""
        self._troubles.found()
        condition = self._unusable(found)
        if condition is not None:
            self._lose(condition)
            return
        last = self._last_served
        is_same = last is None or (
            (last.api_version, last.resource, last.kind, last.is_namespaced)
            == (found.api_version, found.resource, found.kind, found.is_namespaced)
        )
        if not is_same:
            # Objects of two versions never stand side by side, nor those of two resources: a kind
            # may come again under another plural name, by which its objects are known.
            self._forget(LeftReason.KIND_GONE)
            self._set_syncing(Reason.STARTING, "the cluster serves the kind differently now")
        self._plan.served = self._last_served = found
        self._plan.needs_fresh_discovery = False
        self._proceed()

    def _unusable(self, found: ServedResource) -> Condition | None:
        if self._subject.namespace and not found.is_namespaced:
            return self._subject.invalid_scope()
        missing = tuple(verb for verb in _VERBS if verb not in found.verbs)
        return self._subject.verb_not_served(missing) if missing else None

    def _lose_kind(self, said: str) -> None:
        """Take that there is no such kind, once more than one look has found none.

        One of several servers may lag behind, and not know of it yet.
        """
        if self._is_synced and not self._troubles.vanished(self._now):
            keeping_seconds = self._settings.vanished_seconds
            self._plan.needs_fresh_discovery = True
            what = f"not served by the cluster; its objects are kept for {keeping_seconds:g} s"
            self._lose_contact(Reason.NOT_FOUND, what, said)
            self._wait(at_most=keeping_seconds / 2)
            return
        message = self._subject.sentence("not served by the cluster", said)
        self._lose(
            Condition(state=SourceState.GONE, reason=Reason.KIND_NOT_SERVED, message=message)
        )

    def _lose(self, condition: Condition) -> None:
        self._forget(LeftReason.KIND_GONE)
        self._plan.served = None
        self._plan.needs_fresh_discovery = True
        self._is_confirming = False
        self._condition = condition
        self._wait(at_most=self._settings.probe_seconds)

    def _forget(self, reason: LeftReason) -> None:
        if self._is_synced:
            self._outbox.add(Purge(reason))
        self._is_synced = False
        self._doubt = None
        self._plan.start_afresh()
        self._timers.clear(Deadline.PURGE)

    def _refuse(self, verdict: Verdict, doing: Doing, _was_open: bool) -> None:
        """Wait for the kind to be served differently: the server does this for nobody."""
        self._plan.served = None
        self._plan.needs_fresh_discovery = True
        state = SourceState.STALE if self._is_synced else SourceState.GONE
        what = f"{doing.verb or 'discovery'} is not supported by the server"
        self._set(state, verdict.reason, self._subject.sentence(what, verdict.message))
        self._wait(at_most=self._settings.probe_seconds)

    def _park(self, verdict: Verdict, _doing: Doing, _was_open: bool) -> None:
        """Wait for minutes: the request is wrong, by its selectors most likely.

        Unless such requests have been answered: then it is somebody on the way, and for a while.
        """
        if self._is_synced:
            self._lose_contact(verdict.reason, "the server refused the request", verdict.message)
            self._wait(at_least=verdict.retry_after_seconds)
            return
        what = "the server does not accept the request; check the selectors"
        self._lose_contact(verdict.reason, what, verdict.message)
        self._wait(at_least=self._settings.bad_request_seconds)

    def _undecodable(self, error: DataError) -> None:
        """Ask again for what cannot be used; nothing is ever skipped."""
        doing, was_open = self._doing, self._is_open
        at = self._plan.position.version if doing is Doing.WATCH else doing.value
        is_limit = self._troubles.undecodable(at)
        self._outbox.add(Count("undecodable", error.reason))
        self._note_failure(Reason.UNDECODABLE, str(error))
        self._end()
        if is_limit and doing is Doing.INITIAL_WATCH:
            self._plan.lists_once = True
        elif is_limit and doing is Doing.WATCH and not self._has_relisted_undecodable:
            self._has_relisted_undecodable = True
            self._need_sync("undecodable")
        verdict = Verdict(outcome=Outcome.RETRY, reason=Reason.UNDECODABLE, message=str(error))
        self._drop(verdict, doing, was_open)
        self._wait()
