"""What the service tells about extensions, their informers and the clusters, as typed values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from google.protobuf.duration_pb2 import Duration as DurationMessage
from google.protobuf.timestamp_pb2 import Timestamp

from watchcache.keys import resource_name
from watchcache.states import (
    CONSISTENCY_OUTCOMES,
    EXTENSION_STATES,
    PROJECTIONS,
    SOURCE_STATES,
    ConsistencyOutcome,
    ExtensionState,
    Projection,
    SourceState,
)
from watchcache.v1alpha1 import extension_pb2

__all__ = [
    "AccessRule",
    "Cluster",
    "ConsistencyCheck",
    "Credential",
    "ExtensionRemoved",
    "ExtensionStatus",
    "ExtensionsSynced",
    "Source",
    "duration_seconds",
    "timestamp",
]


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A right in the terms of RBAC. An empty namespace means the whole cluster."""

    verbs: tuple[str, ...]
    group: str
    resource: str
    namespace: str
    cluster: str

    @classmethod
    def from_message(cls, message: extension_pb2.AccessRule) -> AccessRule:
        """Read one from the wire."""
        return cls(
            tuple(message.verbs),
            message.group,
            message.resource,
            message.namespace,
            message.cluster,
        )


@dataclass(frozen=True, slots=True)
class ConsistencyCheck:
    """What comparing an informer with its API server has found.

    `message` is a sentence for people, empty when there is nothing to say. `mismatch_count` is how
    many comparisons have found a difference, and `mismatch_time` when the last one did.
    """

    check_time: datetime | None
    outcome: ConsistencyOutcome
    message: str
    mismatch_count: int
    mismatch_time: datetime | None

    @classmethod
    def from_message(cls, message: extension_pb2.ConsistencyCheck) -> ConsistencyCheck:
        """Read one from the wire."""
        return cls(
            _time(message, "check_time"),
            CONSISTENCY_OUTCOMES[message.outcome],
            message.message,
            message.mismatch_count,
            _time(message, "mismatch_time"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """State of one informer: one resource in one scope of one cluster.

    `resource` is the canonical name ("deployments.apps"), empty while only the kind is known. An
    empty `namespace` means the whole cluster. `reason` is one word for programs and `message` a
    sentence for people; both are empty when all is well. With a `namespace_selector` it is the
    state of the set of namespaces, `namespace_count` of them, in which the resource is watched.
    """

    cluster: str
    resource: str
    group: str
    version: str
    kind: str
    namespace: str
    label_selector: str
    field_selector: str
    projection: Projection
    state: SourceState
    reason: str
    message: str
    state_time: datetime | None
    last_contact_time: datetime | None
    next_attempt_time: datetime | None
    object_count: int
    raw_bytes: int
    stored_bytes: int
    missing_access: AccessRule | None
    sync_duration_seconds: float | None
    index_paths: tuple[str, ...] = ()
    namespace_selector: str = ""
    namespace_count: int = 0
    consistency_check: ConsistencyCheck | None = None

    @property
    def is_live(self) -> bool:
        """Whether it is synced and in contact with its API server."""
        return self.state is SourceState.LIVE

    @property
    def is_current(self) -> bool:
        """Whether what it says is as fresh as can be, even if there is no room for all of it."""
        return self.is_live or self.reason == "MAX_SOURCES"

    @property
    def is_loaded(self) -> bool:
        """Whether its objects are there to be read, however old they may be.

        A set of namespaces is there once it was known: no error empties it.
        """
        if self.namespace_selector:
            return self.sync_duration_seconds is not None
        if self.state is SourceState.UNAUTHENTICATED:
            return self.sync_duration_seconds is not None
        return self.state in (SourceState.LIVE, SourceState.STALE)

    @property
    def label(self) -> str:
        """The resource, or the kind while that is all that is known."""
        return self.resource or resource_name(self.group, self.kind)

    @classmethod
    def from_message(cls, message: extension_pb2.SourceStatus) -> Source:
        """Read one from the wire."""
        return cls(
            cluster=message.cluster,
            resource=resource_name(message.group, message.resource) if message.resource else "",
            group=message.group,
            version=message.version,
            kind=message.kind,
            namespace=message.namespace,
            label_selector=message.label_selector,
            field_selector=message.field_selector,
            projection=PROJECTIONS[message.projection],
            state=SOURCE_STATES[message.state],
            reason=message.reason,
            message=message.message,
            state_time=_time(message, "state_time"),
            last_contact_time=_time(message, "last_contact_time"),
            next_attempt_time=_time(message, "next_attempt_time"),
            object_count=message.object_count,
            raw_bytes=message.raw_bytes,
            stored_bytes=message.stored_bytes,
            missing_access=AccessRule.from_message(message.missing_access)
            if message.HasField("missing_access")
            else None,
            sync_duration_seconds=duration_seconds(message.sync_duration)
            if message.HasField("sync_duration")
            else None,
            index_paths=tuple(message.index_paths),
            namespace_selector=message.namespace_selector,
            namespace_count=message.namespace_count,
            consistency_check=ConsistencyCheck.from_message(message.consistency_check)
            if message.HasField("consistency_check")
            else None,
        )


@dataclass(frozen=True, slots=True)
class Credential:
    """How an extension authenticates on one cluster; `message` is empty when all is well."""

    cluster: str
    expire_time: datetime | None
    refresh_time: datetime | None
    message: str

    @classmethod
    def from_message(cls, message: extension_pb2.CredentialStatus) -> Credential:
        """Read one from the wire."""
        return cls(
            message.cluster,
            _time(message, "expire_time"),
            _time(message, "refresh_time"),
            message.message,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionStatus:
    """An extension at the moment of an answer; `raw` is the message of the contract."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: extension_pb2.ExtensionSpec = field(repr=False)
    state: ExtensionState
    sources: tuple[Source, ...]
    create_time: datetime | None
    expire_time: datetime | None
    subscription_count: int
    credentials: tuple[Credential, ...]
    raw: extension_pb2.Extension = field(repr=False, compare=False)

    @property
    def not_live(self) -> tuple[Source, ...]:
        """The informers that are not live, each with its reason."""
        return tuple(source for source in self.sources if not source.is_live)

    @classmethod
    def from_message(cls, message: extension_pb2.Extension) -> ExtensionStatus:
        """Read one from the wire."""
        return cls(
            namespace=message.namespace,
            name=message.name,
            uid=message.uid,
            generation=message.generation,
            spec=message.spec,
            state=EXTENSION_STATES[message.state],
            sources=tuple(map(Source.from_message, message.sources)),
            create_time=_time(message, "create_time"),
            expire_time=_time(message, "expire_time"),
            subscription_count=message.subscription_count,
            credentials=tuple(map(Credential.from_message, message.credentials)),
            raw=message,
        )


@dataclass(frozen=True, slots=True)
class ExtensionRemoved:
    """An extension that is no longer there: DEREGISTERED, TTL_EXPIRED or SERVICE_ACCOUNT_GONE.

    UNKNOWN is the reason of one that went while the stream moved to another connection.
    """

    namespace: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExtensionsSynced:
    """All extensions that existed have been named; comes again as a sign of life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One API server that extensions can name; `raw` is the message of the contract."""

    name: str
    server: str
    is_default: bool
    kubernetes_version: str
    is_reachable: bool
    last_contact_time: datetime | None
    message: str
    informer_count: int
    tls_problem: str
    raw: extension_pb2.Cluster = field(repr=False, compare=False)

    @classmethod
    def from_message(cls, message: extension_pb2.Cluster) -> Cluster:
        """Read one from the wire."""
        return cls(
            name=message.name,
            server=message.server,
            is_default=message.is_default,
            kubernetes_version=message.kubernetes_version,
            is_reachable=message.is_reachable,
            last_contact_time=_time(message, "last_contact_time"),
            message=message.message,
            informer_count=message.informer_count,
            tls_problem=message.tls_problem,
            raw=message,
        )


def duration_seconds(message: DurationMessage) -> float:
    """Return a length of time on the wire in seconds."""
    return message.seconds + message.nanos / 1e9


def timestamp(message: Timestamp) -> datetime:
    """Return a moment on the wire as a datetime in UTC."""
    return message.ToDatetime(tzinfo=UTC)


_Timed = (
    extension_pb2.SourceStatus
    | extension_pb2.CredentialStatus
    | extension_pb2.Extension
    | extension_pb2.Cluster
    | extension_pb2.ConsistencyCheck
)


def _time(message: _Timed, field: str) -> datetime | None:
    if not message.HasField(field):  # type: ignore[arg-type]  # it differs between the messages
        return None
    return timestamp(getattr(message, field))
