"""A small world of ConfigMaps that changes at random, and what its API server holds in the end."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.contract.api import Api

__all__ = ["World"]

_NAMES = 60
_WRITERS = 8


class World:
    """ConfigMaps of one namespace: created, changed, relabelled, deleted and made again."""

    def __init__(self, api: Api, namespace: str, seed: int) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._random = random.Random(seed)
        self.written = 0

    async def change(self, count: int) -> None:
        """Make so many changes, several at once, each name by one writer."""
        async with asyncio.TaskGroup() as group:
            for writer in range(_WRITERS):
                names = [f"c{number:02}" for number in range(writer, _NAMES, _WRITERS)]
                group.create_task(self._write(names, count // _WRITERS))

    async def _write(self, names: list[str], count: int) -> None:
        live: set[str] = set()
        for number in range(count):
            name = self._random.choice(names)
            if name not in live:
                body = {"metadata": {"name": name}, "data": {"n": str(number)}}
                await self._api.create(self._path, body)
                live.add(name)
            elif self._random.random() < 0.2:
                await self._api.delete(f"{self._path}/{name}")
                live.discard(name)
            else:
                tier = self._random.choice(("gold", "silver"))
                patch = {"metadata": {"labels": {"tier": tier}}, "data": {"n": str(number)}}
                await self._api.patch(f"{self._path}/{name}", patch)
            self.written += 1

    async def content(self) -> dict[str, tuple[str, str]]:
        """Return what the API server holds: uid and resourceVersion by name."""
        listed: dict[str, Any] = await self._api.get(self._path)
        return {
            item["metadata"]["name"]: (item["metadata"]["uid"], item["metadata"]["resourceVersion"])
            for item in listed["items"]
        }
