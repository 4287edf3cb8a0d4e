"""`connect`: the way in. A connection registers extensions and looks at those that are there."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from watchcache.durations import Duration, duration_message, seconds_of
from watchcache.errors import ConnectionSettingsError, UnavailableError, Violations
from watchcache.extension import Extension
from watchcache.extension_changes import ExtensionChanges
from watchcache.keys import parse_extension_name
from watchcache.service import DEFAULT_ADDRESS, Service, target_of
from watchcache.spec import Content, Resource, build_spec
from watchcache.states import REGISTER_OUTCOMES, Projection
from watchcache.status import Cluster, ExtensionRemoved, ExtensionsSynced, ExtensionStatus
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

__all__ = ["Connection", "connect"]

_LEAST_KEEPALIVE_SECONDS = 10.0

_LONGEST_SILENCE_SECONDS = 90.0
"""Thrice the time after which the service gives a sign of life."""


def connect(
    address: str | None = None,
    *,
    ca_file: str | None = None,
    timeout: Duration = 10.0,
    keepalive: Duration = 20.0,
) -> Connection:
    """Return a connection to the service, for `async with`.

    `address` is host:port or unix:/path/of/the/socket; if not given, WATCHCACHE_ADDRESS, and
    127.0.0.1:7443 without it. `ca_file` (WATCHCACHE_CA_FILE) holds the certificates, in PEM form,
    with which the service's own is checked; without it there is no TLS. `timeout` limits each
    call, `keepalive` is the time after which a silent connection is probed; a probe has half as
    long to be answered. Nothing is sent before the first call. Raises ConnectionSettingsError.
    """
    keepalive_seconds = seconds_of(keepalive, field="keepalive")
    if keepalive_seconds < _LEAST_KEEPALIVE_SECONDS:
        raise ConnectionSettingsError(
            f"keepalive is {keepalive!r}; the service closes connections that are probed more "
            f"often than every {_LEAST_KEEPALIVE_SECONDS:g} s",
            reason="INVALID_KEEPALIVE",
        )
    return Connection(
        address or os.environ.get("WATCHCACHE_ADDRESS") or DEFAULT_ADDRESS,
        ca_file=ca_file or os.environ.get("WATCHCACHE_CA_FILE") or None,
        timeout_seconds=seconds_of(timeout, field="timeout"),
        keepalive_seconds=keepalive_seconds,
    )


class Connection:
    """A connection to the service; made by `connect`, open within `async with`."""

    def __init__(
        self, address: str, *, ca_file: str | None, timeout_seconds: float, keepalive_seconds: float
    ) -> None:
        self.address = target_of(address)
        self._ca_file = ca_file
        self._timeout_seconds = timeout_seconds
        self._keepalive_seconds = keepalive_seconds
        self._open: Service | None = None

    def __repr__(self) -> str:
        return f"<Connection to {self.address}, {'open' if self._open else 'closed'}>"

    async def __aenter__(self) -> Self:
        self._open = Service(
            self.address,
            ca_file=self._ca_file,
            timeout_seconds=self._timeout_seconds,
            keepalive_seconds=self._keepalive_seconds,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        service, self._open = self._service, None
        await service.close()

    async def register(
        self,
        name: str,
        *,
        service_account: str = "",
        watch: Sequence[str | Resource] | None = None,
        content: Content | None = None,
        only_these_objects: bool = False,
        clusters: Sequence[str] = (),
        namespaces: Sequence[str] = (),
        namespace_selector: str = "",
        projection: Projection | str | None = None,
        index_paths: Sequence[str] = (),
        ttl: Duration | None = None,
        wait: Duration | None = None,
    ) -> Extension:
        """Create the extension `namespace/name`, or change it to this spec.

        `watch` lists resources ("deployments.apps", "pods", or `Resource` for more); `content`
        holds manifests to derive them from, with `only_these_objects` to watch exactly those.
        Without either, the extension watches nothing. `namespaces` and `projection` hold for every
        entry of `watch` that names none of its own; no namespaces means all. In their place,
        `namespace_selector` chooses them by label ("tier=gold") as they come and go. So do
        `index_paths`, the field paths that objects can be filtered by ("spec.nodeName"). `ttl`
        frees the extension when nobody watches or renews it for so long. `wait` lets the answer
        wait until every informer is live or has failed; look at `not_live` of what is returned.

        Raises InvalidArgumentError with every broken rule in `field_violations`.
        """
        request, wait_seconds = service_pb2.RegisterRequest(), 0.0
        violations = Violations()
        with violations.collecting():
            request.namespace, request.name = parse_extension_name(name)
        with violations.collecting():
            spec = build_spec(
                service_account=service_account,
                watch=watch,
                content=content,
                only_these_objects=only_these_objects,
                clusters=clusters,
                namespaces=namespaces,
                namespace_selector=namespace_selector,
                projection=projection,
                index_paths=index_paths,
                ttl=ttl,
            )
            request.spec.CopyFrom(spec)
        with violations.collecting():
            wait_seconds = 0.0 if wait is None else seconds_of(wait, field="wait")
        violations.finish()
        # What a watch registers again later does not wait: it has the stream to be told by.
        registration = service_pb2.RegisterRequest()
        registration.CopyFrom(request)
        if wait_seconds:
            request.wait.CopyFrom(duration_message(wait_seconds))
        service = self._service
        answer = await service.call(service.stub.Register, request, extra_seconds=wait_seconds)
        return Extension(
            service,
            ExtensionStatus.from_message(answer.extension),
            registration=registration,
            outcome=REGISTER_OUTCOMES[answer.outcome],
        )

    async def extension(self, name: str) -> Extension:
        """Return the extension `namespace/name` that somebody registered. Raises NotFoundError.

        A watch on it cannot register it again: this client does not know that it should be there.
        """
        namespace, short_name = parse_extension_name(name)
        service = self._service
        answer = await service.call(
            service.stub.GetExtension,
            service_pb2.GetExtensionRequest(namespace=namespace, name=short_name),
        )
        return Extension(service, ExtensionStatus.from_message(answer.extension))

    async def deregister(self, name: str) -> bool:
        """Free the extension `namespace/name`; say whether it existed."""
        namespace, short_name = parse_extension_name(name)
        service = self._service
        answer = await service.call(
            service.stub.Deregister,
            service_pb2.DeregisterRequest(namespace=namespace, name=short_name),
        )
        return answer.existed

    async def extensions(self, namespace: str = "") -> AsyncIterator[ExtensionStatus]:
        """Iterate with `async for` over all extensions, or those of one namespace."""
        service = self._service
        request = service_pb2.ListExtensionsRequest(namespace=namespace)
        while True:
            answer = await service.call(service.stub.ListExtensions, request)
            for message in answer.extensions:
                yield ExtensionStatus.from_message(message)
            request.page_token = answer.next_page_token
            if not request.page_token:
                return

    async def watch_extensions(
        self, *, namespace: str = "", name: str = ""
    ) -> AsyncIterator[ExtensionStatus | ExtensionRemoved | ExtensionsSynced]:
        """Iterate with `async for` over the state of the extensions, and then over its changes.

        Those of one namespace, or the one of a name in it; all of them without either. It does not
        reconnect: UnavailableError ends it when the connection breaks, and beginning again tells
        all that there is to know. It does so itself where the service moves it to a new connection;
        one that went in that moment is told of with the reason UNKNOWN.
        """
        changes = ExtensionChanges()
        service = self._service
        request = service_pb2.WatchExtensionsRequest(namespace=namespace, name=name)
        while True:
            stream = service.stream(service.stub.WatchExtensions, request)
            try:
                while True:
                    answer = await stream.receive(limit_seconds=_LONGEST_SILENCE_SECONDS)
                    for change in changes.receive(answer):
                        yield change
            except UnavailableError as error:
                if error.reason != "CONNECTION_AGED":
                    raise
                changes.begin_again()
            finally:
                stream.cancel()

    async def clusters(self) -> tuple[Cluster, ...]:
        """Return the clusters that extensions can name."""
        service = self._service
        answer = await service.call(service.stub.ListClusters, service_pb2.ListClustersRequest())
        return tuple(map(Cluster.from_message, answer.clusters))

    @property
    def _service(self) -> Service:
        if self._open is None:
            raise ConnectionSettingsError(
                "the connection is not open; use it within `async with connect() as wc:`",
                reason="NOT_OPEN",
            )
        return self._open
