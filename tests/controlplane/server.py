"""A real kube-apiserver with its etcd (and, if asked, controllers) on free loopback ports.

It promises: `start` returns when the server is ready; the address, the token and the CA stay the
same over `stop`, `kill`, `restart` and `wipe`; `close` leaves no process behind. All calls block;
in a coroutine use `await asyncio.to_thread(control_plane.restart)`, or `async with`, which does
so for start and close. What is asked of the server is its users' business.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import secrets
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane import apiserver
from tests.controlplane.build import AssetsError, Binaries, ensure_binaries
from tests.controlplane.credentials import Credentials
from tests.controlplane.ports import free_ports
from tests.controlplane.process import ServerProcess

__all__ = ["ControlPlane", "ControlPlaneError"]

_READY_LIMIT_SECONDS = 60.0
_POLL_SECONDS = 0.05
_PORT_ATTEMPTS = 5
_LOG_TAIL_LINES = 40
_PORT_TAKEN = "address already in use"


class ControlPlaneError(Exception):
    """The control plane did not start or did not do as told; the text holds the end of its logs."""


class _PortTakenError(ControlPlaneError):
    """Another process took a port between its choice and its use."""


class ControlPlane:
    """One API server and all that it needs, in a folder of its own."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        apiserver_flags: Sequence[str] = (),
        etcd_flags: Sequence[str] = (),
        controllers: Sequence[str] = (),
        binaries: Binaries | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Describe a control plane; nothing runs before `start`.

        Args:
            folder: where data, certificates and logs go; None makes one that `close` removes.
            apiserver_flags: further flags of kube-apiserver; a later flag wins over one of ours.
            etcd_flags: further flags of etcd.
            controllers: controllers for kube-controller-manager to run, by its names (for example
                `namespace-controller`); with none it does not run at all.
            binaries: the programs; None takes those of the cache, built if need be.
            say: told of each step that can take long.
        """
        self._owns_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="watchcache-control-plane-"))
        self.logs = self.folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.credentials = Credentials(self.folder / "certificates")
        self._apiserver_flags = tuple(apiserver_flags)
        self._etcd_flags = tuple(etcd_flags)
        self._controllers = tuple(controllers)
        self._binaries = binaries
        self._say = say
        self._etcd_name = f"etcd-{secrets.token_hex(4)}"
        self._processes: dict[str, ServerProcess] = {}
        self._ports: tuple[int, int, int, int] | None = None

    # What clients need to know.

    @property
    def url(self) -> str:
        """Return the API server's address, `https://127.0.0.1:PORT`."""
        return f"https://127.0.0.1:{self._port_numbers()[0]}"

    @property
    def etcd_url(self) -> str:
        """Return the address of etcd for its clients, `http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self._port_numbers()[1]}"

    @property
    def ca_file(self) -> Path:
        """Return the file of the CA that signed the server's certificate."""
        return self.credentials.ca_file

    @property
    def admin_token(self) -> str:
        """Return the bearer token of a user in `system:masters`."""
        return self.credentials.admin_token

    @property
    def binaries(self) -> Binaries:
        """Return the programs in use, among them kubectl."""
        if self._binaries is None:
            self._binaries = ensure_binaries(self._say)
        return self._binaries

    def kubeconfig(self, path: Path | None = None) -> Path:
        """Write the administrator's kubeconfig, by default into the folder, and return its path."""
        target = path or self.folder / "kubeconfig"
        return self.credentials.write_kubeconfig(target, self.url)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run the built kubectl as the administrator and return what it printed.

        Raises:
            ControlPlaneError: when kubectl exits with an error; the text holds its standard error.
        """
        command = [str(self.binaries.kubectl), f"--kubeconfig={self.kubeconfig()}", *arguments]
        answer = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=60, check=False
        )
        if answer.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout

    # Start and stop.

    def start(self) -> Self:
        """Start etcd and the API server; return when the server is ready.

        Raises:
            ControlPlaneError: when a program ends or is not ready in time.
        """
        for attempt in range(_PORT_ATTEMPTS):
            try:
                self._start_all()
            except _PortTakenError:
                self._stop_all()
                if attempt == _PORT_ATTEMPTS - 1:
                    raise
                self._ports = None
            except BaseException:
                self._stop_all()
                raise
            else:
                return self
        raise AssertionError("unreachable: the last attempt returns or raises")

    def close(self) -> None:
        """End every process; remove the folder if it was our own. May be called again."""
        self._stop_all()
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self) -> None:
        """Stop the API server in good order (SIGTERM); etcd and the data stay."""
        self._end("kube-apiserver", ServerProcess.stop)

    def kill(self) -> None:
        """End the API server by SIGKILL; etcd and the data stay."""
        self._end("kube-apiserver", ServerProcess.kill)

    def restart(self) -> None:
        """Stop the API server if it runs and start it again on the same data and port."""
        self.stop()
        self.start_apiserver()

    def start_apiserver(self) -> None:
        """Start the API server after `stop` or `kill`; return when it is ready."""
        deadline = time.monotonic() + _READY_LIMIT_SECONDS
        while True:
            try:
                self._launch_apiserver()
            except _PortTakenError:
                # The address is promised to stay, so wait for it to come free.
                self.kill()
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)
            else:
                return

    def pause(self, program: str = "kube-apiserver") -> None:
        """Freeze the API server, or etcd (SIGSTOP): connections stay open, nothing answers."""
        self._processes[program].pause()

    def resume(self, program: str = "kube-apiserver") -> None:
        """Let what was paused go on."""
        self._processes[program].resume()

    def kill_etcd(self) -> None:
        """End etcd by SIGKILL; the API server goes on without it, and the data stay."""
        self._end("etcd", ServerProcess.kill)

    def start_etcd(self) -> None:
        """Start etcd after `kill_etcd`; return when it is ready."""
        self._launch_etcd()

    def run_controllers(self, *names: str) -> None:
        """Have kube-controller-manager run these controllers too; return when it is up."""
        if set(names) <= set(self._controllers) and self._is_running("kube-controller-manager"):
            return
        self._controllers = tuple(dict.fromkeys((*self._controllers, *names)))
        self._launch_controllers()

    def compact(self) -> int:
        """Drop etcd's history up to now and return the revision at which it begins.

        The API server goes on serving older versions to watches from its own window; only after
        a `restart` do those end in 410 Expired as well.
        """
        revision = int(self.etcd("kv/range", {"key": "AA==", "limit": 1})["header"]["revision"])
        self.etcd("kv/compaction", {"revision": revision, "physical": True})
        return revision

    def wipe(self) -> None:
        """Empty the storage and start again: the same address and keys, but another cluster."""
        self._stop_all()
        shutil.rmtree(self.folder / "etcd")
        self._start_all()

    def back_up(self) -> Path:
        """Copy the storage as it is now, and return the copy, for `restore`."""
        copy = self.folder / f"backup-{secrets.token_hex(4)}"
        self.pause("etcd")
        try:
            shutil.copytree(self.folder / "etcd", copy)
        finally:
            self.resume("etcd")
        return copy

    def restore(self, backup: Path) -> None:
        """Stop everything, set the storage back to a copy of it, and start again."""
        self._stop_all()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(backup, self.folder / "etcd")
        self._start_all()

    def etcd(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        """Call etcd's JSON API (`kv/range`, `kv/compaction`, ...) and return its answer.

        Raises:
            ControlPlaneError: when etcd refuses.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self._port_numbers()[1], timeout=30)
        try:
            connection.request("POST", f"/v3/{method}", json.dumps(request))
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise ControlPlaneError(f"etcd {method}: {response.status} {body.decode()}")
        answer: dict[str, Any] = json.loads(body)
        return answer

    def log_tail(self, lines: int = _LOG_TAIL_LINES) -> str:
        """Return the last lines of each program's log."""
        parts: list[str] = []
        for log in sorted(self.logs.glob("*.log")):
            tail = log.read_text(errors="replace").splitlines()[-lines:]
            parts += [f"--- {log.name}", *tail]
        return "\n".join(parts)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    # How it is done.

    def _port_numbers(self) -> tuple[int, int, int, int]:
        """Return the ports of the API server, etcd's clients, etcd's peers and the controllers."""
        if self._ports is None:
            first, second, third, fourth = free_ports(4)
            self._ports = (first, second, third, fourth)
        return self._ports

    def _start_all(self) -> None:
        if not self._is_running("etcd"):
            self._launch_etcd()
        if not self._is_running("kube-apiserver"):
            self._launch_apiserver()
        if self._controllers and not self._is_running("kube-controller-manager"):
            self._launch_controllers()

    def _stop_all(self) -> None:
        self._end("kube-controller-manager", ServerProcess.kill)
        self._end("kube-apiserver", ServerProcess.kill)
        self._end("etcd", ServerProcess.kill)

    def _end(self, name: str, how: Callable[[ServerProcess], None]) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            how(process)

    def _is_running(self, name: str) -> bool:
        process = self._processes.get(name)
        return process is not None and process.is_running

    def _launch_etcd(self) -> None:
        _, client_port, peer_port, _ = self._port_numbers()
        client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
        self._launch(
            "etcd",
            [
                self.binaries.etcd,
                f"--name={self._etcd_name}",
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster={self._etcd_name}={peer}",
                "--unsafe-no-fsync",
                *self._etcd_flags,
            ],
        )
        self._wait_until("etcd", self._is_etcd_ready)

    def _is_etcd_ready(self) -> bool:
        # By its name, since on a port taken meanwhile the etcd of another control plane could
        # answer.
        try:
            members = self.etcd("cluster/member/list", {"linearizable": True})["members"]
        except (OSError, http.client.HTTPException, ControlPlaneError):
            return False
        return [member["name"] for member in members] == [self._etcd_name]

    def _launch_apiserver(self) -> None:
        self._launch(
            "kube-apiserver",
            apiserver.command(
                self.binaries.kube_apiserver,
                self.credentials,
                etcd_url=self.etcd_url,
                port=self._port_numbers()[0],
                flags=self._apiserver_flags,
            ),
        )
        port = self._port_numbers()[0]
        self._wait_until("kube-apiserver", lambda: apiserver.is_ready(port, self.credentials))

    def _launch_controllers(self) -> None:
        program = self.binaries.kube_controller_manager
        if not program.is_file():
            raise AssetsError(f"controllers {self._controllers} need {program}, which is not there")
        port = self._port_numbers()[3]
        self._launch(
            "kube-controller-manager",
            [
                program,
                f"--kubeconfig={self.kubeconfig()}",
                f"--controllers={','.join(self._controllers)}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={self.folder / 'controller-certificates'}",
                "--leader-elect=false",
                f"--service-account-private-key-file={self.credentials.service_account_key}",
                f"--root-ca-file={self.ca_file}",
            ],
        )
        trust = ssl._create_unverified_context()
        self._wait_until(
            "kube-controller-manager", lambda: apiserver.get(port, "/healthz", trust) == (200, "ok")
        )

    def _launch(self, name: str, command: Sequence[str | Path]) -> None:
        self._end(name, ServerProcess.kill)
        self._processes[name] = ServerProcess(command, self.logs / f"{name}.log")

    def _wait_until(self, name: str, is_ready: Callable[[], bool]) -> None:
        process = self._processes[name]
        deadline = time.monotonic() + _READY_LIMIT_SECONDS
        while True:
            if not process.is_running:
                kind = _PortTakenError if _PORT_TAKEN in process.output() else ControlPlaneError
                raise kind(
                    f"{name} ended with exit code {process.exit_code}; logs in {self.logs}\n"
                    f"{self.log_tail()}"
                )
            if is_ready():
                return
            if time.monotonic() > deadline:
                raise ControlPlaneError(
                    f"{name} was not ready after {_READY_LIMIT_SECONDS:.0f} s; "
                    f"logs in {self.logs}\n"
                    f"{self.log_tail()}"
                )
            time.sleep(_POLL_SECONDS)
