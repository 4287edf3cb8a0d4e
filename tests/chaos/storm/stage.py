"""What a storm rages over: a control plane, the gateway, the service, and the clients' network."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

import watchcache
from tests.chaos.proxy import Proxy
from tests.chaos.storm.gateway import Gateway
from tests.chaos.storm.hasty_service import SERVICE_SETTINGS
from tests.chaos.storm.schedule import NAMESPACES, STILL, WATCHED, Fault
from tests.chaos.storm.truth import Truth
from tests.chaos.storm.writers import GROUP
from tests.contract.api import Api, Endpoint
from tests.controlplane.server import ControlPlane
from tests.e2e.acting import widget_definition
from tests.e2e.service import ServiceProcess
from watchcache.extension import Extension

__all__ = ["RESOURCES", "HastyService", "Stage", "staged"]

RESOURCES = ("configmaps", "secrets", f"widgets.{GROUP}")
_ACCOUNT = "shop"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LIMIT_SECONDS = 60.0
_POLL_SECONDS = 0.1
_AT_ONCE = 20
_STILL_BYTES = 1500


class HastyService(ServiceProcess):
    """The service with short waits."""

    module = "tests.chaos.storm.hasty_service"
    #: How often it was started.
    starts = 0

    def start(self) -> None:
        """Start it and wait until it serves."""
        super().start()
        self.starts += 1

    def pause(self) -> None:
        """Stop its clock (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)


class Stage:
    """Everything, and what can be done to it as a whole."""

    #: How many informers the two extensions have.
    informers = len(WATCHED) + len(NAMESPACES)

    def __init__(
        self,
        control_plane: ControlPlane,
        api: Api,
        truth: Truth,
        gateway: Gateway,
        service: HastyService,
        clients: Proxy,
        meter: Proxy,
    ) -> None:
        """`meter` is a way to the network of the clients that counts, and breaks nothing itself."""
        self.control_plane = control_plane
        self.api = api
        self.truth = truth
        self.gateway = gateway
        self.service = service
        self.clients = clients
        self.meter = meter

    async def prepare(self) -> None:
        """Make the namespaces, the ServiceAccount, its rights, and the CRD."""
        for namespace in (*NAMESPACES, STILL):
            await self._make("/api/v1/namespaces", {"metadata": {"name": namespace}})
        base = f"/api/v1/namespaces/{NAMESPACES[0]}/serviceaccounts"
        await self._make(base, {"metadata": {"name": _ACCOUNT}})
        for namespace in (*NAMESPACES, STILL):
            for resource in RESOURCES:
                await self._make_role(resource, namespace)
                await self.grant(resource.partition(".")[0], namespace)
        await self.define()

    async def _make(self, path: str, body: object) -> None:
        """Create something unless it is there, however often the API server fails."""
        async with asyncio.timeout(_LIMIT_SECONDS):
            while True:
                try:
                    answer = await self.api.call("POST", path, body)
                except (OSError, aiohttp.ClientError, TimeoutError):
                    await asyncio.sleep(_POLL_SECONDS)
                    continue
                if answer.status in (201, 409):
                    return
                await asyncio.sleep(_POLL_SECONDS)

    async def fill(self, count: int) -> None:
        """Make so many ConfigMaps that nobody ever changes."""
        path = f"/api/v1/namespaces/{STILL}/configmaps"
        for first in range(0, count, _AT_ONCE):
            async with asyncio.TaskGroup() as group:
                for number in range(first, min(first + _AT_ONCE, count)):
                    name, data = f"still-{number:05}", {"value": f"[{number} {'x' * _STILL_BYTES}]"}
                    body = {"metadata": {"name": name, "labels": {"tier": "still"}}, "data": data}
                    group.create_task(self._make(path, body))

    async def _remove(self, path: str) -> None:
        """Delete something, however often the API server fails."""
        async with asyncio.timeout(_LIMIT_SECONDS):
            while True:
                try:
                    answer = await self.api.call("DELETE", path)
                except (OSError, aiohttp.ClientError, TimeoutError):
                    await asyncio.sleep(_POLL_SECONDS)
                    continue
                if answer.status == 404:
                    return
                await asyncio.sleep(_POLL_SECONDS)

    async def _make_role(self, resource: str, namespace: str) -> None:
        plural, _, group = resource.partition(".")
        rules = [{"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "watch"]}]
        body = {"metadata": {"name": f"read-{plural}"}, "rules": rules}
        await self._make(f"{_RBAC}/namespaces/{namespace}/roles", body)

    async def grant(self, plural: str, namespace: str) -> None:
        """Let the ServiceAccount read a resource in a namespace."""
        name = f"read-{plural}"
        body = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": NAMESPACES[0]}],
        }
        await self._make(f"{_RBAC}/namespaces/{namespace}/rolebindings", body)

    async def revoke(self, plural: str, namespace: str) -> None:
        """Take that right away."""
        await self._remove(f"{_RBAC}/namespaces/{namespace}/rolebindings/read-{plural}")

    async def define(self) -> None:
        """Have the API server serve widgets; return once it does."""
        await self._make(_DEFINITIONS, widget_definition(GROUP))
        path = f"/apis/{GROUP}/v1/namespaces/{NAMESPACES[0]}/widgets"
        async with asyncio.timeout(_LIMIT_SECONDS):
            while True:
                try:
                    if (await self.api.call("GET", path)).status == 200:
                        return
                except (OSError, aiohttp.ClientError, TimeoutError):
                    pass
                await asyncio.sleep(_POLL_SECONDS)

    async def remember(self) -> None:
        """Have the service keep a long history."""
        if self.service.more_settings:
            await asyncio.to_thread(self.service.stop)
            self.service.more_settings = {}
            await asyncio.to_thread(self.service.start)

    async def undefine(self) -> None:
        """Delete the CRD with all its widgets; return once it is gone."""
        await self._remove(f"{_DEFINITIONS}/widgets.{GROUP}")

    async def register(self, wc: watchcache.Connection) -> Extension:
        """Register the extension that watches all there is."""
        return await wc.register(
            f"{NAMESPACES[0]}/storm",
            service_account=_ACCOUNT,
            watch=[
                watchcache.Resource(
                    resource, namespaces=[ns for name, ns in WATCHED if resource.startswith(name)]
                )
                for resource in RESOURCES
            ],
        )

    async def register_gold(self, wc: watchcache.Connection) -> Extension:
        """Register the extension whose informer has a selector of its own."""
        return await wc.register(
            f"{NAMESPACES[0]}/gold",
            service_account=_ACCOUNT,
            watch=[
                watchcache.Resource(
                    "configmaps", namespaces=list(NAMESPACES), label_selector="tier=gold"
                )
            ],
        )


@asynccontextmanager
async def staged(
    folder: Path, struck: Callable[[Fault], None], service_type: type[HastyService] = HastyService
) -> AsyncIterator[Stage]:
    """Start all of it, with every file in `folder`."""
    async with AsyncExitStack() as stack:
        control_plane = await stack.enter_async_context(ControlPlane(folder / "control-plane"))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        endpoint = Endpoint.of(control_plane, control_plane.kubeconfig(), name="hub")
        truth = await stack.enter_async_context(
            Truth(control_plane.etcd_url, RESOURCES, (*NAMESPACES, STILL))
        )
        gateway = await stack.enter_async_context(
            Gateway(endpoint.url, endpoint.ca_file, folder / "gateway", struck=struck)
        )
        kubeconfig = _kubeconfig_of(gateway, endpoint.kubeconfig, folder / "kubeconfig")
        service = service_type([f"hub={kubeconfig}"], folder / "service.log", **SERVICE_SETTINGS)
        stage_api = Api(endpoint, session)
        clients = await stack.enter_async_context(Proxy("127.0.0.1", service.port))
        meter = await stack.enter_async_context(Proxy("127.0.0.1", clients.port))
        stage = Stage(control_plane, stage_api, truth, gateway, service, clients, meter)
        await stage.prepare()
        stack.callback(_end, service)
        await asyncio.to_thread(service.start)
        yield stage


def _end(service: HastyService) -> None:
    if service.process is not None:
        service.kill()


def _kubeconfig_of(gateway: Gateway, original: Path, copy: Path) -> Path:
    tree: dict[str, Any] = yaml.safe_load(original.read_text())
    (cluster,) = tree["clusters"]
    cluster["cluster"]["server"] = gateway.url
    cluster["cluster"]["certificate-authority"] = str(gateway.credentials.ca_file)
    copy.write_text(yaml.safe_dump(tree))
    return copy
