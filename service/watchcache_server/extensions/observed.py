"""How the task of one informer is doing, and who has to hear of it.

It is called by that task only, and waits for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchcache_server.extensions.status import CheckStatus, SourceStatus
from watchcache_server.informer.source import Source
from watchcache_server.kubernetes.checking import Checked
from watchcache_server.kubernetes.errors import CredentialsError, ServiceAccountNotFoundError
from watchcache_server.kubernetes.freshness import Freshness
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import CheckOutcome, SourceState

if TYPE_CHECKING:
    from watchcache_server.extensions.extension import Extension

__all__ = ["Observed"]


class Observed:
    """The state of one informer. `is_stopped`: it has no task any more, or will have none."""

    def __init__(self, extension: Extension, source: Source) -> None:
        self.extension = extension
        self.source = source
        self.is_stopped = False
        #: Who waits for it to be as fresh as they want.
        self.freshness = Freshness(source)
        self._clock = extension.clock
        self._started = self._clock.now()
        self.status = SourceStatus(state_time=self._clock.wall())

    @property
    def spec(self) -> SourceSpec:
        """What it watches."""
        return self.source.spec

    @property
    def namespace(self) -> str:
        """Namespace to read; empty for the whole cluster."""
        return self.source.namespace

    @property
    def is_synced(self) -> bool:
        """Whether objects of a sync are held."""
        return self.source.is_synced

    def _note_sync(self) -> None:
        if self.status.sync_seconds is None:
            self.status.sync_seconds = self._clock.now() - self._started
            self.extension.reporter.synced(self.spec, self.status.sync_seconds)

    def counted(self, event: str, reason: str) -> None:
        """Pass on that something happened that is worth a metric."""
        self.extension.reporter.informer_counted(self.spec, event, reason)

    def events_read(self, count: int) -> None:
        """Pass on that events of the live stream were read."""
        self.extension.reporter.events_read(self.spec, count)

    def credentials_failed(self, error: CredentialsError) -> None:
        """Take that there are no credentials on this cluster, and why."""
        if isinstance(error, ServiceAccountNotFoundError):
            self.extension.service_account_missing()

    def contact(self) -> None:
        """Note that the API server was heard."""
        self.status.last_contact_time = self._clock.wall()

    def set_state(
        self,
        state: SourceState,
        reason: str,
        message: str,
        *,
        missing_verbs: tuple[str, ...] = (),
        next_attempt_seconds: float | None = None,
    ) -> None:
        """Set state and reason; tell everybody if it is news."""
        status = self.status
        due = None if next_attempt_seconds is None else self._clock.wall() + next_attempt_seconds
        status.next_attempt_time = due
        told = (status.state, status.reason, status.message, status.missing_verbs)
        if told == (state, reason, message, missing_verbs):
            return
        if status.state is not state:
            status.state_time = self._clock.wall()
            self.extension.reporter.source_state_changed(
                self.extension.key, self.spec, status.state, state, reason, message
            )
        status.state, status.reason, status.message = state, reason, message
        status.missing_verbs = missing_verbs
        self.extension.status_changed(status)

    def checked(self, checked: Checked, *, is_mended: bool) -> None:
        """Take what a comparison with the API server has found; tell everybody if it is news.

        `is_mended`: all objects are listed anew for it.
        """
        status, finding, now = self.status, checked.finding, self._clock.wall()
        before = status.check
        check = CheckStatus(
            time=now, outcome=checked.outcome, message=_check_message(checked, is_mended=is_mended)
        )
        if before is not None:
            check.mismatch_count, check.mismatch_time = before.mismatch_count, before.mismatch_time
        if finding is not None:
            check.mismatch_count += 1
            check.mismatch_time = now
        status.check = check
        counts = {} if finding is None else finding.counts()
        self.extension.reporter.consistency_checked(
            self.extension.key, self.spec, check.outcome, check.message, counts
        )
        was = CheckOutcome.CONSISTENT if before is None else before.outcome
        if finding is not None or was is not check.outcome:
            self.extension.status_changed(status)


def _check_message(checked: Checked, *, is_mended: bool) -> str:
    """Return what a check has found as a sentence for people."""
    if checked.finding is None:
        unclear = "the stream did not come to the list, or too much changed meanwhile"
        return unclear if checked.outcome is CheckOutcome.UNCLEAR else checked.problem
    if is_mended:
        return f"{checked.finding.text()}; all of them are listed anew"
    return (
        f"{checked.finding.text()}, again after all were listed anew: the API server answers lists "
        "and watches differently; listing is tried again ever less often"
    )
