"""Reading lists and watches: what a reflector collects, applies and takes as its position.

Between `Recovery`, which reacts to what goes wrong, and `Reflector`, which has the inputs. Here is
where a sync is committed, and where live events move the position.
"""

from __future__ import annotations

from collections.abc import Iterator

from watchcache_server.informer.answers import Outcome, Phase, Verdict, judge
from watchcache_server.informer.bodies import ListMetadata
from watchcache_server.informer.condition import Subject
from watchcache_server.informer.decoding import (
    Added,
    Bookmark,
    Broken,
    Deleted,
    Modified,
    StreamError,
    WatchEvent,
)
from watchcache_server.informer.effects import (
    Advance,
    Apply,
    CloseStream,
    CommitSync,
    Count,
    Stage,
    Unstage,
)
from watchcache_server.informer.inputs import Failure
from watchcache_server.informer.objects import Delta, Item, Remove, Upsert
from watchcache_server.informer.plan import Doing
from watchcache_server.informer.reasons import Reason
from watchcache_server.informer.recovery import Recovery
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.informer.timers import Deadline
from watchcache_server.model.states import SourceState

__all__ = ["Following"]

# An answer that broke off or came too late: it may have been too much for one request.
_TOO_MUCH = ("cut", "idle", "response_timeout", "truncated_list")
# So much earlier than asked for a watch may end that was not broken off.
_END_SECONDS = 1.0


class Following(Recovery):
    """The lists and watches of one informer."""

    def __init__(self, *, subject: Subject, settings: ReflectorSettings) -> None:
        super().__init__(subject=subject, settings=settings)
        # The watch under way.
        self._has_events = False
        # The one before it ended at once, though with events.
        self._has_ended_early = False
        self._opened_at = 0.0
        self._heard_at = 0.0
        self._early_since: float | None = None

    # Lists

    def _stage(self, items: list[Item]) -> None:
        if items:
            self._proven()
            self._has_staged = True
            self._outbox.add(Stage(items))

    def _turn_page(self, page: ListMetadata) -> None:
        paging = self._plan.paging
        paging.version = paging.version or page.resource_version
        if page.continue_token and paging.is_stuck(page.continue_token):
            message = "a page of the list is followed by itself"
            self._fail(Failure(reason="stuck_list", message=message))
        elif page.continue_token:
            self._ask(self._plan.next_page(page.continue_token))
        elif self._commit(paging.version):
            self._end()
            self._proceed()

    def _compare(self, version: str) -> None:
        """Take the newest version of the server: it may be the past of what was seen."""
        self._end()
        if self._plan.position.is_behind(version):
            self._plan.position.ask_newest()
            self._need_sync("rewound")
            self._set_syncing(Reason.RELISTING, "the storage of the cluster was set back")
        else:
            self._plan.confirm(self._now)
            self._doubt = None
        self._proceed()

    def _ask_where(self) -> None:
        """Ask a server that was away where it is, before more of its watch is read.

        To restore a storage the servers are stopped. Once there are more changes than were lost,
        nothing shows any more that some were.
        """
        self._outbox.add(Count("watch_ended", "away"))
        self._close()
        self._plan.is_unsure = True
        self._plan.was_away = False
        self._proceed()

    def _ease_list(self) -> None:
        """Ask for smaller pages, or pages at all: the list was too much for one answer."""
        if self._plan.paging.floor:
            self._plan.position.ask_newest()
        self._plan.paging.ease()

    def _commit(self, version: str) -> bool:
        """Put what was collected in the store's place; False if it is older than it may be."""
        plan = self._plan
        is_rewound = plan.position.is_behind(version)
        if is_rewound and plan.position.floor:
            # Asked for a state not older than a known one, the server sent one: it does not know
            # the parameter, or it was set back. Only the newest state can tell.
            if self._is_open:
                self._outbox.add(CloseStream())
            self._end()
            plan.position.ask_newest()
            self._outbox.add(Count("relist", Reason.SERVER_BEHIND))
            what = "the list was older than what is known"
            self._note_failure(Reason.SERVER_BEHIND, what)
            self._set_syncing(Reason.SERVER_BEHIND, what)
            self._wait()
            return False
        self._proven()
        self._has_staged = False
        if is_rewound:
            # The newest state is older than what is held: the server's storage was set back.
            self._outbox.add(Count("rewound", "newer_known"))
        self._outbox.add(CommitSync(resource_version=version))
        plan.position.restart(version)
        plan.paging.reset()
        plan.needs_sync = False
        plan.lists_once = False
        plan.confirm(self._now)
        self._is_synced = True
        self._synced_at = self._now
        self._doubt = None
        self._set_live()
        return True

    # Watches

    def _collect(self, events: Iterator[WatchEvent]) -> None:
        """Take initial events, up to their end."""
        staged: list[Item] = []
        for event in events:
            if isinstance(event, Added | Modified):
                staged.append(event.item)
                if isinstance(event, Modified):
                    self._note_early("MODIFIED")
            elif isinstance(event, Deleted):
                self._stage(staged)
                staged = []
                self._outbox.add(Unstage([event.item]))
                self._note_early("DELETED")
            elif isinstance(event, StreamError | Broken):
                self._break_off(event)
                return
            elif event.is_initial_end:
                self._stage(staged)
                self._end_initial(event.resource_version)
                return
            else:
                self._note_early("BOOKMARK")
        self._stage(staged)

    def _note_early(self, event: str) -> None:
        """Note a live event before the end of the initial ones: that end may never come."""
        self._outbox.add(Count("early_event", event))
        if self._early_since is None:
            self._early_since = self._now

    def _check_initial(self) -> None:
        idle = self._settings.initial_idle_seconds
        due = self._heard_at + idle
        if self._early_since is not None:
            due = min(due, self._early_since + idle)
        if due > self._now:
            self._timers.set(Deadline.INITIAL, due)
            return
        self._outbox.add(CloseStream())
        self._give_up_initial(f"nothing came for {idle:g} s")

    def _give_up_initial(self, why: str) -> None:
        self._handle(
            Verdict(
                outcome=Outcome.LIST_INSTEAD,
                reason=Reason.WATCH_UNSTABLE,
                message=f"a watch did not end its initial events: {why}",
            )
        )

    def _end_initial(self, version: str) -> None:
        if not self._commit(version):
            return
        self._doing, self._phase = Doing.WATCH, Phase.WATCH
        self._has_events = True
        self._plan.has_bookmarks = True
        self._timers.clear(Deadline.INITIAL)
        self._limit_lifetime(0.0)

    def _follow(self, events: Iterator[WatchEvent]) -> None:
        """Take live events: every one of them moves the position, in the order of arrival."""
        position = self._plan.position
        deltas: list[Delta] = []
        has_bookmark = False
        last: WatchEvent | None = None
        for event in events:
            if isinstance(event, Added | Modified):
                deltas.append(Upsert(event.item, is_addition=isinstance(event, Added)))
                position.advance(event.item.resource_version)
            elif isinstance(event, Deleted):
                deltas.append(Remove(event.item))
                position.advance(event.item.resource_version)
            elif isinstance(event, Bookmark) and position.advance(event.resource_version):
                has_bookmark = True
            else:
                last = event
                break
        if deltas:
            self._outbox.add(Apply(deltas, position.version))
        elif has_bookmark:
            self._outbox.add(Advance(position.version))
        if has_bookmark:
            self._plan.is_brief = False
            self._plan.has_bookmarks = True
        if deltas or has_bookmark:
            self._progress()
        if isinstance(last, Bookmark):
            self._suspect_rewind()
        elif isinstance(last, StreamError | Broken):
            self._break_off(last)

    def _progress(self) -> None:
        self._has_events = True
        self._has_relisted_undecodable = False
        self._troubles.progress()
        self._plan.confirm(self._now)
        self._doubt = None
        self._settle()

    def _settle(self) -> None:
        self._proven()
        self._has_dropped = False
        self._troubles.settle()
        self._timers.clear(Deadline.SETTLE)
        if self._doubt is None:
            self._set_live()

    def _set_live(self) -> None:
        self._set(SourceState.LIVE, Reason.SYNCED, self._subject.sentence("up to date"))

    def _suspect_rewind(self) -> None:
        """Ask the server where it is: it sent a bookmark from the past."""
        self._outbox.add(Count("watch_ended", "old_bookmark"))
        self._close()
        self._proven()
        self._plan.is_unsure = True
        self._lose_contact(Reason.SERVER_BEHIND, "a bookmark is older than what is known")
        self._wait()

    def _break_off(self, event: StreamError | Broken) -> None:
        self._outbox.add(CloseStream())
        if isinstance(event, Broken):
            self._undecodable(event.error)
        else:
            self._handle(judge(self._phase, event))

    def _limit_lifetime(self, margin: float) -> None:
        """Open the watch again after its time, should the server not end it."""
        seconds = self._plan.watch_seconds(self._jitter) + margin
        self._timers.set(Deadline.REOPEN, self._opened_at + seconds)

    def _reopen(self) -> None:
        self._outbox.add(Count("watch_ended", "reopen"))
        self._close()
        self._notice_silence()
        self._proceed()

    def _notice_silence(self) -> None:
        """Ask where the server is if a whole watch has brought nothing, not even a bookmark.

        The server may have been set back. Or it cannot read some object, most often since it
        cannot be converted, and waits with all that comes after it.
        """
        # A bookmark comes two seconds before the end at the latest, if there is as much time.
        asked_seconds = self._plan.asked_seconds
        is_whole = self._now - self._opened_at > asked_seconds - _END_SECONDS
        is_due = is_whole and asked_seconds >= self._settings.brief_watch_seconds
        if is_due and self._plan.has_bookmarks and not self._has_events:
            self._plan.is_unsure = True

    def _end_cleanly(self) -> None:
        """Open the watch again, at once unless such watches end as soon as they have begun."""
        self._outbox.add(Count("watch_ended", "eof"))
        self._end()
        self._notice_silence()
        was_early = self._has_ended_early
        self._has_ended_early = self._now - self._opened_at < self._settings.settle_seconds
        if was_early and self._has_ended_early:
            self._wait()
        else:
            self._proceed()

    def _end_quickly(self) -> None:
        """Note a quick end: some proxies close a watch whose version has expired."""
        self._outbox.add(Count("watch_ended", "quick"))
        if self._troubles.quick_end():
            self._need_sync("quick_end")
        message = "it ended at once and without an event"
        verdict = Verdict(outcome=Outcome.RETRY, reason=Reason.WATCH_UNSTABLE, message=message)
        self._end()
        self._retry(verdict, Doing.WATCH, was_open=True)

    def _fail(self, failure: Failure) -> None:
        """Note that the request got no whole answer."""
        if failure.reason in _TOO_MUCH:
            if self._doing is Doing.LIST:
                self._ease_list()
            elif self._doing is Doing.INITIAL_WATCH and self._troubles.initial_failure():
                self._plan.lists_once = True
        self._handle(judge(self._phase, failure))
