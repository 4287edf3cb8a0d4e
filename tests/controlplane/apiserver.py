"""How a kube-apiserver is started, and asked whether it is ready; and a further one on one etcd.

    with FurtherServer(control_plane, etcd_url=f"http://{network.address}") as server: ...

It has the keys of the control plane, so that what one of them signs the other takes. Its way to
etcd may lead through a network that a test can break, and then it lags behind.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tests.controlplane.credentials import Credentials
from tests.controlplane.ports import free_ports
from tests.controlplane.process import ServerProcess

if TYPE_CHECKING:
    from tests.controlplane.server import ControlPlane

__all__ = ["FurtherServer", "command", "get", "is_ready"]

_READY_LIMIT_SECONDS = 60.0
_POLL_SECONDS = 0.05


def command(
    program: Path, credentials: Credentials, *, etcd_url: str, port: int, flags: Sequence[str] = ()
) -> list[str | Path]:
    """Return the command of a kube-apiserver on a loopback port."""
    return [
        program,
        f"--etcd-servers={etcd_url}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--tls-cert-file={credentials.serving_certificate}",
        f"--tls-private-key-file={credentials.serving_key}",
        f"--client-ca-file={credentials.ca_file}",
        f"--service-account-key-file={credentials.service_account_key}",
        f"--service-account-signing-key-file={credentials.service_account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--token-auth-file={credentials.token_file}",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--service-cluster-ip-range=10.0.0.0/24",
        *flags,
    ]


def is_ready(port: int, credentials: Credentials) -> bool:
    """Tell whether the server there is ready, and has made the first namespace."""
    trust = ssl.create_default_context(cafile=credentials.ca_file)
    token = credentials.admin_token
    # An unready server answers with a list of checks, so the whole text counts. Ready does not yet
    # mean that the first namespace has been made.
    return get(port, "/readyz", trust, token) == (200, "ok") and (
        get(port, "/api/v1/namespaces/default", trust, token)[0] == 200
    )


def get(port: int, path: str, trust: ssl.SSLContext, token: str = "") -> tuple[int, str]:
    """Return the status and body of a GET, or (0, "") while nothing answers."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=trust)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


class FurtherServer:
    """One more API server. Its methods block."""

    def __init__(self, control_plane: ControlPlane, *, etcd_url: str) -> None:
        self._control_plane = control_plane
        self._etcd_url = etcd_url
        (self.port,) = free_ports(1)
        self._process: ServerProcess | None = None

    def start(self) -> None:
        """Start it; return when it is ready."""
        control_plane = self._control_plane
        credentials = control_plane.credentials
        program = control_plane.binaries.kube_apiserver
        log = control_plane.logs / f"kube-apiserver-{self.port}.log"
        flags = command(program, credentials, etcd_url=self._etcd_url, port=self.port)
        self._process = ServerProcess(flags, log)
        deadline = time.monotonic() + _READY_LIMIT_SECONDS
        while not is_ready(self.port, credentials):
            assert self._process.is_running, control_plane.log_tail()
            assert time.monotonic() < deadline, control_plane.log_tail()
            time.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """End it by SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
