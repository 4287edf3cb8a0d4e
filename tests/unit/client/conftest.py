"""What the tests of the client share: a service that is told what to do, and a connection to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import watchcache
from tests.unit.client.command import Command
from tests.unit.client.fake_service import FakeService, serving


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WATCHCACHE_ADDRESS", "WATCHCACHE_CA_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    """A service that runs."""
    async with serving(FakeService()) as running:
        yield running


@pytest.fixture
async def connection(service: FakeService) -> AsyncIterator[watchcache.Connection]:
    """A connection to that service."""
    async with watchcache.connect(service.address) as opened:
        yield opened


@pytest.fixture
async def extension(connection: watchcache.Connection) -> watchcache.Extension:
    """An extension that the test has registered there."""
    return await connection.register("team-a/shop", watch=["pods"])


@pytest.fixture
def run(service: FakeService, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Command:
    """The command, against the service of the test."""
    return Command(service, monkeypatch, capsys)
