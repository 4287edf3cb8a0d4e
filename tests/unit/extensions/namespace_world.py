"""An API server with namespaces that a test labels, and pods in them, request by request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.unit.extensions.world import World, pods, running, settle
from tests.unit.kubernetes.informer_double import (
    PODS,
    Body,
    Exchange,
    Found,
    bookmark,
    event,
    pod,
    pod_list,
)
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.namespaces import ChosenScope
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.requests import Request
from watchcache_server.kubernetes.served import NotServed, Resolution, Served
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import ResourceWatch
from watchcache_server.model.states import SourceState

__all__ = ["GOLD", "Hub", "chosen", "hub", "in_namespace", "scope_of"]

GOLD = "tier=gold"
_SPACES = ServedResource(
    "", "v1", "namespaces", "Namespace", False, frozenset({"get", "list", "watch"})
)
_NODES = ServedResource("", "v1", "nodes", "Node", False, frozenset({"get", "list", "watch"}))
_PATIENCE_SECONDS = 600.0


class Discovered(Found):
    """A discovery of pods, nodes and namespaces."""

    async def resolve(
        self, group: str, version: str, name: str, *, max_age_seconds: float | None = None
    ) -> Resolution:
        self.asked.append(max_age_seconds)
        for each in (PODS, _SPACES, _NODES):
            if name in (each.resource, each.kind):
                return Served(each, ("v1",))
        return NotServed(())


def chosen(selector: str = GOLD, **more: Any) -> ResourceWatch:
    """Watch pods in the namespaces that match."""
    return pods(namespace_selector=selector, **more)


def in_namespace(namespace: str, name: str, version: str) -> dict[str, Any]:
    """Return a pod of a namespace."""
    made = pod(name, version, uid=f"uid-{namespace}-{name}")
    made["metadata"]["namespace"] = namespace
    return made


def scope_of(extension: Extension) -> ChosenScope:
    """Return the one thing that is chosen."""
    (found,) = extension.chosen.values()
    return found


class Hub:
    """What a test does to the API server."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.api = world.hub.api
        self.version = 10
        #: Objects of lists that are answered, by path, and paths that are refused.
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.refused: set[str] = set()
        self.listed: list[str] = []
        self.spaces: Body
        self.watches: dict[str, Body] = {}
        self.api.answer_call = self._list

    async def _list(self, request: Request) -> Answer:
        self.listed.append(request.path)
        if request.path in self.refused:
            status = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}'
            return Answer(403, {}, status)
        return Answer(200, {}, pod_list(str(self.version), *self.lists.get(request.path, [])))

    async def asked(self) -> Exchange:
        """Return the next request."""
        return await self.api.asked()

    async def serve_set(self, *names: str) -> None:
        """Answer the set of namespaces with these."""
        exchange = await self.asked()
        assert exchange.request.path == "/api/v1/namespaces", exchange.request.path
        assert exchange.query["labelSelector"] == GOLD
        events = [self.space("ADDED", name) for name in names]
        self.spaces = exchange.accept(*events, self.mark(is_initial_end=True))
        await settle()

    async def serve_pods(self, *names: str) -> str:
        """Answer the next informer of pods with these; return its namespace."""
        exchange = await self.asked()
        namespace = exchange.request.path.split("/")[4]
        events = [event("ADDED", in_namespace(namespace, name, "5")) for name in names]
        self.watches[namespace] = exchange.accept(*events, self.mark(is_initial_end=True))
        await settle()
        return namespace

    def space(self, kind: str, name: str) -> bytes:
        """Return the line of an event about a namespace."""
        self.version += 1
        return event(kind, self.namespace(name))

    def namespace(self, name: str) -> dict[str, Any]:
        """Return a namespace as it is now."""
        metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self.version)}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    def mark(self, *, is_initial_end: bool = False) -> bytes:
        """Return the line of a bookmark of now."""
        self.version += 1
        return bookmark(str(self.version), is_initial_end=is_initial_end)

    async def tell(self, kind: str, name: str) -> None:
        """Have the set hear of a namespace: ADDED when it comes, DELETED when it goes."""
        self.spaces.send(self.space(kind, name))
        await settle()

    async def live(self, *namespaces: str, **more: Any) -> Extension:
        """Register pods in the namespaces that match, which are these, with a pod in each."""
        extension = (await self.world.register(chosen(**more))).extension
        await self.serve_set(*namespaces)
        for _ in namespaces:
            await self.serve_pods("web")
        await self.until(extension, SourceState.LIVE)
        return extension

    async def until(self, extension: Extension, state: SourceState) -> None:
        """Wait until the set is in a state."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while scope_of(extension).status.state is not state:
                await extension.pulse.wait()


@asynccontextmanager
async def hub(**settings: Any) -> AsyncIterator[Hub]:
    """Run a registry beside an API server with namespaces."""
    async with running(**settings) as world:
        world.hub.discovery = Discovered()
        yield Hub(world)
