"""One API server that the service knows by name: its connections, its discovery, its tokens.

    cluster = Cluster("hub", connection_config)
    cluster.own                 # ApiAccess as the service (or the user of a kubeconfig) itself
    shop = cluster.as_service_account("team-a", "shop")     # ApiAccess of an extension
    ...
    shop.release()
    await cluster.close()

There are two pools of connections: one shows the client certificate of the configuration, if it has
one; the other never does, since an API server lets a certificate win over a token. ServiceAccounts'
tokens go out on the second one only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from watchcache_server.clusters.errors import ClusterConfigError
from watchcache_server.clusters.loading import ConnectionConfig
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.credentials import (
    Anonymous,
    Credentials,
    StaticToken,
    TokenFile,
)
from watchcache_server.kubernetes.discovery import Discovery, DiscoveryLimits
from watchcache_server.kubernetes.errors import AccessError
from watchcache_server.kubernetes.exec_credentials import ExecCredentials
from watchcache_server.kubernetes.json_reading import JsonError, read_json
from watchcache_server.kubernetes.reporting import SILENT, AccessReporter, RequestReporter
from watchcache_server.kubernetes.requests import get_request
from watchcache_server.kubernetes.tls import TlsMaterialError, TlsSource
from watchcache_server.kubernetes.tokens import ServiceAccountCredentials, ServiceAccountTokens
from watchcache_server.kubernetes.transport import Endpoint, Limits, Transport

__all__ = ["Cluster", "ClusterOptions", "ClusterStatus", "ServiceAccountAccess"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """What is known of a cluster: `contact_age_seconds` is None before the first answer ever."""

    name: str
    server: str
    identity: str
    is_reachable: bool
    version: str
    contact_age_seconds: float | None
    problem: str
    #: Why a CA, certificate or key that was replaced is not in use yet.
    tls_problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """What an operator may set for all clusters."""

    limits: Limits = field(default_factory=Limits)
    token_lifetime_seconds: int = 3600
    token_request_seconds: float = 10.0
    discovery: DiscoveryLimits = field(default_factory=DiscoveryLimits)
    recheck_seconds: float = 10.0
    plugin_seconds: float = 30.0


class ServiceAccountAccess(ApiAccess):
    """An `ApiAccess` as a ServiceAccount, to be released when its extension is done with it."""

    __slots__ = ("_is_released", "account")

    def __init__(self, transport: Transport, account: ServiceAccountCredentials) -> None:
        super().__init__(transport, account, identity=account.identity)
        #: The shared credentials: uid, expiry, last error.
        self.account = account
        self._is_released = False

    def release(self) -> None:
        """Let go of the token; with its last user it is forgotten. May be called again."""
        if not self._is_released:
            self._is_released = True
            self.account.release()


class _Version(msgspec.Struct):
    git_version: str = msgspec.field(default="", name="gitVersion")


class Cluster:
    """One API server, by name."""

    def __init__(
        self,
        name: str,
        config: ConnectionConfig,
        *,
        options: ClusterOptions | None = None,
        clock: Callable[[], float] = time.monotonic,
        reporter: AccessReporter = SILENT,
    ) -> None:
        """Prepare the connections, none of which is opened yet.

        Raises ClusterConfigError when a certificate, key or CA cannot be used.
        """
        options = options or ClusterOptions()
        self.name = name
        self._clock = clock
        endpoint = Endpoint(name, config.url, config.tls_server_name, config.proxy_url)
        self._contacts = _Contacts(reporter, clock)
        self._reporter = reporter
        self._tls_problem = ""
        own_tls, bare_tls = _tls_sources(
            name, config, clock, options.recheck_seconds, self._tls_changed
        )
        self._tls_sources = [each for each in (own_tls, bare_tls) if each is not None]
        self._own_transport = Transport(
            endpoint, own_tls, limits=options.limits, reporter=self._contacts
        )
        self._bare_transport = Transport(
            endpoint, bare_tls, limits=options.limits, reporter=self._contacts
        )
        #: Sends as the service itself, or as the user of the kubeconfig.
        self.own = ApiAccess(
            self._own_transport,
            self._own_credentials(config, own_tls, options, reporter),
            identity=config.identity,
        )
        self.discovery = Discovery(
            self.own, limits=options.discovery, clock=clock, reporter=reporter
        )
        self.tokens = ServiceAccountTokens(
            self.own,
            lifetime_seconds=options.token_lifetime_seconds,
            answer_seconds=options.token_request_seconds,
            clock=clock,
            reporter=reporter,
        )
        self._version = ""
        self._problem = ""

    def __repr__(self) -> str:
        return f"<Cluster {self.name} at {self.server}>"

    @property
    def server(self) -> str:
        """Address of the API server."""
        return self._own_transport.endpoint.url

    def _tls_changed(self) -> None:
        """Take that one of the TLS sources has another problem, or none any more."""
        before = self._tls_problem
        problems = [source.problem for source in self._tls_sources if source.problem]
        self._tls_problem = problems[0] if problems else ""
        if self._tls_problem != before:
            self._reporter.tls_changed(self.name, self._tls_problem)

    def _own_credentials(
        self,
        config: ConnectionConfig,
        tls: TlsSource | None,
        options: ClusterOptions,
        reporter: AccessReporter,
    ) -> Credentials:
        if config.plugin is not None:
            return ExecCredentials(
                config.plugin,
                cluster=self.name,
                take_certificate=tls.replace_certificate if tls is not None else None,
                limit_seconds=options.plugin_seconds,
                clock=self._clock,
                reporter=reporter,
            )
        if config.token_file is not None:
            return TokenFile(
                config.token_file,
                cluster=self.name,
                fallback=config.token,
                recheck_seconds=options.recheck_seconds,
                clock=self._clock,
                reporter=reporter,
            )
        return StaticToken(config.token) if config.token else Anonymous()

    def as_service_account(self, namespace: str, name: str) -> ServiceAccountAccess:
        """Return access as a ServiceAccount; nothing is asked of the server yet."""
        return ServiceAccountAccess(self._bare_transport, self.tokens.acquire(namespace, name))

    async def probe(self) -> ClusterStatus:
        """Ask the server for its version, and say how it is. Raises nothing but cancellation."""
        try:
            answer = await self.own.call(get_request("/version"))
            if answer.is_success:
                self._version = _version(answer.body)
                self._problem = ""
            else:
                self._problem = str(answer.error(self.name, "reading the version"))
        except AccessError as error:
            self._problem = str(error)
        return self.status()

    def status(self) -> ClusterStatus:
        """Say how the cluster is, without asking it."""
        contact_at = self._contacts.answered_at
        return ClusterStatus(
            name=self.name,
            server=self.server,
            identity=self.own.identity,
            is_reachable=self._contacts.is_reachable,
            version=self._version,
            contact_age_seconds=None if contact_at is None else self._clock() - contact_at,
            problem=self._problem or self._contacts.failure,
            tls_problem=self._tls_problem,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._bare_transport.close()
        await self._own_transport.close()


class _Contacts:
    """Remembers when the server last answered and last failed to, on the way to the reporter."""

    def __init__(self, reporter: RequestReporter, clock: Callable[[], float]) -> None:
        self._reporter = reporter
        self._clock = clock
        self.answered_at: float | None = None
        self.failure = ""

    @property
    def is_reachable(self) -> bool:
        return self.answered_at is not None and not self.failure

    def request_answered(self, cluster: str, method: str, code: int, seconds: float) -> None:
        self.answered_at = self._clock()
        self.failure = ""
        self._reporter.request_answered(cluster, method, code, seconds)

    def request_failed(self, cluster: str, method: str, reason: str, seconds: float) -> None:
        self.failure = reason
        self._reporter.request_failed(cluster, method, reason, seconds)


def _tls_sources(
    name: str,
    config: ConnectionConfig,
    clock: Callable[[], float],
    recheck_seconds: float,
    changed: Callable[[], None],
) -> tuple[TlsSource | None, TlsSource | None]:
    """Return the sources with and without the client certificate; None for plain http."""
    if config.tls is None:
        return None, None
    try:
        own, bare = (
            TlsSource(each, clock=clock, recheck_seconds=recheck_seconds, changed=changed)
            for each in (config.tls, config.tls.without_certificate())
        )
    except TlsMaterialError as error:
        raise ClusterConfigError(f"cluster {name}: {error}") from error
    return own, bare


def _version(body: bytes) -> str:
    try:
        return read_json(body, _Version).git_version
    except JsonError:
        return ""
