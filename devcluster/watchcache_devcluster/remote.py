"""A running dev cluster, reached through its kubeconfig: what the command's subcommands talk to.

Plain blocking HTTP to the admin paths. Every failure is a `RemoteError` with a text for people.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

__all__ = ["Remote", "RemoteError", "find_kubeconfig"]

_PLACES = (".demo/kubeconfig", ".devcluster/kubeconfig")
_TIMEOUT_SECONDS = 10.0


class RemoteError(Exception):
    """The cluster cannot be found or reached, or it refused."""


def find_kubeconfig(explicit: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the kubeconfig to use: the one named, else that of `$KUBECONFIG`.

    Only where neither is given it is that of this folder, in `.demo/` or `.devcluster/`: trouble
    meant for one cluster is never given to another.

    Raises:
        RemoteError: there is none.
    """
    if explicit is not None:
        if not explicit.is_file():
            raise RemoteError(f"there is no kubeconfig at {explicit}; is the dev cluster running?")
        return explicit
    places = [place for place in environment.get("KUBECONFIG", "").split(os.pathsep) if place]
    for place in places:
        if not Path(place).is_file():
            raise RemoteError(
                f"KUBECONFIG names {place}, and there is no such file; is that dev cluster still"
                " running? Correct or unset KUBECONFIG, or name a kubeconfig with --kubeconfig"
            )
    for place in places or _PLACES:
        if Path(place).is_file():
            return Path(place)
    raise RemoteError(
        "found no running dev cluster: start one with `watchcache-devcluster serve`, or name its"
        " kubeconfig with --kubeconfig"
    )


@dataclass(frozen=True, slots=True)
class Remote:
    """The address and credentials of a running dev cluster."""

    url: str
    ca_pem: str
    token: str

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Remote:
        """Read the current context of a kubeconfig that a dev cluster wrote.

        Raises:
            RemoteError: the file cannot be read, or was not written by a dev cluster.
        """
        try:
            config = yaml.safe_load(path.read_text())
            contexts = {item["name"]: item["context"] for item in config["contexts"]}
            context = contexts[config["current-context"]]
            clusters = {item["name"]: item["cluster"] for item in config["clusters"]}
            users = {item["name"]: item["user"] for item in config["users"]}
            cluster, user = clusters[context["cluster"]], users[context["user"]]
            ca_pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
            return cls(cluster["server"], ca_pem, user["token"])
        except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            raise RemoteError(
                f"{path} is not a kubeconfig that a dev cluster wrote ({error!r}); name that one"
                " with --kubeconfig"
            ) from error

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request to an admin path and return its answer.

        Raises:
            RemoteError: nobody answers, or the answer is a refusal.
        """
        address = urlsplit(self.url)
        trust = ssl.create_default_context(cadata=self.ca_pem)
        connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=_TIMEOUT_SECONDS, context=trust
        )
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, f"/devcluster/{path}", data, headers)
            response = connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise RemoteError(
                f"the dev cluster at {self.url} does not answer ({error}); is it still running?"
            ) from error
        finally:
            connection.close()
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise RemoteError(
                f"{self.url} answered {response.status} to an admin request; it is an API server,"
                " but not a dev cluster"
            ) from error
        if response.status >= 400:
            raise RemoteError(str(answer.get("message", text)))
        return answer
