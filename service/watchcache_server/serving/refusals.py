"""Refusals: how long those wait who come when a limit is reached.

Who is refused at one moment is told different times, so that they do not come again at one moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["retry_seconds"]

_LEAST_SECONDS: Final = 5.0


def retry_seconds(chance: Callable[[], float]) -> float:
    """Return a wait, once to twice the least one; `chance` draws from [0, 1)."""
    return _LEAST_SECONDS * (1 + chance())
