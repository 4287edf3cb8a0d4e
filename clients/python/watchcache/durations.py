"""Lengths of time as people write them: `"90s"`, `"1h30m"`, `"500ms"`, seconds, or a timedelta."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration as DurationMessage

from watchcache.errors import InvalidArgumentError

__all__ = ["Duration", "duration_message", "seconds_of"]

Duration = str | float | timedelta
"""What every parameter that is a length of time takes; a bare number is seconds."""

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def seconds_of(value: Duration, *, field: str) -> float:
    """Return `value` in seconds. Raises InvalidArgumentError that names `field`."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        if not _WHOLE.fullmatch(value):
            raise InvalidArgumentError.of(
                field, f'{value!r} is no length of time; write it like "30s", "2m" or "1h30m"'
            )
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value))
    else:
        seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise InvalidArgumentError.of(field, f"{value!r} is no length of time; it is 0 or more")
    return seconds


def duration_message(seconds: float) -> DurationMessage:
    """Return `seconds` as a protobuf message."""
    message = DurationMessage()
    message.FromTimedelta(timedelta(seconds=seconds))
    return message
