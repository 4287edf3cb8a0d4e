"""Fixtures of the tests of kubernetes/: keys once, a server for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.controlplane.credentials import Credentials
from tests.unit.kubernetes.api_double import ApiDouble, serve
from tests.unit.kubernetes.informer_world import world  # noqa: F401 (a fixture)


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    """Give a CA with a serving certificate for the loopback."""
    return Credentials(tmp_path_factory.mktemp("pki"))


@pytest.fixture
async def api(pki: Credentials) -> AsyncIterator[ApiDouble]:
    """Give a server that answers as told."""
    async with serve(pki) as double:
        yield double
