"""Streams of the processes that subscribe, and how these talk to the benchmark that runs them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import grpc

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb

__all__ = ["METHOD", "SYNCED", "channel", "lines", "say", "watch"]

METHOD: Final = "/watchcache.v1alpha1.WatchCacheService/Watch"
# The first byte of a WatchResponse tells which one it is.
SYNCED: Final = pb.WatchResponse(synced=pb.Synced()).SerializeToString()[0]


def channel(task: dict[str, Any], number: int = 0) -> grpc.aio.Channel:
    """Return connection `number` to the service of a task."""
    options: list[tuple[str, Any]] = [
        # Channels with the same options would share one connection.
        ("grpc.use_local_subchannel_pool", 1),
        ("bench.number", number),
    ]
    if not task["ca_file"]:
        return grpc.aio.insecure_channel(task["address"], options)
    credentials = grpc.ssl_channel_credentials(Path(task["ca_file"]).read_bytes())
    return grpc.aio.secure_channel(task["address"], credentials, options)


def watch(connection: grpc.aio.Channel, task: dict[str, Any], **fields: Any) -> Any:
    """Open a stream whose messages stay bytes; `fields` are more of its request."""
    request = pb.WatchRequest(namespace=task["namespace"], name=task["name"], **fields)
    open_stream: Any = connection.unary_stream(METHOD)
    return open_stream(request.SerializeToString())


def lines() -> asyncio.StreamReader:
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


def say(value: Any) -> None:
    """Print a line of JSON."""
    print(json.dumps(value), flush=True)
