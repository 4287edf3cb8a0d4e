"""What a controller's own log is spared when the service is stopped in good order."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.service import ServiceProcess
from watchcache_devcluster import DevCluster

CONTROLLER = """
import asyncio, sys, watchcache

async def main():
    async with watchcache.connect(sys.argv[1]) as wc:
        ext = await wc.register("default/x", service_account="shop", watch=["pods"], wait="9s")
        async for message in ext.watch():
            if isinstance(message, watchcache.Synced):
                print("up", flush=True)
            if "refused" in str(getattr(message, "error", "")):
                print(message.error)
                break

asyncio.run(main())
"""


async def test_a_stop_in_good_order_writes_nothing_into_a_controllers_log(
    devcluster: DevCluster, tmp_path: Path
) -> None:
    """Or gRPC would write on standard error, of its own accord, that a connection was cut."""
    kubeconfig = devcluster.write_kubeconfig(tmp_path / "kubeconfig")
    account = {"kind": "ServiceAccount", "metadata": {"name": "shop", "namespace": "default"}}
    await devcluster.create("serviceaccounts", {"apiVersion": "v1", **account})
    service = ServiceProcess([f"hub={kubeconfig}"], tmp_path / "service.log")
    await asyncio.to_thread(service.start)
    environment = {name: each for name, each in os.environ.items() if "GRPC" not in name}
    controller = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CONTROLLER, service.address),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert controller.stdout
    async with asyncio.timeout(30):
        assert await controller.stdout.readline(), await controller.communicate()
    await asyncio.to_thread(service.stop)
    output, errors = await controller.communicate()
    assert b"Connection refused" in output
    assert errors == b""
