"""The way to the API server, on which everything happens that can happen to a request.

It ends TLS with a certificate of an authority of its own, reads each request and passes it on. A
fault either strikes what is open at that moment or lies in wait for the next request of its sort
(`mishaps.py` says what it does then). A fault counts as struck when it did something to a request
or an answer, not when it was laid.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.chaos.proxy import reset
from tests.chaos.storm.exchange import Ending, Exchange
from tests.chaos.storm.messages import Head, answer, read_head, status_body
from tests.chaos.storm.mishaps import answer_instead, is_of_stream, strike_stream
from tests.chaos.storm.schedule import Fault, FaultKind
from tests.controlplane.credentials import Credentials

__all__ = ["Gateway"]

_REORDERED = 5
_FAREWELL_SECONDS = 1.0
# How long a fault looks for something to strike.
_PATIENCE_SECONDS = 5.0


class Gateway:
    """Listens on a free loopback port, with TLS, and passes requests on to one API server."""

    def __init__(
        self, url: str, ca_file: Path, folder: Path, *, struck: Callable[[Fault], None]
    ) -> None:
        """`folder` takes the certificates; `struck` is told of each fault that did something."""
        self._target = urlsplit(url)
        self._there = ssl.create_default_context(cafile=ca_file)
        self.credentials = Credentials(folder)
        self._here = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._here.load_cert_chain(
            self.credentials.serving_certificate, self.credentials.serving_key
        )
        self._struck = struck
        self._laid: list[Fault] = []
        self._exchanges: set[Exchange] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tokens: set[str] = set()
        self._expired: dict[str, Fault] = {}
        self._queue: list[asyncio.Event] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._here)
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def open_watches(self) -> int:
        """How many watches are under way."""
        return sum(each.head.sort == "watch" for each in self._exchanges)

    def forget(self) -> None:
        """Let every fault go that has struck nothing, and every request that is held."""
        self._laid.clear()
        self._expired.clear()
        for exchange in self._exchanges:
            exchange.forget()

    async def strike(self, fault: Fault) -> None:
        """Do to the open requests what the fault says, or lay it for one that comes."""
        match fault.kind:
            case FaultKind.RESET:
                for exchange in await self._chosen(fault):
                    exchange.reset()
                    self._struck(fault)
            case FaultKind.HALF_OPEN:
                for exchange in await self._chosen(fault):
                    exchange.freeze()
                    self._struck(fault)
            case FaultKind.TOKEN_EXPIRY:
                self._expired = dict.fromkeys(self._tokens, fault) | self._expired
            case FaultKind.REORDER:
                await self._reorder(fault)
            case FaultKind.DELAY if fault.variant == "open":
                for exchange in await self._chosen(fault):
                    exchange.hold(fault.seconds)
                    self._struck(fault)
            case FaultKind.CUT if fault.target == "watch":
                for exchange in await self._chosen(fault):
                    exchange.cut_later(fault, self._struck)
            case _ if is_of_stream(fault):
                for exchange in (await self._chosen(fault))[:1]:
                    strike_stream(exchange, fault, self._struck)
            case _:
                self._laid.append(fault)

    async def _chosen(self, fault: Fault) -> list[Exchange]:
        """Return the open watches that a fault is about: all, or one by its lot.

        Where there are none it waits a while for one.
        """
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while not (open_ones := self._open_watches()):
            if asyncio.get_running_loop().time() > deadline:
                return []
            await asyncio.sleep(0.02)
        if fault.variant == "all":
            return open_ones
        return [open_ones[int(fault.lot * len(open_ones))]]

    def _open_watches(self) -> list[Exchange]:
        flowing = (
            each for each in self._exchanges if each.head.sort == "watch" and not each.is_frozen
        )
        return sorted(flowing, key=lambda each: each.number)

    async def _reorder(self, fault: Fault) -> None:
        """Have all watches begin anew, hold their requests, and let them go in another order."""
        if self._queue is not None:
            return
        held: list[asyncio.Event] = []
        self._queue = held
        for exchange in self._open_watches():
            exchange.reset()
        try:
            async with asyncio.timeout(fault.seconds):
                while len(held) < _REORDERED:  # noqa: ASYNC110 - whoever is held sets no event
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pass
        finally:
            self._queue = None
            random.Random(fault.lot).shuffle(held)
            if len(held) > 1:
                self._struck(fault)
            for event in held:
                event.set()
                await asyncio.sleep(0.005)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        serving = asyncio.ensure_future(self._serve(reader, writer))
        leaving = asyncio.ensure_future(_closed(writer))
        try:
            # A client that leaves takes its requests with it, wherever they are.
            await asyncio.wait((serving, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            serving.cancel()
            leaving.cancel()
            await asyncio.gather(serving, leaving, return_exceptions=True)
            if writer.is_closing():
                # What was sent before the end must arrive.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_FAREWELL_SECONDS):
                        await _closed(writer)
            reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while (head := await read_head(reader)) is not None:
                body = await reader.readexactly(head.length)
                if self._queue is not None:
                    turn = asyncio.Event()
                    self._queue.append(turn)
                    await turn.wait()
                fault = self._fault_for(head)
                if fault is not None and await self._answered(fault, head, writer):
                    continue
                if there is None:
                    there = await asyncio.open_connection(
                        self._target.hostname, self._target.port, ssl=self._there
                    )
                there[1].write(head.raw + body)
                exchange = Exchange(head, writer, there[0])
                self._exchanges.add(exchange)
                try:
                    if fault is not None and fault.kind is FaultKind.CUT:
                        exchange.cut_later(fault, self._struck)
                    ending = await exchange.run()
                finally:
                    self._exchanges.discard(exchange)
                if ending is Ending.BROKEN:
                    return
                if ending is Ending.SAID:
                    reset(there[1])
                    there = None
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # One of the two sides has broken off; the other sees the same.
            return
        finally:
            if there is not None:
                reset(there[1])

    def _fault_for(self, head: Head) -> Fault | None:
        token = head.headers.get("authorization", "")
        if head.sort in ("watch", "list"):
            if token in self._expired:
                return self._expired[token]
            self._tokens.add(token)
        for fault in self._laid:
            is_meant = fault.target in ("any", head.sort)
            if fault.kind is FaultKind.NO_WATCH_LIST:
                is_meant = head.has_initial_events
            if is_meant:
                self._laid.remove(fault)
                return fault
        return None

    async def _answered(self, fault: Fault, head: Head, writer: asyncio.StreamWriter) -> bool:
        """Answer in the server's place; return whether that was all, and the connection lives."""
        if fault.kind is FaultKind.CUT:
            return False
        self._struck(fault)
        if fault.kind is FaultKind.TOKEN_EXPIRY:
            writer.write(answer(401, status_body(401, "Unauthorized")))
        elif fault.kind is FaultKind.DELAY:
            await asyncio.sleep(fault.seconds)
            return False
        else:
            answer_instead(fault, head, writer)
        await writer.drain()
        return True


async def _closed(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        await writer.wait_closed()
