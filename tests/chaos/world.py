"""A small world of ConfigMaps that changes at random, and what its API server holds in the end."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.contract.api import Api
from tests.history_records import Key

__all__ = ["World"]

_NAMES = 60
_WRITERS = 8


class World:
    """ConfigMaps of one namespace: created, changed, relabelled, deleted and made again."""

    def __init__(self, api: Api, namespace: str, seed: int, *, cluster: str = "hub") -> None:
        self._api = api
        self._cluster = cluster
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._random = random.Random(seed)
        self._live: dict[str, str] = {}
        self.written = 0
        #: uid and resourceVersion of every state that was written.
        self.versions: set[tuple[str, str]] = set()
        self.deleted_uids: set[str] = set()

    async def change(self, count: int, *, seconds: float = 0.0) -> None:
        """Make so many changes, several at once, each name by one writer.

        They are spread over about so many seconds, in bursts.
        """
        pause = seconds * _WRITERS / count
        async with asyncio.TaskGroup() as group:
            for writer in range(_WRITERS):
                names = [f"c{number:02}" for number in range(writer, _NAMES, _WRITERS)]
                share = count // _WRITERS + (writer < count % _WRITERS)
                group.create_task(self._write(names, share, pause))

    async def _write(self, names: list[str], count: int, pause: float) -> None:
        live = self._live
        for number in range(count):
            if pause and self._random.random() < 0.1:
                await asyncio.sleep(self._random.uniform(0.0, 20 * pause))
            name = self._random.choice(names)
            if name not in live:
                body = {"metadata": {"name": name}, "data": {"n": str(number)}}
                live[name] = self._note(await self._api.create(self._path, body))
            elif self._random.random() < 0.2:
                await self._api.delete(f"{self._path}/{name}")
                self.deleted_uids.add(live.pop(name))
            else:
                tier = self._random.choice(("gold", "silver"))
                patch = {"metadata": {"labels": {"tier": tier}}, "data": {"n": str(number)}}
                self._note(await self._api.patch(f"{self._path}/{name}", patch))
            self.written += 1

    def _note(self, written: dict[str, Any]) -> str:
        metadata = written["metadata"]
        self.versions.add((metadata["uid"], metadata["resourceVersion"]))
        uid: str = metadata["uid"]
        return uid

    async def content(self, **labels: str) -> dict[Key, tuple[str, str]]:
        """Return uid and resourceVersion of what the API server holds and has these labels."""
        listed: dict[str, Any] = await self._api.get(self._path)
        found = {}
        for item in listed["items"]:
            metadata = item["metadata"]
            if labels.items() <= metadata.get("labels", {}).items():
                key = Key(self._cluster, "", "configmaps", self._namespace, metadata["name"])
                found[key] = (metadata["uid"], metadata["resourceVersion"])
        return found
