"""How fresh an answer has to be: the options of reads and watches, and their message."""

from __future__ import annotations

from typing import TypedDict

from watchcache.durations import Duration, duration_message, seconds_of
from watchcache.errors import InvalidArgumentError
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

__all__ = ["Consistency", "consistency_message", "longest_wait_seconds"]

_DEFAULT_SECONDS = 5.0


class Consistency(TypedDict, total=False):
    """How fresh an answer has to be at least, if not as the cache happens to be.

    UnavailableError with the reason NOT_FRESH_ENOUGH says that it could not be had in time.
    """

    min_resource_version: str
    """Not older than this metadata.resourceVersion of the same resource and cluster, such as that
    of an object just written."""
    consistent: bool
    """Not older than what the API server holds when the call begins."""
    wait: Duration
    """How long to wait for that; 5 s if not given, and no longer than the service allows."""


def consistency_message(options: Consistency) -> service_pb2.ReadConsistency | None:
    """Return the message, None when nothing is asked for. Raises InvalidArgumentError."""
    version, is_consistent = options.get("min_resource_version", ""), options.get("consistent")
    if version and is_consistent:
        raise InvalidArgumentError.of(
            "consistent", "give min_resource_version or consistent, not both"
        )
    if not version and not is_consistent:
        if "wait" in options:
            raise InvalidArgumentError.of(
                "wait", "there is nothing to wait for; give min_resource_version or consistent"
            )
        return None
    message = service_pb2.ReadConsistency()
    if version:
        message.min_resource_version = version
    else:
        message.consistent = True
    if "wait" in options:
        message.wait.CopyFrom(duration_message(seconds_of(options["wait"], field="wait")))
    return message


def longest_wait_seconds(message: service_pb2.ReadConsistency | None) -> float:
    """Return how long an answer may take because of it."""
    if message is None or message.WhichOneof("requirement") is None:
        return 0.0
    if message.HasField("wait"):
        return message.wait.seconds + message.wait.nanos / 1e9
    return _DEFAULT_SECONDS
