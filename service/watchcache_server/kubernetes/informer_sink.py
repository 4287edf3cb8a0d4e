"""Where an informer puts what it reads, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from watchcache_server.informer.objects import Delta, Item
from watchcache_server.informer.source import Unverified
from watchcache_server.kubernetes.errors import CredentialsError
from watchcache_server.kubernetes.freshness import Freshness
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.states import LeftReason, SourceState

__all__ = ["InformerSink"]


class InformerSink(Protocol):
    """Takes the objects of one informer. Methods return at once."""

    # What the informer asks

    @property
    def namespace(self) -> str:
        """Namespace to read; empty for the whole cluster. Final once `bind` was called."""
        ...

    @property
    def is_synced(self) -> bool:
        """Whether objects of a sync are held, be it one of an informer before this one."""
        ...

    @property
    def freshness(self) -> Freshness:
        """Who waits for them to be fresh."""
        ...

    def unverified(self) -> list[Unverified]:
        """Return the objects that left a selector and may be deleted."""
        ...

    # What it read

    def bind(self, served: ServedResource) -> str | None:
        """Take what discovery found; return why it cannot be watched, if so."""
        ...

    def stage(self, items: Iterable[Item]) -> None:
        """Collect objects of a sync."""
        ...

    def unstage(self, items: Iterable[Item]) -> None:
        """Take objects out of the sync under way."""
        ...

    def discard(self) -> None:
        """Forget the sync under way."""
        ...

    def commit(self, read_at: float, resource_version: str) -> None:
        """End the sync, which read the objects as they were at `resource_version`."""
        ...

    def apply(self, deltas: list[Delta], read_at: float, resource_version: str) -> None:
        """Apply changes of the live stream, by which it is at `resource_version`."""
        ...

    def advance(self, resource_version: str) -> None:
        """Take that nothing changed up to `resource_version`."""
        ...

    def resolve(self, subject: Unverified, *, is_deleted: bool) -> None:
        """Say what became of an unverified object."""
        ...

    def purge(self, reason: LeftReason) -> None:
        """Drop all objects."""
        ...

    # How it is doing

    def contact(self) -> None:
        """Note that the API server was heard."""
        ...

    def set_state(
        self,
        state: SourceState,
        reason: str,
        message: str,
        *,
        missing_verbs: tuple[str, ...] = (),
        next_attempt_seconds: float | None = None,
    ) -> None:
        """Publish the state."""
        ...

    def credentials_failed(self, error: CredentialsError) -> None:
        """Hear why there are no credentials; the informer may be cancelled at that."""
        ...

    def counted(self, event: str, reason: str) -> None:
        """Hear of something that is worth a metric."""
        ...

    def events_read(self, count: int) -> None:
        """Hear that so many events of a live stream were read."""
        ...
