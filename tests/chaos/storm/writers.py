"""Those who change objects while everything breaks: straight to the API server, by the schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp

from tests.chaos.storm.meter import json_size
from tests.chaos.storm.schedule import WRITERS, Round, Write
from tests.contract.api import Answer, Api

__all__ = ["GROUP", "Writers", "collection"]

#: The API group of the widgets.
GROUP = "storm.example.com"


def collection(resource: str, namespace: str) -> str:
    """Return the path of the objects that a writer changes."""
    base = f"/apis/{GROUP}/v1" if resource == "widgets" else "/api/v1"
    return f"{base}/namespaces/{namespace}/{resource}"


class Writers:
    """Make the writes of one round after the other; note what they were told.

    A write that fails is not tried again: what became of it, etcd knows.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self.written = 0
        self.failed = 0
        #: Changes that are known to have been made, and their bytes as JSON.
        self.changes = self.change_bytes = 0
        self._sizes: dict[str, int] = {}
        #: uid and resourceVersion of each state that the API server said it has written.
        self.told: list[tuple[str, str]] = []

    async def write(self, todo: Round) -> None:
        """Make all writes of a round."""
        async with asyncio.TaskGroup() as group:
            for (resource, namespace), writes in zip(WRITERS, todo.writes, strict=True):
                group.create_task(self._write_all(resource, namespace, writes))

    async def _write_all(self, resource: str, namespace: str, writes: Sequence[Write]) -> None:
        path = collection(resource, namespace)
        for write in writes:
            await asyncio.sleep(write.pause_seconds)
            try:
                await self._write(path, resource, write)
            except (OSError, aiohttp.ClientError, ValueError, TimeoutError):
                self.failed += 1

    async def _write(self, path: str, resource: str, write: Write) -> None:
        one = f"{path}/{write.name}"
        if write.action in ("delete", "replace"):
            answer = await self._api.call("DELETE", one)
            self._count(answer, changes=False)
            if answer.status == 200:
                self._measure(self._sizes.pop(one, 0))
        if write.action == "delete":
            return
        answer = await self._api.call(
            "PATCH", one, body_of(resource, write), content_type="application/merge-patch+json"
        )
        if answer.status == 404:
            answer = await self._api.call("POST", path, body_of(resource, write))
        self._count(answer, changes=True)
        if answer.status in (200, 201):
            self._sizes[one] = json_size(answer.body)
            self._measure(self._sizes[one])

    def _measure(self, size: int) -> None:
        self.changes += 1
        self.change_bytes += size

    def _count(self, answer: Answer, *, changes: bool) -> None:
        if answer.status in (200, 201):
            self.written += 1
            if changes:
                metadata = answer.body["metadata"]
                self.told.append((metadata["uid"], metadata["resourceVersion"]))
        elif answer.status not in (404, 409):
            self.failed += 1


def body_of(resource: str, write: Write) -> dict[str, Any]:
    """Make the object of a write."""
    metadata = {"name": write.name, "labels": {"tier": write.tier}}
    if resource == "widgets":
        return {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Widget",
            "metadata": metadata,
            "spec": {"value": write.value},
        }
    field = "data" if resource == "configmaps" else "stringData"
    return {"metadata": metadata, field: {"value": write.value}}
