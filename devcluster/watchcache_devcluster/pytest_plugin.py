"""The pytest plugin: a fixture `devcluster`, a fresh cluster for each test that asks for it.

It needs an async plugin such as pytest-asyncio in auto mode, or `pytest.mark.asyncio` on the test.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from watchcache_devcluster.cluster import DevCluster

__all__ = ["devcluster"]

_fixture: Callable[..., Any] = pytest.fixture
with suppress(ImportError):  # without it another async plugin may run the fixture
    _fixture = import_module("pytest_asyncio").fixture


@_fixture
async def devcluster() -> AsyncIterator[DevCluster]:
    """Yield a running cluster of the test's own."""
    async with DevCluster() as cluster:
        yield cluster
