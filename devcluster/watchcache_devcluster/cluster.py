"""`DevCluster`: a whole small Kubernetes API server in this process.

Entering it makes the certificates, writes the initial objects and listens; leaving it resets every
connection and forgets everything. Several clusters may run in one process. Its methods on objects
take the same way as a request over HTTP does, from the checks to the events.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from watchcache_devcluster.admin import Actions, Admin
from watchcache_devcluster.authentication import Authenticator
from watchcache_devcluster.bootstrap import bootstrap
from watchcache_devcluster.builtin import BUILTIN_RESOURCES, REVIEW_RESOURCES
from watchcache_devcluster.certificates import Authority, Credential
from watchcache_devcluster.commits import Commits
from watchcache_devcluster.controllers import Controllers
from watchcache_devcluster.deletion import Deleter
from watchcache_devcluster.direct import DirectClient
from watchcache_devcluster.discovery import Discovery
from watchcache_devcluster.endpoints import Endpoints
from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.faults import FaultSet
from watchcache_devcluster.patching import Patcher
from watchcache_devcluster.rbac import Authorizer
from watchcache_devcluster.resources import Catalog
from watchcache_devcluster.reviews import Reviews
from watchcache_devcluster.server import Server, Timings
from watchcache_devcluster.storage import Storage
from watchcache_devcluster.tokens import ADMIN_GROUP, Tokens
from watchcache_devcluster.writer import Writer

__all__ = ["DevCluster"]


class DevCluster(DirectClient):
    """A Kubernetes API server for tests and demos, as an async context manager.

    Args:
        port: where to listen; 0 takes a free port. `restart` keeps the port.
        host: the address to listen on.
        name: the cluster's name in its kubeconfig.
        bookmark_seconds: how often a quiet watch gets a bookmark.
        min_watch_seconds: a watch without `timeoutSeconds` ends after once to twice this.
        history_limit: how many changes of each kind are remembered.
        fresh_timeout_seconds: how long a request for a future resourceVersion waits.
        aggregated_discovery: which versions of it are served; `("v2beta1",)` or `()` play an older
            server.
        clock: the time of day, for timestamps and tokens.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        name: str = "devcluster",
        bookmark_seconds: float = 60.0,
        min_watch_seconds: float = 1800.0,
        history_limit: int = 10_000,
        fresh_timeout_seconds: float = 3.0,
        aggregated_discovery: Sequence[str] = ("v2",),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.admin_token = secrets.token_urlsafe(24)
        self.faults = FaultSet()
        self.storage = Storage(history_limit)
        self.catalog = Catalog()
        self.catalog.add(*BUILTIN_RESOURCES, *REVIEW_RESOURCES)
        for resource in BUILTIN_RESOURCES:
            self.storage.table(resource.table)
        commits = Commits(self.storage, self.catalog, clock)
        writer = Writer(commits)
        patcher, deleter = Patcher(commits, writer), Deleter(commits)
        super().__init__(self.catalog, commits, writer, patcher, deleter)
        self._authority = Authority(name)
        self._tokens = Tokens(self.storage, clock, self.admin_token)
        authorizer = Authorizer(self.storage)
        self._reviews = Reviews(self.storage, self._tokens, authorizer, clock)
        self._controllers = Controllers(self.storage, self.catalog, clock)
        timings = Timings(bookmark_seconds, min_watch_seconds, fresh_timeout_seconds)
        actions = Actions(self.compact, self._restart_soon, self.expire_tokens)
        self._server = Server(
            storage=self.storage,
            endpoints=Endpoints(
                commits,
                self.catalog,
                writer,
                patcher,
                deleter,
                self._reviews,
                fresh_timeout_seconds,
            ),
            discovery=Discovery(self.catalog, aggregated_discovery),
            authenticator=Authenticator(self._tokens, authorizer),
            authorizer=authorizer,
            faults=self.faults,
            admin=Admin(self.faults, actions),
            timings=timings,
        )
        self._context = self._authority.server_context(host)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        bootstrap(writer, self.catalog)

    async def __aenter__(self) -> Self:
        """Start to listen."""
        self.port = await self._server.start(self.host, self.port, self._context)
        self._folder = tempfile.TemporaryDirectory(prefix="devcluster-")
        self.ca_file.write_bytes(self.ca_pem)
        self._spawn(self._controllers.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Reset every connection, stop listening, and forget everything."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.stop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # How to reach it

    @property
    def url(self) -> str:
        """The address of the API server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}"

    @property
    def ca_pem(self) -> bytes:
        """The certificate of the authority that signed the serving certificate."""
        return self._authority.pem

    @property
    def ca_file(self) -> Path:
        """Where `ca_pem` can be read while the cluster runs."""
        if self._folder is None:
            raise RuntimeError("the cluster is not running; enter it with `async with` first")
        return Path(self._folder.name, "ca.crt")

    def client_certificate(self, user: str, groups: tuple[str, ...] = ()) -> Credential:
        """Make a client certificate for a user; with group `system:masters` he may do anything."""
        return self._authority.client(user, groups)

    def kubeconfig(
        self,
        *,
        token: str | None = None,
        namespace: str = "default",
        client_certificate: bool = False,
    ) -> dict[str, Any]:
        """Return a kubeconfig for this cluster: as administrator, unless a token is given.

        With `client_certificate` the administrator shows a certificate instead of a token.
        """
        user: dict[str, Any] = {"token": token or self.admin_token}
        if client_certificate:
            credential = self.client_certificate("admin", (ADMIN_GROUP,))
            user = {
                "client-certificate-data": _base64(credential.certificate_pem),
                "client-key-data": _base64(credential.key_pem),
            }
        cluster = {"server": self.url, "certificate-authority-data": _base64(self.ca_pem)}
        context = {"cluster": self.name, "user": f"{self.name}-user", "namespace": namespace}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.name, "cluster": cluster}],
            "users": [{"name": f"{self.name}-user", "user": user}],
            "contexts": [{"name": self.name, "context": context}],
            "current-context": self.name,
        }

    def write_kubeconfig(self, path: str | Path, **options: Any) -> Path:
        """Write `kubeconfig(**options)` to a file that only its owner can read; return its path."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch(mode=0o600)
        target.chmod(0o600)
        target.write_text(yaml.safe_dump(self.kubeconfig(**options), sort_keys=False))
        return target

    async def token_for(
        self, namespace: str, serviceaccount: str, lifetime_seconds: int = 3600
    ) -> str:
        """Return a token of a ServiceAccount, which is made first if it does not exist."""
        try:
            await self.get("serviceaccounts", serviceaccount, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            metadata = {"name": serviceaccount, "namespace": namespace}
            await self.create("serviceaccounts", {"metadata": metadata})
        body = {"spec": {"expirationSeconds": lifetime_seconds}}
        answer = self._reviews.request_token(namespace, serviceaccount, body)
        token: str = answer["status"]["token"]
        return token

    # Trouble

    def compact(self) -> int:
        """Forget all history: older versions are 410 from now on. Returns the version."""
        return self.storage.compact()

    def expire_tokens(self, namespace: str, serviceaccount: str) -> None:
        """Refuse every token that this ServiceAccount was given so far."""
        self._tokens.refuse(namespace, serviceaccount)

    def drop_connections(self) -> int:
        """Reset every open connection, idle ones too; return how many there were."""
        return self._server.reset_connections()

    async def restart(self, *, downtime_seconds: float = 0.0, keep_history: bool = True) -> None:
        """Stop and start again with the same data on the same port; all connections are reset.

        A real server also forgets the history of watches at a restart: `keep_history=False`.
        """
        await self._server.stop()
        if not keep_history:
            self.storage.compact()
        if downtime_seconds:
            await asyncio.sleep(downtime_seconds)
        self.port = await self._server.start(self.host, self.port, self._context)

    def _restart_soon(self, downtime_seconds: float) -> None:
        self._spawn(self.restart(downtime_seconds=downtime_seconds))

    async def settle(self) -> None:
        """Wait until the cluster's own controllers have nothing left to do."""
        await self._controllers.settled()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
