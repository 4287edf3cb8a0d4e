"""Runs one informer: performs what its reflector asks for, and tells it what came of it.

    runner = InformerRunner(spec=spec, access=access, discovery=discovery, sink=sink, ...)
    await runner.run()          # until cancelled

There is one task for each informer; it has one request under way at a time. The reflector decides
everything; here is only the sequence of its effects, the reading of bodies in slices that leave the
event loop to others, and the one timer. Objects go to the sink. A change of credentials needs
nothing here: every request asks for the header anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from watchcache_server.informer.answers import retry_after_seconds
from watchcache_server.informer.bodies import ListBody
from watchcache_server.informer.condition import Subject
from watchcache_server.informer.decoding import EventDecoder, ItemDecoder
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
from watchcache_server.informer.errors import DataError
from watchcache_server.informer.inputs import Answer, Failure, NotServed, TokenProblem
from watchcache_server.informer.objects import Delta, Item
from watchcache_server.informer.reflector import Reflector
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.informer.source import Unverified
from watchcache_server.informer.statuses import read_status
from watchcache_server.informer.streams import EventStream
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.discovery import Discovery
from watchcache_server.kubernetes.errors import (
    AccessError,
    CredentialsError,
    TransportError,
)
from watchcache_server.kubernetes.requests import Request as HttpRequest
from watchcache_server.kubernetes.requests import (
    get_request,
    list_request,
    resource_path,
    watch_request,
)
from watchcache_server.kubernetes.served import DiscoveryFailed, Served, VersionNotServed
from watchcache_server.kubernetes.served import NotServed as NothingServed
from watchcache_server.kubernetes.transport import Response
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import LeftReason, Projection, SourceState

__all__ = ["InformerRunner", "InformerSink", "ListMemory", "SyncTurns"]

# After so much work in one go the event loop is left to others.
_SLICE_SECONDS: Final = 0.002
_STATUS_BYTES: Final = 64 * 1024
# A connection that has carried so much keeps large buffers; the watch goes on over a new one.
_REOPEN_BYTES: Final = 1024 * 1024
_VERIFY_PARALLEL: Final = 8
_VERIFY_SECONDS: Final = 5.0


class InformerSink(Protocol):
    """Where an informer puts what it reads. Methods return at once."""

    @property
    def namespace(self) -> str:
        """Namespace to read; empty for the whole cluster. Final once `bind` was called."""
        ...

    def bind(self, served: ServedResource) -> str | None:
        """Take what discovery found; return why it cannot be watched, if so."""
        ...

    def stage(self, items: Iterable[Item]) -> None:
        """Collect objects of a sync."""
        ...

    def unstage(self, items: Iterable[Item]) -> None:
        """Take objects out of the sync under way."""
        ...

    def discard(self) -> None:
        """Forget the sync under way."""
        ...

    def commit(self, read_at: float) -> None:
        """End the sync."""
        ...

    def apply(self, deltas: list[Delta], read_at: float) -> None:
        """Apply changes of the live stream."""
        ...

    def unverified(self) -> list[Unverified]:
        """Return the objects that left a selector and may be deleted."""
        ...

    def resolve(self, subject: Unverified, *, is_deleted: bool) -> None:
        """Say what became of such an object."""
        ...

    def purge(self, reason: LeftReason) -> None:
        """Drop all objects."""
        ...

    def contact(self) -> None:
        """Note that the API server was heard."""
        ...

    def set_state(
        self,
        state: SourceState,
        reason: str,
        message: str,
        *,
        missing_verbs: tuple[str, ...] = (),
        next_attempt_seconds: float | None = None,
    ) -> None:
        """Publish the state."""
        ...

    def credentials_failed(self, error: CredentialsError) -> None:
        """Hear why there are no credentials."""
        ...

    def counted(self, event: str, reason: str) -> None:
        """Hear of something that is worth a metric."""
        ...

    def events_read(self, count: int) -> None:
        """Hear that so many events of a live stream were read."""
        ...


class ListMemory:
    """Which resources of a cluster have to be listed, since their initial events never end."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[tuple[str, str, str], float] = {}

    def remember(self, cluster: str, group: str, resource: str, seconds: float) -> None:
        """Note it for so many seconds."""
        self._until[cluster, group, resource] = self._clock() + seconds

    def seconds_left(self, cluster: str, group: str, resource: str) -> float:
        """Return for how long it is noted; 0 when it is not."""
        until = self._until.get((cluster, group, resource))
        if until is None:
            return 0.0
        left = until - self._clock()
        if left <= 0:
            del self._until[cluster, group, resource]
            return 0.0
        return left


class SyncTurns:
    """Bounds the syncs under way at once against one cluster; first come, first served."""

    def __init__(self, limit: int) -> None:
        self._turns = asyncio.Semaphore(limit)

    @property
    def is_busy(self) -> bool:
        """Whether a newcomer has to wait."""
        return self._turns.locked()

    async def acquire(self) -> None:
        """Wait for a turn."""
        await self._turns.acquire()

    def release(self) -> None:
        """Give it back."""
        self._turns.release()


class InformerRunner:
    """The task of one informer."""

    def __init__(
        self,
        *,
        spec: SourceSpec,
        service_account: str,
        access: ApiAccess,
        discovery: Discovery,
        sink: InformerSink,
        turns: SyncTurns,
        memory: ListMemory,
        settings: ReflectorSettings,
        max_event_bytes: int,
        clock: Callable[[], float],
        jitter: Callable[[], float],
    ) -> None:
        """Prepare a task that has not started.

        `service_account` is `namespace/name` for messages; empty for the cluster's own identity.
        """
        self._spec = spec
        self._access = access
        self._discovery = discovery
        self._sink = sink
        self._turns = turns
        self._memory = memory
        self._settings = settings
        self._max_event_bytes = max_event_bytes
        self._clock = clock
        self._jitter = jitter
        self._reflector = Reflector(
            subject=Subject(
                cluster=spec.cluster,
                resource=spec.type_name,
                namespace=spec.namespace,
                service_account=service_account,
            ),
            settings=settings,
            list_seconds=memory.seconds_left(spec.cluster, spec.group, spec.resource or spec.kind),
        )
        self._served: ServedResource | None = None
        self._next: Request | None = None
        self._is_closed = False
        self._scope: asyncio.Timeout | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._wake = asyncio.Event()
        self._has_turn = False
        self._rejected: str | None = None
        self._read_at = 0.0
        self._slice_end = 0.0
        self._is_reopen_due = False
        self._verify = asyncio.Event()

    def __repr__(self) -> str:
        return f"<InformerRunner {self._reflector!r}>"

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                if self._spec.is_selecting:
                    group.create_task(self._verify_forever())
                self._perform(self._reflector.start(now=self._clock(), jitter=self._jitter()))
                while True:
                    await self._step()
        finally:
            if self._alarm is not None:
                self._alarm.cancel()
            self._give_turn_back()

    def poke(self) -> None:
        """Ask again now: something outside may have changed."""
        self._perform(self._reflector.poke(now=self._clock(), jitter=self._jitter()))

    async def _step(self) -> None:
        request, self._next = self._next, None
        if request is None:
            self._wake.clear()
            await self._wake.wait()
            return
        self._is_closed = False
        try:
            async with asyncio.timeout(None) as self._scope:
                await self._ask(request)
        except TimeoutError:
            # `CloseStream` came while the request was waiting; all has been said.
            if not self._is_over():
                raise
        finally:
            self._scope = None

    # Effects

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Discover() | RefreshToken() | List() | Watch():
                    self._next = effect
                    self._wake.set()
                case Wait():
                    self._set_alarm(effect.seconds)
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
                sink.apply(effect.deltas, self._read_at)
                self._verify.set()
            case Advance():
                sink.contact()
            case Stage():
                sink.contact()
                sink.stage(effect.items)
            case Unstage():
                sink.unstage(effect.items)
            case CommitSync():
                sink.contact()
                sink.commit(self._read_at)
                self._give_turn_back()
                self._verify.set()
            case DiscardSync():
                sink.discard()
                self._give_turn_back()
            case Purge():
                sink.purge(effect.reason)

    def _remember(self, seconds: float) -> None:
        spec = self._spec
        self._memory.remember(spec.cluster, spec.group, spec.resource or spec.kind, seconds)

    def _set_alarm(self, seconds: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(seconds, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        self._perform(self._reflector.on_timer(now=self._clock(), jitter=self._jitter()))

    def _close(self) -> None:
        """End the request under way, wherever it waits."""
        self._is_closed = True
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())

    def _is_over(self) -> bool:
        """Tell whether the request under way was closed by an effect."""
        return self._is_closed

    # Requests

    async def _ask(self, request: Request) -> None:
        if isinstance(request, List) or (
            isinstance(request, Watch) and request.send_initial_events
        ):
            await self._take_turn()
        else:
            self._give_turn_back()
        match request:
            case Discover():
                await self._discover(is_fresh=request.is_fresh)
            case RefreshToken():
                await self._refresh_token()
            case List():
                await self._list(request)
            case Watch():
                await self._watch(request)

    async def _take_turn(self) -> None:
        if self._has_turn:
            return
        if self._turns.is_busy and not self._is_serving:
            self._sink.set_state(
                SourceState.PENDING,
                "QUEUED",
                f"waiting for its turn to sync {self._spec.type_name} of cluster "
                f"{self._spec.cluster}; the setting max_concurrent_syncs bounds them",
            )
            await self._turns.acquire()
            condition = self._reflector.condition
            self._sink.set_state(condition.state, condition.reason, condition.message)
        else:
            await self._turns.acquire()
        self._has_turn = True

    @property
    def _is_serving(self) -> bool:
        return bool(self._reflector.resource_version)

    def _give_turn_back(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self._turns.release()

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
                self._discovered(self._bound(resource))
            case VersionNotServed(versions):
                served = ", ".join(versions)
                self._discovered(
                    NotServed(message=f"version {spec.version} is not served; served: {served}")
                )
            case NothingServed(hints):
                near = f"near names: {', '.join(hints)}" if hints else ""
                self._discovered(NotServed(message=near))
            case DiscoveryFailed(error):
                self._failed(error)

    def _bound(self, resource: ServedResource) -> ServedResource | NotServed:
        conflict = self._sink.bind(resource)
        if conflict is not None:
            return NotServed(message=conflict)
        self._served = resource
        if self._spec.is_scope_open and not resource.is_namespaced:
            # The spec leaves the scope to the kind, so there is nothing to object to.
            return ServedResource(
                group=resource.group,
                version=resource.version,
                resource=resource.resource,
                kind=resource.kind,
                is_namespaced=True,
                verbs=resource.verbs,
            )
        return resource

    def _discovered(self, found: ServedResource | NotServed) -> None:
        self._perform(
            self._reflector.on_discovered(found, now=self._clock(), jitter=self._jitter())
        )

    async def _refresh_token(self) -> None:
        try:
            await self._access.credentials.refresh(self._rejected)
        except CredentialsError as error:
            self._no_credentials(error)
        except AccessError as error:
            self._failed(error)
        else:
            self._perform(self._reflector.on_token(None, now=self._clock(), jitter=self._jitter()))

    def _no_credentials(self, error: CredentialsError) -> None:
        self._sink.credentials_failed(error)
        problem = TokenProblem(reason=error.reason.upper(), message=str(error))
        self._perform(self._reflector.on_token(problem, now=self._clock(), jitter=self._jitter()))

    def _failed(self, error: AccessError) -> None:
        failure = Failure(reason=error.reason, message=str(error))
        self._perform(self._reflector.on_failure(failure, now=self._clock(), jitter=self._jitter()))

    async def _list(self, request: List) -> None:
        served = self._served_resource()
        path = resource_path(
            served.group, served.version, served.resource, namespace=self._sink.namespace
        )
        http = list_request(
            path,
            limit=request.limit or 0,
            continue_token=request.continue_token,
            resource_version=request.resource_version or None,
            match="NotOlderThan" if request.match else None,
            label_selector=self._spec.label_selector,
            field_selector=self._spec.field_selector,
            is_metadata_only=self._is_metadata_only,
        )
        async with self._opened(http) as response:
            if response is not None:
                await self._read_list(response, served)

    async def _read_list(self, response: Response, served: ServedResource) -> None:
        body = ListBody(
            ItemDecoder(
                api_version=served.api_version, kind=served.kind, projection=self._projection
            ),
            self._max_event_bytes,
        )
        reflector = self._reflector
        try:
            while chunk := await self._chunk(response):
                items = body.feed(chunk)
                self._perform(reflector.on_items(items, now=self._read_at, jitter=self._jitter()))
                if self._is_over():
                    return
            items, page = body.finish()
        except DataError as error:
            self._perform(reflector.on_broken(error, now=self._clock(), jitter=self._jitter()))
            return
        self._perform(reflector.on_items(items, now=self._read_at, jitter=self._jitter()))
        self._perform(reflector.on_listed(page, now=self._read_at, jitter=self._jitter()))

    async def _watch(self, request: Watch) -> None:
        served = self._served_resource()
        path = resource_path(
            served.group, served.version, served.resource, namespace=self._sink.namespace
        )
        http = watch_request(
            path,
            resource_version=request.resource_version or None,
            match="NotOlderThan" if request.match else None,
            is_sending_initial_events=request.send_initial_events,
            timeout_seconds=request.timeout_seconds,
            label_selector=self._spec.label_selector,
            field_selector=self._spec.field_selector,
            is_metadata_only=self._is_metadata_only,
            idle_seconds=request.inactivity_seconds,
        )
        async with self._opened(http) as response:
            if response is not None:
                self._sink.contact()
                self._perform(self._reflector.on_opened(now=self._clock(), jitter=self._jitter()))
                if not self._is_over():
                    await self._read_watch(response, served, is_initial=request.send_initial_events)

    async def _read_watch(
        self, response: Response, served: ServedResource, *, is_initial: bool
    ) -> None:
        stream = EventStream(
            EventDecoder(
                api_version=served.api_version, kind=served.kind, projection=self._projection
            ),
            self._max_event_bytes,
        )
        reflector = self._reflector
        size = 0
        while chunk := await self._chunk(response):
            events = stream.feed(chunk)
            size += len(chunk)
            if not is_initial:
                self._sink.events_read(len(events))
            self._perform(reflector.on_events(events, now=self._read_at, jitter=self._jitter()))
            if self._is_over():
                return
            if is_initial and self._is_serving:
                is_initial = False
                if size > _REOPEN_BYTES:
                    self._perform(reflector.reopen(now=self._clock(), jitter=self._jitter()))
                    if self._is_over():
                        return
        leftover = stream.finish()
        if leftover:
            self._perform(reflector.on_events(leftover, now=self._read_at, jitter=self._jitter()))
        self._perform(reflector.on_eof(now=self._clock(), jitter=self._jitter()))

    @asynccontextmanager
    async def _opened(self, http: HttpRequest) -> AsyncIterator[Response | None]:
        """Open a request; None, with all said, when there is no body to read.

        Failures while the body is read are told to the reflector here too.
        """
        try:
            response = await self._access.open(http)
        except CredentialsError as error:
            self._no_credentials(error)
            yield None
            return
        except AccessError as error:
            self._failed(error)
            yield None
            return
        async with response:
            try:
                if response.status == 200:
                    self._read_at = self._clock()
                    self._slice_end = self._read_at + _SLICE_SECONDS
                    yield response
                else:
                    await self._answer(response)
                    yield None
            except TransportError as error:
                if not self._is_over():
                    self._failed(error)

    async def _answer(self, response: Response) -> None:
        try:
            body = await response.read(_STATUS_BYTES)
        except TransportError:
            # The status says what matters.
            body = b""
        if response.status == 401:
            self._rejected = response.authorization
        answer = Answer(
            code=response.status,
            status=read_status(body),
            retry_after_seconds=retry_after_seconds(
                response.headers.get("Retry-After", ""), response.headers.get("Date", "")
            ),
        )
        self._sink.contact()
        self._perform(self._reflector.on_answer(answer, now=self._clock(), jitter=self._jitter()))

    async def _chunk(self, response: Response) -> bytes:
        """Return more of the body, empty at its end; leave the loop to others between slices."""
        chunk = await response.read_chunk()
        now = self._clock()
        if now > self._slice_end:
            await asyncio.sleep(0)
            now = self._clock()
            self._slice_end = now + _SLICE_SECONDS
        self._read_at = now
        return chunk

    def _served_resource(self) -> ServedResource:
        served = self._served
        assert served is not None, "a reflector asks for discovery first"
        return served

    @property
    def _projection(self) -> Projection:
        return Projection(self._spec.projection)

    @property
    def _is_metadata_only(self) -> bool:
        return self._projection is Projection.METADATA

    # Objects that left an upstream selector

    async def _verify_forever(self) -> None:
        """Ask by name for each object that left a selector: only a GET tells what became of it."""
        places = asyncio.Semaphore(_VERIFY_PARALLEL)
        while True:
            await self._verify.wait()
            self._verify.clear()
            async with asyncio.TaskGroup() as group:
                for subject in self._sink.unverified():
                    await places.acquire()
                    task = group.create_task(self._verify_one(subject))
                    task.add_done_callback(lambda _: places.release())

    async def _verify_one(self, subject: Unverified) -> None:
        is_deleted = await self._is_deleted(subject)
        self._sink.resolve(subject, is_deleted=is_deleted)

    async def _is_deleted(self, subject: Unverified) -> bool:
        served = self._served_resource()
        request = get_request(
            resource_path(
                served.group,
                served.version,
                served.resource,
                namespace=subject.namespace,
                name=subject.name,
            ),
            is_metadata_only=True,
        )
        try:
            async with asyncio.timeout(_VERIFY_SECONDS):
                answer = await self._access.call(request)
        except (AccessError, TimeoutError):
            return False
        if answer.code == 404:
            return True
        if answer.code != 200:
            return False
        decoder = ItemDecoder(
            api_version=served.api_version, kind=served.kind, projection=Projection.METADATA
        )
        try:
            return decoder.decode(answer.body).uid != subject.uid
        except DataError:
            return False
