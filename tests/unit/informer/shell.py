"""A shell for a reflector that performs its effects on plain values and has a clock of its own.

It holds the reflector to its side of the contract in every test: one request at a time, nothing
committed that was not collected, never without a request or a wait. The store is a dict of versions
by name.
"""

from __future__ import annotations

from typing import Any

from watchcache_server.informer.bodies import ListMetadata
from watchcache_server.informer.condition import Subject
from watchcache_server.informer.decoding import (
    Added,
    Bookmark,
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
from watchcache_server.informer.inputs import Answer, Failure, NotServed, Overlapping, TokenProblem
from watchcache_server.informer.objects import Item, Upsert
from watchcache_server.informer.reflector import Reflector
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.informer.statuses import StatusFields
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.states import SourceState

__all__ = [
    "PODS",
    "Shell",
    "added",
    "bookmark",
    "deleted",
    "error",
    "initial_end",
    "item",
    "modified",
]

PODS = ServedResource("", "v1", "pods", "Pod", True, frozenset({"get", "list", "watch"}))


def item(name: str, version: str) -> Item:
    """Return an object by name and version."""
    return Item("ns", name, f"uid-{name}", version, {}, (), b"{}")


def added(name: str, version: str) -> Added:
    """Return an ADDED event."""
    return Added(item(name, version))


def modified(name: str, version: str) -> Modified:
    """Return a MODIFIED event."""
    return Modified(item(name, version))


def deleted(name: str, version: str) -> Deleted:
    """Return a DELETED event."""
    return Deleted(item(name, version))


def bookmark(version: str) -> Bookmark:
    """Return a plain bookmark."""
    return Bookmark(version)


def initial_end(version: str) -> Bookmark:
    """Return the bookmark that ends the initial events."""
    return Bookmark(version, is_initial_end=True)


def error(code: int, reason: str = "", **more: Any) -> StreamError:
    """Return an ERROR event."""
    return StreamError(StatusFields(code=code, reason=reason, **more))


class Shell:
    """Drives one reflector; `effects` are those of the last input."""

    def __init__(
        self,
        *,
        namespace: str = "",
        list_seconds: float = 0.0,
        jitter: float = 0.0,
        settings: ReflectorSettings | None = None,
        is_scope_open: bool = False,
        holds_objects: bool = False,
    ) -> None:
        self.reflector = Reflector(
            subject=Subject(
                cluster="hub",
                resource="pods",
                namespace=namespace,
                service_account="team-a/shop",
                is_scope_open=is_scope_open,
            ),
            settings=settings or ReflectorSettings(),
            list_seconds=list_seconds,
            holds_objects=holds_objects,
        )
        self.now = 1000.0
        self.jitter = jitter
        self.timer_at: float | None = None
        self.request: Request | None = None
        self.effects: list[Effect] = []
        self.store: dict[str, str] = {}
        self.staging: dict[str, str] | None = None
        self.published: SetState | None = None
        self.version = ""

    # What the reflector says

    @property
    def state(self) -> SourceState:
        """The state published last."""
        assert self.published is not None
        return self.published.state

    @property
    def reason(self) -> str:
        """The reason published last."""
        assert self.published is not None
        return self.published.reason

    @property
    def message(self) -> str:
        """The sentence published last."""
        assert self.published is not None
        return self.published.message

    @property
    def wait(self) -> float:
        """Seconds until something is due; the timer may fire before that, for nothing."""
        return round(min(self.reflector._timers._at.values()) - self.now, 6)

    @property
    def watch(self) -> Watch:
        """The watch that is asked for or runs."""
        assert isinstance(self.request, Watch)
        return self.request

    @property
    def list(self) -> List:
        """The list that is asked for."""
        assert isinstance(self.request, List)
        return self.request

    def counts(self) -> list[tuple[str, str]]:
        """Return what was counted by the last input."""
        return [(e.event, str(e.reason)) for e in self.effects if isinstance(e, Count)]

    def has(self, kind: type) -> bool:
        """Whether the last input had an effect of this kind."""
        return any(isinstance(effect, kind) for effect in self.effects)

    # What happens to it

    def start(self) -> Shell:
        """Start, and let discovery find pods."""
        self._perform(self.reflector.start(now=self.now, jitter=self.jitter))
        return self.discovered()

    def started(self) -> Shell:
        """Start, and leave the request open."""
        return self._perform(self.reflector.start(now=self.now, jitter=self.jitter))

    def sync(self, *events: WatchEvent, version: str = "10") -> Shell:
        """Begin the initial watch that is asked for, and end it with these objects."""
        assert self.watch.send_initial_events
        return self.opened().events(*events, initial_end(version))

    def live(self) -> Shell:
        """Start and sync: two objects at version 10, and the watch goes on."""
        return self.start().sync(added("a", "3"), added("b", "7"))

    def discovered(self, found: ServedResource | NotServed | Overlapping = PODS) -> Shell:
        """Answer a Discover."""
        assert isinstance(self.request, Discover)
        return self._answer(self.reflector.on_discovered(found, now=self.now, jitter=self.jitter))

    def token(self, problem: TokenProblem | None = None) -> Shell:
        """Answer a RefreshToken, or say that there is no token for another request."""
        assert problem is not None or isinstance(self.request, RefreshToken)
        return self._answer(self.reflector.on_token(problem, now=self.now, jitter=self.jitter))

    def opened(self) -> Shell:
        """Answer a Watch with 200."""
        assert isinstance(self.request, Watch)
        return self._perform(self.reflector.on_opened(now=self.now, jitter=self.jitter))

    def events(self, *events: WatchEvent) -> Shell:
        """Let events come in one chunk."""
        return self._perform(self.reflector.on_events(events, now=self.now, jitter=self.jitter))

    def eof(self) -> Shell:
        """End a watch cleanly."""
        return self._answer(self.reflector.on_eof(now=self.now, jitter=self.jitter))

    def items(self, *items: Item) -> Shell:
        """Let items of a page come."""
        assert isinstance(self.request, List)
        return self._perform(self.reflector.on_items(list(items), now=self.now, jitter=self.jitter))

    def listed(self, version: str, continue_token: str = "") -> Shell:
        """End a page."""
        assert isinstance(self.request, List)
        page = ListMetadata(resource_version=version, continue_token=continue_token)
        return self._answer(self.reflector.on_listed(page, now=self.now, jitter=self.jitter))

    def answer(self, code: int, /, *, retry_after: float | None = None, **status: Any) -> Shell:
        """Answer with a status that is no success."""
        given = Answer(code=code, status=StatusFields(**status), retry_after_seconds=retry_after)
        return self._answer(self.reflector.on_answer(given, now=self.now, jitter=self.jitter))

    def failure(self, reason: str, message: str = "it failed") -> Shell:
        """Give no answer, or break it off."""
        failure = Failure(reason=reason, message=message)
        return self._answer(self.reflector.on_failure(failure, now=self.now, jitter=self.jitter))

    def broken(self, broken: DataError) -> Shell:
        """Answer a list with a body that cannot be used."""
        return self._answer(self.reflector.on_broken(broken, now=self.now, jitter=self.jitter))

    def timer(self) -> Shell:
        """Let the timer fire when it is due."""
        assert self.timer_at is not None
        self.now, self.timer_at = self.timer_at, None
        return self._perform(self.reflector.on_timer(now=self.now, jitter=self.jitter))

    def pass_time(self, seconds: float) -> Shell:
        """Let time pass, and the timer fire whenever it is due."""
        until = self.now + seconds
        while self.timer_at is not None and self.timer_at <= until:
            self.timer()
        self.now = until
        return self

    def retry(self) -> Shell:
        """Let time pass until something is asked."""
        while self.request is None:
            self.timer()
        return self

    def reopen(self) -> Shell:
        """Ask for the watch to be opened again."""
        return self._perform(self.reflector.reopen(now=self.now, jitter=self.jitter))

    def hasten(self) -> Shell:
        """Ask for a bookmark soon."""
        return self._perform(self.reflector.hasten(now=self.now, jitter=self.jitter))

    def suspect(self) -> Shell:
        """Say that the server was seen at a version from the past."""
        return self._perform(self.reflector.suspect(now=self.now, jitter=self.jitter))

    def distrust(self) -> Shell:
        """Say that what is held was proven wrong."""
        return self._perform(self.reflector.distrust(now=self.now, jitter=self.jitter))

    def stop(self) -> Shell:
        """Stop."""
        return self._perform(self.reflector.stop(now=self.now, jitter=self.jitter))

    # Performing

    def _answer(self, effects: list[Effect]) -> Shell:
        self.request = None
        return self._perform(effects)

    def _perform(self, effects: list[Effect]) -> Shell:
        self.effects = effects
        for effect in effects:
            self._perform_one(effect)
        self._check()
        return self

    def _perform_one(self, effect: Effect) -> None:  # noqa: PLR0912 (a case for each effect)
        match effect:
            case Discover() | RefreshToken() | List() | Watch():
                assert self.request is None, "one request at a time"
                is_rest = isinstance(effect, List) and effect.continue_token
                assert is_rest or self.staging is None, "a sync begins with nothing"
                self.request = effect
            case CloseStream():
                self.request = None
            case Wait():
                assert effect.seconds >= 0.0
                self.timer_at = self.now + effect.seconds
            case Stage():
                assert effect.items, "no empty effects"
                self.staging = self.staging or {}
                self.staging.update((i.name, i.resource_version) for i in effect.items)
            case Unstage():
                for gone in effect.items:
                    (self.staging or {}).pop(gone.name, None)
            case DiscardSync():
                assert self.staging is not None, "there is something to discard"
                self.staging = None
            case CommitSync():
                self.store, self.staging = self.staging or {}, None
                self.version = effect.resource_version
            case Apply():
                assert effect.deltas, "no empty effects"
                for delta in effect.deltas:
                    if isinstance(delta, Upsert):
                        self.store[delta.item.name] = delta.item.resource_version
                    else:
                        self.store.pop(delta.item.name, None)
                self.version = effect.resource_version
            case Advance():
                self.version = effect.resource_version
            case Purge():
                self.store = {}
                self.version = ""
            case SetState():
                self.published = effect
            case _:
                assert isinstance(effect, Remember | Count)

    def _check(self) -> None:
        if self.published is None or self.state is SourceState.STOPPED:
            return
        assert self.request is not None or self.timer_at is not None, "neither request nor wait"
        assert self.reflector.resource_version == self.version
