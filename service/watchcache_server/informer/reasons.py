"""Why an informer is in its state: the stable words beside the sentence for people."""

from __future__ import annotations

import enum

__all__ = ["Reason"]


class Reason(enum.StrEnum):
    """Reasons as they appear in statuses, metrics and logs."""

    # Nothing is wrong.
    STARTING = "STARTING"
    SYNCED = "SYNCED"
    STOPPED = "STOPPED"
    # The objects are being listed again; what is held is the last known state.
    RELISTING = "RELISTING"
    EXPIRED = "EXPIRED"
    INCONSISTENT = "INCONSISTENT"
    # The server or the way to it.
    CONNECTION_FAILED = "CONNECTION_FAILED"
    NO_CONTACT = "NO_CONTACT"
    SERVER_ERROR = "SERVER_ERROR"
    THROTTLED = "THROTTLED"
    WATCH_UNSTABLE = "WATCH_UNSTABLE"
    UNDECODABLE = "UNDECODABLE"
    SERVER_BEHIND = "SERVER_BEHIND"
    # Identity and rights.
    TOKEN_REFUSED = "TOKEN_REFUSED"
    VERBS_MISSING = "VERBS_MISSING"
    DISCOVERY_FORBIDDEN = "DISCOVERY_FORBIDDEN"
    # What was asked for.
    KIND_NOT_SERVED = "KIND_NOT_SERVED"
    OVERLAPPING_WATCHES = "OVERLAPPING_WATCHES"
    INVALID_SCOPE = "INVALID_SCOPE"
    VERB_NOT_SERVED = "VERB_NOT_SERVED"
    NOT_FOUND = "NOT_FOUND"
    BAD_REQUEST = "BAD_REQUEST"
    REQUEST_REFUSED = "REQUEST_REFUSED"
