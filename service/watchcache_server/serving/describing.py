"""Extensions, informers and clusters as messages of the contract."""

from __future__ import annotations

from typing import Final

from watchcache.v1alpha1 import extension_pb2
from watchcache_server.clusters.registry import ClusterRegistry
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.namespaces import ChosenScope
from watchcache_server.extensions.registry import ExtensionRegistry
from watchcache_server.extensions.status import CheckStatus
from watchcache_server.informer.source import Source
from watchcache_server.model.states import CheckOutcome, ExtensionState, SourceState
from watchcache_server.serving.conversion import PROJECTIONS, to_duration, to_timestamp

__all__ = ["cluster_messages", "extension_message", "source_message"]

_STATES: Final = {
    SourceState.PENDING: extension_pb2.SOURCE_STATE_PENDING,
    SourceState.SYNCING: extension_pb2.SOURCE_STATE_SYNCING,
    SourceState.LIVE: extension_pb2.SOURCE_STATE_LIVE,
    SourceState.STALE: extension_pb2.SOURCE_STATE_STALE,
    SourceState.FORBIDDEN: extension_pb2.SOURCE_STATE_FORBIDDEN,
    SourceState.UNAUTHENTICATED: extension_pb2.SOURCE_STATE_UNAUTHENTICATED,
    SourceState.GONE: extension_pb2.SOURCE_STATE_GONE,
    SourceState.UNREACHABLE: extension_pb2.SOURCE_STATE_UNREACHABLE,
    SourceState.STOPPED: extension_pb2.SOURCE_STATE_STOPPED,
}
_EXTENSION_STATES: Final = {
    ExtensionState.SYNCING: extension_pb2.EXTENSION_STATE_SYNCING,
    ExtensionState.LIVE: extension_pb2.EXTENSION_STATE_LIVE,
    ExtensionState.DEGRADED: extension_pb2.EXTENSION_STATE_DEGRADED,
    ExtensionState.FAILED: extension_pb2.EXTENSION_STATE_FAILED,
}
_OUTCOMES: Final = {
    CheckOutcome.CONSISTENT: extension_pb2.CONSISTENCY_OUTCOME_CONSISTENT,
    CheckOutcome.MISMATCH: extension_pb2.CONSISTENCY_OUTCOME_MISMATCH,
    CheckOutcome.UNCLEAR: extension_pb2.CONSISTENCY_OUTCOME_UNCLEAR,
    CheckOutcome.FAILED: extension_pb2.CONSISTENCY_OUTCOME_FAILED,
}
_PROJECTIONS: Final = {projection.value: number for number, projection in PROJECTIONS.items()}
_KIB: Final = 1024


def source_message(told: Informer | ChosenScope) -> extension_pb2.SourceStatus:
    """Describe one informer, or a set of namespaces in which a resource is watched."""
    source, status, spec = told.source, told.status, told.spec
    message = extension_pb2.SourceStatus(
        cluster=spec.cluster,
        group=source.group,
        version=source.version,
        resource=source.resource,
        kind=source.kind,
        namespace=source.namespace,
        label_selector=spec.label_selector,
        field_selector=spec.field_selector,
        projection=_PROJECTIONS[spec.projection],
        state=_STATES[status.state],
        reason="" if status.state is SourceState.LIVE else status.reason,
        message="" if status.state is SourceState.LIVE else status.message,
        state_time=to_timestamp(status.state_time),
        last_contact_time=to_timestamp(status.last_contact_time),
        next_attempt_time=to_timestamp(status.next_attempt_time),
        sync_duration=to_duration(status.sync_seconds),
        index_paths=spec.indexes,
    )
    if status.check is not None:
        message.consistency_check.CopyFrom(_check_message(status.check))
    if isinstance(told, ChosenScope):
        _describe_set(message, told)
    else:
        _describe_content(message, told)
    return message


def _describe_content(message: extension_pb2.SourceStatus, informer: Informer) -> None:
    source = informer.source
    message.object_count = source.table.count
    message.raw_bytes = source.raw_bytes
    # Whole KiB: the exact size of one compressed object would answer guesses about it.
    message.stored_bytes = -(-source.stored_bytes // _KIB) * _KIB
    message.unindexed_value_count = source.unindexed_count
    _describe_missing(message, informer, source)


def _describe_set(message: extension_pb2.SourceStatus, chosen: ChosenScope) -> None:
    known = chosen.informer
    message.namespace_selector = known.namespaces.selector
    message.namespace_count = known.source.table.count
    _describe_missing(message, chosen, known.source)


def _describe_missing(
    message: extension_pb2.SourceStatus, told: Informer | ChosenScope, source: Source
) -> None:
    """Name the rights that are missing on what is read."""
    if told.status.missing_verbs:
        message.missing_access.CopyFrom(
            extension_pb2.AccessRule(
                verbs=told.status.missing_verbs,
                group=source.group,
                resource=source.resource,
                namespace=source.namespace,
                cluster=told.spec.cluster,
            )
        )


def _check_message(check: CheckStatus) -> extension_pb2.ConsistencyCheck:
    return extension_pb2.ConsistencyCheck(
        check_time=to_timestamp(check.time),
        outcome=_OUTCOMES[check.outcome],
        message=check.message,
        mismatch_count=check.mismatch_count,
        mismatch_time=to_timestamp(check.mismatch_time),
    )


def extension_message(
    extension: Extension, registry: ExtensionRegistry, *, with_spec: bool = True
) -> extension_pb2.Extension:
    """Describe an extension with all of its informers."""
    registered = extension.registered_spec
    assert isinstance(registered, extension_pb2.ExtensionSpec)
    now = extension.clock.wall()
    left = extension.expires_in
    return extension_pb2.Extension(
        namespace=extension.key.namespace,
        name=extension.key.name,
        uid=extension.uid,
        generation=extension.generation,
        spec=registered if with_spec else None,
        state=_EXTENSION_STATES[extension.state],
        sources=[source_message(told) for told in extension.ordered()],
        create_time=to_timestamp(extension.create_time),
        expire_time=None if left is None else to_timestamp(now + left),
        subscription_count=extension.subscription_count,
        credentials=_credentials(extension, registry, now),
    )


def _credentials(
    extension: Extension, registry: ExtensionRegistry, now: float
) -> list[extension_pb2.CredentialStatus]:
    messages = []
    for cluster, access in sorted(registry.credentials_of(extension).items()):
        account = access.account
        expires, renews = account.expires_in_seconds, account.refresh_in_seconds
        messages.append(
            extension_pb2.CredentialStatus(
                cluster=cluster,
                expire_time=None if expires is None else to_timestamp(now + expires),
                refresh_time=None if renews is None else to_timestamp(now + renews),
                message="" if account.error is None else str(account.error),
            )
        )
    return messages


def cluster_messages(
    clusters: ClusterRegistry, registry: ExtensionRegistry, now: float
) -> list[extension_pb2.Cluster]:
    """Describe all clusters."""
    counts: dict[str, int] = {}
    for extension in registry:
        for informer in (*extension.informers.values(), *extension.namespace_informers):
            cluster = informer.spec.cluster
            counts[cluster] = counts.get(cluster, 0) + 1
    messages = []
    for status in clusters.statuses():
        age = status.contact_age_seconds
        messages.append(
            extension_pb2.Cluster(
                name=status.name,
                server=status.server,
                is_default=status.name == clusters.default,
                kubernetes_version=status.version,
                is_reachable=status.is_reachable,
                last_contact_time=None if age is None else to_timestamp(now - age),
                message=status.problem,
                informer_count=counts.get(status.name, 0),
                tls_problem=status.tls_problem,
            )
        )
    return messages
