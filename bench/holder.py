"""A subscriber that holds a snapshot and goes on from it: `python -m bench.holder TASK`.

It keeps what a client has to keep for that: the last resume token, and of each object the uid and
resourceVersion. Each line on its standard input makes it open a stream over a new connection, read
it up to its Synced, and print the mode, the number of events and the seconds that this took:

- snapshot: with nothing.
- token: with the last resume token.
- known: with an upload of what it holds. The seconds include it.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import grpc
import uvloop

from bench.streams import channel, lines, say, watch
from watchcache.holdings import HeldObject, uploads
from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache.v1alpha1.watch_cache_service_pb2_grpc import WatchCacheServiceStub

__all__ = ["Holder"]


class Holder:
    """What is held, and what a stream makes of it."""

    def __init__(self) -> None:
        self.token = b""
        self._held: dict[str, HeldObject] = {}

    @property
    def held(self) -> list[HeldObject]:
        """What is held, by namespace, as uploads want it."""
        return sorted(self._held.values(), key=lambda each: each.namespace)

    def apply(self, message: pb.WatchResponse) -> int:
        """Take a message in; return how many events it had."""
        self.token = message.synced.resume_token or message.batch.resume_token or self.token
        for event in message.batch.events:
            uid = event.object.uid
            if event.type in (event_pb2.EVENT_TYPE_DELETED, event_pb2.EVENT_TYPE_LEFT):
                self._held.pop(uid, None)
            else:
                self._held[uid] = _held(event.object)
        return len(message.batch.events)


def _held(found: event_pb2.Object) -> HeldObject:
    return HeldObject(
        found.key.resource,
        found.key.cluster,
        found.key.namespace,
        found.version,
        extension_pb2.PROJECTION_FULL,
        found.uid,
        found.resource_version,
    )


async def _read(holder: Holder, task: dict[str, Any], way: str, number: int) -> dict[str, Any]:
    started = time.monotonic()
    async with channel(task, number) as connection:
        fields: dict[str, Any] = {}
        if way == "token":
            fields["resume_token"] = holder.token
        elif way == "known":
            fields["known"] = await _upload(connection, task, holder.held)
        call = watch(connection, task, **fields)
        mode, events = "", 0
        while True:
            message = pb.WatchResponse.FromString(await call.read())
            events += holder.apply(message)
            if message.HasField("started"):
                mode = pb.StartMode.Name(message.started.mode)
            elif message.HasField("reset"):
                mode = "RESET"
            elif message.HasField("synced"):
                break
        seconds = time.monotonic() - started
        call.cancel()
    return {"mode": mode, "events": events, "seconds": seconds, "held": len(holder.held)}


async def _upload(
    connection: grpc.aio.Channel, task: dict[str, Any], held: list[HeldObject]
) -> bytes:
    stub: Any = WatchCacheServiceStub(connection)
    answer = await stub.UploadKnown(uploads(task["namespace"], task["name"], held))
    handle: bytes = answer.handle
    return handle


async def _main(task: dict[str, Any]) -> None:
    holder = Holder()
    words = lines()
    number = 0
    while word := (await words.readline()).decode().strip():
        say(await _read(holder, task, word, number))
        number += 1


if __name__ == "__main__":
    uvloop.run(_main(json.loads(sys.argv[1])))
