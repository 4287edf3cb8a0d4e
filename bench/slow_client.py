"""The Python client with a consumer that takes one message a second: `... bench.slow_client TASK`.

Prints "ready" once its watch is synced, and ends with its standard input; its memory is read from
outside.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, Final

import uvloop

import watchcache
from bench.streams import lines, say

_PAUSE_SECONDS: Final = 1.0


async def _main(task: dict[str, Any]) -> None:
    async with (
        watchcache.connect(task["address"]) as connection,
        asyncio.TaskGroup() as group,
    ):
        extension = await connection.extension(f"{task['namespace']}/{task['name']}")
        consuming = group.create_task(_consume(extension))
        await lines().readline()
        consuming.cancel()


async def _consume(extension: watchcache.Extension) -> None:
    async with extension.watch() as watch:
        is_synced = False
        async for message in watch:
            if isinstance(message, watchcache.Synced) and not is_synced:
                is_synced = True
                say("ready")
            if is_synced:
                await asyncio.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    uvloop.run(_main(json.loads(sys.argv[1])))
