"""One registered extension: its spec, its store, its informers, and the news of both.

It holds state and waits for nothing. Who starts and stops the informers is the registry's business;
what they read arrives through `Informer`, which is the one writer of its source.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from watchcache_server.extensions.pulse import Pulse
from watchcache_server.extensions.status import SourceStatus, extension_state
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.objects import Delta, Item
from watchcache_server.informer.resume import EPOCH_BYTES
from watchcache_server.informer.source import Source, Unverified
from watchcache_server.informer.store import Store
from watchcache_server.kubernetes.errors import CredentialsError, ServiceAccountNotFoundError
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import ExtensionKey, ExtensionSpec, SourceSpec
from watchcache_server.model.states import ExtensionState, LeftReason, SourceState
from watchcache_server.observability.reporting import Reporter

__all__ = ["Clock", "Extension", "ExtensionOwner", "Informer"]


@dataclass(frozen=True, slots=True)
class Clock:
    """The two clocks: `now` is monotonic, `wall` is seconds since 1970."""

    now: Callable[[], float]
    wall: Callable[[], float]


class ExtensionOwner(Protocol):
    """Whoever holds the extensions; told of what it has to act on, outside of its own calls."""

    def status_changed(self, extension: Extension) -> None:
        """Hear that an informer has another state."""
        ...

    def rights_revoked(self, extension: Extension) -> None:
        """Hear that objects were dropped because the right to read them is gone."""
        ...

    def training_due(self, source: Source) -> None:
        """Hear that a source wants a dictionary."""
        ...

    def service_account_missing(self, extension: Extension, cluster: str) -> None:
        """Hear that the ServiceAccount of an extension does not exist on a cluster."""
        ...


class Informer:
    """The side of an extension that one informer writes to."""

    def __init__(self, extension: Extension, source: Source) -> None:
        self.extension = extension
        self.source = source
        self._clock = extension.clock
        self._started = self._clock.now()
        self.status = SourceStatus(state_time=self._clock.wall())

    @property
    def spec(self) -> SourceSpec:
        """What it watches."""
        return self.source.spec

    # What the informer reads

    @property
    def namespace(self) -> str:
        """Namespace to read; empty for the whole cluster."""
        return self.source.namespace

    def unverified(self) -> list[Unverified]:
        """Return the objects that left a selector and may be deleted."""
        return self.source.unverified

    def bind(self, served: ServedResource) -> str | None:
        """Take what discovery found; return why it cannot be watched here, if so."""
        other = self.extension.store.bind(self.source, served)
        if other is None:
            return None
        return (
            f"{served.name} is watched by another entry of the spec already, named as "
            f"{other.spec.type_name}; remove one of the two"
        )

    def stage(self, items: Iterable[Item]) -> None:
        """Collect objects of a sync."""
        self.source.stage(items)
        self._consider_training()

    def unstage(self, items: Iterable[Item]) -> None:
        """Take objects out of the sync under way."""
        for item in items:
            self.source.unstage(item)

    def discard(self) -> None:
        """Forget the sync under way."""
        self.source.discard()

    def commit(self, read_at: float) -> None:
        """End the sync: what was staged is what there is."""
        self.extension.store.commit(self.source, read_at)
        if self.status.sync_seconds is None:
            self.status.sync_seconds = self._clock.now() - self._started
            self.extension.reporter.synced(self.spec, self.status.sync_seconds)
        self.extension.pulse.touch()

    def apply(self, deltas: list[Delta], read_at: float) -> None:
        """Apply changes of the live stream."""
        store = self.extension.store
        before = store.revision
        store.apply(self.source, deltas, read_at)
        if store.revision != before:
            self.extension.pulse.touch()
            self._consider_training()

    def _consider_training(self) -> None:
        if self.source.is_training_due:
            self.extension.training_due(self.source)

    def resolve(self, subject: Unverified, *, is_deleted: bool) -> None:
        """Say what became of an object that left an upstream selector."""
        store = self.extension.store
        store.resolve(self.source, subject, self._clock.now(), is_deleted=is_deleted)
        self.extension.pulse.touch()

    def purge(self, reason: LeftReason) -> None:
        """Drop all objects."""
        self.extension.store.purge(self.source, reason, self._clock.now())
        if reason is LeftReason.RIGHTS_REVOKED:
            self.extension.rights_revoked()
        self.extension.pulse.touch()

    # How it is doing

    def counted(self, event: str, reason: str) -> None:
        """Pass on that something happened that is worth a metric."""
        self.extension.reporter.informer_counted(self.spec, event, reason)

    def events_read(self, count: int) -> None:
        """Pass on that events of the live stream were read."""
        self.extension.reporter.events_read(self.spec, count)

    def credentials_failed(self, error: CredentialsError) -> None:
        """Take that there are no credentials on this cluster, and why."""
        if isinstance(error, ServiceAccountNotFoundError):
            self.extension.service_account_missing(self.spec.cluster)

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


class Extension:
    """One extension. `ended` says why it is no longer registered, empty while it is."""

    def __init__(
        self,
        key: ExtensionKey,
        spec: ExtensionSpec,
        *,
        clock: Clock,
        reporter: Reporter,
        max_changes: int,
        max_history_bytes: int,
        deliveries_per_second: int,
        owner: ExtensionOwner,
    ) -> None:
        self.key = key
        self.spec = spec
        self.clock = clock
        self.reporter = reporter
        self.uid = str(uuid.uuid4())
        self.generation = 1
        self.create_time = clock.wall()
        self.store = Store(
            uuid.uuid4().bytes[:EPOCH_BYTES],
            max_changes=max_changes,
            max_history_bytes=max_history_bytes,
        )
        self.pulse = Pulse(deliveries_per_second)
        self.informers: dict[SourceSpec, Informer] = {}
        self.subscription_count = 0
        self.status_version = 0
        self.ended = ""
        self.registered_spec: object = None
        # The registry's count of changes when this extension changed last.
        self.registry_version = 0
        self._last_use = clock.now()
        self._owner = owner

    def __repr__(self) -> str:
        return f"Extension({self.key}, {self.state.value}, {len(self.informers)} informers)"

    @property
    def state(self) -> ExtensionState:
        """All informers taken together."""
        return extension_state(informer.status.state for informer in self.informers.values())

    @property
    def is_settled(self) -> bool:
        """Whether every informer is live or has failed."""
        return all(informer.status.state.is_settled for informer in self.informers.values())

    def ordered_informers(self, wanted: Filter | None = None) -> list[Informer]:
        """Return the informers whose sources pass, ordered by resource, cluster and namespace."""
        by_number = {informer.source.number: informer for informer in self.informers.values()}
        return [
            by_number[source.number]
            for source in self.store.sources(wanted)
            if source.number in by_number
        ]

    def add_informer(self, spec: SourceSpec) -> Informer:
        """Add a source and the informer that feeds it."""
        informer = Informer(self, self.store.add_source(spec))
        self.informers[spec] = informer
        self.status_changed(informer.status)
        return informer

    def retire_informer(self, spec: SourceSpec) -> Informer:
        """Take an informer out of the spec; it goes on until `remove_informer`."""
        informer = self.informers.pop(spec)
        informer.source.is_retiring = True
        return informer

    def successors(self, retiring: Informer) -> list[Informer]:
        """Return the informers that may take objects over from a retiring one."""
        return [
            informer
            for informer in self.informers.values()
            if informer.source.may_share_objects(retiring.source)
        ]

    def remove_informer(self, informer: Informer) -> None:
        """Remove an informer and its source; the objects left in it have LEFT with the scope."""
        if self.informers.get(informer.spec) is informer:
            del self.informers[informer.spec]
        informer.set_state(SourceState.STOPPED, "STOPPED", "the extension no longer asks for it")
        self.store.remove_source(informer.source, LeftReason.SCOPE, self.clock.now())
        self.pulse.touch()

    # News

    def status_changed(self, status: SourceStatus | None = None) -> None:
        """Count a change of status and tell everybody."""
        self.status_version += 1
        if status is not None:
            status.version = self.status_version
        self.pulse.touch()
        self._owner.status_changed(self)

    def rights_revoked(self) -> None:
        """Tell that objects were dropped because the right to read them is gone."""
        self._owner.rights_revoked(self)

    def training_due(self, source: Source) -> None:
        """Ask for a dictionary for a source."""
        self._owner.training_due(source)

    def service_account_missing(self, cluster: str) -> None:
        """Take that the ServiceAccount does not exist on a cluster."""
        self._owner.service_account_missing(self, cluster)

    def end(self, why: str) -> None:
        """Mark it as no longer registered and wake everybody."""
        self.ended = why
        self.store.drop()
        # Informers and their extension hold each other; without this they wait for the collector.
        self.informers.clear()
        self.pulse.wake_now()

    # Time to live

    def used(self) -> None:
        """Begin the ttl anew: somebody registered it, or stopped watching it."""
        self._last_use = self.clock.now()

    def subscribed(self) -> None:
        """Count a Watch stream that began."""
        self.subscription_count += 1

    def unsubscribed(self) -> None:
        """Count a Watch stream that ended."""
        self.subscription_count -= 1
        self.used()

    @property
    def expires_in(self) -> float | None:
        """Seconds until the ttl frees it; None while it cannot."""
        if self.spec.ttl_seconds is None or self.subscription_count:
            return None
        return max(0.0, self._last_use + self.spec.ttl_seconds - self.clock.now())
