"""Python client of watchcache: a resumable stream and a local mirror of Kubernetes objects.

    async with watchcache.connect() as wc:
        ext = await wc.register("team-a/scaler", service_account="scaler", watch=["pods"])
        async with ext.mirror(max_age="90s") as objects:
            async for key in objects.queue("pods"): ...

Names are loaded when they are first used, so that importing one part (the generated code, the
command line) does not load the others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchcache.backoff import Backoff
    from watchcache.connection import Connection, connect
    from watchcache.durations import Duration
    from watchcache.errors import (
        AlreadyExistsError,
        CancelledByServiceError,
        ConnectionSettingsError,
        DeadlineExceededError,
        DeregisteredError,
        FailedPreconditionError,
        FieldViolation,
        InternalError,
        InvalidArgumentError,
        MirrorClosedError,
        NotFoundError,
        NotSyncedError,
        NotWatchedError,
        OutOfRangeError,
        PermissionDeniedError,
        ResourceExhaustedError,
        StaleError,
        UnauthenticatedError,
        UnavailableError,
        UnimplementedError,
        Violation,
        WatchCacheError,
    )
    from watchcache.extension import Extension, Listing, Selection, WatchOptions
    from watchcache.keys import Key
    from watchcache.messages import (
        Batch,
        Bookmark,
        Disconnected,
        Event,
        KnownGone,
        Message,
        Reset,
        SourceChanged,
        Started,
        Synced,
    )
    from watchcache.mirror import Mirror
    from watchcache.objects import Freshness, Item
    from watchcache.spec import Resource
    from watchcache.states import (
        ConsistencyOutcome,
        EventType,
        ExtensionState,
        LeftReason,
        Projection,
        RegisterOutcome,
        ResetReason,
        SourceState,
        StartMode,
        View,
    )
    from watchcache.status import (
        AccessRule,
        Cluster,
        ConsistencyCheck,
        Credential,
        ExtensionRemoved,
        ExtensionsSynced,
        ExtensionStatus,
        Source,
    )
    from watchcache.store import Change, Version
    from watchcache.watch import Watch
    from watchcache.workqueue import Attempt, Queue, Removal

_MODULES = {
    "backoff": "Backoff",
    "connection": "Connection connect",
    "durations": "Duration",
    "errors": (
        "AlreadyExistsError CancelledByServiceError ConnectionSettingsError DeadlineExceededError "
        "DeregisteredError FailedPreconditionError FieldViolation InternalError "
        "InvalidArgumentError MirrorClosedError NotFoundError NotSyncedError NotWatchedError "
        "OutOfRangeError PermissionDeniedError ResourceExhaustedError StaleError "
        "UnauthenticatedError UnavailableError UnimplementedError Violation WatchCacheError"
    ),
    "extension": "Extension Listing Selection WatchOptions",
    "keys": "Key",
    "messages": (
        "Batch Bookmark Disconnected Event KnownGone Message Reset SourceChanged Started Synced"
    ),
    "mirror": "Mirror",
    "objects": "Freshness Item",
    "spec": "Resource",
    "states": (
        "ConsistencyOutcome EventType ExtensionState LeftReason Projection RegisterOutcome "
        "ResetReason SourceState StartMode View"
    ),
    "status": (
        "AccessRule Cluster ConsistencyCheck Credential ExtensionRemoved ExtensionStatus "
        "ExtensionsSynced Source"
    ),
    "store": "Change Version",
    "watch": "Watch",
    "workqueue": "Attempt Queue Removal",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "AccessRule",
    "AlreadyExistsError",
    "Attempt",
    "Backoff",
    "Batch",
    "Bookmark",
    "CancelledByServiceError",
    "Change",
    "Cluster",
    "Connection",
    "ConnectionSettingsError",
    "ConsistencyCheck",
    "ConsistencyOutcome",
    "Credential",
    "DeadlineExceededError",
    "DeregisteredError",
    "Disconnected",
    "Duration",
    "Event",
    "EventType",
    "Extension",
    "ExtensionRemoved",
    "ExtensionState",
    "ExtensionStatus",
    "ExtensionsSynced",
    "FailedPreconditionError",
    "FieldViolation",
    "Freshness",
    "InternalError",
    "InvalidArgumentError",
    "Item",
    "Key",
    "KnownGone",
    "LeftReason",
    "Listing",
    "Message",
    "Mirror",
    "MirrorClosedError",
    "NotFoundError",
    "NotSyncedError",
    "NotWatchedError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "Projection",
    "Queue",
    "RegisterOutcome",
    "Removal",
    "Reset",
    "ResetReason",
    "Resource",
    "ResourceExhaustedError",
    "Selection",
    "Source",
    "SourceChanged",
    "SourceState",
    "StaleError",
    "StartMode",
    "Started",
    "Synced",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "Version",
    "View",
    "Violation",
    "Watch",
    "WatchCacheError",
    "WatchOptions",
    "connect",
]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
