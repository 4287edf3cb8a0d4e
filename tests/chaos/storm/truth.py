"""What was really true: every state that etcd ever held of the objects of a storm.

It follows etcd itself, past the API server and everything that is tested, and keeps the whole
history of each object: its uid at each revision, which is its resourceVersion, and its end. It has
to be ahead of every compaction, so compaction goes through it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp

from tests.history_records import Change, Key, Kind

__all__ = ["State", "Truth", "key_of"]

_UID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VALUE = re.compile(rb"\[\d+ x*\]")
_EVERYTHING = base64.b64encode(b"\0").decode()
_MARK = base64.b64encode(b"storm-mark").decode()
_RETRY_SECONDS = 0.1
_LIMIT_SECONDS = 30.0


class State(NamedTuple):
    """What an object was from a revision on; `is_end`: gone, and `uid` is who went."""

    revision: int
    uid: str
    is_end: bool


def key_of(path: str, resources: Collection[str], *, cluster: str = "hub") -> Key | None:
    """Read the key under which an API server stores an object; None for other things.

    `resources` are names such as "configmaps" and "widgets.example.com".
    """
    parts = path.removeprefix("/registry/").split("/")
    for resource in resources:
        plural, _, group = resource.partition(".")
        prefix = [group, plural] if group else [plural]
        if parts[: len(prefix)] == prefix and len(parts) == len(prefix) + 2:
            return Key(cluster, group, plural, *parts[len(prefix) :])
    return None


class Truth:
    """Follows etcd from the moment it is entered, over restarts of etcd."""

    def __init__(self, etcd_url: str, resources: Collection[str], namespaces: Collection[str]):
        """Follow the objects of these resources in these namespaces."""
        self._url = etcd_url
        self._resources = resources
        self._namespaces = namespaces
        self._beyond = asyncio.Event()
        self.revision = 0
        self._compacted = 0
        self.states: dict[Key, list[State]] = defaultdict(list)
        # What each state held.
        self._values: dict[tuple[Key, str, str], str] = {}
        self.deleted_uids: set[str] = set()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        self.revision = await self._mark()
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self._task = self._group.create_task(self._follow())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._task.cancel()
        try:
            await self._group.__aexit__(kind, error, trace)
        finally:
            await self._session.close()

    async def catch_up(self) -> int:
        """Return once all is known that was written before the call; return the revision."""
        async with asyncio.timeout(_LIMIT_SECONDS):
            mark = await self._mark()
            while self.revision < mark:
                self._beyond.clear()
                await self._beyond.wait()
        return mark

    async def compact(self) -> bool:
        """Have etcd forget what is known here; return whether there was anything new to forget."""
        if self.revision <= self._compacted:
            return False
        self._compacted = self.revision
        await self._call("kv/compaction", {"revision": str(self._compacted), "physical": True})
        return True

    def content(self) -> dict[Key, tuple[str, str]]:
        """Return uid and resourceVersion of what exists."""
        return {
            key: (states[-1].uid, str(states[-1].revision))
            for key, states in self.states.items()
            if not states[-1].is_end
        }

    def doubt(self, change: Change) -> str:
        """Say what of a change was never so; empty when all was."""
        if (change.key, change.uid, change.resource_version) not in self._values:
            return f"{change}: there never was such a state"
        if change.kind is Kind.DELETED and change.uid not in self.deleted_uids:
            return f"{change}: it was never deleted"
        return ""

    def value(self, key: Key, uid: str, resource_version: str) -> str | None:
        """Return what an object held in a state; None for a state that never was."""
        return self._values.get((key, uid, resource_version))

    def since(self, revision: int) -> Iterator[tuple[Key, State]]:
        """Yield the states after a revision."""
        for key, states in self.states.items():
            for state in reversed(states):
                if state.revision <= revision:
                    break
                yield key, state

    async def _follow(self) -> None:
        while True:
            try:
                await self._watch()
            except (OSError, aiohttp.ClientError):
                await asyncio.sleep(_RETRY_SECONDS)

    async def _watch(self) -> None:
        create = {
            "key": _EVERYTHING,
            "range_end": _EVERYTHING,
            "start_revision": str(self.revision + 1),
        }
        request = {"create_request": create}
        async with self._session.post(f"{self._url}/v3/watch", json=request) as response:
            response.raise_for_status()
            rest = b""
            async for piece in response.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._take(json.loads(line)["result"])

    def _take(self, result: dict[str, Any]) -> None:
        assert "compact_revision" not in result, "etcd has forgotten what was not yet read"
        assert not result.get("canceled"), result
        for event in result.get("events", ()):
            kv = event["kv"]
            revision = int(kv["mod_revision"])
            path = base64.b64decode(kv["key"]).decode(errors="replace")
            key = key_of(path, self._resources)
            if key is not None and key.namespace in self._namespaces:
                self._note(key, revision, kv.get("value"))
            self.revision = max(self.revision, revision)
        self._beyond.set()

    def _note(self, key: Key, revision: int, value: str | None) -> None:
        states = self.states[key]
        if value is None:
            last = states[-1]
            state = State(revision, last.uid, is_end=True)
            self.deleted_uids.add(state.uid)
            held = self._values[key, last.uid, str(last.revision)]
        else:
            stored = base64.b64decode(value)
            found = _UID.search(stored)
            assert found is not None, f"{key} has no uid"
            state = State(revision, found[0].decode(), is_end=False)
            marked = _VALUE.search(stored)
            held = marked[0].decode() if marked else ""
        states.append(state)
        self._values[key, state.uid, str(revision)] = held

    async def _mark(self) -> int:
        """Write something, and return its revision: what was before is older."""
        answer = await self._call("kv/put", {"key": _MARK})
        return int(answer["header"]["revision"])

    async def _call(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        async with self._session.post(f"{self._url}/v3/{method}", json=request) as response:
            answer: dict[str, Any] = await response.json()
            response.raise_for_status()
            return answer
