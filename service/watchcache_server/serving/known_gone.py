"""What became of objects that a reader holds and that no informer has come across."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.observed import Observed
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.held import Known, KnownGroup
from watchcache_server.informer.source import Source
from watchcache_server.informer.versions import plain_number
from watchcache_server.model.states import SourceState

__all__ = ["known_gone", "undecided"]


class _Verdict(NamedTuple):
    """What is to be said of a group: of all of it, or of what was held up to a version."""

    type: event_pb2.EventType.ValueType
    left_reason: event_pb2.LeftReason.ValueType
    up_to: int | None = None


_OUT_OF_SCOPE = _Verdict(event_pb2.EVENT_TYPE_LEFT, event_pb2.LEFT_REASON_SCOPE)
_UNSELECTED = _Verdict(event_pb2.EVENT_TYPE_LEFT, event_pb2.LEFT_REASON_SELECTION)
_KIND_GONE = _Verdict(event_pb2.EVENT_TYPE_LEFT, event_pb2.LEFT_REASON_KIND_GONE)
_REVOKED = _Verdict(event_pb2.EVENT_TYPE_LEFT, event_pb2.LEFT_REASON_RIGHTS_REVOKED)
_IDS_IN_MESSAGE: Final = 4096


def known_gone(extension: Extension, wanted: Filter, known: Known) -> Iterator[pb.KnownGone]:
    """Yield what is to be said of the rest, group by group, and forget it.

    Groups whose informers have yet to be loaded are left alone.
    """
    for group in known.groups:
        verdict = _verdict(extension, wanted, group, known.proven)
        if verdict is None:
            continue
        ids = known.take(group, verdict.up_to)
        for first in range(0, len(ids), _IDS_IN_MESSAGE):
            some = b"".join(ids[first : first + _IDS_IN_MESSAGE])
            yield pb.KnownGone(
                type=verdict.type,
                left_reason=verdict.left_reason,
                ids=some,
                cluster=group.cluster,
                group=group.group,
                resource=group.resource,
                namespace=group.namespace,
            )


def undecided(extension: Extension, wanted: Filter, known: Known) -> list[Informer]:
    """Return the informers in view that say, once they are fresh, what became of what is left."""
    groups = known.groups
    return [
        informer
        for informer in extension.informers_in(wanted)
        if any(_may_hold(informer.source, group) for group in groups)
    ]


def _verdict(
    extension: Extension, wanted: Filter, group: KnownGroup, proven: Collection[Source]
) -> _Verdict | None:
    if any(_may_hold(informer.source, group) for informer in extension.retiring):
        # Its objects are on their way to another.
        return None
    informers = [
        informer for informer in extension.informers.values() if _may_hold(informer.source, group)
    ]
    # A kind that is not served says nothing of one that is.
    informers = [each for each in informers if not _is_nameless(each)] or informers
    if not informers:
        return _unchosen(extension, group)
    in_view = [each for each in informers if wanted.passes_source(each.source)]
    if not in_view:
        # The stream has not come across them, whether they are there or not.
        return _UNSELECTED
    unsynced = [informer for informer in in_view if not informer.is_synced]
    if unsynced:
        return _refused(unsynced)
    whole = [informer.source for informer in in_view if _holds_all(informer.source)]
    if whole and all(source in proven for source in whole):
        return _deleted(None)
    versions = [plain_number(source.position) for source in whole]
    numbers = [version for version in versions if version is not None]
    # Only what was there at a version that the informer has passed is proven to be gone.
    return _deleted(min(numbers)) if numbers else _UNSELECTED


def _unchosen(extension: Extension, group: KnownGroup) -> _Verdict | None:
    """Say what became of a group that no informer is of: one may come, or might have."""
    chosen = extension.chosen_of(group.cluster, group.group, group.resource)
    known = [each.informer for each in chosen if group.namespace]
    if all(informer.is_synced for informer in known):
        return _OUT_OF_SCOPE
    return _refused([informer for informer in known if not informer.is_synced])


def _deleted(up_to: int | None) -> _Verdict:
    return _Verdict(event_pb2.EVENT_TYPE_DELETED, event_pb2.LEFT_REASON_UNSPECIFIED, up_to)


def _is_nameless(informer: Informer) -> bool:
    return not informer.source.resource and informer.status.state is SourceState.GONE


def _may_hold(source: Source, group: KnownGroup) -> bool:
    return (
        source.spec.cluster == group.cluster
        and source.group == group.group
        # While only the kind of a source is known, it may be any of its group.
        and source.resource in ("", group.resource)
        and source.namespace in ("", group.namespace)
    )


def _holds_all(source: Source) -> bool:
    scope = source.scope
    return not (scope.is_selecting or scope.pinned_name or scope.names)


def _refused(unsynced: Sequence[Observed]) -> _Verdict | None:
    states = {informer.status.state for informer in unsynced}
    if states == {SourceState.GONE}:
        return _KIND_GONE
    if states == {SourceState.FORBIDDEN}:
        return _REVOKED
    return None
