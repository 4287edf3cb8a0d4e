"""Runs one informer: performs what its reflector asks for, and tells it what came of it.

    runner = InformerRunner(spec=spec, access=access, discovery=discovery, sink=sink, ...)
    await runner.run()          # until cancelled

The reflector decides everything; here is only the sequence of its effects, and the one timer. One
request is under way at a time. What comes of a request that was closed meanwhile is dropped, at
whatever point that is. Objects go to the sink. A change of credentials needs nothing here: every
request asks for the header anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from watchcache_server.informer.condition import Subject
from watchcache_server.informer.effects import (
    Advance,
    Apply,
    CloseStream,
    CommitSync,
    Count,
    DiscardSync,
    Discover,
    Effect,
    List,
    Purge,
    RefreshToken,
    Remember,
    Request,
    SetState,
    Stage,
    Unstage,
    Wait,
    Watch,
)
from watchcache_server.informer.inputs import NotServed, Overlapping
from watchcache_server.informer.reflector import Reflector
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.alarm import Alarm
from watchcache_server.kubernetes.discovery import Discovery
from watchcache_server.kubernetes.errors import AccessError, CredentialsError
from watchcache_server.kubernetes.informer_calls import InformerCalls
from watchcache_server.kubernetes.informer_sink import InformerSink
from watchcache_server.kubernetes.list_memory import ListMemory
from watchcache_server.kubernetes.pace import Pace
from watchcache_server.kubernetes.prober import Prober
from watchcache_server.kubernetes.renewals import Renewals
from watchcache_server.kubernetes.served import DiscoveryFailed, Served, VersionNotServed
from watchcache_server.kubernetes.served import NotServed as NothingServed
from watchcache_server.kubernetes.sync_turns import SyncTurns, Turn
from watchcache_server.kubernetes.verification import VerificationLimits, Verifier
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import SourceState

__all__ = ["InformerRunner"]


class InformerRunner:
    """The task of one informer."""

    def __init__(
        self,
        *,
        spec: SourceSpec,
        tenant: str,
        service_account: str,
        access: ApiAccess,
        discovery: Discovery,
        sink: InformerSink,
        turns: SyncTurns,
        renewals: Renewals,
        pace: Pace,
        memory: ListMemory,
        settings: ReflectorSettings,
        max_event_bytes: int,
        verification: VerificationLimits | None = None,
        clock: Callable[[], float],
        jitter: Callable[[], float],
    ) -> None:
        """Prepare a task that has not started.

        `tenant` is who shares in the turns to sync and in the pace. `service_account` is
        `namespace/name` for messages; empty for the cluster's own identity.
        """
        self._spec = spec
        self._tenant = tenant
        self._access = access
        self._discovery = discovery
        self._sink = sink
        self._turns = turns
        self._memory = memory
        self._clock = clock
        self._jitter = jitter
        self._reflector = Reflector(
            subject=Subject(
                cluster=spec.cluster,
                resource=spec.type_name,
                namespace=spec.namespace,
                service_account=service_account,
                is_scope_open=spec.is_scope_open,
            ),
            settings=settings,
            list_seconds=memory.seconds_left(spec.cluster, spec.group, spec.resource or spec.kind),
            holds_objects=sink.is_synced,
        )
        self._calls = InformerCalls(
            spec=spec,
            tenant=tenant,
            access=access,
            sink=sink,
            reflector=self._reflector,
            pace=pace,
            renewals=renewals,
            max_event_bytes=max_event_bytes,
            clock=clock,
            tell=self._tell,
            renew=self._renew,
        )
        self._alarm = Alarm()
        self._verifier = Verifier(access, sink, verification) if spec.is_selecting else None
        self._prober = Prober(
            access,
            sink.freshness,
            hasten=self.hasten,
            suspect=self.suspect,
        )
        self._turn: Turn | None = None
        self._is_renewal_due = False
        # The request that comes next, and the one under way.
        self._next: Request | None = None
        self._has_next = asyncio.Event()
        self._is_closed = False
        self._scope: asyncio.Timeout | None = None

    def __repr__(self) -> str:
        return f"<InformerRunner {self._reflector!r}>"

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ring_forever(group))
                if self._verifier is not None:
                    group.create_task(self._verifier.run())
                self._prober.begin(self._alarm.ring)
                self._perform(self._reflector.start(now=self._clock(), jitter=self._jitter()))
                while True:
                    await self._step()
        finally:
            self._alarm.cancel()
            self._give_turn_back()

    def hasten(self) -> None:
        """Have the watch bring a bookmark soon."""
        self._interfere(self._reflector.hasten)

    def suspect(self) -> None:
        """Look whether the storage was set back."""
        self._interfere(self._reflector.suspect)

    def distrust(self) -> None:
        """List anew: what is held was proven wrong."""
        self._interfere(self._reflector.distrust)

    async def _ring_forever(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._alarm.wait()
            self._interfere(self._reflector.on_timer)
            if self._is_renewal_due:
                self._is_renewal_due = False
                self._interfere(self._reflector.reopen)
            self._prober.ask(group)

    async def _step(self) -> None:
        request, self._next = self._next, None
        if request is None:
            # Whoever waits for a better moment to sync lets others have theirs.
            self._give_turn_back()
            self._has_next.clear()
            await self._has_next.wait()
            return
        self._is_closed = False
        try:
            async with asyncio.timeout(None) as self._scope:
                await self._ask(request)
        except TimeoutError:
            # `CloseStream` came while the request was waiting; all has been said.
            if not self._is_closed:
                raise
        finally:
            self._scope = None

    # Inputs and effects

    def _tell(self, hear: Callable[..., list[Effect]], *what: object) -> bool:
        """Tell what came of the request under way; return whether it goes on."""
        if not self._is_closed:
            self._perform(hear(*what, now=self._clock(), jitter=self._jitter()))
        return not self._is_closed

    def _interfere(self, hear: Callable[..., list[Effect]]) -> None:
        """Tell what nobody was asked for, whatever is under way."""
        self._perform(hear(now=self._clock(), jitter=self._jitter()))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Discover() | RefreshToken() | List() | Watch():
                    self._next = effect
                    self._has_next.set()
                case Wait():
                    self._alarm.set(effect.seconds)
                case CloseStream():
                    self._close()
                case SetState():
                    self._sink.set_state(
                        effect.state,
                        effect.reason,
                        effect.message,
                        missing_verbs=effect.missing_verbs,
                        next_attempt_seconds=effect.next_attempt_seconds,
                    )
                case Count():
                    self._sink.counted(effect.event, effect.reason)
                case Remember():
                    self._remember(effect.list_seconds)
                case _:
                    self._deliver(effect)

    def _deliver(
        self, effect: Apply | Advance | Stage | Unstage | CommitSync | DiscardSync | Purge
    ) -> None:
        """Pass on what concerns the objects."""
        sink = self._sink
        match effect:
            case Apply():
                sink.contact()
                sink.apply(effect.deltas, self._calls.read_at, effect.resource_version)
                self._verify()
            case Advance():
                sink.contact()
                sink.advance(effect.resource_version)
            case Stage():
                sink.contact()
                sink.stage(effect.items)
            case Unstage():
                sink.unstage(effect.items)
            case CommitSync():
                sink.contact()
                sink.commit(self._calls.read_at, effect.resource_version)
                self._give_turn_back()
                self._verify()
            case DiscardSync():
                sink.discard()
            case Purge():
                sink.purge(effect.reason)

    def _verify(self) -> None:
        if self._verifier is not None:
            self._verifier.look(self._calls.served_resource)

    def _remember(self, seconds: float) -> None:
        served = self._calls.served_resource
        for name in (served.resource, served.kind):
            self._memory.remember(self._spec.cluster, served.group, name, seconds)

    def _close(self) -> None:
        """End the request under way, wherever it waits, and one that was not yet begun."""
        self._is_closed = True
        self._next = None
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())

    # Requests

    async def _ask(self, request: Request) -> None:
        if self._reflector.is_syncing:
            await self._take_turn()
        else:
            self._give_turn_back()
        match request:
            case Discover():
                await self._discover(is_fresh=request.is_fresh)
            case RefreshToken():
                await self._refresh_token()
            case List() | Watch():
                await self._calls.perform(request)

    async def _take_turn(self) -> None:
        if self._turn is not None:
            return
        is_queued = self._turns.is_busy
        self._turn = await self._turns.take(self._tenant, self._say_queued)
        if is_queued and self._state is SourceState.SYNCING:
            condition = self._reflector.condition
            self._sink.set_state(condition.state, condition.reason, condition.message)

    def _say_queued(self, before: int) -> None:
        """Say that it waits for its turn, and behind how many."""
        # An informer that holds objects, or has failed before, has more to say than that it waits.
        if self._state is not SourceState.SYNCING:
            return
        place = "next" if not before else "one before it" if before == 1 else f"{before} before it"
        self._sink.set_state(
            SourceState.PENDING,
            "QUEUED",
            f"waiting for its turn to sync {self._spec.type_name} of cluster "
            f"{self._spec.cluster}, {place}; the setting max_concurrent_syncs bounds how many sync "
            "at once",
        )

    @property
    def _state(self) -> SourceState:
        return self._reflector.condition.state

    def _give_turn_back(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.give_back()

    async def _discover(self, *, is_fresh: bool) -> None:
        spec = self._spec
        found = await self._discovery.resolve(
            spec.group,
            spec.version,
            spec.resource or spec.kind,
            max_age_seconds=0.0 if is_fresh else None,
        )
        match found:
            case Served(resource):
                self._tell(self._reflector.on_discovered, self._bound(resource))
            case VersionNotServed(versions):
                served = ", ".join(versions)
                self._not_served(f"version {spec.version} is not served; served: {served}")
            case NothingServed(hints):
                self._not_served(f"near names: {', '.join(hints)}" if hints else "")
            case DiscoveryFailed(error):
                self._calls.failed(error)

    def _bound(self, resource: ServedResource) -> ServedResource | Overlapping:
        conflict = self._sink.bind(resource)
        if conflict is not None:
            return Overlapping(message=conflict)
        self._calls.served = resource
        return resource

    def _not_served(self, message: str) -> None:
        self._tell(self._reflector.on_discovered, NotServed(message=message))

    async def _refresh_token(self) -> None:
        try:
            await self._access.credentials.refresh(self._calls.rejected)
        except CredentialsError as error:
            self._calls.no_credentials(error)
        except AccessError as error:
            self._calls.failed(error)
        else:
            self._calls.rejected = None
            self._tell(self._reflector.on_token, None)

    def _renew(self) -> None:
        """Have the watch go on over another connection; a fault in that is this informer's own."""
        self._is_renewal_due = True
        self._alarm.ring()
