"""Renewals: watches whose connection has carried much go on over a new one, at a quiet moment.

    renewals.want(runner, reopen)      # its connection keeps large buffers
    renewals.discard(runner)           # it has left that connection by itself
    await renewals.gate()              # before what follows on `reopen` is sent

A connection with TLS has a buffer of 256 KiB on uvloop. A large sync touches all of it, a quiet
watch next to nothing; but the allocator likes to make the buffer of a new connection from one that
was just let go of, or from what syncs under way leave behind. So some connections are closed
together when no sync is under way, free memory is given back, and then they are opened again.
Where syncs never cease it is done all the same, after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from watchcache_server.kubernetes.sync_turns import SyncTurns

__all__ = ["Renewals"]

_LOOK_SECONDS: Final = 0.1
_LONGEST_SECONDS: Final = 30.0
# What is let go of takes some turns of the event loop to be gone.
_PAUSE_SECONDS: Final = 0.05
# So many at once: each has a handshake to make, and its watch is closed meanwhile.
_FEW: Final = 16


class Renewals:
    """Who wants a new connection. `turns` gives all turns to sync; `give_back`, free memory."""

    def __init__(
        self, turns: Callable[[], Iterable[SyncTurns]], give_back: Callable[[], object]
    ) -> None:
        self._turns = turns
        self._give_back = give_back
        self._wanted: dict[object, Callable[[], None]] = {}
        self._news = asyncio.Event()
        self._is_open = asyncio.Event()
        self._is_open.set()

    def want(self, who: object, reopen: Callable[[], None]) -> None:
        """Have `reopen` called at a quiet moment; it does so in a task of its own."""
        self._wanted[who] = reopen
        self._news.set()

    def discard(self, who: object) -> None:
        """Forget what somebody wanted, if anything."""
        self._wanted.pop(who, None)

    async def gate(self) -> None:
        """Wait until new connections may be made."""
        await self._is_open.wait()

    async def run(self) -> None:
        """Renew connections until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._wanted:
                await self._quiet()
                if self._wanted:
                    await self._renew()

    async def _renew(self) -> None:
        """Close some connections, and let them be opened again once memory was given back."""
        self._is_open.clear()
        try:
            for who in list(self._wanted)[:_FEW]:
                self._wanted.pop(who)()
            await asyncio.sleep(_PAUSE_SECONDS)
            self._give_back()
        finally:
            self._is_open.set()
        await asyncio.sleep(_PAUSE_SECONDS)

    async def _quiet(self) -> None:
        """Wait until no sync is under way, but not for ever."""
        looks = round(_LONGEST_SECONDS / _LOOK_SECONDS)
        while looks and any(each.is_in_use for each in self._turns()):
            looks -= 1
            await asyncio.sleep(_LOOK_SECONDS)
