"""Where a Watch stream starts: what it was asked for, and what is left of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.extensions.extension import Extension
from watchcache_server.informer.cursors import Cursor
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.held import Known
from watchcache_server.informer.resume import ResumeToken, TokenError, extension_digest
from watchcache_server.informer.subscription import begin_snapshot, resume
from watchcache_server.model.errors import InvalidRequestError, ResumeLostError

__all__ = ["Start", "check_token", "find_start"]


class Start(NamedTuple):
    """Where a stream begins, and how that is said.

    `known` is what the reader has said that it holds. `positions` are the upstream versions up to
    which it was told everything in another life of the extension, by the identities of sources.
    """

    cursor: Cursor
    mode: pb.StartMode.ValueType
    reset: pb.ResetReason.ValueType | None = None
    known: Known | None = None
    positions: Mapping[bytes, str] | None = None


def check_token(extension: Extension, wanted: Filter, request: pb.WatchRequest) -> None:
    """Raise InvalidRequestError for a token of something else: no wait would mend that."""
    if request.resume_token:
        _from_token(extension, wanted, request.resume_token)


def find_start(
    extension: Extension,
    wanted: Filter,
    request: pb.WatchRequest,
    redeem: Callable[[Extension, bytes], Known],
) -> Start:
    """Find where a stream begins.

    Raises InvalidRequestError for a token of something else, KnownNotFoundError for an unknown
    handle, ResumeLostError where the request forbids a Reset.
    """
    found = _from_token(extension, wanted, request.resume_token) if request.resume_token else None
    if isinstance(found, Start):
        return found
    store = extension.store
    if request.known:
        known = redeem(extension, request.known)
        cursor = begin_snapshot(store, wanted, store.revision)
        return Start(cursor, pb.START_MODE_DIFFERENCE, known=known)
    if found is not None and request.fail_on_reset:
        raise lost(found)
    return Start(begin_snapshot(store, wanted), pb.START_MODE_SNAPSHOT, reset=found)


def _from_token(
    extension: Extension, wanted: Filter, token: bytes
) -> Start | pb.ResetReason.ValueType:
    """Return where a token leads, or why it leads nowhere."""
    store = extension.store
    try:
        found = ResumeToken.decode(token)
    except TokenError as error:
        raise _token_error(f"is no resume token: {error}") from error
    if found.extension != extension_digest(extension.key):
        raise _token_error("belongs to another extension")
    if found.filter != wanted.digest:
        raise _token_error("belongs to another filter")
    if found.epoch != store.epoch:
        if not found.positions:
            return pb.RESET_REASON_EPOCH_CHANGED
        positions = {identity: str(version) for identity, version in found.positions}
        return Start(Cursor(store.revision), pb.START_MODE_RESUMED, positions=positions)
    if found.revision > store.revision:
        raise _token_error("is ahead of this extension; it was made up")
    if not store.covers(found.revision):
        return pb.RESET_REASON_HISTORY_EXPIRED
    cursor = resume(store, found.revision, found.behind_since)
    return Start(cursor, pb.START_MODE_RESUMED)


def lost(reason: pb.ResetReason.ValueType) -> ResumeLostError:
    """Return the error that stands for a Reset."""
    return ResumeLostError(
        "the service has restarted, or the extension was created anew"
        if reason == pb.RESET_REASON_EPOCH_CHANGED
        else "it is older than what is kept of the changes"
    )


def _token_error(problem: str) -> InvalidRequestError:
    return InvalidRequestError.of(
        "resume_token",
        f"{problem}; send the newest token of a stream with this extension and filter, or none",
        reason="RESUME_TOKEN_INVALID",
    )
