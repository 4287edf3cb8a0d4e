"""The response of one watch: writes its lines to the client, and suffers its faults.

A fault that strikes a running watch is noted and wakes it; what is then done to the socket is done
here, between two events or, for a cut, in the middle of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from watchcache_devcluster.faults import Fault
from watchcache_devcluster.requests import RequestInfo
from watchcache_devcluster.watches import Watch, error_line

__all__ = ["Severed", "WatchResponse"]

_BOOKMARK = b'{"type":"BOOKMARK"'


class Severed(Exception):  # noqa: N818 - it is no error: a fault did what it was told to
    """The connection was ended by a fault; there is nobody left to answer."""


class WatchResponse:
    """Runs one watch over one HTTP response."""

    def __init__(
        self,
        info: RequestInfo,
        watch: Watch,
        request: web.BaseRequest,
        faults: list[Fault],
        reset: Callable[[asyncio.BaseTransport | None], None],
    ) -> None:
        self.info = info
        self._watch = watch
        self._request = request
        self._reset = reset
        self._pending: list[tuple[Fault, int]] = []
        # After so many events one is lost.
        self._losses: list[int] = []
        self._written = 0
        for fault in faults:
            self._add(fault)
        self._response = web.StreamResponse(
            headers={"Cache-Control": "no-cache, private", "Content-Type": "application/json"}
        )

    def strike(self, fault: Fault) -> None:
        """Let a fault happen as soon as the stream can (see `faults.Stream`)."""
        self._add(fault)
        self._watch.waker.set()

    def _add(self, fault: Fault) -> None:
        count = self._written + fault.after_events
        if fault.kind == "lose":
            self._losses.append(count)
        else:
            self._pending.append((fault, count))

    async def run(self) -> web.StreamResponse:
        """Stream until the watch ends, the client leaves or a fault ends it."""
        response = self._response
        await response.prepare(self._request)
        try:
            while True:
                if self._due() and await self._suffer():
                    return response
                lines = await self._watch.next()
                if lines is None:
                    break
                await self._write(lines)
            await response.write_eof()
        except ConnectionError:
            raise Severed from None
        return response

    def _due(self) -> bool:
        return any(count <= self._written for _, count in self._pending)

    async def _write(self, lines: list[bytes]) -> None:
        """Write lines, up to where a pending fault wants to happen."""
        if not (self._pending or self._losses):
            self._written += len(lines)
            if lines:
                await self._response.write(b"".join(lines))
            return
        for line in lines:
            for fault, count in list(self._pending):
                if fault.kind == "cut" and count <= self._written:
                    await self._cut(line, fault)
            if self._due() and await self._suffer():
                raise Severed
            if self._loses(line):
                continue
            await self._response.write(line)
            self._written += 1

    def _loses(self, line: bytes) -> bool:
        """Say whether a line is one that is never sent; a bookmark always is."""
        due = next((count for count in self._losses if count <= self._written), None)
        if due is None or line.startswith(_BOOKMARK):
            return False
        self._losses.remove(due)
        return True

    async def _suffer(self) -> bool:
        """Carry out the faults that are due; say whether the response is complete."""
        for entry in list(self._pending):
            fault, count = entry
            if count > self._written:
                continue
            self._pending.remove(entry)
            match fault.kind:
                case "reset":
                    self._reset(self._request.transport)
                    raise Severed
                case "half-open":
                    await asyncio.get_running_loop().create_future()
                case "cut":
                    await self._cut(self._watch.bookmark(), fault)
                case "error" | "gone":
                    await self._response.write(error_line(fault.to_error()))
                    await self._response.write_eof()
                    return True
                case _:
                    await self._response.write_eof()
                    return True
        return False

    async def _cut(self, line: bytes, fault: Fault) -> None:
        """Send half of a line, then end the response or the connection."""
        await self._response.write(line[: len(line) // 2])
        if fault.clean:
            await self._response.write_eof()
        elif self._request.transport is not None:
            self._request.transport.close()
        raise Severed
