"""The plain reader that syncs are compared with."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench.raw_reader import read
from tests.controlplane.credentials import Credentials

_END = json.dumps(
    {
        "type": "BOOKMARK",
        "object": {"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}},
    }
).encode()
_EVENT = b'{"type":"ADDED","object":{"note":"k8s.io/initial-events"}}'


async def _read(tmp_path: Path, pieces: list[bytes]) -> dict[str, Any]:
    """Read from a server that sends these pieces and then says nothing more."""
    seen = {}

    async def watch(request: web.Request) -> web.StreamResponse:
        seen["authorization"] = request.headers["Authorization"]
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0)
        await asyncio.Event().wait()
        return response

    made = Credentials(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.serving_certificate, made.serving_key)
    app = web.Application()
    app.router.add_get("/", watch)
    server = TestServer(app, scheme="https", host="127.0.0.1")
    await server.start_server(ssl=context, shutdown_timeout=0)
    try:
        async with asyncio.timeout(20):
            found = await read(
                {"url": str(server.make_url("/")), "ca_file": made.ca_file, "token": "t"}
            )
    finally:
        await server.close()
    assert seen["authorization"] == "Bearer t"
    return found


@pytest.mark.parametrize("size", [1, 7, 10_000], ids=["bytes", "small pieces", "at once"])
async def test_it_reads_up_to_the_end_of_the_initial_events(tmp_path: Path, size: int) -> None:
    """Every line counts, the bookmark included, however the body is cut; nothing after it does."""
    body = b"".join(line + b"\n" for line in (_EVENT, _EVENT, _END))
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    found = await _read(tmp_path, pieces)
    assert (found["lines"], found["bytes"]) == (3, len(body))
    assert found["seconds"] > 0
