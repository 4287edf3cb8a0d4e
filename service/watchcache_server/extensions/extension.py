"""One registered extension: its spec, its store, its informers, and the news of both.

It holds state and waits for nothing. Who starts and stops the informers is the registry's business;
what they read arrives through `Informer`, which is the one writer of its source.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.namespaces import ChosenScope, NamespaceInformer
from watchcache_server.extensions.pulse import Pulse
from watchcache_server.extensions.status import SourceStatus, extension_state
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.resume import EPOCH_BYTES
from watchcache_server.informer.source import Source
from watchcache_server.informer.store import Store
from watchcache_server.model.specs import Choice, ExtensionKey, ExtensionSpec, SourceSpec
from watchcache_server.model.states import ExtensionState, LeftReason, SourceState
from watchcache_server.observability.reporting import Reporter

__all__ = ["Clock", "Extension", "ExtensionOwner"]

_MAX_STOPPED: Final = 512
_NOT_ASKED_FOR: Final = "the extension no longer asks for it"


@dataclass(frozen=True, slots=True)
class Clock:
    """The two clocks: `now` is monotonic, `wall` is seconds since 1970."""

    now: Callable[[], float]
    wall: Callable[[], float]


def _place(told: Informer | ChosenScope) -> tuple[str, str, str, str, int]:
    source = told.source
    name = source.resource or source.kind
    number = source.number if isinstance(source, Source) else 0
    return source.group, name, source.spec.cluster, source.namespace, number


class ExtensionOwner(Protocol):
    """Whoever holds the extensions; told of what it has to act on, outside of its own calls."""

    def status_changed(self, extension: Extension) -> None:
        """Hear that an informer has another state."""
        ...

    def rights_revoked(self, extension: Extension) -> None:
        """Hear that objects were dropped because the right to read them is gone."""
        ...

    def training_due(self, informer: Informer) -> None:
        """Hear that the source of an informer wants a dictionary."""
        ...

    def service_account_missing(self, extension: Extension) -> None:
        """Hear that the ServiceAccount of an extension does not exist on one of its clusters."""
        ...


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
        max_ends: int,
        max_index_values: int,
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
            max_ends=max_ends,
            most_index_values=max_index_values,
        )
        self.pulse = Pulse(deliveries_per_second)
        #: Those that the spec asks for, and those that go on until their objects are taken over.
        self.informers: dict[SourceSpec, Informer] = {}
        self.retiring: dict[Informer, None] = {}
        #: What it watches in namespaces that a selector chooses.
        self.chosen: dict[Choice, ChosenScope] = {}
        # Those that ended lately, for streams that have yet to be told.
        self._stopped: list[Informer | ChosenScope] = []
        self.subscription_count = 0
        self.status_version = 0
        self.ended = ""
        self.registered_spec: object = None
        # The registry's count of changes when this extension changed last.
        self.registry_version = 0
        self._last_use = clock.now()
        self._holds = 0
        self._owner = owner

    def __repr__(self) -> str:
        return f"Extension({self.key}, {self.state.value}, {len(self.informers)} informers)"

    @property
    def state(self) -> ExtensionState:
        """All informers taken together."""
        return extension_state(told.status.state for told in self.told())

    @property
    def is_settled(self) -> bool:
        """Whether every informer is live or has failed."""
        return self.is_settled_in(EVERYTHING)

    def is_settled_in(self, wanted: Filter) -> bool:
        """Whether every informer whose source passes is live or has failed.

        So do the sets of namespaces that may bring further ones.
        """
        return all(each.status.state.is_settled for each in self.told_in(wanted))

    def informers_in(self, wanted: Filter) -> list[Informer]:
        """Return the informers whose sources pass, in no order."""
        return [each for each in self.informers.values() if wanted.passes_source(each.source)]

    def chosen_in(self, wanted: Filter) -> list[ChosenScope]:
        """Return what is chosen by sets of namespaces and may pass, in no order."""
        return [each for each in self.chosen.values() if wanted.passes_source(each.source)]

    def chosen_of(self, cluster: str, group: str, resource: str) -> list[ChosenScope]:
        """Return what sets choose of a resource; while only a kind is known, it may be that."""
        return [
            each
            for each in self.chosen.values()
            if each.spec.cluster == cluster
            and each.source.group == group
            and each.source.resource in ("", resource)
        ]

    @property
    def namespace_informers(self) -> list[NamespaceInformer]:
        """The informers of the sets of namespaces, each once."""
        return list(dict.fromkeys(each.informer for each in self.chosen.values()))

    def told(self) -> list[Informer | ChosenScope]:
        """Return what is told of: all informers, and what sets choose; in no order."""
        return [*self.informers.values(), *self.chosen.values()]

    def told_in(self, wanted: Filter) -> list[Informer | ChosenScope]:
        """Return the part of it whose sources pass."""
        return [*self.informers_in(wanted), *self.chosen_in(wanted)]

    def ordered(self) -> list[Informer | ChosenScope]:
        """Return it by resource, cluster and namespace."""
        return sorted(self.told(), key=_place)

    def informers_of(self, sources: Iterable[Source]) -> list[Informer]:
        """Return the informers that feed these sources, those that retire included."""
        numbers = {source.number for source in sources}
        return [
            informer
            for informer in (*self.informers.values(), *self.retiring)
            if informer.source.number in numbers
        ]

    def changed(self, wanted: Filter, since: int) -> list[Informer | ChosenScope]:
        """Return the informers that pass and whose status has changed since a status version.

        So too what sets choose. What was stopped comes first, unless there is another one of the
        same spec by now.
        """
        stopped = [
            each
            for each in self._stopped
            if 0 < since < each.status.version
            and each.key not in self.informers
            and each.key not in self.chosen
            and wanted.passes_source(each.source)
        ]
        changed = [each for each in self.told_in(wanted) if each.version > since]
        return stopped + sorted(changed, key=_place)

    def add_informer(self, spec: SourceSpec) -> Informer:
        """Add a source and the informer that feeds it."""
        informer = Informer(self, self.store.add_source(spec))
        self.informers[spec] = informer
        self.status_changed(informer.status)
        return informer

    def retire_informer(self, informer: Informer) -> None:
        """Take an informer out of the spec; it goes on until `remove_informer`."""
        del self.informers[informer.spec]
        informer.source.is_retiring = True
        self.retiring[informer] = None

    def remove_informer(self, informer: Informer) -> None:
        """Remove an informer and its source; the objects left in it have LEFT with the scope."""
        if informer in self.retiring:
            del self.retiring[informer]
        else:
            del self.informers[informer.spec]
        informer.is_stopped = True
        informer.freshness.release()
        # It is kept for its last status only.
        informer.past = None
        self._stopped.append(informer)
        del self._stopped[:-_MAX_STOPPED]
        informer.set_state(SourceState.STOPPED, "STOPPED", _NOT_ASKED_FOR)
        self.store.remove_source(informer.source, LeftReason.SCOPE, self.clock.now())
        self.pulse.touch()

    def choose(self, choice: Choice, informer: NamespaceInformer) -> None:
        """Add what is watched in the namespaces of a set."""
        self.status_changed()
        self.chosen[choice] = ChosenScope(choice, informer, self.status_version)

    def unchoose(self, choice: Choice) -> None:
        """Take out what is no longer watched in the namespaces of a set."""
        chosen = self.chosen.pop(choice)
        status = SourceStatus(
            state=SourceState.STOPPED,
            reason="STOPPED",
            message=_NOT_ASKED_FOR,
            state_time=self.clock.wall(),
        )
        chosen.end(status)
        self._stopped.append(chosen)
        del self._stopped[:-_MAX_STOPPED]
        self.status_changed(status)

    def bound(self, source: Source) -> None:
        """Take that discovery has found a source, and so what is chosen in its namespace."""
        for chosen in self.chosen.values():
            if chosen.spec == source.spec.wide:
                chosen.source.served = source.served

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

    def training_due(self, informer: Informer) -> None:
        """Ask for a dictionary for the source of an informer."""
        self._owner.training_due(informer)

    def service_account_missing(self) -> None:
        """Take that the ServiceAccount does not exist on one of the clusters."""
        self._owner.service_account_missing(self)

    def end(self, why: str) -> None:
        """Mark it as no longer registered and wake everybody."""
        self.ended = why
        self.store.drop()
        for informer in (*self.informers.values(), *self.retiring, *self.namespace_informers):
            informer.is_stopped = True
        self.release_readers()
        # Informers and their extension hold each other; without this they wait for the collector.
        self.informers.clear()
        self.retiring.clear()
        self.chosen.clear()
        self._stopped.clear()
        self.pulse.wake_now()

    def release_readers(self) -> None:
        """Let everybody look again who waits for an informer to be fresh."""
        for informer in (*self.informers.values(), *self.retiring, *self.namespace_informers):
            informer.freshness.release()

    # Time to live

    def used(self) -> None:
        """Begin the ttl anew: somebody registered it, or stopped using it."""
        self._last_use = self.clock.now()

    def hold(self) -> None:
        """Keep the ttl from running until `let_go` was called as often."""
        self._holds += 1

    def let_go(self) -> None:
        """End a `hold`."""
        self._holds -= 1
        self.used()

    def subscribed(self) -> None:
        """Count a Watch stream that began."""
        self.subscription_count += 1
        self.hold()

    def unsubscribed(self) -> None:
        """Count a Watch stream that ended."""
        self.subscription_count -= 1
        self.let_go()

    @property
    def expires_in(self) -> float | None:
        """Seconds until the ttl frees it; None while it cannot."""
        if self.spec.ttl_seconds is None or self._holds:
            return None
        return max(0.0, self._last_use + self.spec.ttl_seconds - self.clock.now())
