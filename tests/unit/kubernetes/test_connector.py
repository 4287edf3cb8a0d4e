"""Rules of how connections are made."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import aiohttp
import pytest

from tests.controlplane.credentials import Credentials
from watchcache_server.kubernetes.connector import Connector


async def test_a_reset_while_connecting_leaves_the_process_alone(pki: Credentials) -> None:
    """On uvloop too, which is what the service runs on: no descriptor is closed twice."""
    files = (pki.ca_file, pki.serving_certificate, pki.serving_key)
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.unit.kubernetes.resetting"),
        *map(str, files),
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await program.communicate()
    assert program.returncode == 0, told.decode()[-2000:]


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _info(host: str, port: int, family: int = socket.AF_INET) -> tuple[Any, ...]:
    return (family, socket.SOCK_STREAM, 0, "", (host, port))


async def test_each_family_is_tried() -> None:
    """A name may have an address where nobody listens, and one of another family where they do."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        nobody = _info("::1", _closed_port(), socket.AF_INET6)
        connector, request = Connector(), None
        transport, _ = await connector._wrap_create_connection(
            asyncio.Protocol,
            addr_infos=[nobody, _info("127.0.0.1", port)],
            req=request,  # type: ignore[arg-type]  # only errors are of a request
            timeout=aiohttp.ClientTimeout(sock_connect=5),
        )
        assert transport.get_extra_info("peername")[:2] == ("127.0.0.1", port)
        transport.abort()
        await connector.close()


async def test_where_nobody_listens_it_is_said_so() -> None:
    """As aiohttp says it."""
    async with aiohttp.ClientSession(connector=Connector()) as session:
        with pytest.raises(aiohttp.ClientConnectorError) as refused:
            await session.get(f"http://127.0.0.1:{_closed_port()}/")
        assert isinstance(refused.value.os_error, ConnectionRefusedError)
