"""The storage of a cluster is set back to a backup: it is noticed, and told as the difference."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import watchcache
from tests.chaos.interruptions import holds
from tests.chaos.receiver import Receiver, held_by
from tests.chaos.storm.hasty_service import SERVICE_SETTINGS
from tests.chaos.storm.stage import HastyService
from tests.contract.api import Api, Endpoint, eventually, unique
from tests.controlplane.server import ControlPlane
from tests.e2e.acting import configmap, grant, until, wait_live
from tests.e2e.recording import Recorder
from tests.e2e.service import ServiceProcess
from tests.history_records import Key
from watchcache import EventType

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(150)]

_LOST_CHANGES = 400
_BACKOFF = watchcache.Backoff("0.05s", "0.5s")


class Restored:
    """A cluster with a backup, and what was written before and after it was made."""

    def __init__(self, control_plane: ControlPlane, api: Api, namespace: str) -> None:
        self._control_plane = control_plane
        self._backup = Path()
        self.api = api
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/configmaps"
        #: Each as it was last seen, by its name.
        self.before: dict[str, dict[str, Any]] = {}
        self.after: dict[str, dict[str, Any]] = {}

    async def begin(self) -> None:
        """Make what the backup holds, and the backup."""
        await self.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        await self.api.create(accounts, {"metadata": {"name": "shop"}})
        await grant(self.api, self.namespace, "shop", "", "configmaps", "secrets")
        secrets = f"/api/v1/namespaces/{self.namespace}/secrets"
        await self.api.create(secrets, {"metadata": {"name": "quiet"}})
        for name in ("stays", "changes", "goes", "recreated"):
            made = configmap(name, value="old")
            made["metadata"]["labels"] = {"tier": "gold" if name != "changes" else "silver"}
            self.before[name] = await self.api.create(self.path, made)
        self._backup = await asyncio.to_thread(self._control_plane.back_up)

    async def go_on(self) -> None:
        """Make the changes that will be lost: more than an API server makes when it starts."""
        other = "/api/v1/namespaces/default/configmaps"
        await self.api.create(other, configmap("other"))
        for number in range(_LOST_CHANGES):
            await self.api.patch(f"{other}/other", {"data": {"n": str(number)}})
        for name in ("goes", "recreated"):
            await self.api.delete(f"{self.path}/{name}")
        patch = {"metadata": {"labels": {"tier": "gold"}}, "data": {"value": "new"}}
        changed = await self.api.patch(f"{self.path}/changes", patch)
        self.after = {"stays": self.before["stays"], "changes": changed}
        for name in ("recreated", "lost"):
            made = configmap(name, value="new")
            made["metadata"]["labels"] = {"tier": "gold"}
            self.after[name] = await self.api.create(self.path, made)

    async def set_back(self) -> None:
        """Restore the backup."""
        await asyncio.to_thread(self._control_plane.restore, self._backup)

    def uid(self, name: str, *, is_new: bool = False) -> str:
        """Return the uid of an object, of the one before or after the backup."""
        found: str = (self.after if is_new else self.before)[name]["metadata"]["uid"]
        return found

    async def content(self, **labels: str) -> dict[Key, tuple[str, str]]:
        """Return what the API server holds."""
        found = {}
        for item in (await self.api.get(self.path))["items"]:
            metadata = item["metadata"]
            if labels.items() <= metadata.get("labels", {}).items():
                key = Key("hub", "", "configmaps", self.namespace, metadata["name"])
                found[key] = (metadata["uid"], metadata["resourceVersion"])
        return found

    async def register(self, wc: watchcache.Connection, name: str = "shop") -> watchcache.Extension:
        """Register an extension of the objects, and of others that nobody changes."""
        return await wc.register(
            f"{self.namespace}/{name}",
            service_account="shop",
            watch=["configmaps", "secrets"],
            namespaces=[self.namespace],
            wait="20s",
        )


@pytest.fixture
async def restored(own_control_plane: ControlPlane) -> AsyncIterator[Restored]:
    """Give a cluster of the test's own."""
    endpoint = Endpoint.of(own_control_plane, own_control_plane.kubeconfig(), name="own")
    async with aiohttp.ClientSession() as session:
        made = Restored(own_control_plane, Api(endpoint, session), unique("restored"))
        await made.begin()
        yield made


@pytest.fixture
async def own_service(
    own_control_plane: ControlPlane, tmp_path: Path
) -> AsyncIterator[ServiceProcess]:
    """Give a service of that cluster."""
    kubeconfig = own_control_plane.kubeconfig()
    service = HastyService([f"hub={kubeconfig}"], tmp_path / "service.log", **SERVICE_SETTINGS)
    await asyncio.to_thread(service.start)
    yield service
    await asyncio.to_thread(service.stop)


async def incidents(service: ServiceProcess, event: str) -> float:
    """Return how often the service has counted something of its informers."""
    url = f"http://127.0.0.1:{service.http_port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        lines = (await answer.text()).splitlines()
    name = f'watchcache_informer_incidents_total{{event="{event}"}}'
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


async def test_a_storage_that_is_set_back_is_told_as_the_difference(
    restored: Restored, own_service: ServiceProcess, recorder: Recorder
) -> None:
    """Within seconds of the API server's return, though its watches say nothing of it.

    What was lost is DELETED, what was deleted is ADDED again under its uid, what was changed is as
    it was. A read that is to be fresh shows nothing of what was lost; who was away is told the
    same.
    """
    async with watchcache.connect(own_service.address, timeout="30s") as wc:
        ext = await restored.register(wc)
        asked = await restored.register(wc, "asked")
        stream = ext.watch(resources=["configmaps"])
        await until(stream, watchcache.Synced)
        away = Receiver()
        async with asyncio.TaskGroup() as group:
            following = group.create_task(away.follow(ext))
            await eventually(lambda: _has(away, 5), "it holds all")
            following.cancel()
        async with ext.mirror(label_selector="tier=gold", backoff=_BACKOFF) as gold:
            await gold.wait_synced("configmaps", timeout="20s")
            await restored.go_on()
            events: list[tuple[str, EventType, str]] = []
            await _collect(stream, events, 5)
            events.clear()
            for history in recorder.histories:
                history.checker.may_go_back = True

            await restored.set_back()
            item = await asked.get(
                "configmaps", f"{restored.namespace}/changes", consistent=True, wait="20s"
            )
            assert item is not None
            assert item.object["data"] == {"value": "old"}
            await _collect(stream, events, 5)
            uid = restored.uid
            assert sorted(events) == sorted(
                [
                    ("changes", EventType.MODIFIED, uid("changes")),
                    ("goes", EventType.ADDED, uid("goes")),
                    ("lost", EventType.DELETED, uid("lost", is_new=True)),
                    ("recreated", EventType.DELETED, uid("recreated", is_new=True)),
                    ("recreated", EventType.ADDED, uid("recreated")),
                ]
            )
            await wait_live(ext, "configmaps")
            await wait_live(ext, "secrets")
            assert await incidents(own_service, "rewound") >= 1
            made = await restored.api.create(restored.path, configmap("next"))
            await _collect(stream, events, 6)
            assert events[-1] == ("next", EventType.ADDED, made["metadata"]["uid"])
            golden = await restored.content(tier="gold")
            await eventually(holds(lambda: held_by(gold), golden), "the mirror holds its part")
        everything = await restored.content()
        async with asyncio.TaskGroup() as group:
            following = group.create_task(away.follow(ext))
            await eventually(lambda: _holds(away, everything), "who was away holds the same")
            following.cancel()
        await stream.aclose()


async def test_a_service_that_restarts_over_a_restored_storage_resumes_nobody_wrongly(
    restored: Restored, own_service: ServiceProcess, recorder: Recorder
) -> None:
    """The token of a reader is from a future that was lost: it is told the difference instead."""
    async with watchcache.connect(own_service.address, timeout="30s") as wc:
        ext = await restored.register(wc)
        async with (
            ext.mirror(backoff=_BACKOFF) as whole,
            ext.mirror(backoff=_BACKOFF, label_selector="tier=gold") as gold,
        ):
            await whole.wait_synced("configmaps", timeout="20s")
            await gold.wait_synced("configmaps", timeout="20s")
            await restored.go_on()
            lost = await restored.content()
            await eventually(lambda: _mirrors(whole, lost), "it holds all that will be lost")
            for history in recorder.histories:
                history.checker.may_go_back = True
            await asyncio.to_thread(own_service.kill)
            await restored.set_back()
            await asyncio.to_thread(own_service.start)
            everything = await restored.content()
            golden = await restored.content(tier="gold")
            await eventually(lambda: _mirrors(whole, everything), "it holds what was restored")
            await eventually(lambda: _mirrors(gold, golden), "the other holds its part")
    for history in recorder.histories:
        expected = golden if history.label_selector else everything
        assert {
            key: tuple(value)
            for key, value in history.checker.held.items()
            if key.resource == "configmaps"
        } == expected


async def _has(receiver: Receiver, count: int) -> bool:
    return len(receiver.held) == count


async def _holds(receiver: Receiver, expected: dict[Key, tuple[str, str]]) -> bool:
    return {k: v for k, v in receiver.held.items() if k.resource == "configmaps"} == expected


async def _mirrors(mirror: watchcache.Mirror[Any], expected: dict[Key, tuple[str, str]]) -> bool:
    return {k: v for k, v in held_by(mirror).items() if k.resource == "configmaps"} == expected


async def _collect(stream: Any, events: list[tuple[str, EventType, str]], count: int) -> None:
    """Take events until there are so many."""
    async with asyncio.timeout(40):
        while len(events) < count:
            message = await anext(stream)
            if isinstance(message, watchcache.Batch):
                events += [(each.key.name, each.type, each.uid) for each in message.events]
