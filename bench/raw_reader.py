"""A plain reader of a WatchList: the yardstick for the time that a sync takes.

It reads the initial events of all pods over HTTP/1.1 and TLS with aiohttp, on uvloop like the
service, counts the lines and throws them away. Prints the seconds from the request to the bookmark
that ends the initial events.
"""

from __future__ import annotations

import json
import ssl
import sys
import time
from typing import Any

import aiohttp
import uvloop

_END = b"k8s.io/initial-events-end"


async def read(task: dict[str, Any]) -> dict[str, Any]:
    """Download once."""
    trust = ssl.create_default_context(cafile=task["ca_file"])
    started = time.monotonic()
    lines = size = 0
    tail = b""
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session,
        session.get(
            task["url"],
            headers={"Authorization": f"Bearer {task['token']}", "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=None, sock_read=60),
        ) as response,
    ):
        response.raise_for_status()
        async for chunk in response.content.iter_any():
            lines += chunk.count(b"\n")
            size += len(chunk)
            tail = (tail + chunk)[-1024:]
            if tail.endswith(b"\n") and _END in tail:
                break
    return {"seconds": time.monotonic() - started, "lines": lines, "bytes": size}


if __name__ == "__main__":
    print(json.dumps(uvloop.run(read(json.loads(sys.argv[1])))))
