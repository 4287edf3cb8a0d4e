"""The fixture of the real control plane, tried on the real thing."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.ports import free_ports, is_free
from tests.controlplane.process import ServerProcess
from tests.controlplane.server import ControlPlane, ControlPlaneError

_LIMIT_SECONDS = 30.0


def _listening_at(url: str) -> socket.socket:
    """Return a socket that holds the port of `url`."""
    thief = socket.socket()
    thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    thief.bind(("127.0.0.1", int(url.rpartition(":")[2])))
    thief.listen()
    return thief


class Client:
    """Just enough of a client to see what the fixture did."""

    def __init__(self, server: ControlPlane) -> None:
        self._port = int(server.url.rpartition(":")[2])
        self._trust = ssl.create_default_context(cafile=server.ca_file)
        self._token = server.admin_token

    def call(
        self, method: str, path: str, body: object = None, *, timeout: float = 10
    ) -> tuple[int, Any]:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._port, timeout=timeout, context=self._trust
        )
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
        }
        try:
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def create(self, name: str) -> int:
        """Create a ConfigMap and return its resourceVersion."""
        body = {"metadata": {"name": name}}
        status, made = self.call("POST", "/api/v1/namespaces/default/configmaps", body)
        assert status == 201, made
        return int(made["metadata"]["resourceVersion"])

    def names(self) -> set[str]:
        _, answer = self.call("GET", "/api/v1/namespaces/default/configmaps")
        return {item["metadata"]["name"] for item in answer["items"]}

    def watch_start(self, version: int) -> dict[str, Any]:
        """Return the first line of a watch from `version`."""
        path = f"/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion={version}"
        _, line = self.call("GET", path)
        assert isinstance(line, dict)
        return line


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Give a control plane that the tests of this module may stop, kill and wipe in turn."""
    with ControlPlane(tmp_path_factory.mktemp("server")) as control_plane:
        yield control_plane


@pytest.mark.controlplane
class TestControlPlane:
    """What `ControlPlane` promises of the server it runs."""

    @pytest.mark.parametrize("how", ["restart", "kill"])
    def test_a_restart_keeps_the_data_and_the_address(self, server: ControlPlane, how: str) -> None:
        """After a restart, orderly or not, clients find the same objects at the same place."""
        client = Client(server)
        client.create(f"kept-over-{how}")
        if how == "restart":
            server.restart()
        else:
            server.kill()
            with pytest.raises(OSError, match="refused"):
                client.names()
            server.start_apiserver()
        assert f"kept-over-{how}" in client.names()

    def test_compaction_and_a_restart_expire_older_versions(self, server: ControlPlane) -> None:
        """A watch from before a compaction is 410 once the server has no window of its own."""
        client = Client(server)
        old = client.create("before-compaction")
        client.create("after-compaction")
        assert client.watch_start(old)["type"] == "ADDED"
        assert server.compact() > old
        server.restart()
        answer = client.watch_start(old)
        assert (answer["type"], answer["object"]["code"]) == ("ERROR", 410)

    def test_wiping_gives_another_cluster_at_the_same_address(self, server: ControlPlane) -> None:
        """A wipe loses every object and starts versions anew; address and token stay."""
        client = Client(server)
        last = [client.create(f"lost-{count}") for count in range(20)][-1]
        _, before = client.call("GET", "/api/v1/namespaces/default")
        server.wipe()
        assert not any(name.startswith("lost-") for name in client.names())
        _, after = client.call("GET", "/api/v1/namespaces/default")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert int(after["metadata"]["resourceVersion"]) < last

    def test_a_paused_server_keeps_its_connections_and_answers_later(
        self, server: ControlPlane
    ) -> None:
        """SIGSTOP makes a server that is connected to but silent, until it is resumed."""
        client = Client(server)
        server.pause()
        try:
            with pytest.raises(TimeoutError):
                client.call("GET", "/version", timeout=0.3)
        finally:
            server.resume()
        assert client.call("GET", "/version")[0] == 200

    def test_a_restart_waits_for_its_port(self, server: ControlPlane) -> None:
        """The address is promised to stay, so a port that is taken over a restart is waited for."""
        address = server.url
        server.stop()
        thief = _listening_at(address)
        release = threading.Timer(1.5, thief.close)
        release.start()
        try:
            server.start_apiserver()
        finally:
            release.join()
        assert server.url == address
        assert Client(server).call("GET", "/version")[0] == 200

    def test_a_client_certificate_is_a_user_with_groups(self, server: ControlPlane) -> None:
        """A certificate that the fixture issues authenticates its common name and organizations."""
        certificate, key = server.credentials.client_certificate("someone", ["a", "b"])
        review = server.kubectl(
            "auth",
            "whoami",
            f"--client-certificate={certificate}",
            f"--client-key={key}",
            "--token=",
            "-o",
            "json",
        )
        user = json.loads(review)["status"]["userInfo"]
        assert user["username"] == "someone"
        assert {"a", "b"} <= set(user["groups"])

    def test_kubectl_errors_are_raised_with_their_text(self, server: ControlPlane) -> None:
        """A failed kubectl is an error that says what kubectl said."""
        with pytest.raises(ControlPlaneError, match='configmaps "absent" not found'):
            server.kubectl("get", "configmap", "absent")

    def test_etcd_refusals_are_raised(self, server: ControlPlane) -> None:
        """Compacting the future is refused by etcd, and the caller hears of it."""
        with pytest.raises(ControlPlaneError, match="future revision"):
            server.etcd("kv/compaction", {"revision": 10**12})


@pytest.mark.controlplane
async def test_it_starts_and_ends_inside_a_coroutine() -> None:
    """`async with` starts it without blocking the loop, and leaves no process and no folder."""
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.01)

    heart = asyncio.create_task(beat())
    async with ControlPlane() as server:
        processes = [process.pid for process in server._processes.values()]
        folder = server.folder
    heart.cancel()
    assert beats > 20
    assert len(processes) == 2
    assert not any(is_alive(pid) for pid in processes)
    assert not folder.exists()


@pytest.mark.controlplane
def test_asked_for_controllers_run(tmp_path: Path) -> None:
    """With the namespace controller a deleted namespace goes, and what is in it."""
    with ControlPlane(tmp_path, controllers=["namespace-controller"]) as server:
        client = Client(server)
        client.call("POST", "/api/v1/namespaces", {"metadata": {"name": "doomed"}})
        client.call("DELETE", "/api/v1/namespaces/doomed")
        deadline = time.monotonic() + _LIMIT_SECONDS
        while client.call("GET", "/api/v1/namespaces/doomed")[0] != 404:
            assert time.monotonic() < deadline, "the namespace was not removed"
            time.sleep(0.05)


@pytest.mark.controlplane
def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    """A wrong flag ends in an error with the program's own words, and no process stays."""
    server = ControlPlane(tmp_path, apiserver_flags=["--no-such-flag"])
    with pytest.raises(ControlPlaneError, match="unknown flag: --no-such-flag"):
        server.start()
    assert server._processes == {}
    server.close()


@pytest.mark.controlplane
def test_a_port_taken_before_the_start_is_replaced(tmp_path: Path) -> None:
    """When another process takes a chosen port first, start chooses again and works."""
    server = ControlPlane(tmp_path)
    chosen = server.url
    with _listening_at(chosen), server:
        assert server.url != chosen
        assert Client(server).call("GET", "/version")[0] == 200


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class TestServerProcess:
    """A child process that its parent cannot leave behind."""

    def test_it_dies_with_a_killed_parent(self, tmp_path: Path) -> None:
        """A parent that is killed outright takes its servers along, paused ones too."""
        script = f"""
            import time
            from pathlib import Path
            from tests.controlplane.process import ServerProcess
            child = ServerProcess(["sleep", "600"], Path({str(tmp_path / "log")!r}))
            child.pause()
            print(child.pid, flush=True)
            time.sleep(600)
        """
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
        ) as parent:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            assert is_alive(pid)
            parent.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + _LIMIT_SECONDS
        while is_alive(pid):
            assert time.monotonic() < deadline, "the child outlived its parent"
            time.sleep(0.01)

    def test_stop_kills_what_ignores_the_request(self, tmp_path: Path) -> None:
        """A process that ignores SIGTERM is killed after the grace."""
        ready = tmp_path / "ready"
        script = f"trap '' TERM; touch {ready}; while :; do sleep 0.05; done"
        child = ServerProcess(["/bin/sh", "-c", script], tmp_path / "log")
        deadline = time.monotonic() + _LIMIT_SECONDS
        while not ready.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        child.stop(grace_seconds=0.2)
        assert child.exit_code == -signal.SIGKILL

    def test_stop_ends_a_paused_process(self, tmp_path: Path) -> None:
        """A paused process is resumed, so that it can end in good order."""
        child = ServerProcess(["sleep", "600"], tmp_path / "log")
        child.pause()
        child.stop()
        assert child.exit_code == -signal.SIGTERM

    def test_output_is_that_of_this_process_alone(self, tmp_path: Path) -> None:
        """A log that is written on by restarts still tells the last process's words apart."""
        for word in ("first", "second"):
            child = ServerProcess(["echo", word], tmp_path / "log")
            child._process.wait()
            assert child.output() == f"{word}\n"
            child.stop()
        assert (tmp_path / "log").read_text() == "first\nsecond\n"

    def test_its_guard_goes_with_it(self, tmp_path: Path) -> None:
        """Stopping a process leaves no guard that could kill another one of the same number."""
        child = ServerProcess(["sleep", "600"], tmp_path / "log")
        guard = child._guard.pid
        child.kill()
        with pytest.raises(ProcessLookupError):
            os.kill(guard, 0)


def test_free_ports_are_different_and_outside_the_ephemeral_range() -> None:
    """Ports that must survive a restart are none that the kernel gives to clients."""
    ports = free_ports(20)
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert len(set(ports)) == 20
    assert all(is_free(port) and port < first for port in ports)
