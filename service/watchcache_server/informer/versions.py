"""How two resourceVersions of one resource compare (KEP-5504).

Versions are opaque, except that where both are decimal numbers without a leading zero the greater
number is the newer. Anything else can only be equal or unknown.
"""

from __future__ import annotations

import enum

__all__ = ["Order", "compare_versions", "plain_number"]


class Order(enum.Enum):
    """The first version as seen from the second."""

    OLDER = "older"
    EQUAL = "equal"
    NEWER = "newer"
    UNKNOWN = "unknown"


def compare_versions(first: str, second: str) -> Order:
    """Tell how `first` stands to `second`; both must come from the same resource."""
    if first == second:
        return Order.EQUAL
    if not (_is_number(first) and _is_number(second)):
        return Order.UNKNOWN
    is_newer = (len(first), first) > (len(second), second)
    return Order.NEWER if is_newer else Order.OLDER


def plain_number(version: str) -> int | None:
    """Return a version that is a plain number as one, None for any other."""
    return int(version) if version and _is_number(version) else None


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit() and version[0] != "0"
