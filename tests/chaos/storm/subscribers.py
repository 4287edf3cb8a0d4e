"""The clients of a storm: each follows an extension, is killed now and then, and comes again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import watchcache
from tests.chaos.receiver import Receiver, held_by
from tests.history_records import Key
from watchcache.extension import Extension

__all__ = ["Follower", "MirrorKeeper", "Subscriber"]

_BACKOFF = watchcache.Backoff("0.05s", "0.5s")
_OPTIONS: dict[str, Any] = {"bookmark_interval": "1s", "patience": "1s", "backoff": _BACKOFF}
_AGAIN_SECONDS = 0.1

Register = Callable[[watchcache.Connection], Awaitable[Extension]]


class Subscriber:
    """One client. `run` has it live until cancelled; `kill` ends it without a word, once."""

    def __init__(
        self, name: str, address: str, extension: str, register: Register, **options: Any
    ) -> None:
        """`register` brings the extension that it follows; `options` are those of its watch."""
        self.name = name
        self.extension = extension
        self.selector: str = options.get("label_selector", "")
        self.options = {**_OPTIONS, **options}
        self.lives = 0
        #: What ended it for good, though nothing should.
        self.failures: list[str] = []
        self._address = address
        self._register = register
        self._killed = asyncio.Event()
        self._pause_seconds = 0.0

    @property
    def held(self) -> Mapping[Key, tuple[str, str]]:
        """Which uid and resourceVersion of each object it holds."""
        raise AssertionError("said by each sort of subscriber")

    def kill(self, pause_seconds: float) -> None:
        """End it as if its process had died; it comes again after a while."""
        self._pause_seconds = pause_seconds
        self._killed.set()

    async def run(self) -> None:
        """Live, again and again, until cancelled."""
        while True:
            self._killed.clear()
            try:
                async with watchcache.connect(self._address, timeout="3s") as wc:
                    ext = await self._register(wc)
                    self.lives += 1
                    await self._live(ext)
            except watchcache.WatchCacheError as error:
                # Also a registration fails while the service is away; a watch goes on by itself.
                if not error.is_retriable:
                    self.failures.append(f"{self.name} ended: {error!r}")
                await asyncio.sleep(_AGAIN_SECONDS)
            await asyncio.sleep(self._pause_seconds)
            self._pause_seconds = 0.0

    async def _live(self, ext: Extension) -> None:
        raise AssertionError("done by each sort of subscriber")


class MirrorKeeper(Subscriber):
    """Keeps a mirror; killed, it begins with nothing."""

    def __init__(
        self, name: str, address: str, extension: str, register: Register, **options: Any
    ) -> None:
        super().__init__(name, address, extension, register, **options)
        self.mirror: watchcache.Mirror[dict[str, Any]] | None = None

    @property
    def held(self) -> Mapping[Key, tuple[str, str]]:
        return held_by(self.mirror) if self.mirror is not None else {}

    async def _live(self, ext: Extension) -> None:
        async with ext.mirror(**self.options) as mirror:
            self.mirror = mirror
            killed = asyncio.ensure_future(self._killed.wait())
            try:
                while not killed.done() and mirror.failure is None:
                    await asyncio.wait((killed,), timeout=_AGAIN_SECONDS)
            finally:
                killed.cancel()
                self.mirror = None
        if mirror.failure is not None:
            raise mirror.failure


class Follower(Subscriber):
    """Applies a raw watch as it comes; killed, it goes on from its last token."""

    def __init__(
        self, name: str, address: str, extension: str, register: Register, **options: Any
    ) -> None:
        super().__init__(name, address, extension, register, **options)
        self.receiver = Receiver()

    @property
    def held(self) -> Mapping[Key, tuple[str, str]]:
        return self.receiver.held

    async def _live(self, ext: Extension) -> None:
        following = asyncio.ensure_future(self.receiver.follow(ext, **self.options))
        killed = asyncio.ensure_future(self._killed.wait())
        try:
            await asyncio.wait((following, killed), return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                await following
        finally:
            killed.cancel()
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError, watchcache.WatchCacheError):
                await following
