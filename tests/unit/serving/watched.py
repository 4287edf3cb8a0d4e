"""One extension, and readers of its Watch streams that a test can hold up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.items import item
from tests.unit.extensions.test_informer import World
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.objects import Remove, Upsert
from watchcache_server.model.errors import ExtensionNotFoundError
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.model.states import SourceState
from watchcache_server.serving.watching import Watching
from watchcache_server.settings import Settings

_PATIENCE_SECONDS = 600.0


class Reader:
    """Takes the messages of a stream; while it is held up it takes none."""

    def __init__(self, message_type: Any = pb.WatchResponse, *, patience: int = 10**9) -> None:
        """Take messages of this type; be held up once so many were taken."""
        self.messages: list[Any] = []
        self._patience = patience
        self._type = message_type
        self._may_take = asyncio.Event()
        self._may_take.set()
        self._news = asyncio.Event()
        self.is_writing = False

    def hold(self, *, after: int = 0) -> None:
        """Take nothing more, or so many messages and then nothing more."""
        if after:
            self._patience = len(self.messages) + after
        else:
            self._may_take.clear()

    def go_on(self) -> None:
        """Take messages again."""
        self._patience = 10**9
        self._may_take.set()

    async def write(self, message: bytes) -> None:
        self.is_writing = True
        self._news.set()
        if len(self.messages) >= self._patience:
            self.hold()
        await self._may_take.wait()
        self.is_writing = False
        self.messages.append(self._type.FromString(message))
        self._news.set()

    async def until_stuck(self) -> None:
        """Wait until a message is on its way that is not taken."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not self.is_writing:
                self._news.clear()
                await self._news.wait()

    async def until(self, field: str, count: int = 1) -> Any:
        """Return the content of the message of a kind that comes as so manyth."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while len(found := self.of(field)) < count:
                self._news.clear()
                await self._news.wait()
        return found[count - 1]

    def of(self, field: str) -> list[Any]:
        """Return the content of the messages of a kind."""
        return [getattr(each, field) for each in self.messages if each.HasField(field)]

    @property
    def kinds(self) -> list[str]:
        """What came, in order."""
        return [each.WhichOneof("response") for each in self.messages]

    @property
    def events(self) -> list[tuple[int, str]]:
        """Type and name of every event."""
        return [
            (event.type, event.object.key.name)
            for batch in self.of("batch")
            for event in batch.events
        ]


class Watched(World):
    """An extension that is watched, as a registry of its own."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.is_draining = False
        parts: dict[str, Any] = {"registry": self, "reporter": self.reporter}
        self.watching = Watching(settings=Settings(**settings), **parts)
        self.tasks: list[asyncio.Task[None]] = []

    # What a stream asks of the registry

    def get(self, key: ExtensionKey) -> Extension:
        if key != self.extension.key:
            raise ExtensionNotFoundError(key.namespace, key.name)
        return self.extension

    def unsubscribed(self, extension: Extension) -> None:
        extension.unsubscribed()

    @contextmanager
    def in_use(self, extension: Extension) -> Iterator[None]:
        extension.hold()
        try:
            yield
        finally:
            extension.let_go()

    # What a test does

    def watch(self, reader: Reader | None = None, **request: Any) -> Reader:
        """Open a stream."""
        reader = reader or Reader()
        asked = pb.WatchRequest(namespace="team-a", name="shop", **request)
        self.tasks.append(asyncio.create_task(self.watching.serve(asked, reader)))
        return reader

    async def error(self, number: int = -1) -> Exception:
        """Return the error with which a stream ends."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await asyncio.wait([self.tasks[number]])
        error = self.tasks[number].exception()
        assert isinstance(error, Exception)
        return error

    def live(self, *names: str, **spec: Any) -> Informer:
        """Add an informer that is live with these objects."""
        informer = self.synced(*names, **spec)
        informer.set_state(SourceState.LIVE, "SYNCED", "")
        return informer

    def drain(self) -> None:
        """Shut down."""
        self.is_draining = True
        self.extension.release_readers()
        self.extension.pulse.wake_now()

    async def close(self) -> None:
        """End all streams."""
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)


def change(informer: Informer, name: str, version: str, read_at: float = 0.0) -> None:
    """Let an informer read that an object was added or changed."""
    informer.apply([Upsert(item(name, uid=f"uid-{name}", version=version))], read_at)


def delete(informer: Informer, name: str, version: str) -> None:
    """Let an informer read that an object was deleted."""
    informer.apply([Remove(item(name, uid=f"uid-{name}", version=version))], 0.0)
