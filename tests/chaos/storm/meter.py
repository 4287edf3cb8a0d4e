"""What a mirror costs: the bytes that came to it, against those of what it was to learn.

The bytes are counted on its connection, by a proxy between it and the network that breaks. What it
was to learn is counted as JSON: each object that was written as the API server answered it, each
that was deleted with its last content, and once all there is. What nobody knows of, since the
answer was lost, is not counted, and neither is what a deleted CRD took with it; that makes the
bound stricter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Account", "json_size"]

#: What may come for each byte of a change.
_FACTOR = 2


def json_size(tree: Any) -> int:
    """Return the bytes of a tree as compact JSON."""
    return len(json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode())


@dataclass(frozen=True, slots=True)
class Account:
    """Bytes at the end of a storm, and what they stand for."""

    received: int
    sent: int
    changes: int
    change_bytes: int
    objects: int
    snapshot_bytes: int
    #: How often the service began anew.
    restarts: int

    @property
    def bound(self) -> int:
        """How many bytes may be received at most."""
        return _FACTOR * self.change_bytes + self.snapshot_bytes

    @property
    def is_within(self) -> bool:
        """Whether the mirror cost no more than it may."""
        return self.received < self.bound

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        yield (
            f"the measured mirror, over {self.restarts} restarts of the service: "
            f"{self.received:,} bytes received, {self.sent:,} sent"
        )
        yield (
            f"  {self.changes:,} changes of {self.change_bytes:,} bytes, a snapshot of "
            f"{self.objects:,} objects in {self.snapshot_bytes:,} bytes: the bound is "
            f"{_FACTOR} x changes + snapshot = {self.bound:,} bytes, of which "
            f"{self.received / self.bound:.1%} came"
        )
