"""The command as a process: what it says when it cannot start, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import watchcache
from tests.contract.api import Api, Endpoint
from tests.e2e.acting import configmap, grant, until
from tests.e2e.service import ServiceProcess

_LIMIT_SECONDS = 60.0


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "watchcache_server.cli", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
        check=False,
    )


@pytest.fixture
def taken() -> Iterator[str]:
    """Give an address that somebody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("flag", "other"),
    [
        pytest.param("--listen", "--http-listen", id="gRPC"),
        pytest.param("--http-listen", "--listen", id="HTTP"),
    ],
)
async def test_a_port_in_use_is_one_line_and_exit_code_2(
    flag: str, other: str, taken: str, endpoint: Endpoint
) -> None:
    """The line names the address and the setting."""
    arguments = ["--kubeconfig", f"hub={endpoint.kubeconfig}", other, "127.0.0.1:0", flag, taken]
    ended = await asyncio.to_thread(command, "serve", *arguments)
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"error: address '{taken}' cannot be bound: ")
    assert line.endswith(f"in the setting {flag.removeprefix('--').replace('-', '_')}")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        pytest.param("missing", "no such file", id="missing"),
        pytest.param("folder", "cannot be read", id="a folder"),
        pytest.param("nonsense", "is not YAML", id="no kubeconfig"),
        pytest.param("empty#edge", "no context 'edge'", id="no context"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_one_line_and_exit_code_2(
    source: str, told: str, tmp_path: Path
) -> None:
    """The line names the file and the mend."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "nonsense").write_text("nonsense: [")
    (tmp_path / "empty").write_text("apiVersion: v1\nkind: Config\ncontexts: []\n")
    ended = await asyncio.to_thread(command, "serve", "--kubeconfig", str(tmp_path / source))
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"error: kubeconfig {tmp_path}")
    assert told in line


async def test_a_default_cluster_that_is_none_is_one_line_and_exit_code_2(
    endpoint: Endpoint,
) -> None:
    """The line names those that there are."""
    arguments = ["--kubeconfig", f"hub={endpoint.kubeconfig}", "--default-cluster", "edge"]
    ended = await asyncio.to_thread(command, "serve", *arguments)
    assert ended.returncode == 2
    assert ended.stderr == "error: cluster 'edge' is not known; known are hub\n"


async def test_sigterm_drains_every_stream_and_ends_with_0(
    endpoint: Endpoint, api: Api, namespace: str, account: str, tmp_path: Path
) -> None:
    """A rolling update loses nothing: each stream is told where to resume. No token is logged."""
    await grant(api, namespace, account, "", "configmaps")
    await api.create(f"/api/v1/namespaces/{namespace}/configmaps", configmap("one"))
    service = ServiceProcess([f"hub={endpoint.kubeconfig}"], tmp_path / "service.log")
    await asyncio.to_thread(service.start)
    async with watchcache.connect(service.address) as wc:
        ext = await wc.register(
            f"{namespace}/shop",
            service_account=account,
            watch=["configmaps", "secrets"],
            namespaces=[namespace],
            wait="10s",
        )
        stream = ext.watch()
        await until(stream, watchcache.Synced)
        assert await asyncio.to_thread(service.stop) == 0
        await stream.aclose()
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    said = [line["msg"] for line in lines]
    assert said[0] == "serving"
    assert said[-2:] == ["draining; a second signal ends it at once", "stopped"]
    states = {
        line["resource"]: line["state"] for line in lines if line["msg"].startswith("informer is")
    }
    assert states == {"configmaps": "live", "secrets": "forbidden"}
    assert "eyJ" not in service.log.read_text()


async def test_the_health_command_follows_the_service(
    service: ServiceProcess,
) -> None:
    """It is what the health check of the container runs."""
    environment = {"WATCHCACHE_LISTEN": service.address}
    well = await asyncio.to_thread(command, "health", **environment)
    assert (well.returncode, well.stdout) == (0, "serving\n")
    gone = await asyncio.to_thread(command, "health", "--address", "127.0.0.1:1")
    assert gone.returncode == 1
    assert gone.stderr.startswith("error: no answer from 127.0.0.1:1: ")


async def test_two_signals_end_it_at_once(endpoint: Endpoint, tmp_path: Path) -> None:
    """Both are waiting when the process wakes up, so the second one finds the drain under way."""
    service = ServiceProcess([f"hub={endpoint.kubeconfig}"], tmp_path / "service.log")
    await asyncio.to_thread(service.start)
    process = service.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    await asyncio.to_thread(os.waitid, os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        process.send_signal(number)
    assert await asyncio.to_thread(process.wait, _LIMIT_SECONDS) == 130
