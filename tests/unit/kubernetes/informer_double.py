"""Both ends of an informer's task: an API server that answers request by request, and a sink.

exchange = await api.asked()              # the next request, which waits for its answer
body = exchange.accept()                  # 200; then body.send(...), body.end(), body.fail(...)
exchange.refuse(403, "Forbidden")         # or another answer, or exchange.fail(error)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs

from tests.items import source_spec
from watchcache_server.informer.objects import Delta, Item
from watchcache_server.informer.source import Source, Unverified
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.errors import (
    BodyCutError,
    ConnectionRefusedByServerError,
    CredentialsError,
)
from watchcache_server.kubernetes.freshness import Freshness
from watchcache_server.kubernetes.requests import Request
from watchcache_server.kubernetes.served import Resolution, Served
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.states import LeftReason, SourceState

PODS = ServedResource("", "v1", "pods", "Pod", True, frozenset({"get", "list", "watch"}))
REFUSED = ConnectionRefusedByServerError("hub", "api:443", "connection refused")
CUT = BodyCutError("hub", "api:443", "the connection ended")
_PATIENCE_SECONDS = 600.0


def pod(name: str, version: str, *, uid: str = "", size: int = 0) -> dict[str, Any]:
    """Return a pod, larger by `size` if need be."""
    metadata = {
        "name": name,
        "namespace": "team-a",
        "uid": uid or f"uid-{name}",
        "resourceVersion": version,
    }
    if size:
        metadata["annotations"] = {"padding": "x" * size}  # type: ignore[assignment]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def event(kind: str, value: dict[str, Any]) -> bytes:
    """Return the line of an event."""
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


def added(name: str, version: str, *, size: int = 0) -> bytes:
    """Return the line of an ADDED pod."""
    return event("ADDED", pod(name, version, size=size))


def bookmark(version: str, *, is_initial_end: bool = False) -> bytes:
    """Return the line of a bookmark."""
    metadata: dict[str, Any] = {"resourceVersion": version}
    if is_initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata})


def pod_list(version: str, *pods: dict[str, Any], more: str = "") -> bytes:
    """Return a list."""
    return json.dumps(
        {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": version, "continue": more},
            "items": pods,
        }
    ).encode()


class Body:
    """A response whose body a test sends."""

    def __init__(self, status: int, headers: dict[str, str], authorization: str | None) -> None:
        self.status = status
        self.headers = headers
        self.authorization = authorization
        self.is_closed = False
        self._parts: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    def send(self, *parts: bytes) -> None:
        """Let these bytes arrive, as one chunk."""
        self._parts.put_nowait(b"".join(parts))

    def end(self) -> None:
        """End it cleanly."""
        self._parts.put_nowait(b"")

    def fail(self, error: Exception) -> None:
        """Break it off."""
        self._parts.put_nowait(error)

    async def read_chunk(self) -> bytes:
        part = await self._parts.get()
        if isinstance(part, Exception):
            raise part
        return part

    async def read(self, limit_bytes: int) -> bytes:
        body = b""
        while chunk := await self.read_chunk():
            body += chunk
        return body[:limit_bytes]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.is_closed = True


@dataclass
class Exchange:
    """A request that waits for its answer."""

    request: Request
    authorization: str | None
    outcome: asyncio.Future[Body]

    @property
    def query(self) -> dict[str, str]:
        """The parameters."""
        return {name: values[-1] for name, values in parse_qs(self.request.query).items()}

    @property
    def is_watch(self) -> bool:
        """Whether it is a watch, not a list."""
        return "watch" in self.query

    def accept(self, *parts: bytes) -> Body:
        """Answer 200, and with these bytes if there are any."""
        body = Body(200, {}, self.authorization)
        self.outcome.set_result(body)
        if parts:
            body.send(*parts)
        return body

    def refuse(self, code: int, reason: str = "", message: str = "", **headers: str) -> Body:
        """Answer with a Status."""
        body = Body(code, headers, self.authorization)
        status = {"kind": "Status", "code": code, "reason": reason, "message": message}
        body.send(json.dumps(status).encode())
        body.end()
        self.outcome.set_result(body)
        return body

    def fail(self, error: Exception) -> None:
        """Give no answer."""
        self.outcome.set_exception(error)


@dataclass
class Tokens:
    """Credentials that a test breaks and mends."""

    header: str | None = "Bearer t1"
    error: Exception | None = None
    refreshed: list[str | None] = field(default_factory=list)

    async def authorization(self) -> str | None:
        if self.error is not None:
            raise self.error
        return self.header

    async def refresh(self, rejected: str | None) -> None:
        self.refreshed.append(rejected)
        if self.error is not None:
            raise self.error


class Api:
    """An `ApiAccess` whose requests a test answers; those of `call` by `objects`."""

    def __init__(self) -> None:
        self.credentials = Tokens()
        self.called: list[Request] = []
        self.answer_call: Callable[[Request], Awaitable[Answer]] | None = None
        self._exchanges: asyncio.Queue[Exchange] = asyncio.Queue()

    async def open(self, request: Request) -> Body:
        authorization = await self.credentials.authorization()
        outcome: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        self._exchanges.put_nowait(Exchange(request, authorization, outcome))
        return await outcome

    async def call(self, request: Request, *, limit_bytes: int = 0) -> Answer:
        self.called.append(request)
        assert self.answer_call is not None, "nobody answers calls in this test"
        return await self.answer_call(request)

    async def asked(self) -> Exchange:
        """Return the next request."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await self._exchanges.get()

    @property
    def is_quiet(self) -> bool:
        """Whether every request was taken by the test."""
        return self._exchanges.empty()


@dataclass
class Found:
    """A discovery that finds what a test says."""

    resolution: Resolution = field(default_factory=lambda: Served(PODS, ("v1",)))
    asked: list[float | None] = field(default_factory=list)

    async def resolve(
        self, group: str, version: str, name: str, *, max_age_seconds: float | None = None
    ) -> Resolution:
        self.asked.append(max_age_seconds)
        return self.resolution


class Sink:
    """Holds objects by name, and remembers what it was told."""

    def __init__(self) -> None:
        self.namespace = "team-a"
        self.is_synced = False
        self.source = Source(1, source_spec(namespace="team-a"))
        self.freshness = Freshness(self.source)
        self.conflict: str | None = None
        self.objects: dict[str, str] = {}
        self.staged: dict[str, str] = {}
        self.states: list[tuple[SourceState, str]] = []
        self.state: tuple[SourceState, str, str, tuple[str, ...], float | None] | None = None
        self.synced_at = ""
        self.position = ""
        self.counted_events: list[tuple[str, str]] = []
        self.events = 0
        self.contacts = 0
        self.purged: list[LeftReason] = []
        self.problems: list[CredentialsError] = []
        self.doubts: list[Unverified] = []
        self.resolved: list[tuple[str, bool]] = []
        self._news = asyncio.Event()

    async def until(self, *states: SourceState) -> None:
        """Wait until it is in one of these states."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while self.state is None or self.state[0] not in states:
                self._news.clear()
                await self._news.wait()

    async def until_sure(self) -> None:
        """Wait until no object is in doubt."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while self.doubts:
                self._news.clear()
                await self._news.wait()

    def bind(self, served: ServedResource) -> str | None:
        return self.conflict

    def stage(self, items: Iterable[Item]) -> None:
        self.staged |= {item.name: item.resource_version for item in items}

    def unstage(self, items: Iterable[Item]) -> None:
        for item in items:
            self.staged.pop(item.name, None)

    def discard(self) -> None:
        self.staged = {}

    def commit(self, read_at: float, resource_version: str) -> None:
        self.objects, self.staged = self.staged, {}
        self.is_synced = True
        self.synced_at = self.position = resource_version

    def apply(self, deltas: list[Delta], read_at: float, resource_version: str) -> None:
        for delta in deltas:
            self.objects[delta.item.name] = delta.item.resource_version
        self.position = resource_version

    def advance(self, resource_version: str) -> None:
        self.position = resource_version

    def unverified(self) -> list[Unverified]:
        return list(self.doubts)

    def resolve(self, subject: Unverified, *, is_deleted: bool) -> None:
        self.doubts.remove(subject)
        self.resolved.append((subject.name, is_deleted))
        self._news.set()

    def purge(self, reason: LeftReason) -> None:
        self.purged.append(reason)
        self.objects = {}
        self.is_synced = False

    def contact(self) -> None:
        self.contacts += 1

    def set_state(
        self,
        state: SourceState,
        reason: str,
        message: str,
        *,
        missing_verbs: tuple[str, ...] = (),
        next_attempt_seconds: float | None = None,
    ) -> None:
        self.state = (state, reason, message, missing_verbs, next_attempt_seconds)
        self.states.append((state, reason))
        self._news.set()

    def credentials_failed(self, error: CredentialsError) -> None:
        self.problems.append(error)

    def counted(self, event: str, reason: str) -> None:
        self.counted_events.append((event, reason))

    def events_read(self, count: int) -> None:
        self.events += count
