"""The example controller does its job against a real service, as a program of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import Api, Endpoint
from tests.e2e.acting import configmap, deployment, grant
from tests.e2e.service import ServiceProcess

_EXAMPLE = Path("examples/config_reloader.py")
_ENABLED, _SEEN = "reload.example/enabled", "reload.example/seen"


@asynccontextmanager
async def _reloader(
    service: ServiceProcess, endpoint: Endpoint, namespace: str, account: str
) -> AsyncIterator[asyncio.StreamReader]:
    """Run the example; yield what it writes."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(_EXAMPLE),
        namespace,
        account,
        env={
            **os.environ,
            "WATCHCACHE_ADDRESS": service.address,
            "KUBECONFIG": str(endpoint.kubeconfig),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    errors = b""
    try:
        yield process.stdout
        assert process.returncode is None, "it runs until it is stopped"
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
    assert errors == b"", "Ctrl-C ends it without a traceback"


async def _line(output: asyncio.StreamReader) -> str:
    async with asyncio.timeout(30):
        return (await output.readline()).decode().strip()


def _using(name: str, configmap_name: str, *, enabled: bool = True) -> dict[str, Any]:
    made = deployment(name)
    if enabled:
        made["metadata"]["annotations"] = {_ENABLED: "true"}
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["envFrom"] = [{"configMapRef": {"name": configmap_name}}]
    return made


def test_the_example_is_short() -> None:
    """A controller that does something useful fits on a page."""
    assert len(_EXAMPLE.read_text(encoding="utf-8").splitlines()) < 80


@pytest.mark.timeout(150)
async def test_a_changed_configmap_restarts_who_uses_it(
    api: Api, service: ServiceProcess, endpoint: Endpoint, namespace: str, account: str
) -> None:
    """First it notes what there is; a change rolls over those who use it, and nobody else."""
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    await grant(api, namespace, account, "apps", "deployments")
    await grant(api, namespace, account, "", "configmaps")
    await api.create(configmaps, configmap("settings", color="red"))
    await api.create(configmaps, configmap("other", size="large"))
    await api.create(deployments, _using("web", "settings"))
    await api.create(deployments, _using("db", "other"))
    await api.create(deployments, _using("left-alone", "settings", enabled=False))

    async with _reloader(service, endpoint, namespace, account) as output:
        noted = {await _line(output) for _ in range(2)}
        assert noted == {f"noted hub/{namespace}/{name}" for name in ("web", "db")}
        before = await api.get(f"{deployments}/web")
        assert _SEEN in before["metadata"]["annotations"]
        assert "annotations" not in before["spec"]["template"]["metadata"]

        await api.patch(f"{configmaps}/settings", {"data": {"color": "blue"}})
        assert await _line(output) == f"restarted hub/{namespace}/web"
        after = await api.get(f"{deployments}/web")
        seen = after["metadata"]["annotations"][_SEEN]
        assert seen != before["metadata"]["annotations"][_SEEN]
        assert after["spec"]["template"]["metadata"]["annotations"][_SEEN] == seen
        assert after["metadata"]["generation"] > before["metadata"]["generation"]

        # A ConfigMap that is gone for a while says nothing about its content.
        await api.delete(f"{configmaps}/other")
        await api.create(configmaps, configmap("other", size="small"))
        assert await _line(output) == f"restarted hub/{namespace}/db"
        alone = await api.get(f"{deployments}/left-alone")
        assert _SEEN not in alone["metadata"].get("annotations", {})
