"""Subscribers, as processes of their own: `python -m bench.subscribers TASK`.

- snapshot: one stream after another reads a whole snapshot and decodes nothing; for each it prints
  bytes and seconds.
- idle: many streams over few connections, each read up to its Synced, are held; prints "ready".
- latency: one stream beside a raw watch of the same objects; for each line "take" on its standard
  input it prints, for the changes since the last one, how much later than the raw watch the stream
  had them, and how long after they were written.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from typing import Any, Protocol

import aiohttp
import msgspec
import uvloop

from bench.streams import SYNCED, channel, lines, say, watch
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb

__all__ = ["Latencies", "RawArrivals", "Tick", "follow_raw"]


async def snapshot(task: dict[str, Any]) -> None:
    """Read snapshots as fast as they come."""
    async with channel(task) as connection:
        await connection.channel_ready()
        for _ in range(task["times"]):
            size = messages = 0
            started = time.monotonic()
            call = watch(connection, task)
            while True:
                message = await call.read()
                size += len(message)
                messages += 1
                if message[0] == SYNCED:
                    break
            seconds = time.monotonic() - started
            call.cancel()
            say({"bytes": size, "seconds": seconds, "messages": messages})


async def idle(task: dict[str, Any]) -> None:
    """Hold streams until the end of the standard input."""
    channels = [channel(task, number) for number in range(task["connections"])]
    calls = []
    for number in range(task["streams"]):
        call = watch(channels[number % len(channels)], task)
        while (await call.read())[0] != SYNCED:
            pass
        calls.append(call)
    say("ready")
    await lines().readline()
    for connection in channels:
        await connection.close()


class Latencies:
    """When each version came by which way."""

    def __init__(self) -> None:
        self._raw: dict[str, float] = {}
        self._stream: dict[str, tuple[float, float]] = {}

    def came_raw(self, version: str) -> None:
        """Note that the raw watch had it now."""
        self._raw[version] = time.monotonic()

    def came(self, version: str, written_at: float) -> None:
        """Note that the stream had it now, and when it was written."""
        self._stream[version] = (time.monotonic(), written_at)

    def take(self) -> dict[str, list[float]]:
        """Return what both have, and forget it."""
        both = sorted(self._raw.keys() & self._stream.keys())
        added, whole = [], []
        for version in both:
            came, written_at = self._stream.pop(version)
            added.append(came - self._raw.pop(version))
            whole.append(came - written_at)
        return {"added": added, "whole": whole}


class _Metadata(msgspec.Struct):
    resourceVersion: str  # noqa: N815 (the name on the wire)


class Tick(msgspec.Struct):
    """One of the small objects that are changed all the time."""

    metadata: _Metadata
    data: dict[str, str] = {}


class _TickEvent(msgspec.Struct):
    type: str
    object: Tick


async def latency(task: dict[str, Any]) -> None:
    """Compare a stream with a raw watch."""
    latencies = Latencies()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(follow_raw(task, latencies)),
            group.create_task(_follow_stream(task, latencies)),
        ]
        words = lines()
        while await words.readline():
            say(latencies.take())
        for each in tasks:
            each.cancel()


class RawArrivals(Protocol):
    """Whoever is told what came over the raw watch."""

    def came_raw(self, version: str) -> None:
        """Note that the raw watch had it now."""
        ...


async def follow_raw(task: dict[str, Any], arrivals: RawArrivals) -> None:
    """Watch the objects as the API server sends them, without the service."""
    trust = ssl.create_default_context(cafile=task["api_ca_file"])
    decode = msgspec.json.Decoder(_TickEvent).decode
    headers = {"Authorization": f"Bearer {task['token']}"}
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session,
        session.get(task["url"], headers=headers, timeout=timeout) as response,
    ):
        response.raise_for_status()
        async for line in response.content:
            event = decode(line)
            if event.type == "MODIFIED":
                arrivals.came_raw(event.object.metadata.resourceVersion)


async def _follow_stream(task: dict[str, Any], latencies: Latencies) -> None:
    decode = msgspec.json.Decoder(Tick).decode
    async with channel(task) as connection:
        call = watch(connection, task)
        while True:
            for event in pb.WatchResponse.FromString(await call.read()).batch.events:
                tick = decode(event.object.json)
                latencies.came(tick.metadata.resourceVersion, float(tick.data["written_at"]))


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    uvloop.run({"snapshot": snapshot, "idle": idle, "latency": latency}[task["what"]](task))
