"""Many subscribers in one process, some of them slow: `python -m bench.crowd TASK`.

The task says how many `readers` take each message at once, on how many `connections`, and with
which label `selectors`, in turn; every `sampled_every`th of them, if that is not 0, is a client of
gRPC that decodes what it gets, the others are bulk streams (`bench.bulk`) on as many connections of
their own. A line on the standard input asks for something, and is answered by one line:

- slow: opens `slow` more streams that take one message a second, and `stalled` more that take
  none, on the same connections.
- fast: ends them again.
- take: says how much later than a raw watch the sampled readers had each change, how long after it
  was written, and how many messages all readers, and the slow ones, have read since.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any, Final

import grpc
import msgspec
import uvloop

from bench.bulk import BulkStreams
from bench.streams import METHOD, SYNCED, channel, lines, say, watch
from bench.subscribers import Tick, follow_raw
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb

__all__ = ["Arrivals"]

_SLOW_SECONDS: Final = 1.0


class Arrivals:
    """When each change came over the raw watch, and when to each of several streams."""

    def __init__(self) -> None:
        self._raw: dict[str, float] = {}
        self._streams: list[tuple[str, float, float]] = []

    def came_raw(self, version: str) -> None:
        """Note that the raw watch had it now."""
        self._raw[version] = time.monotonic()

    def came(self, version: str, written_at: float) -> None:
        """Note that one stream had it now, and when it was written."""
        self._streams.append((version, time.monotonic(), written_at))

    def take(self) -> dict[str, list[float]]:
        """Return what is known of those that the raw watch had as well, and forget everything.

        What is under way between two calls counts in neither.
        """
        added, whole = [], []
        for version, came, written_at in self._streams:
            if version in self._raw:
                added.append(came - self._raw[version])
                whole.append(came - written_at)
        self._raw.clear()
        self._streams.clear()
        return {"added": added, "whole": whole}


class _Crowd:
    def __init__(self, task: dict[str, Any], group: asyncio.TaskGroup) -> None:
        self._task = task
        self._group = group
        self._channels = [channel(task, number) for number in range(task["connections"])]
        self._decode = msgspec.json.Decoder(Tick).decode
        self._arrivals = Arrivals()
        self._bulk: list[BulkStreams] = []
        self._read_count = self._told_count = 0
        self._slow_count = 0
        self._slow: list[asyncio.Task[None]] = []
        self._stalled: list[Any] = []

    async def run(self) -> None:
        """Open the readers, then do as told until the end of the standard input."""
        task = self._task
        selectors = task["selectors"]
        tasks = []
        bulk: list[list[bytes]] = [[] for _ in range(task["connections"])]
        for number in range(task["readers"]):
            selector = selectors[number % len(selectors)]
            if task["sampled_every"] and number % task["sampled_every"] == 0:
                call = await self._open(number // task["sampled_every"], selector)
                tasks.append(self._group.create_task(self._sample(call)))
            else:
                bulk[number % len(bulk)].append(_request(task, selector).SerializeToString())
        for requests in bulk:
            self._bulk.append(await BulkStreams.open(task["address"], METHOD, requests))
        if task["sampled_every"]:
            tasks.append(self._group.create_task(follow_raw(task, self._arrivals)))
        say("ready")
        words = lines()
        while word := (await words.readline()).decode().strip():
            say(await self._do(word))
        self._end_slow()
        for each in tasks:
            each.cancel()
        for streams in self._bulk:
            streams.close()

    async def _do(self, word: str) -> Any:
        if word == "slow":
            await self._open_slow()
        elif word == "fast":
            self._end_slow()
        elif word == "take":
            read = self._read_count + sum(each.read_count for each in self._bulk)
            counts = {"read": read - self._told_count, "slow": self._slow_count}
            self._told_count = read
            self._slow_count = 0
            return self._arrivals.take() | counts
        return word

    async def _open(self, number: int, selector: str = "") -> Any:
        connection = self._channels[number % len(self._channels)]
        call = watch(connection, self._task, filter=pb.Filter(label_selector=selector))
        while (await call.read())[0] != SYNCED:
            pass
        return call

    async def _open_slow(self) -> None:
        for number in range(self._task["slow"]):
            call = await self._open(number)
            self._slow.append(self._group.create_task(self._read_slowly(call)))
        for number in range(self._task["stalled"]):
            self._stalled.append(await self._open(number))

    def _end_slow(self) -> None:
        for task in self._slow:
            task.cancel()
        for call in self._stalled:
            call.cancel()
        self._slow.clear()
        self._stalled.clear()

    async def _sample(self, call: Any) -> None:
        while message := await call.read():
            self._read_count += 1
            for event in pb.WatchResponse.FromString(message).batch.events:
                tick = self._decode(event.object.json)
                self._arrivals.came(tick.metadata.resourceVersion, float(tick.data["written_at"]))

    async def _read_slowly(self, call: Any) -> None:
        try:
            while await call.read() is not grpc.aio.EOF:
                self._slow_count += 1
                await asyncio.sleep(_SLOW_SECONDS)
        finally:
            call.cancel()


def _request(task: dict[str, Any], selector: str) -> pb.WatchRequest:
    return pb.WatchRequest(
        namespace=task["namespace"],
        name=task["name"],
        filter=pb.Filter(label_selector=selector),
    )


async def _main(task: dict[str, Any]) -> None:
    async with asyncio.TaskGroup() as group:
        await _Crowd(task, group).run()


if __name__ == "__main__":
    uvloop.run(_main(json.loads(sys.argv[1])))
