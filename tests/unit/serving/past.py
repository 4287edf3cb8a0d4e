"""What ended before informers began, as a test says it."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.items import item
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.recent_past import Since
from watchcache_server.informer.compression import PLAIN
from watchcache_server.informer.cursors import Event
from watchcache_server.informer.entries import Entry
from watchcache_server.informer.texts import Texts
from watchcache_server.kubernetes.past import PastLostError
from watchcache_server.model.states import EventKind, LeftReason

__all__ = ["ScriptedPast", "ended"]


class ScriptedPast:
    """Stands for the recent past of an informer.

    It answers with these ends as of this revision of the store, or raises `error`, once it may.
    """

    def __init__(
        self,
        informer: Informer,
        *ends: Event,
        revision: int | None = None,
        error: Exception | None = None,
    ) -> None:
        self._informer = informer
        self._ends = ends
        self._revision = revision
        self._error = error
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked: list[str] = []
        self.was_cancelled = False
        past: Any = self
        informer.past = past

    async def since(self, version: str) -> Since:
        """Answer."""
        self.asked.append(version)
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if self._error is not None:
            raise self._error
        revision = self._informer.extension.store.revision
        return Since(version, revision if self._revision is None else self._revision, self._ends)


def ended(
    informer: Informer,
    name: str,
    version: str,
    kind: EventKind = EventKind.DELETED,
    namespace: str = "team-a",
) -> Event:
    """Return that an object ended at a version, under the uid that tests give it."""
    gone = item(name, uid=f"uid-{name}", version=version, namespace=namespace)
    entry = Entry.of(gone, PLAIN, "v1", Texts()).without_body()
    reason = LeftReason.SELECTION if kind is EventKind.LEFT else None
    return Event(kind, informer.source, entry, 0, reason, final_state_unknown=True)


def lost() -> PastLostError:
    """Return that the past is lost."""
    return PastLostError("the API server answered 410")
