"""Interruptions at random, and the condition that all is as it should be in the end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from tests.chaos.proxy import Proxy
from tests.history_records import Key

__all__ = ["cut_clients", "holds"]


async def cut_clients(network: Proxy, chance: random.Random) -> None:
    """Reset the clients' connections again and again; now and then take none for a while."""
    while True:
        await asyncio.sleep(chance.uniform(0.05, 0.8))
        if chance.random() < 0.2:
            network.shut()
            await asyncio.sleep(chance.uniform(0.0, 0.6))
            network.open()
        else:
            network.cut()


def holds(
    held: Callable[[], dict[Key, tuple[str, str]]], expected: dict[Key, tuple[str, str]]
) -> Callable[[], Awaitable[bool]]:
    """Return a condition: that someone holds exactly what is expected."""

    async def condition() -> bool:
        return held() == expected

    return condition
