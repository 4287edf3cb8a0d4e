"""A local copy of an extension's objects, fed by a watch, that knows how old it is.

`Mirror` applies the messages of a watch to a `Store`, keeps track of freshness, and guards every
read: nothing is returned that was never loaded, that the service may not load, or that is older
than the reader allows. What it holds stays readable while the service is away, with its age.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Generic, Self, TypeVar

from watchcache.backoff import Backoff
from watchcache.durations import Duration, seconds_of
from watchcache.errors import (
    InvalidArgumentError,
    MirrorClosedError,
    NotSyncedError,
    NotWatchedError,
    StaleError,
    WatchCacheError,
)
from watchcache.holdings import HeldObject
from watchcache.index_paths import check_path
from watchcache.keys import Key, ResourceName, parse_resource
from watchcache.messages import (
    Batch,
    Bookmark,
    Disconnected,
    KnownGone,
    Message,
    Reset,
    SourceChanged,
    Started,
    Synced,
)
from watchcache.objects import Decoder
from watchcache.pulse import Pulse
from watchcache.sources import SourceTable
from watchcache.states import Projection, StartMode
from watchcache.status import Source
from watchcache.store import Change, Entry, Store, Version
from watchcache.v1alpha1 import extension_pb2
from watchcache.watch import Watch
from watchcache.workqueue import Queue, Related

__all__ = ["Listener", "Mirror"]

T = TypeVar("T")

_List = list  # `Mirror.list` hides the name within the class.

Listener = Callable[[Sequence[Change[T]]], None]
"""Is told what a message changed, after all of it was applied."""

_log = logging.getLogger("watchcache")


class Mirror(Generic[T]):
    """The objects of an extension, held here; made by `Extension.mirror`, live within `async with`.

    Every read of a resource raises NotSyncedError while it is not loaded (nothing was ever loaded,
    or its informer may not or cannot load it), StaleError when the data is older than `max_age`,
    and NotWatchedError when no informer covers it. Objects are decoded at each read, so a reader
    may change what it gets.
    """

    def __init__(
        self, watch: Watch[T], decode: Decoder[T], *, max_age_seconds: float | None, name: str
    ) -> None:
        self._watch = watch
        self._decode = decode
        self._max_age_seconds = max_age_seconds
        self._name = name
        self._store: Store[T] = Store(decode)
        self._extension_uid = ""
        watch.holdings = self._held
        self._sources = SourceTable()
        self._listeners: list[Listener[T]] = []
        self._pulse = Pulse()
        self._is_synced = False
        self._is_telling = False
        self._is_behind = False
        self._behind_until = 0.0
        self._as_of = 0.0
        self._failure: WatchCacheError | None = None
        self._last_break: WatchCacheError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._group: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Mirror of {self._name}, {len(self.snapshot())} objects, age {self.age:.1f} s>"

    async def __aenter__(self) -> Self:
        if self._loop is not None:
            raise RuntimeError("a mirror can be entered once; make another one")
        self._loop = asyncio.get_running_loop()
        self._group = await asyncio.TaskGroup().__aenter__()
        self._task = self._group.create_task(self._run(), name=f"mirror of {self._name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._group is not None, "it was entered"
        assert self._task is not None, "it was entered"
        self._task.cancel()
        # An error of the body goes its way as it is. A cancellation may be the group's own, which
        # it has to see in order to raise what its task failed with.
        if isinstance(error, asyncio.CancelledError):
            await self._group.__aexit__(kind, error, traceback)
        else:
            await self._group.__aexit__(None, None, None)

    # What it knows of itself.

    @property
    def age(self) -> float:
        """Seconds since the data was last known to be current; infinite before the first sync."""
        return self._age(None)

    @property
    def is_synced(self) -> bool:
        """Whether a first snapshot is complete; it stays so."""
        return self._is_synced

    @property
    def is_stale(self) -> bool:
        """Whether the data is older than `max_age`, or not there; never without a `max_age`."""
        if not self._is_synced:
            return True
        return self._max_age_seconds is not None and self.age > self._max_age_seconds

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every informer with its newest state."""
        return self._sources.latest

    @property
    def not_live(self) -> tuple[Source, ...]:
        """The informers that are not live, each with its reason."""
        return tuple(source for source in self.sources if not source.is_live)

    @property
    def failure(self) -> WatchCacheError | None:
        """Why the mirror has ended for good, if it has, such as DeregisteredError."""
        return self._failure

    @property
    def resume_token(self) -> bytes:
        """Where a later watch with the same options can go on from what is held."""
        return self._watch.resume_token

    async def wait_synced(self, *resources: str, timeout: Duration | None = None) -> None:
        """Wait for the first snapshot, and until the resources that are named can be read.

        Raises NotSyncedError when the time is over, naming what is missing, and MirrorClosedError
        when the mirror has ended.
        """
        limit = None if timeout is None else seconds_of(timeout, field="timeout")
        names = [parse_resource(resource) for resource in resources]
        try:
            async with asyncio.timeout(limit):
                while not self._is_ready(names):
                    self._check_running()
                    await self._pulse.wait()
        except TimeoutError as error:
            raise NotSyncedError(f"{self._name} is not synced: {self._missing()}") from error

    # Reading.

    def get(self, resource: str, key: Key | str) -> T | None:
        """Return one object, None when there is none of that name."""
        found = self._find(resource, key)
        return None if found is None else self._decode(found.require_body())

    def version(self, resource: str, key: Key | str) -> Version | None:
        """Return uid and resource version of one object, None when there is none of that name."""
        found = self._find(resource, key)
        return None if found is None else Version(found.uid, found.resource_version)

    def list(
        self, resource: str, *, namespace: str | None = None, cluster: str | None = None
    ) -> _List[T]:
        """Return all objects of a resource, or of one namespace or cluster of it."""
        self._check_readable(parse_resource(resource), namespace=namespace, cluster=cluster)
        name = str(parse_resource(resource))
        return self._decoded(self._store.select(name, namespace=namespace, cluster=cluster))

    def keys(
        self, resource: str, *, namespace: str | None = None, cluster: str | None = None
    ) -> _List[Key]:
        """Return the keys of what `list` returns, in the same order."""
        self._check_readable(parse_resource(resource), namespace=namespace, cluster=cluster)
        name = str(parse_resource(resource))
        selected = self._store.select(name, namespace=namespace, cluster=cluster)
        return [key for key, _ in selected]

    def by_label(
        self, resource: str, labels: Mapping[str, str], *, namespace: str | None = None
    ) -> _List[T]:
        """Return the objects that have all of these labels. An index makes this fast."""
        self._check_readable(parse_resource(resource), namespace=namespace)
        found = self._store.by_labels(str(parse_resource(resource)), labels)
        return self._decoded(pair for pair in found if namespace in (None, pair[0].namespace))

    def by_owner(self, resource: str, uid: str) -> _List[T]:
        """Return the objects with an owner reference to this uid. An index makes this fast."""
        self._check_readable(parse_resource(resource))
        return self._decoded(self._store.by_owner(str(parse_resource(resource)), uid))

    def by_index(
        self, resource: str, path: str, value: str, *, namespace: str | None = None
    ) -> _List[T]:
        """Return the objects that have this value at one of the resource's index paths.

        Numbers are compared as they are written, booleans are "true" and "false". Raises
        InvalidArgumentError for a path that the resource is not registered with.
        """
        name = parse_resource(resource)
        check_path(path)
        self._check_readable(name, namespace=namespace)
        covering = self._sources.covering(name, namespace=namespace)
        if any(path not in source.index_paths for source in covering):
            raise InvalidArgumentError.of(
                "path", f"{name} of {self._name} is not indexed by {path}; register it with it"
            )
        if not self._watch.is_whole and not path.startswith("metadata."):
            told = f"this mirror does not hold {path}; make it with view='full'"
            raise InvalidArgumentError.of("path", told)
        found = self._store.by_index(str(name), path, value)
        return self._decoded(pair for pair in found if namespace in (None, pair[0].namespace))

    def snapshot(self) -> dict[tuple[str, Key], Version]:
        """Return which version of every object is held, whatever its age; for comparing."""
        return self._store.versions()

    # Being told.

    def on_change(self, listener: Listener[T]) -> Callable[[], None]:
        """Have `listener` called for every change from now on; call what is returned to end it.

        It is called in the mirror's own task: an error in it ends the mirror, and is raised out of
        its `async with`. Within the call reads return what is held, whatever its age.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def queue(
        self,
        resource: str,
        *,
        owned: Sequence[str] = (),
        related: Related[T] | None = None,
        backoff: Backoff | None = None,
    ) -> Queue[T]:
        """Return a queue of the keys of `resource` that have something to be looked at.

        A key comes when its object changes, when an object of an `owned` resource changes that it
        owns (also over several steps, where all are mirrored), and when a function of `related`
        names it for a changed object of that resource.
        """
        if isinstance(owned, str):
            raise InvalidArgumentError.of("owned", f"{owned!r} is one string; give a list")
        name = parse_resource(resource)
        return Queue(
            self._store,
            str(name),
            owned=owned,
            related=related or {},
            backoff=backoff or Backoff("0.5s", "5m", floor=0.5),
            subscribe=self.on_change,
            pulse=self._pulse,
            check=partial(self._check_queue, name),
            qualify=partial(self._qualified, name),
        )

    def _check_queue(self, resource: ResourceName) -> None:
        """Raise where a queue would wait in vain."""
        self._check_running()
        if self._is_synced and not self._sources.covering(resource):
            raise NotWatchedError(
                f"{self._name} does not watch {resource}; register it", reason="NOT_WATCHED"
            )

    # Applying the stream.

    async def _run(self) -> None:
        try:
            async with self._watch:
                async for message in self._watch:
                    self._take(message)
                    self._pulse.beat()
        except WatchCacheError as error:
            self._failure = error
            _log.error("mirror of %s ended: %s", self._name, error)
        finally:
            self._pulse.beat()

    def _take(self, message: Message[T]) -> None:
        if isinstance(message, Batch | Bookmark):
            self._sources.end_statuses()
        changes: list[Change[T]] = []
        if isinstance(message, Batch):
            changes = self._store.apply(message)
            self._confirm(is_complete=False)
        elif isinstance(message, KnownGone):
            changes = self._store.remove_ids(message)
        elif isinstance(message, SourceChanged):
            self._sources.update(message.source, now=self._now(), wall_time=datetime.now(UTC))
        elif isinstance(message, Bookmark):
            self._confirm(is_complete=True)
        elif isinstance(message, Synced):
            changes = self._store.commit_snapshot()
            self._sources.commit()
            self._is_synced = True
            self._confirm(is_complete=True)
        elif isinstance(message, Started):
            self._start(message)
        elif isinstance(message, Reset):
            self._store.begin_snapshot()
            self._sources.begin_snapshot()
        elif isinstance(message, Disconnected):
            self._last_break = message.error
            self._store.abandon_snapshot()
            self._sources.abandon_stream()
        if changes:
            self._tell(changes)

    def _held(self) -> Iterator[HeldObject]:
        """Yield what is held, for the service to find out what differs."""
        projections: dict[tuple[str, str, str], extension_pb2.Projection.ValueType] = {}
        for resource, key, entry in self._store.walk():
            place = (resource, key.cluster, key.namespace)
            if place not in projections:
                projections[place] = self._projection(*place)
            yield HeldObject(
                *place,
                entry.version,
                projections[place],
                entry.uid,
                entry.resource_version,
            )

    def _projection(
        self, resource: str, cluster: str, namespace: str
    ) -> extension_pb2.Projection.ValueType:
        covering = self._sources.covering(
            parse_resource(resource), namespace=namespace, cluster=cluster
        )
        if not covering or covering[0].projection is Projection.UNKNOWN:
            # Nobody can tell in which form it is held, so it comes anew.
            return extension_pb2.PROJECTION_UNSPECIFIED
        return extension_pb2.Projection.Value(f"PROJECTION_{covering[0].projection}")

    def _tell(self, changes: Sequence[Change[T]]) -> None:
        self._is_telling = True
        try:
            for listener in tuple(self._listeners):
                listener(changes)
        finally:
            self._is_telling = False

    def _start(self, started: Started) -> None:
        self._last_break = None
        self._sources.begin_stream()
        if started.extension_uid != self._extension_uid:
            self._store.forget_revisions()
            self._extension_uid = started.extension_uid
        if started.mode in (StartMode.RESUMED, StartMode.DIFFERENCE):
            # What was missed comes now, in batches that do not say how old they are.
            self._is_behind = True
            self._behind_until = self._now() + started.bookmark_interval_seconds
        else:
            self._store.begin_snapshot()
            self._sources.begin_snapshot()

    def _confirm(self, *, is_complete: bool) -> None:
        """Note that the data is current, if this message shows it.

        Synced and bookmarks show it. A batch shows it unless it may be of the time that was
        missed: that is over with the first of those, or after one bookmark interval, since an
        informer that is loading holds Synced up and a busy stream has no bookmarks.
        """
        if self._store.is_collecting:
            return
        if is_complete or self._now() >= self._behind_until:
            self._is_behind = False
        if not self._is_behind:
            self._as_of = self._now()

    # Guarding the reads.

    def _find(self, resource: str, key: Key | str) -> Entry | None:
        name, key = parse_resource(resource), Key.of(key)
        self._check_readable(name, namespace=key.namespace, cluster=key.cluster or None)
        return self._store.get(str(name), self._qualified(name, key))

    def _qualified(self, resource: ResourceName, key: Key) -> Key:
        """Complete a key by its cluster, which may be left out where there is only one."""
        if key.cluster:
            return key
        self._check_readable(resource, namespace=key.namespace)
        clusters = self._sources.clusters_of(resource)
        if len(clusters) > 1:
            raise InvalidArgumentError.of(
                "key",
                f"{key} may be in {', '.join(sorted(clusters))}; write cluster/namespace/name",
            )
        return key._replace(cluster=next(iter(clusters)))

    def _check_readable(
        self, resource: ResourceName, *, namespace: str | None = None, cluster: str | None = None
    ) -> None:
        self._check_running()
        if not self._is_synced:
            raise NotSyncedError(
                f"{self._name} is not synced: {self._missing()}; call wait_synced before reading"
            )
        sources = self._sources.covering(resource, namespace=namespace, cluster=cluster)
        if not sources:
            where = f" in namespace {namespace}" if namespace else ""
            where += f" on cluster {cluster}" if cluster else ""
            raise NotWatchedError(
                f"{self._name} does not watch {resource}{where}; register it", reason="NOT_WATCHED"
            )
        if self._is_telling:
            return  # A listener is told of what is newest here; it can do nothing about its age.
        missing = [source for source in sources if not source.is_loaded]
        if missing:
            raise NotSyncedError(f"{resource} of {self._name} is not synced: {_told(missing)}")
        age = self._age(sources)
        if self._max_age_seconds is not None and age > self._max_age_seconds:
            raise StaleError(
                f"{resource} of {self._name} is {age:.1f} s old and may be "
                f"{self._max_age_seconds:g} s: {self._why_stale(sources)}",
                age_seconds=age,
            )

    def _check_running(self) -> None:
        if self._failure is not None:
            raise MirrorClosedError(
                f"the mirror of {self._name} has ended: {self._failure}",
                reason=self._failure.reason,
            ) from self._failure
        if self._task is None or self._task.done():
            raise MirrorClosedError(
                f"the mirror of {self._name} is not running; use it within its `async with`",
                reason="MIRROR_CLOSED",
            )

    def _is_ready(self, resources: Iterable[ResourceName]) -> bool:
        if not self._is_synced:
            return False
        covering = [self._sources.covering(resource) for resource in resources]
        return all(sources and all(source.is_loaded for source in sources) for sources in covering)

    def _missing(self) -> str:
        if self._last_break is not None:
            return str(self._last_break)
        waiting = [source for source in self.sources if not source.is_loaded]
        return _told(waiting) if waiting else "the snapshot has not come yet"

    def _why_stale(self, sources: Iterable[Source]) -> str:
        if self._last_break is not None:
            return str(self._last_break)
        not_live = [source for source in sources if not source.is_live]
        return _told(not_live) if not_live else "the service has not confirmed it since"

    def _age(self, sources: Iterable[Source] | None) -> float:
        if not self._is_synced:
            return float("inf")
        now = self._now()
        return max(now - self._as_of, self._sources.age_seconds(sources, now=now))

    def _now(self) -> float:
        assert self._loop is not None, "nothing is known before it is entered"
        return self._loop.time()

    def _decoded(self, found: Iterable[tuple[Key, Entry]]) -> _List[T]:
        return [self._decode(entry.require_body()) for _, entry in found]


def _told(sources: Iterable[Source]) -> str:
    return "; ".join(
        f"{source.label} on {source.cluster}"
        + (f" in {source.namespace}" if source.namespace else "")
        + (f" in namespaces {source.namespace_selector}" if source.namespace_selector else "")
        + f" is {source.state}"
        + (f" ({source.message})" if source.message else "")
        for source in sources
    )
