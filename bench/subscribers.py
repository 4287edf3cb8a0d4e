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
import os
import ssl
import sys
import time
from pathlib import Path
from typing import Any, Final

import aiohttp
import grpc
import msgspec
import uvloop

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb

_METHOD: Final = "/watchcache.v1alpha1.WatchCacheService/Watch"
# The first byte of a WatchResponse tells which one it is.
_SYNCED: Final = pb.WatchResponse(synced=pb.Synced()).SerializeToString()[0]


def _channel(task: dict[str, Any], number: int = 0) -> grpc.aio.Channel:
    options: list[tuple[str, Any]] = [
        # Channels with the same options would share one connection.
        ("grpc.use_local_subchannel_pool", 1),
        ("bench.number", number),
    ]
    if not task["ca_file"]:
        return grpc.aio.insecure_channel(task["address"], options)
    credentials = grpc.ssl_channel_credentials(Path(task["ca_file"]).read_bytes())
    return grpc.aio.secure_channel(task["address"], credentials, options)


def _watch(channel: grpc.aio.Channel, task: dict[str, Any]) -> Any:
    """Open a stream whose messages stay bytes."""
    request = pb.WatchRequest(namespace=task["namespace"], name=task["name"])
    open_stream: Any = channel.unary_stream(_METHOD)
    return open_stream(request.SerializeToString())


async def snapshot(task: dict[str, Any]) -> None:
    """Read snapshots as fast as they come."""
    async with _channel(task) as channel:
        await channel.channel_ready()
        for _ in range(task["times"]):
            size = messages = 0
            started = time.monotonic()
            call = _watch(channel, task)
            while True:
                message = await call.read()
                size += len(message)
                messages += 1
                if message[0] == _SYNCED:
                    break
            seconds = time.monotonic() - started
            call.cancel()
            _say({"bytes": size, "seconds": seconds, "messages": messages})


async def idle(task: dict[str, Any]) -> None:
    """Hold streams until the end of the standard input."""
    channels = [_channel(task, number) for number in range(task["connections"])]
    calls = []
    for number in range(task["streams"]):
        call = _watch(channels[number % len(channels)], task)
        while (await call.read())[0] != _SYNCED:
            pass
        calls.append(call)
    _say("ready")
    await _lines().readline()
    for channel in channels:
        await channel.close()


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


class _Tick(msgspec.Struct):
    metadata: _Metadata
    data: dict[str, str] = {}


class _TickEvent(msgspec.Struct):
    type: str
    object: _Tick


async def latency(task: dict[str, Any]) -> None:
    """Compare a stream with a raw watch."""
    latencies = Latencies()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_follow_raw(task, latencies)),
            group.create_task(_follow_stream(task, latencies)),
        ]
        lines = _lines()
        while await lines.readline():
            _say(latencies.take())
        for each in tasks:
            each.cancel()


async def _follow_raw(task: dict[str, Any], latencies: Latencies) -> None:
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
                latencies.came_raw(event.object.metadata.resourceVersion)


async def _follow_stream(task: dict[str, Any], latencies: Latencies) -> None:
    decode = msgspec.json.Decoder(_Tick).decode
    async with _channel(task) as channel:
        call = _watch(channel, task)
        while True:
            for event in pb.WatchResponse.FromString(await call.read()).batch.events:
                tick = decode(event.object.json)
                latencies.came(tick.metadata.resourceVersion, float(tick.data["written_at"]))


def _lines() -> asyncio.StreamReader:
    """Return the standard input as lines."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()

    def feed() -> None:
        data = os.read(sys.stdin.fileno(), 65536)
        if data:
            reader.feed_data(data)
        else:
            loop.remove_reader(sys.stdin.fileno())
            reader.feed_eof()

    loop.add_reader(sys.stdin.fileno(), feed)
    return reader


def _say(value: Any) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    uvloop.run({"snapshot": snapshot, "idle": idle, "latency": latency}[task["what"]](task))
