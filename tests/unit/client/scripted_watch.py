"""Stands for a watch in tests of what one feeds: no network, and messages when the test says."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

from tests.unit.client.fake_service import source
from watchcache import Batch, Event, Mirror, Source, SourceChanged, Started, StartMode, Synced
from watchcache.objects import Decoder, decode_json
from watchcache.v1alpha1 import event_pb2

__all__ = ["SNAPSHOT", "ScriptedWatch", "body", "changes", "mirror_of", "status"]

SNAPSHOT = Started(StartMode.SNAPSHOT, "extension-1", 10.0)


class ScriptedWatch:
    """Yields what the test says, or raises it."""

    resume_token = b""
    is_whole = True

    def __init__(self) -> None:
        self._messages: asyncio.Queue[Any] = asyncio.Queue()

    async def say(self, *messages: Any) -> None:
        """Have these messages come, and let everyone who is told of them act."""
        for message in messages:
            self._messages.put_nowait(message)
        for _ in range(5):
            await asyncio.sleep(0)

    async def say_snapshot(self, *events: event_pb2.Event) -> None:
        """Have a whole snapshot come, of live pods."""
        await self.say(SNAPSHOT, status(), changes(*events, is_snapshot=True), Synced())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        message = await self._messages.get()
        if isinstance(message, Exception):
            raise message
        return message


def mirror_of(
    watch: ScriptedWatch, *, max_age: float | None = None, decode: Decoder[Any] = decode_json
) -> Mirror[Any]:
    """Return a mirror that this watch feeds."""
    return Mirror(watch, decode, max_age_seconds=max_age, name="team-a/shop")  # type: ignore[arg-type]


def changes(*events: event_pb2.Event, is_snapshot: bool = False) -> Batch[Any]:
    """Return a batch."""
    return Batch(tuple(Event(each, decode_json) for each in events), is_snapshot)


def status(resource: str = "pods", state: str = "LIVE", **fields: Any) -> SourceChanged:
    """Return the status of an informer."""
    return SourceChanged(Source.from_message(source(resource, state, **fields).source_status))


def body(name: str, **metadata: Any) -> bytes:
    """Return an object."""
    return json.dumps({"metadata": {"name": name, **metadata}}).encode()
