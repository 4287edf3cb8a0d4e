"""Waits for what a test is sure will happen, without saying when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["LIMIT_SECONDS", "eventually"]

LIMIT_SECONDS = 20.0
"""Far more than anything takes; whoever waits longer waits in vain."""


async def eventually(condition: Callable[[], object]) -> None:
    """Return when the condition holds. Raises TimeoutError when it never does."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not condition():  # noqa: ASYNC110  # the condition is the other side's state
            await asyncio.sleep(0.002)
