"""One request on its way through the gateway: its answer, piece by piece, and what befalls it."""

from __future__ import annotations

import asyncio
import enum
import itertools
from collections.abc import Callable

from tests.chaos.proxy import reset
from tests.chaos.storm.messages import END, Head, chunk, pieces, read_head
from tests.chaos.storm.schedule import Fault

__all__ = ["Ending", "Exchange"]

_numbers = itertools.count()


class Ending(enum.Enum):
    """How an answer ended, and with it what the two connections are good for."""

    #: Both can be used again.
    WHOLE = "whole"
    #: By what was said into it: the client's connection can be used again.
    SAID = "said"
    BROKEN = "broken"


class Exchange:
    """Passes an answer on. What is said into it comes between two events, never within one."""

    def __init__(
        self, head: Head, writer: asyncio.StreamWriter, there: asyncio.StreamReader
    ) -> None:
        self.number = next(_numbers)
        self.head = head
        self._writer = writer
        self._there = there
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._over = asyncio.Event()
        self._is_between = False
        self._said: list[tuple[bytes, bool, Callable[[], None]]] = []
        self._cut: tuple[int, str, Callable[[], None]] | None = None
        self.is_frozen = False
        self._is_said = False

    # What befalls it.

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        reset(self._writer)
        self._over.set()

    def freeze(self) -> None:
        """Pass nothing on any more, and close nothing."""
        self.is_frozen = True
        self._flowing.clear()

    def hold(self, seconds: float) -> None:
        """Pass nothing on for a while."""
        self._flowing.clear()
        asyncio.get_running_loop().call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        if not self.is_frozen:
            self._flowing.set()
            self._speak()

    def say(self, line: bytes, *, ends: bool, struck: Callable[[], None]) -> None:
        """Put a line into a stream as soon as no event is under way; end the stream if told so."""
        self._said.append((line, ends, struck))
        self._speak()

    def break_framing(self, struck: Callable[[], None]) -> None:
        """Send what is no chunk where a chunk should come."""
        if self._is_between:
            struck()
            self._writer.write(b"no chunk\r\n")

    def cut_later(self, fault: Fault, struck: Callable[[Fault], None]) -> None:
        """Break the answer off after some more of its body, in the way of the variant."""
        self._cut = (fault.after_bytes, fault.variant, lambda: struck(fault))

    def forget(self) -> None:
        """Have nothing befall it any more that has not yet."""
        self._cut = None
        self._said.clear()

    # Its way.

    async def run(self) -> Ending:
        """Pass the answer on."""
        passing = asyncio.ensure_future(self._pass_on())
        ending = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait((passing, ending), return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                return passing.result()
            return Ending.SAID if self._is_said else Ending.BROKEN
        finally:
            passing.cancel()
            ending.cancel()
            await asyncio.gather(passing, ending, return_exceptions=True)

    async def _pass_on(self) -> Ending:
        answer = await read_head(self._there)
        if answer is None:
            return Ending.BROKEN
        await self._flowing.wait()
        self._writer.write(answer.raw)
        self._is_between = answer.is_chunked
        self._speak()
        async for piece in pieces(answer, self._there):
            await self._flowing.wait()
            if self._cut is not None and self._cut[0] < len(piece):
                await self._break_off(piece, is_chunked=answer.is_chunked)
                return Ending.BROKEN
            if self._cut is not None:
                self._cut = (self._cut[0] - len(piece), *self._cut[1:])
            if self._over.is_set():
                break
            self._writer.write(chunk(piece) if answer.is_chunked else piece)
            self._is_between = answer.is_chunked and piece.endswith(b"\n")
            self._speak()
            await self._writer.drain()
        if self._over.is_set():
            return Ending.SAID if self._is_said else Ending.BROKEN
        self._is_between = False
        if answer.is_chunked:
            self._writer.write(END)
        await self._writer.drain()
        is_last = answer.headers.get("connection", "").lower() == "close"
        return Ending.BROKEN if is_last else Ending.WHOLE

    async def _break_off(self, piece: bytes, *, is_chunked: bool) -> None:
        assert self._cut is not None
        left, how, struck = self._cut
        self._cut = None
        struck()
        part = piece[:left]
        if how == "end" and is_chunked:
            # In good order, though in the middle of an event.
            self._writer.write((chunk(part) if part else b"") + END)
        elif is_chunked:
            self._writer.write(chunk(piece)[: left + 4])
        else:
            self._writer.write(part)
        await self._writer.drain()
        if how == "reset":
            self.reset()
        else:
            self._writer.close()

    def _speak(self) -> None:
        while self._is_between and self._said and self._flowing.is_set():
            line, ends, struck = self._said.pop(0)
            struck()
            self._writer.write(chunk(line))
            if ends:
                self._writer.write(END)
                self._is_between = False
                self._is_said = True
                self._over.set()
