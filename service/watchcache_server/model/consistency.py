"""How fresh an answer has to be."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Consistency"]


class Consistency(NamedTuple):
    """What a caller asks for, and how long it waits for that.

    Without a version: not older than what the API server held when the call began.
    """

    min_resource_version: str
    wait_seconds: float
