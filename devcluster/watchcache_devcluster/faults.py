"""Trouble on demand: what can go wrong, for which requests, how often.

A `Fault` says what happens and to whom; `FaultSet` holds those that are in force. A fault on
streams strikes the running watches that it matches at once; with `times` or `lasting` it also waits
for requests to come. What striking means on a socket is the server's business.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.requests import RequestInfo

__all__ = ["Fault", "FaultKind", "FaultSet", "Stream"]

FaultKind = Literal["reset", "half-open", "cut", "lose", "end", "error", "gone", "status", "delay"]
_STREAM_KINDS = frozenset({"reset", "half-open", "cut", "lose", "end", "error", "gone"})
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of trouble and the requests that it is for; empty fields match everything.

    reset: the connection is reset. half-open: nothing is sent any more, the socket stays open.
    cut: the connection ends in the middle of an event or body (`clean`: without a transport error).
    lose: a change is not sent, and nothing tells of it. end: the watch ends as at its deadline.
    error: an in-stream ERROR event. gone: 410, which is in-stream for watches. status: an HTTP
    error at the start of a request. delay: a pause there.
    """

    kind: FaultKind
    resource: str = ""
    verb: str = ""
    namespace: str = ""
    percent: float = 100.0
    times: int | None = None
    lasting: bool = False
    code: int = 500
    reason: str = ""
    message: str = ""
    retry_after_seconds: int | None = None
    seconds: float = 1.0
    after_events: int = 0
    clean: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(FaultKind):
            known = ", ".join(get_args(FaultKind))
            raise ValueError(f'there is no fault "{self.kind}"; choose one of: {known}')
        if not 0 < self.percent <= 100:
            raise ValueError(f"percent is {self.percent}; it must be above 0 and at most 100")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times is {self.times}; it must be at least 1, or left out")
        if not 400 <= self.code <= 599:
            raise ValueError(f"code is {self.code}; an error has a code from 400 to 599")
        if self.seconds < 0 or self.after_events < 0:
            raise ValueError("seconds and after_events must not be negative")

    @property
    def strikes_streams(self) -> bool:
        """Say whether running watches are struck too."""
        return self.kind in _STREAM_KINDS

    @property
    def stays(self) -> bool:
        """Say whether it waits for requests to come."""
        return self.lasting or self.times is not None or not self.strikes_streams

    def matches(self, info: RequestInfo) -> bool:
        """Say whether a request is one of those that this fault is for."""
        if self.kind in {"error", "end", "lose"} and info.verb != "watch":
            return False
        group_resource = f"{info.resource}.{info.group}" if info.group else info.resource
        return (
            (not self.verb or self.verb == info.verb)
            and (not self.resource or self.resource in {info.resource, group_resource})
            and (not self.namespace or self.namespace == info.namespace)
        )

    def to_error(self) -> ApiError:
        """Return the error that this fault sends, for the kinds that send one."""
        if self.kind == "gone":
            return ApiError(410, "Expired", self.message or "too old resource version (fault)")
        reason = self.reason or _REASONS.get(self.code, "InternalError")
        message = self.message or f"{reason} (fault injected by the dev cluster)"
        return ApiError(self.code, reason, message, retry_after_seconds=self.retry_after_seconds)


class Stream(Protocol):
    """A running watch, as far as faults are concerned."""

    info: RequestInfo

    def strike(self, fault: Fault) -> None:
        """Let this fault happen to the stream as soon as it can."""


@dataclass(slots=True)
class _Held:
    number: int
    fault: Fault
    struck: int = 0

    @property
    def is_spent(self) -> bool:
        return self.fault.times is not None and self.struck >= self.fault.times


class FaultSet:
    """The faults in force; add, list, remove, clear."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._chance = chance
        self._held: dict[int, _Held] = {}
        self._streams: set[Stream] = set()
        self._next_number = 1

    def add(self, fault: Fault) -> int:
        """Put a fault into force and return its number.

        Running watches that it matches are struck before this returns.
        """
        held = _Held(self._next_number, fault)
        self._next_number += 1
        if fault.strikes_streams:
            for stream in list(self._streams):
                if self._strikes(held, stream.info):
                    stream.strike(fault)
        if fault.stays and not held.is_spent:
            self._held[held.number] = held
        return held.number

    def remove(self, number: int) -> bool:
        """Take a fault out of force; say whether it still was in force."""
        return self._held.pop(number, None) is not None

    def clear(self) -> int:
        """Take every fault out of force; return how many there were."""
        count = len(self._held)
        self._held.clear()
        return count

    def active(self) -> list[dict[str, Any]]:
        """Return the faults in force, each with its number and how often it has struck."""
        return [
            {
                "number": held.number,
                "struck": held.struck,
                **{
                    name: getattr(held.fault, name)
                    for name in held.fault.__slots__
                    if getattr(held.fault, name) not in ("", None, False)
                },
            }
            for held in self._held.values()
        ]

    def strike(self, info: RequestInfo) -> list[Fault]:
        """Return what happens to a request that begins now, and count it."""
        struck = []
        for held in list(self._held.values()):
            if self._strikes(held, info):
                struck.append(held.fault)
                if held.is_spent:
                    del self._held[held.number]
        return struck

    def _strikes(self, held: _Held, info: RequestInfo) -> bool:
        if held.is_spent or not held.fault.matches(info):
            return False
        if self._chance() * 100 >= held.fault.percent:
            return False
        held.struck += 1
        return True

    def running(self) -> list[RequestInfo]:
        """Return the requests of the watches that run now."""
        return [stream.info for stream in self._streams]

    def register(self, stream: Stream) -> None:
        """Let faults find a running watch."""
        self._streams.add(stream)

    def unregister(self, stream: Stream) -> None:
        """Undo `register`."""
        self._streams.discard(stream)
