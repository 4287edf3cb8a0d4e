"""A crowd of subscribers that all come at one moment: `python -m bench.storm TASK`.

The task says how many `streams`, on how many `connections`. Each is read up to its Synced and held.
One that ends or is refused waits for as long as it was told to, plus some chance, and is
opened again with its last resume token, as a client has to. A line on the standard input is
answered once all are synced (again) after that many openings: how many seconds after the first
opening of this round the first, the median and the last one was, how many openings ended how, and
how many streams began anew instead of going on.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from typing import Any, Final

import grpc
import uvloop
from google.rpc import error_details_pb2, status_pb2

from bench.streams import channel, lines, say, watch
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb

__all__: list[str] = []

_CHANCE_SECONDS: Final = 1.0
# So long a client that was told nothing waits at most.
_LONGEST_SECONDS: Final = 2.0


class _Storm:
    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task
        self._channels = [channel(task, number) for number in range(task["connections"])]
        self._begin()

    def _begin(self) -> None:
        self._began_at: float | None = None
        self._synced: dict[int, float] = {}
        self._ends: Counter[str] = Counter()
        self._resets = 0
        self._is_whole = asyncio.Event()

    async def run(self) -> None:
        """Open all, and tell of each round that is asked for."""
        words = lines()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._follow(number)) for number in range(self._task["streams"])
            ]
            while await words.readline():
                await self._is_whole.wait()
                times = sorted(self._synced.values())
                ends, resets = dict(self._ends), self._resets
                self._begin()
                say(
                    {
                        "first": times[0],
                        "median": times[len(times) // 2],
                        "last": times[-1],
                        "ends": ends,
                        "resets": resets,
                    }
                )
            for each in tasks:
                each.cancel()

    async def _follow(self, number: int) -> None:
        token = b""
        while True:
            if self._began_at is None:
                self._began_at = time.monotonic()
            call = watch(
                self._channels[number % len(self._channels)], self._task, resume_token=token
            )
            try:
                while (data := await call.read()) is not grpc.aio.EOF:
                    token = self._take(number, data) or token
                wait = _LONGEST_SECONDS
            except grpc.aio.AioRpcError as error:
                wait = self._note(error)
            await asyncio.sleep(wait)

    def _take(self, number: int, data: bytes) -> bytes:
        message = pb.WatchResponse.FromString(data)
        kind = message.WhichOneof("response")
        if kind == "reset":
            self._resets += 1
        if kind == "synced" and self._began_at is not None:
            self._synced[number] = time.monotonic() - self._began_at
            if len(self._synced) == self._task["streams"]:
                self._is_whole.set()
        token: bytes = getattr(getattr(message, str(kind)), "resume_token", b"")
        return token

    def _note(self, error: grpc.aio.AioRpcError) -> float:
        """Count how a stream ended; return how long to wait."""
        reason, delay = "", None
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                reason, delay = _read(value)
        self._ends[f"{error.code().name} {reason}".strip()] += 1
        if delay is None:
            return random.uniform(0.0, _LONGEST_SECONDS)
        return delay + random.uniform(0.0, _CHANCE_SECONDS)


def _read(trailer: Any) -> tuple[str, float | None]:
    """Return the reason of an error, with the limit that it names, and the wait it asks for."""
    reason, delay = "", None
    for detail in status_pb2.Status.FromString(trailer).details:
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            reason = f"{info.reason} {info.metadata.get('setting', '')}".strip()
        elif detail.Unpack(retry):
            delay = retry.retry_delay.ToMilliseconds() / 1000
    return reason, delay


async def _main(task: dict[str, Any]) -> None:
    await _Storm(task).run()


if __name__ == "__main__":
    uvloop.run(_main(json.loads(sys.argv[1])))
